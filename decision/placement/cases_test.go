// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// fill places as many requests of a kind as fit on one GPU, and returns their number and what the next one is told.
func fill(t *testing.T, n layout.Node, r Request) (placed int, last error) {
	t.Helper()
	c := cluster(t, n)
	p := NewPlacer(NewScorer(BestFit, nil))
	for {
		next, _, err := p.Place(c, fresh(r))
		if err != nil {
			return placed, err
		}
		c, placed = next, placed+1
	}
}

// TestMemoryIsNotCompute: k requests of a k-th of a GPU's memory fit, as do k of a k-th of its compute, and a refusal
// names the resource that is short.
func TestMemoryIsNotCompute(t *testing.T) {
	gpu := func(m sharing.Mechanism, total, reserved, context sharing.Bytes) layout.Node {
		n := on("n", device(&layout.GPU{Name: "X", Memory: total, Reserved: reserved, Context: context}, m))
		if m == sharing.MechanismHAMi {
			n.Delivery, n.Devices[0].Slots = sharing.DeliveryHAMi, 64
		}
		return n
	}
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismHAMi} {
		each := Request{Name: "r", GPUs: 1, GPUMemory: 2000 * sharing.MiB, Mechanisms: []sharing.Mechanism{m}}
		if n, err := fill(t, gpu(m, 46068*sharing.MiB, 0, 0), each); n != 23 || !strings.Contains(err.Error(), "gpu-memory") {
			t.Errorf("%v: %d of 23 times 2000 MiB on 46068: %v", m, n, err)
		}
		each.GPUMemory = sharing.GiB
		if n, _ := fill(t, gpu(m, 45*sharing.GiB, 0, 0), each); n != 45 {
			t.Errorf("%v: %d of 45 times 1 GiB on 45", m, n)
		}
		each.Milli = 1
		if n, _ := fill(t, gpu(m, 45*sharing.GiB, 0, 0), each); n != 45 {
			t.Errorf("%v: %d of 45 with a thousandth each", m, n)
		}
		for _, k := range []int{2, 3, 6, 7, 9, 11, 13, 17, 31} {
			each.Milli, each.GPUMemory = 0, 81920*sharing.MiB/sharing.Bytes(k)
			if n, err := fill(t, gpu(m, 81920*sharing.MiB, 0, 0), each); n != k {
				t.Errorf("%v: %d of %d parts of the memory: %v", m, n, k, err)
			}
			each.Milli, each.GPUMemory = 1000/k, 0
			if n, err := fill(t, gpu(m, 81920*sharing.MiB, 0, 0), each); n < k {
				t.Errorf("%v: %d of %d parts of the compute: %v", m, n, k, err)
			}
		}
		// What the driver and contexts take is given to nobody.
		each.Milli, each.GPUMemory = 0, 15*sharing.GiB/4
		for name, c := range map[string]struct{ reserved, context sharing.Bytes }{"driver": {reserved: 450 * sharing.MiB}, "contexts": {context: sharing.GiB / 2}} {
			if n, _ := fill(t, gpu(m, 15*sharing.GiB, c.reserved, c.context), each); n != 3 {
				t.Errorf("%v, %s: %d quarters of a T4, not 3", m, name, n)
			}
		}
	}
}

// TestWholeGPU: a whole GPU without a mechanism is an exclusive one, in whatever order the nodes stand.
func TestWholeGPU(t *testing.T) {
	shared, whole, idle := on("shared", device(withMem, sharing.MechanismTimeSlicing)), on("whole", device(withMem, sharing.MechanismExclusive)), on("idle", device(withMem, sharing.MechanismNone))
	for _, nodes := range [][]layout.Node{{shared, whole}, {whole, shared}, {shared, idle}, {shared}} {
		for _, policy := range policies(t) {
			p := NewPlacer(NewScorer(policy, nil))
			_, placed, err := p.Place(cluster(t, nodes...), &Request{Name: "whole", GPUs: 1, Milli: 1000})
			if len(nodes) == 1 && !noFit(err) || len(nodes) > 1 && (err != nil || placed.Node == "shared") {
				t.Errorf("%s: %v, %v", policy.Name(), placed, err)
			}
			_, placed, err = p.Place(cluster(t, nodes...), &Request{Name: "tenth", GPUs: 1, Milli: 100, GPUMemory: sharing.GiB})
			if !noFit(err) {
				t.Errorf("%s: a tenth of a GPU by no mechanism: %v", policy.Name(), placed)
			}
			_, placed, err = p.Place(cluster(t, nodes...), &Request{Name: "tenth", GPUs: 1, Milli: 100, Mechanisms: onTurns})
			if slices.ContainsFunc(nodes, func(n layout.Node) bool { return n.Name == "idle" }) {
				continue
			}
			if err != nil || placed.Node != "shared" {
				t.Errorf("%s: a tenth of a time-sliced GPU: %v, %v", policy.Name(), placed, err)
			}
		}
	}
}

// TestHealth: an unhealthy GPU keeps its tenants and gets nobody, with tenants and without; so does a lost one.
func TestHealth(t *testing.T) {
	r := Request{Name: "r", GPUs: 1, Milli: 300, Mechanisms: onMPS, Workload: tenant("t")}
	for _, health := range []string{"unhealthy", "lost"} {
		for tenants := range 3 {
			n := on("n", device(withMem, sharing.MechanismMPS), device(withMem, sharing.MechanismMPS))
			n.Devices[0].Health = health
			for range tenants {
				n = with(n, r, 0)
			}
			c, problems := layout.Observe([]layout.Node{n})
			if len(problems) != 1 || !strings.Contains(problems[0].Text, health) {
				t.Errorf("%v: %v", health, problems)
			}
			for _, policy := range policies(t) {
				next, p, err := NewPlacer(NewScorer(policy, nil)).Place(c, fresh(r))
				if err != nil || p.Assignments[0].Device != 1 || next.Node("n").Tenants(0) != tenants {
					t.Errorf("%v with %d tenants: %v, %v", health, tenants, p, err)
				}
			}
		}
	}
}

// TestGang: of two gangs of 4 GPUs on 6, one is placed and the other waits; six of one gang have a place, seven none.
func TestGang(t *testing.T) {
	d := device(kindA, sharing.MechanismExclusive)
	c := cluster(t, on("n0", d, d), on("n1", d, d), on("n2", d, d))
	gang := func(n int) (rs []*Request) {
		for range n {
			rs = append(rs, fresh(Request{Name: "r", GPUs: 1, Milli: 1000}))
		}
		return rs
	}
	for _, policy := range policies(t) {
		p := NewPlacer(NewScorer(policy, nil))
		next, each, err := p.Group(c, gang(4))
		if err != nil || len(each) != 4 {
			t.Fatalf("four: %v, %v", each, err)
		}
		check(t, next)
		if full, each, err := p.Group(next, gang(4)); !noFit(err) || full != nil || each != nil {
			t.Errorf("four more: %v, %v", each, err)
		}
		next, each, err = p.Group(c, gang(6))
		if err != nil || len(each) != 6 || next.Node("n2").Tenants(1) != 1 {
			t.Errorf("six: %v, %v", each, err)
		}
		var e *UnplacedError
		if next, each, err := p.Group(c, gang(7)); !errors.As(err, &e) || next != nil || each != nil || e.Nodes != 3 {
			t.Errorf("seven: %v, %v", each, err)
		}
	}
}

// TestLinks: two GPUs come from one NVLink pair where one is free, from one NUMA node where nothing is linked, and who
// insists on a link gets no other.
func TestLinks(t *testing.T) {
	node := func(link, numa func(i int) int8, taken ...int) *layout.Cluster {
		n := on("n")
		for i := range 8 {
			d := device(kindA, sharing.MechanismExclusive)
			d.Link, d.NUMA = link(i), numa(i)
			n.Devices = append(n.Devices, d)
		}
		return cluster(t, with(n, Request{Name: "x", GPUs: 1, Milli: 1000}, taken...))
	}
	none := func(int) int8 { return 0 }
	pairs, halves := func(i int) int8 { return int8(i/2 + 1) }, func(i int) int8 { return int8(i/4 + 1) }
	for name, c := range map[string]struct {
		on     *layout.Cluster
		gpus   int
		linked bool
		want   []int
	}{
		"pair":         {node(pairs, none, 0), 2, false, []int{2, 3}},
		"odd ones":     {node(pairs, none, 0, 2, 4, 6), 2, false, []int{1, 3}},
		"insists":      {node(pairs, none, 0, 2, 4, 6), 2, true, nil},
		"insists, has": {node(pairs, none, 0, 2, 4), 2, true, []int{6, 7}},
		"smallest":     {node(func(i int) int8 { return []int8{1, 1, 1, 1, 2, 2, 3, 3}[i] }, none), 2, false, []int{4, 5}},
		"NUMA":         {node(none, halves, 0, 1, 2), 2, false, []int{4, 5}},
		"three":        {node(pairs, halves, 0, 4), 3, false, []int{1, 2, 3}},
		"nothing said": {node(none, none, 0), 2, false, []int{1, 2}},
	} {
		for _, policy := range policies(t) {
			r := &Request{Name: "two", GPUs: c.gpus, Milli: 1000, Linked: c.linked}
			scorer := NewScorer(policy, nil)
			_, p, err := NewPlacer(scorer).Place(c.on, r)
			if c.want == nil {
				if f := scorer.Filter(c.on.At(0), r); f.Code != codes.Link || !noFit(err) {
					t.Errorf("%s: %v, %v", name, f, err)
				}
			} else if d := cmp.Diff(c.want, p.GPUs()); d != "" || err != nil {
				t.Errorf("%s: %v %s", name, err, d)
			}
		}
	}
}

// TestZeroValues: empty fields of a demand and of a kind of GPU take the documented defaults.
func TestZeroValues(t *testing.T) {
	h100 := must.Get(sharing.LookupGPU("H100 80GB HBM3"))(t)
	for _, m := range []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		for _, processes := range []int{0, 1} {
			for _, saturated := range []float64{0, 0.9} {
				for _, together := range []int{0, 8} {
					g := must.Get(filter.NewTarget(filter.GPUKind{Name: "p", GPU: h100, Together: together}))(t)
					d := &filter.Demand{Kind: "batch", Replicas: 1, GPUs: 1, Processes: processes, Memory: filter.MemoryNeed{Total: 4 << 30}, Busy: .1, BusyBasis: filter.BusyStated, SaturatedFrom: saturated}
					scorer := NewScorer(BestFit, nil)
					scorer.Targets = map[string]*filter.Target{"p": g}
					n := nodeOf("n", "p", g, 8, m)
					if f := scorer.Filter(cluster(t, n).At(0), RequestOf("r", nil, d, m, "")); f.Verdict != filter.VerdictPass {
						t.Errorf("%v, %d processes, saturated from %v, %d together: %v", m, processes, saturated, together, f)
					}
				}
			}
		}
	}
}

// TestWorkers has 400 workers place and release on one layout, each on the version that it last saw: an offer that
// another took is a conflict, nobody is given too much, and all that is released is free again.
func TestWorkers(t *testing.T) {
	nodes, requests := zoo()
	start := cluster(t, nodes...)
	var now atomic.Pointer[layout.Cluster]
	now.Store(start)
	var conflicts, placed atomic.Int64
	var wg sync.WaitGroup
	scorer := NewScorer(cotenant(t, zooMix(requests)), nil)
	for w := range 400 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			for i := range 4 {
				r := requests[rng.IntN(len(requests))]
				r.Name = fmt.Sprintf("w%d-%d", w, i)
				seen := now.Load()
				n := seen.At(rng.IntN(seen.Len()))
				o, f := scorer.Score(n, &r)
				if f.Verdict != filter.VerdictPass {
					continue
				}
				for {
					last := now.Load()
					next, _, err := scorer.Assign(last, &r, o)
					if err != nil {
						if !errors.Is(err, layout.ErrConflict) {
							t.Error(err)
						}
						conflicts.Add(1)
						break
					}
					if now.CompareAndSwap(last, next) {
						placed.Add(1)
						break
					}
				}
				if rng.IntN(2) == 0 {
					for last := now.Load(); ; last = now.Load() {
						if next, _ := last.Release(r.Name); now.CompareAndSwap(last, next) {
							break
						}
					}
				}
			}
		})
	}
	wg.Wait()
	c := now.Load()
	check(t, c)
	if placed.Load() < 50 {
		t.Errorf("%d placed, %d conflicts", placed.Load(), conflicts.Load())
	}
	for n := range c.Nodes() {
		for _, a := range slices.Clone(n.Assignments) {
			c, _ = c.Release(a.Key)
		}
	}
	if d := layout.Diff(start, c); len(d) > 0 {
		t.Errorf("%v", d)
	}
}

// TestBusy: a GPU that would have more work than it does comes last under every policy, the least overloaded first, and
// refuses nobody; the measured busy time of a replica counts as its expected use.
func TestBusy(t *testing.T) {
	n := on("n", device(withMem, sharing.MechanismMPS), device(withMem, sharing.MechanismMPS))
	r := Request{Name: "r", GPUs: 1, Busy: 600, GPUMemory: 4 * sharing.GiB, Mechanisms: onMPS, Workload: tenant("t")}
	for _, policy := range policies(t) {
		c, p := cluster(t, with(n, Request{Name: "r", Busy: 300, Workload: tenant("t")}, 0)), NewPlacer(NewScorer(policy, nil))
		load := [2]int{300, 0}
		for i := range 8 {
			next, placed, err := p.Place(c, fresh(r))
			if err != nil {
				t.Fatal(policy.Name(), err)
			}
			g := placed.GPUs()[0]
			if load[g] += r.Busy; load[g] > 1000 && load[g]-r.Busy > load[1-g] {
				t.Errorf("%s: %d on GPU %d, loads %v", policy.Name(), i, g, load)
			}
			c = next
		}
		if f := c.Node("n").Devices[0].Free(); f.Busy < 2000 || f.Compute != 1000 {
			t.Errorf("%s: %+v", policy.Name(), f)
		}
	}
}
