package placement_test

import (
	"context"
	"fmt"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// A scheduler in a few lines: nodes in, requests placed, reasons for those that
// are not.
func Example() {
	mps := placement.GPU{Mechanism: sharing.MechanismMPS, Memory: placement.Some(80 * sharing.GiB)}
	cluster, err := placement.NewSnapshot([]placement.Node{
		{Name: "a", CPUMilli: 32_000, Memory: 256 * sharing.GiB, GPUs: []placement.GPU{mps, mps}},
		{Name: "b", CPUMilli: 16_000, Memory: 128 * sharing.GiB, GPUs: []placement.GPU{mps}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	small := placement.Request{Name: "small", CPUMilli: 4_000, GPUs: 1, Milli: 300, Tenant: "search"}
	whole := placement.Request{Name: "whole", CPUMilli: 8_000, GPUs: 1, Milli: 1000, Tenant: "ads"}
	mix, err := placement.NewMix([]placement.Typical{{Request: small, Weight: 3}, {Request: whole, Weight: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	placer := placement.NewPlacer(placement.NewCotenant(mix), nil)
	for _, r := range []*placement.Request{&small, &whole, &small, &whole, &small, &whole} {
		next, p, err := placer.Place(cluster, r)
		if err != nil {
			fmt.Println(err)
			continue
		}
		cluster = next
		fmt.Println(p)
	}
	// Output:
	// small on b GPU [0] as 300m of mps
	// whole on a GPU [0] as 1000m of mps
	// small on b GPU [0] as 300m of mps
	// whole on a GPU [1] as 1000m of mps
	// small on b GPU [0] as 300m of mps
	// placement: no node fits: 0 of 2 nodes take whole: 1 cpu (needs 8000m CPU, 4000m are free); 1 gpu-share (needs 1000 thousandths of a GPU, the most free is 0)
}

// Filter, score, reserve and release, as a scheduler's plugins call them.
func ExampleScorer() {
	gpu := placement.GPU{Mechanism: sharing.MechanismTimeSlicing, MaxTenants: 4}
	s, _ := placement.NewSnapshot([]placement.Node{
		{Name: "a", CPUMilli: 8_000, GPUs: []placement.GPU{gpu}},
		{Name: "b", CPUMilli: 1_000, GPUs: []placement.GPU{gpu}},
	})
	r := &placement.Request{Name: "notebook", CPUMilli: 2_000, GPUs: 1, Milli: 250}
	scorer := placement.NewScorer(placement.BestFit{}, nil)
	for i := range s.Len() {
		c, fit := scorer.Score(s, i, r)
		fmt.Printf("%s: %v (%v), score %.0f\n", s.Name(i), fit.Verdict, fit, c.Score)
	}
	c, _ := scorer.Score(s, 0, r)
	reserved, p, _ := s.Reserve(r, c)
	fmt.Println(s.View(0).FreeMilli(), reserved.View(0).FreeMilli())
	released, _ := reserved.Release(p)
	fmt.Println(released.View(0).FreeMilli())
	// Output:
	// a: pass (it fits), score 92
	// b: reject (needs 2000m CPU, 1000m are free), score 0
	// 1000 750
	// 1000
}

// MIG instances are placed by the same calls.
func ExamplePlacer_Place() {
	a100, err := mig.Lookup("A100 80GB")
	if err != nil {
		fmt.Println(err)
		return
	}
	gpu := placement.GPU{Mechanism: sharing.MechanismMIG, MIG: a100}
	s, _ := placement.NewSnapshot([]placement.Node{{Name: "a", GPUs: []placement.GPU{gpu, gpu}}})
	mix, _ := placement.NewMix([]placement.Typical{
		{Request: placement.Request{GPUs: 1, Profile: "1g.10gb"}, Weight: 2},
		{Request: placement.Request{GPUs: 1, Profile: "4g.40gb"}, Weight: 1},
	})
	placer := placement.NewPlacer(placement.NewFragmentation(mix), nil)
	for _, profile := range []string{"1g.10gb", "3g.40gb", "4g.40gb", "1g.10gb"} {
		next, p, err := placer.Place(s, &placement.Request{Name: profile, GPUs: 1, Profile: profile})
		if err != nil {
			fmt.Println(err)
			return
		}
		s = next
		fmt.Println(p)
	}
	// Output:
	// 1g.10gb on a GPU [0] as 1g.10gb at 4
	// 3g.40gb on a GPU [1] as 3g.40gb at 4
	// 4g.40gb on a GPU [1] as 4g.40gb at 0
	// 1g.10gb on a GPU [0] as 1g.10gb at 5
}

// Waiting requests are placed together: the whole GPU is not lost to whoever
// came first.
func ExamplePlacer_PlaceBatch() {
	gpu := placement.GPU{Mechanism: sharing.MechanismTimeSlicing}
	s, _ := placement.NewSnapshot([]placement.Node{
		{Name: "a", CPUMilli: 10_000, GPUs: []placement.GPU{gpu}},
		{Name: "b", CPUMilli: 4_000, GPUs: []placement.GPU{gpu}},
	})
	waiting := []*placement.Request{
		{Name: "first", CPUMilli: 2_000, GPUs: 1, Milli: 500},
		{Name: "big", CPUMilli: 4_000, GPUs: 1, Milli: 1000},
		{Name: "last", CPUMilli: 6_000, GPUs: 1, Milli: 500},
	}
	batch, err := placement.NewPlacer(placement.BestFit{}, nil).PlaceBatch(s, waiting)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s first: %.0fm of GPUs, %.0fm in the order of arrival\n", batch.Order, batch.Milli, batch.InArrival)
	for _, p := range batch.Placements {
		fmt.Println(p)
	}
	// Output:
	// largest first: 2000m of GPUs, 1500m in the order of arrival
	// first on a GPU [0] as 500m of time-slicing
	// big on b GPU [0] as 1000m of time-slicing
	// last on a GPU [0] as 500m of time-slicing
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
	pool, err := decision.CompilePool(&fleet.Pools[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := placement.NewSnapshot([]placement.Node{placement.NodeOf("node-1", pool.Ground(), 2, sharing.MechanismNone)})
	if err != nil {
		fmt.Println(err)
		return
	}
	chosen, _ := result.Decision("embed").Chosen()
	demand := decision.CompileWorkload(&fleet.Workloads[0]).Demand()
	for i := range 3 {
		r := placement.RequestOf(fmt.Sprintf("embed-%d", i), demand, chosen.Mechanism, chosen.Profile)
		offer, ok := placement.NewPlacer(placement.BestFit{}, nil).Best(s, r)
		if !ok {
			fmt.Println(s.Unplaced(r, nil))
			return
		}
		var p *placement.Placement
		if s, p, err = s.Reserve(r, offer); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p)
	}
	// Output:
	// embed-0 on node-1 GPU [0] as 2g.20gb at 0
	// embed-1 on node-1 GPU [0] as 2g.20gb at 2
	// embed-2 on node-1 GPU [0] as 2g.20gb at 4
}
