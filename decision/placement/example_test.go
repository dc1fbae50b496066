// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"context"
	"fmt"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// Filter and score the nodes of a cluster, as a scheduler's plugins do.
func Example() {
	gpu := layout.Device{GPU: &layout.GPU{Name: "T4"}, Mode: sharing.MechanismTimeSlicing, Slots: 4}
	c, _ := layout.Observe([]layout.Node{
		{Name: "a", CPUMilli: 8_000, Devices: []layout.Device{gpu}},
		{Name: "b", CPUMilli: 1_000, Devices: []layout.Device{gpu}},
	})
	r := &placement.Request{Name: "notebook", CPUMilli: 2_000, GPUs: 1, Milli: 250, Mechanisms: []sharing.Mechanism{sharing.MechanismTimeSlicing}}
	scorer := placement.NewScorer(placement.BestFit, nil)
	for n := range c.Nodes() {
		if why := scorer.Filter(n, r); why.Verdict != filter.VerdictPass {
			fmt.Printf("%s: %v, %v\n", n.Name, why.Verdict, why)
			continue
		}
		offer, _ := scorer.Score(n, r)
		_, placed, err := scorer.Assign(c, r, offer)
		fmt.Printf("score %.0f: %v %v\n", offer.Score, placed, err)
	}
	// Output:
	// score 92: notebook on a GPU [0] as 250m of time-slicing <nil>
	// b: reject, needs 2000m CPU, 1000m are free
}

// A scheduler: it observes nodes, places what comes, and lets go what leaves. What finds no room is explained, or let
// in by one move of somebody else.
func ExamplePlacer_Consolidate() {
	gpu := &layout.GPU{Name: "A100", Memory: 80 * sharing.GiB}
	node := func(name string, cpu int64, m sharing.Mechanism, gpus int) layout.Node {
		n := layout.Node{Name: name, CPUMilli: cpu, Memory: 256 * sharing.GiB}
		for range gpus {
			n.Devices = append(n.Devices, layout.Device{GPU: gpu, Mode: m})
		}
		return n
	}
	cluster, problems := layout.Observe([]layout.Node{node("a", 32_000, sharing.MechanismMPS, 2),
		node("b", 16_000, sharing.MechanismExclusive, 1)})
	for _, p := range problems {
		fmt.Println(p)
	}
	search := &layout.Workload{Name: "ranker", Tenant: "search"}
	mps := []sharing.Mechanism{sharing.MechanismMPS}
	share := placement.Request{CPUMilli: 4_000, GPUs: 1, Milli: 300, GPUMemory: 20 * sharing.GiB, Mechanisms: mps, Workload: search}
	most := placement.Request{CPUMilli: 2_000, GPUs: 1, Milli: 800, GPUMemory: 40 * sharing.GiB, Mechanisms: mps, Workload: search}
	whole := placement.Request{CPUMilli: 8_000, GPUs: 1, Milli: 1000, Workload: search}
	policy, err := placement.NewCotenant([]placement.Typical{{Request: share, Weight: 3}, {Request: whole, Weight: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	scorer := placement.NewScorer(policy, nil)
	placer := placement.NewPlacer(scorer)
	for i, r := range []placement.Request{whole, share, share, share, share, most} {
		if r.Name = fmt.Sprint("pod-", i); i == 5 { // somebody leaves
			cluster, _ = cluster.Release("pod-1")
		}
		next, placed, err := placer.Place(cluster, &r)
		if err == nil {
			cluster = next
			fmt.Println(placed)
			continue
		}
		for _, e := range scorer.Explain(cluster, &r) {
			fmt.Println(e)
		}
		next, moves, placed, err := placer.Consolidate(cluster, &r, 1, nil)
		if err != nil {
			fmt.Println(err)
			continue
		}
		cluster = next
		fmt.Printf("%v, once %v\n", placed, moves[0].To)
	}
	// Output:
	// pod-0 on b GPU [0] as 1000m of exclusive
	// pod-1 on a GPU [0] as 300m of mps
	// pod-2 on a GPU [0] as 300m of mps
	// pod-3 on a GPU [0] as 300m of mps
	// pod-4 on a GPU [1] as 300m of mps
	// a: reject: needs 800 thousandths of a GPU, the most free is 700; to fit, ask for at most 700 thousandths of a GPU; or without pod-4
	// b: reject: the GPU runs a mechanism that the request does not accept
	// pod-5 on a GPU [1] as 800m of mps, once pod-4 on a GPU [0] as 300m of mps
}

// MIG instances are placed by the same calls: on a dynamic GPU they are made.
func ExamplePlacer_Place() {
	gpu := layout.Device{GPU: layout.GPUOf("A100-SXM4-80GB"), Mode: sharing.MechanismMIG, Dynamic: true}
	c, _ := layout.Observe([]layout.Node{{Name: "a", Devices: []layout.Device{gpu, gpu}}})
	policy, err := placement.NewCotenant([]placement.Typical{
		{Request: placement.Request{GPUs: 1, Profile: "1g.10gb"}, Weight: 2},
		{Request: placement.Request{GPUs: 1, Profile: "4g.40gb"}, Weight: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	placer := placement.NewPlacer(placement.NewScorer(policy, nil))
	for i, profile := range []string{"1g.10gb", "3g.40gb", "4g.40gb", "1g.10gb"} {
		next, p, err := placer.Place(c, &placement.Request{Name: fmt.Sprint("pod-", i), GPUs: 1, Profile: profile})
		if err != nil {
			fmt.Println(err)
			return
		}
		c = next
		fmt.Println(p)
	}
	// Output:
	// pod-0 on a GPU [0] as 1g.10gb at 4
	// pod-1 on a GPU [1] as 3g.40gb at 4
	// pod-2 on a GPU [1] as 4g.40gb at 0
	// pod-3 on a GPU [0] as 1g.10gb at 5
}

// Of a gang all are placed or none: the largest first, where the order of arrival leaves one without a place.
func ExamplePlacer_Group() {
	gpu := layout.Device{GPU: &layout.GPU{Name: "T4"}}
	c, _ := layout.Observe([]layout.Node{
		{Name: "a", CPUMilli: 10_000, Devices: []layout.Device{gpu}},
		{Name: "b", CPUMilli: 4_000, Devices: []layout.Device{gpu}},
	})
	placer := placement.NewPlacer(placement.NewScorer(placement.BestFit, nil))
	gang := []*placement.Request{{Name: "leader", CPUMilli: 8_000, GPUs: 1, Milli: 1000}, {Name: "worker", CPUMilli: 4_000, GPUs: 1, Milli: 1000}}
	next, placed, err := placer.Group(c, gang)
	fmt.Println(placed, err)
	_, _, err = placer.Group(next, []*placement.Request{{Name: "late", CPUMilli: 1_000, GPUs: 1, Milli: 1000}})
	fmt.Println(err)
	// Output:
	// [leader on a GPU [0] as 1000m of exclusive worker on b GPU [0] as 1000m of exclusive] <nil>
	// placement: no node fits: 0 of 2 nodes take late: 1 cpu (needs 1000m CPU, 0m are free); 1 gpu-share (needs 1000 thousandths of a GPU, the most free is 0)
}

// A decision becomes requests and nodes: what was chosen for a workload is placed,
// replica by replica, where others run already.
func ExampleRequestOf() {
	fleet, err := decision.ParseFleet([]byte(`
version: v1
pools:
  - {name: a100, gpu: A100-SXM4-80GB, count: 2}
workloads:
  - {name: embed, kind: offline-inference, memory: 6GiB, gpu_busy: 0.1, replicas: 3, isolation: {memory: hardware, fault: hardware}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	a100 := layout.GPUOf("A100-SXM4-80GB")
	target, err := filter.NewTarget(filter.GPUKind{Name: "a100", GPU: a100.Known, Together: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	gpu := layout.Device{GPU: a100, Dynamic: true} // idle: the first tenant says what it runs
	c, problems := layout.Observe([]layout.Node{{Name: "node-1", Pool: "a100", Devices: []layout.Device{gpu, gpu}}})
	if err := layout.Err(problems); err != nil {
		fmt.Println(err)
		return
	}
	scorer := placement.NewScorer(placement.BestFit, nil)
	scorer.Targets = map[string]*filter.Target{"a100": target}
	placer := placement.NewPlacer(scorer)
	chosen, _ := result.Decision("embed").Chosen()
	embeds := &fleet.Workloads[0]
	demand := &filter.Demand{Replicas: 3, GPUs: 1, Processes: 1, Memory: embeds.MemoryNeed(), Serves: true,
		Busy: embeds.GPUBusy.Or(1), BusyBasis: filter.BusyStated}
	embed := &layout.Workload{Name: "embed"}
	for i := range 3 {
		r := placement.RequestOf(fmt.Sprintf("embed-%d", i), embed, demand, chosen.Mechanism, chosen.Profile)
		next, p, err := placer.Place(c, r)
		if err != nil {
			fmt.Println(err)
			return
		}
		c = next
		fmt.Println(p)
	}
	// Output:
	// embed-0 on node-1 GPU [0] as 2g.20gb at 0
	// embed-1 on node-1 GPU [0] as 2g.20gb at 2
	// embed-2 on node-1 GPU [0] as 2g.20gb at 4
}
