// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// busyKinds are the typical requests of the busy cluster: shares and whole GPUs, a few of several and of none.
var busyKinds = sync.OnceValue(func() (out []Request) {
	for i := range 60 {
		r := Request{Name: fmt.Sprint(i), CPUMilli: int64(1+i%13) * 1_000, Memory: sharing.Bytes(1+i%7) * 8 * sharing.GiB, GPUs: 1, Milli: []int{1000, 810, 470, 320, 160}[i%5], Mechanisms: onTurns}
		switch {
		case i%20 == 0:
			r.GPUs = []int{2, 4, 8}[i/20]
		case i%15 == 1:
			r.GPUs, r.Milli = 0, 0
		}
		out = append(out, r)
	}
	return out
})

// busyMix is the policy that looks ahead with them.
func busyMix(tb testing.TB) *lookAhead {
	tb.Helper()
	var typical []Typical
	for i, r := range busyKinds() {
		typical = append(typical, Typical{r, float64(1 + i%4)})
	}
	return cotenant(tb, typical)
}

// busy is a cluster of nodes with eight GPUs each, filled with requests like those of the mix up to a part of its GPUs
// that is drawn for each node, evenly from nothing to everything, each on a GPU by chance.
func busy(tb testing.TB, rng *rand.Rand, nodes int) *layout.Cluster {
	tb.Helper()
	in := make([]layout.Node, nodes)
	for i := range in {
		kind := []*layout.GPU{kindA, kindB}[rng.IntN(2)]
		n := layout.Node{Name: fmt.Sprintf("n%05d", i), CPUMilli: 96_000, Memory: 768 * sharing.GiB, Devices: make([]layout.Device, 8)}
		var free [8]int
		for g := range n.Devices {
			n.Devices[g], free[g] = device(kind, sharing.MechanismTimeSlicing), 1000
		}
		cpu, memory := n.CPUMilli, n.Memory
		used, want := 0, int(8_001*rng.Float64())
		for k := range 40 {
			r, g := newShape(rng), rng.IntN(8)
			if r.GPUs > 1 || r.Milli > free[g] || used+r.Milli > want || r.CPUMilli > cpu || r.Memory > memory {
				continue
			}
			cpu, memory, used = cpu-r.CPUMilli, memory-r.Memory, used+r.Milli
			a := layout.Assignment{Key: fmt.Sprint(i, "/", k), Device: layout.NoDevice, CPUMilli: int32(r.CPUMilli), HostMemory: r.Memory}
			if r.GPUs == 1 {
				free[g], a.Device, a.Compute = free[g]-r.Milli, int16(g), int16(r.Milli)
			}
			n.Assignments = append(n.Assignments, a)
		}
		in[i] = n
	}
	return cluster(tb, in...)
}

// newShape draws a request that nobody asked for before.
func newShape(rng *rand.Rand) *Request {
	r := busyKinds()[rng.IntN(60)]
	r.CPUMilli += int64(rng.IntN(1000))
	r.Memory += sharing.Bytes(rng.IntN(1<<20)) * sharing.KiB
	if r.GPUs == 1 && r.Milli < 1000 {
		r.Milli += rng.IntN(150)
	}
	if r.GPUs == 0 {
		r.Mechanisms = nil
	}
	return &r
}

// zooOf is n times the nodes of zoo, with what a random walk leaves on them.
func zooOf(t *testing.T, rng *rand.Rand, n int) (*layout.Cluster, []Request) {
	few, requests := zoo()
	var nodes []layout.Node
	for range n {
		for _, node := range few {
			node.Name = fmt.Sprint("n", len(nodes))
			nodes = append(nodes, node)
		}
	}
	c := cluster(t, nodes...)
	scorer := NewScorer(BestFit, nil)
	for range 60 * n {
		r := fresh(requests[rng.IntN(len(requests))])
		if o, f := scorer.Score(c.At(rng.IntN(c.Len())), r); f.Verdict == filter.VerdictPass {
			var err error
			if c, _, err = scorer.Assign(c, r, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c, requests
}

// variant is a request that nobody made yet.
func variant(rng *rand.Rand, r Request) *Request {
	r.CPUMilli, r.Memory = rng.Int64N(2*r.CPUMilli), sharing.Bytes(rng.Int64N(1+2*int64(r.Memory)))
	w := layout.Workload{Tenant: []string{"", "a", "b", "c"}[rng.IntN(4)], Trusts: [][]string{nil, {"a"}, {"a", "", "c"}}[rng.IntN(3)]}
	if r.Milli > 0 && r.Milli < 1000 {
		r.Milli = 1 + rng.IntN(999)
	}
	if r.GPUs > 1 {
		r.GPUs = 2 + rng.IntN(4)
	}
	if rng.IntN(8) == 0 {
		w.Objective.Slowdown = 1.5
	}
	if rng.IntN(4) == 0 && r.GPUs > 0 && r.Profile == "" {
		r.GPUMemory = sharing.Bytes(rng.IntN(90)) * sharing.GiB
	}
	r.Workload = &w
	return fresh(r)
}

// TestIndexMissesNothing holds that no node outside the index's answer takes a request, that two stages refuse what an
// exact search refuses and nothing else, and that an offer does not depend on what the placer saw before: snapshots
// that are older than its index, or of another cluster.
func TestIndexMissesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	placers := map[string]*Placer{}
	for _, policy := range policies(t) {
		placers[policy.Name()] = NewPlacer(NewScorer(policy, nil))
	}
	refused := 0
	for round := range 4 {
		c, requests := zooOf(t, rng, []int{1, 8, 16, 8}[round])
		old := c
		for range 60 {
			r := variant(rng, requests[rng.IntN(len(requests))])
			if r.Validate() != nil {
				continue
			}
			after, passes := c, []int32{}
			for i := range c.Len() {
				if n := c.At(i); n != nil && NewScorer(BestFit, nil).Filter(n, r).Verdict == filter.VerdictPass {
					passes = append(passes, int32(i))
				}
			}
			for _, policy := range policies(t) {
				p := placers[policy.Name()]
				first, all := p.Candidates(c, r, nil)
				if len(first) < min(len(all), stage) {
					t.Fatalf("%d candidates of %d nodes", len(first), len(all))
				}
				for _, i := range passes {
					if !slices.Contains(all, i) {
						t.Fatalf("%+v fits %+v, which the index does not have", r, ViewOf(c.At(int(i))))
					}
				}
				best, ok := p.Best(c, r)
				if ok != (len(passes) > 0) {
					t.Fatalf("%s: %v, and %d nodes take %+v", policy.Name(), ok, len(passes), r)
				}
				if other, _ := NewPlacer(NewScorer(policy, nil)).Best(c, r); other != best {
					t.Fatalf("%s: %+v, by a fresh placer %+v", policy.Name(), best, other)
				}
				if !ok {
					refused++
				} else if next, _, err := p.scorer.Assign(c, r, best); err != nil {
					t.Fatal(err)
				} else if policy == BestFit {
					after = next
				}
			}
			c = after
			switch rng.IntN(8) {
			case 0:
				c, old = old, c
			case 1: // nodes go and come
				n := c.At(rng.IntN(c.Len()))
				if n == nil {
					continue
				}
				if c = c.WithoutNode(n.Name); rng.IntN(2) == 0 {
					c, _ = c.WithNode(layout.Node{Name: fmt.Sprint("new", rng.IntN(9)), CPUMilli: 9_000, Devices: n.Devices})
				}
			}
		}
	}
	if refused < 20 {
		t.Errorf("%d refused", refused)
	}
}

// TestFullNode holds that a node that is full at a look is refused for the reason of the GPU that is nearest to a fit.
func TestFullNode(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	scorer, seen := NewScorer(BestFit, nil), map[filter.Code]int{}
	for range 3 {
		c, requests := zooOf(t, rng, 6)
		for range 300 {
			r := variant(rng, requests[rng.IntN(len(requests))])
			for n := range c.Nodes() {
				g, code := full(n, r)
				if g < 0 || !fits(n, r, new(filter.Reason)) {
					continue
				}
				var why, nearest filter.Reason
				w := scorer.work(n, r, false)
				for i := range n.Devices {
					if w.fit(n, i, r, &take{}, &why) {
						t.Fatalf("GPU %d of %+v takes %+v", i, ViewOf(n), r)
					}
					closer(&nearest, why)
				}
				if seen[code]++; nearest != scorer.Filter(n, r) {
					t.Errorf("%v, want %v", scorer.Filter(n, r), nearest)
				}
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("refused for %v", seen)
	}
}

// TestBeyondCandidates has one node of 200 take a request, which rows can't tell
// from the others: its tenants trust the request's.
func TestBeyondCandidates(t *testing.T) {
	r := &Request{Name: "r", GPUs: 1, Milli: 100, Mechanisms: onMPS, Workload: tenant("z", "x", "y")}
	for _, at := range []int{0, 31, 33, 100, 138, 199} {
		nodes := make([]layout.Node, 200)
		for i := range nodes {
			nodes[i] = on(fmt.Sprint(i), device(kindA, sharing.MechanismMPS))
			trusts := []string{"x", "y"}
			if i == at {
				trusts = append(trusts, "z")
			}
			for _, name := range []string{"x", "y"} {
				nodes[i] = with(nodes[i], Request{Name: name, Milli: 100, Workload: tenant(name, trusts...)}, 0)
			}
		}
		o, ok := NewPlacer(NewScorer(BestFit, nil)).Best(cluster(t, nodes...), r)
		if !ok || o.Node != fmt.Sprint(at) {
			t.Errorf("node %d takes it: %+v, %v", at, o, ok)
		}
	}
}

// TestAlikeButForNeighbours holds that of GPUs with as much left the one is found whose neighbours have no objective.
func TestAlikeButForNeighbours(t *testing.T) {
	d := device(kindA, sharing.MechanismMPS)
	node := on("n", d, d, d)
	for g, slowdown := range []float64{1.2, 2, 0} {
		w := &layout.Workload{Tenant: "t", Objective: layout.Objective{Slowdown: slowdown}}
		node = with(node, Request{Milli: 500, Workload: w}, g)
	}
	for _, policy := range policies(t) {
		r := &Request{Name: "r", GPUs: 1, Milli: 300, Mechanisms: onMPS, Workload: tenant("t")}
		if o, ok := NewPlacer(NewScorer(policy, nil)).Best(cluster(t, node), r); !ok || o.gpus[0] != 2 {
			t.Errorf("%s: %+v, %v", policy.Name(), o, ok)
		}
	}
}

// TestAllow holds that candidates are allowed nodes, and all that there are when they are few.
func TestAllow(t *testing.T) {
	c := busy(t, rand.New(rand.NewPCG(1, 2)), 500)
	p := NewPlacer(NewScorer(BestFit, nil))
	for _, every := range []int{1, 3, 50} {
		first, all := p.Candidates(c, &Request{CPUMilli: 1}, func(i int) bool { return i%every == 0 })
		if len(all) != 500 || len(first) != min(stage, (499+every)/every) {
			t.Errorf("every %d: %d of %d", every, len(first), len(all))
		}
		for _, i := range first {
			if int(i)%every != 0 {
				t.Errorf("node %d is not allowed", i)
			}
		}
	}
}

// TestStages compares two stages with an exact search on busy clusters of which hardly two nodes are alike. What is
// lost is given in parts of the range from the best score to the median.
func TestStages(t *testing.T) {
	race.Long(t)
	for _, policy := range []Policy{busyMix(t), BestFit} {
		compareStages(t, 300, 100, policy, 1, 0.99, 0.01)
	}
}

// TestMemory fills all that a Placer of 10,000 nodes keeps, and counts the nodes with their tenants as well.
func TestMemory(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	mix := busyMix(t)
	start := heap()
	c := busy(t, rand.New(rand.NewPCG(1, 2)), 10_000)
	before := heap()
	p := NewPlacer(NewScorer(mix, nil))
	p.Best(c, &Request{CPUMilli: 96_000})
	for i := int64(1); len(p.index.estimates) < maxEstimates; i++ {
		p.index.estimate(Request{CPUMilli: i})
	}
	for i := range int64(maxAnswers) {
		p.answers[shape(i)] = answer{}
	}
	all := heap()
	t.Logf("the layout %.1f MB, the placer %.1f MB", float64(before-start)/1e6, float64(all-before)/1e6)
	if all-start > 30e6 {
		t.Errorf("%d bytes", all-start)
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(c)
}

// TestSamples holds that two placers that are asked the same on a cluster too large to score all of it at once offer the
// same, that they refuse nothing that fits, and that a shape's offers get no worse until all nodes are known.
func TestSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := busy(t, rng, wholly+600)
	scorer := NewScorer(BestFit, nil)
	one, two := NewPlacer(scorer), NewPlacer(scorer)
	for k := range maxEstimates + 20 {
		r := newShape(rng)
		r.CPUMilli += int64(k%90) * 1000
		if a, b := fmt.Sprint(one.Best(c, r)), fmt.Sprint(two.Best(c, r)); a != b {
			t.Fatalf("%s, then %s", a, b)
		}
	}
	r, last := &Request{Name: "r", GPUs: 1, Milli: 1, CPUMilli: 100, Mechanisms: onTurns}, math.Inf(-1)
	for range (wholly + 600) / sample {
		clear(one.answers)
		o, ok := one.Best(c, r)
		if !ok || o.Score < last {
			t.Fatalf("%v after %v", o, last)
		}
		last = o.Score
	}
	if slices.ContainsFunc(one.all, func(i int32) bool { s := one.predict(c, r).of(i).scores[i]; return s != s }) {
		t.Error("nodes are left out")
	}
	only := &Request{Name: "r", CPUMilli: 1_000_000, GPUs: 8, Milli: 1000, Mechanisms: onTurns}
	c, _ = c.WithNode(layout.Node{Name: "z", CPUMilli: 2e6, Memory: 1 << 40, Devices: c.At(0).Devices})
	if o, ok := one.Best(c, only); !ok || o.Node != "z" {
		t.Errorf("%v, %v", o, ok)
	}
}

// compareStages asks for each shape so many times.
func compareStages(t *testing.T, nodes, requests int, policy Policy, looks int, within, mean float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	c := busy(t, rng, nodes)
	scorer := NewScorer(policy, nil)
	two := NewPlacer(scorer)
	good, placed, lost := 0, 0, 0.0
	for range requests {
		r := newShape(rng)
		var scores []float64
		for n := range c.Nodes() {
			if o, f := scorer.Score(n, r); f.Verdict == filter.VerdictPass {
				scores = append(scores, o.Score)
			}
		}
		var best Offer
		var ok bool
		for range looks {
			clear(two.answers)
			best, ok = two.Best(c, r)
		}
		if ok != (len(scores) > 0) {
			t.Fatalf("%v, and %d of %d nodes take %+v", ok, len(scores), nodes, r)
		}
		if !ok {
			continue
		}
		slices.Sort(scores)
		top := scores[len(scores)-1]
		part := 0.0
		if best.Score < top-tie {
			part = (top - best.Score) / max(tie, top-scores[len(scores)/2])
		}
		if placed++; part <= 0.01 {
			good++
		}
		lost += part
	}
	got, avg := float64(good)/float64(placed), lost/float64(placed)
	t.Logf("%s, %d nodes, %d requests: %.1f%% lose at most 1%%, %.3f in the mean", policy.Name(), nodes, placed, 100*got, avg)
	if got < within || avg > mean {
		t.Errorf("want %v and %v", within, mean)
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, nodes := range []int{1000, 10_000} {
		rng := rand.New(rand.NewPCG(1, 2))
		c := busy(b, rng, nodes)
		m := busyMix(b)
		known := newShape(rng)
		for name, next := range map[string]func() *Request{
			"new":   func() *Request { return newShape(rng) },
			"known": func() *Request { return known },
			"none":  func() *Request { r := newShape(rng); r.GPUs, r.Milli, r.CPUMilli = 8, 1000, 96_001; return r },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, nodes), func(b *testing.B) {
				p := NewPlacer(NewScorer(m, nil))
				// What is measured are new shapes like others before them: see BenchmarkPlaceFirst.
				for range 1000 {
					p.Best(c, next())
				}
				b.ResetTimer()
				for range b.N {
					p.Best(c, next())
				}
			})
		}
	}
}

// BenchmarkPlaceFirst places requests of which no like was seen; cold: by a policy that saw none of the nodes either.
func BenchmarkPlaceFirst(b *testing.B) {
	for _, cold := range []bool{false, true} {
		b.Run(fmt.Sprint("cold ", cold), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			c, policy := busy(b, rng, 10_000), busyMix(b)
			p := NewPlacer(NewScorer(policy, nil))
			for range 100 {
				p.Best(c, newShape(rng))
			}
			for b.Loop() {
				clear(p.index.estimates)
				clear(p.answers)
				if cold {
					clear(policy.memo)
				}
				p.Best(c, newShape(rng))
			}
		})
	}
}
