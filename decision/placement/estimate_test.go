// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// plainRun is Cotenant's run without packed words, early end or memory: every
// request of the run is filtered by its definition.
func plainRun(m *mix, v View, r *run, bit uint64) int64 {
	sum := int64(0)
	for at, id := range r.kinds {
		for _, h := range horizons {
			if at == h {
				sum += int64(v.freeMilli())
			}
		}
		k := &m.kinds[id]
		if k.profile != "" || k.cpu > v.CPUMilli || k.memory > int64(v.Memory) || k.gpus > 0 && !k.accepts(bit) {
			continue
		}
		var fit []int
		for g := range v.GPUs[:v.Len] {
			if u := &v.GPUs[g]; u.Milli > 0 && u.Milli >= k.need(u.Total) && k.mechanisms>>u.Mechanism&1 == 1 {
				fit = append(fit, g)
			}
		}
		if len(fit) < int(k.gpus) {
			continue
		}
		slices.SortStableFunc(fit, func(a, b int) int { return int(v.GPUs[a].Milli - v.GPUs[b].Milli) })
		for _, g := range fit[:k.gpus] {
			v.GPUs[g].Milli -= k.need(v.GPUs[g].Total)
			v.GPUs[g].Memory -= k.gpuMemory
		}
		v.CPUMilli -= k.cpu
		v.Memory -= sharing.Bytes(k.memory)
	}
	return sum + int64(v.freeMilli())
}

// TestEstimate compares the runs with their definition on random nodes, and holds that an estimate does not depend on
// what was estimated before, on the order of a node's GPUs, or lie outside what is free.
func TestEstimate(t *testing.T) {
	requests := []Request{
		{CPUMilli: 3_152, Memory: 5 * sharing.GiB, GPUs: 1, Milli: 810},
		{CPUMilli: 11_300, Memory: 48 * sharing.GiB, GPUs: 1, Milli: 1000},
		{CPUMilli: 8_000, Memory: 30 * sharing.GiB, GPUs: 1, Milli: 470},
		{CPUMilli: 4_000, GPUs: 1, Milli: 160},
		{CPUMilli: 30_000, Memory: 64 * sharing.GiB},
		{CPUMilli: 16_000, GPUs: 4, Milli: 1000},
		{CPUMilli: 2_000, GPUs: 2, Milli: 500, Models: []string{"B"}},
		{CPUMilli: 1_000, GPUs: 1, Milli: 200, Mechanisms: []sharing.Mechanism{sharing.MechanismMPS}},
		{CPUMilli: 1_000, GPUs: 1, Profile: "1g.10gb"},
	}
	p := cotenant(t, zooMix(requests))
	m := p.mix
	rng := rand.New(rand.NewPCG(5, 6))
	mechs := []sharing.Mechanism{sharing.MechanismNone, sharing.MechanismMPS, sharing.MechanismTimeSlicing, sharing.MechanismExclusive}
	for range 300 {
		v := View{CPUMilli: int64(rng.IntN(200)) * cpuStep, Memory: sharing.Bytes(rng.IntN(200)) * memoryStep, Model: []string{"A", "B"}[rng.IntN(2)], Len: 1 + rng.IntN(8)}
		mech := mechs[rng.IntN(len(mechs))]
		for g := range v.GPUs[:v.Len] {
			v.GPUs[g] = GPUView{Mechanism: mech, Milli: int32(rng.IntN(101)) * 10}
		}
		var b bin
		b.from(&v, m.model(&v))
		want := int64(0)
		for i := range p.runs {
			want += plainRun(m, v, &p.runs[i], m.model(&v))
		}
		if b.free > 0 {
			runs, alone := p.afterRuns(&b), p.byKind(&b)
			if w := float64(want) / (runCount * float64(len(horizons))); math.Abs(runs-w) > 1e-9 {
				t.Fatalf("%+v: %v after runs, by the definition %v", v, runs, w)
			}
			if free := v.freeMilli(); runs < 0 || alone < 0 || runs > free || alone > free+1e-9 {
				t.Fatalf("out of bounds: %v, %v", runs, alone)
			}
		}
		got := p.stranded(&v)
		if again := p.stranded(&v); again != got {
			t.Fatalf("again: %+v, %+v", again, got)
		}
		if rng.IntN(50) == 0 {
			if fresh := cotenant(t, zooMix(requests)).stranded(&v); fresh != got {
				t.Fatalf("by a new policy: %+v, %+v", fresh, got)
			}
		}
		slices.Reverse(v.GPUs[:v.Len])
		if turned := p.stranded(&v); turned != got {
			t.Fatalf("GPUs in another order: %+v, %+v", turned, got)
		}
	}
}

func TestMixOrderDoesNotMatter(t *testing.T) {
	_, requests := zoo()
	var a []Typical
	for i, r := range requests {
		a = append(a, Typical{r, float64(1 + i)})
		r.Name = "another name"
		a = append(a, Typical{r, 2})
	}
	b := slices.Clone(a)
	slices.Reverse(b)
	pa, pb := cotenant(t, a), cotenant(t, b)
	ma, mb := pa.mix, pb.mix
	if len(ma.kinds) != len(mb.kinds) || len(ma.kinds) > len(requests) {
		t.Fatalf("%d and %d kinds", len(ma.kinds), len(mb.kinds))
	}
	for i := range pa.runs {
		if pa.runs[i].needs != pb.runs[i].needs {
			t.Fatal("the runs differ")
		}
	}
}

// TestInterference compares a forecaster that knows a neighbour as noisy with none.
func TestInterference(t *testing.T) {
	request := func(name string, milli int) Request {
		return Request{Name: name, GPUs: 1, Milli: milli, Mechanisms: onMPS, Workload: &layout.Workload{Name: name, Tenant: "t"}}
	}
	d := device(kindA, sharing.MechanismMPS)
	c := cluster(t, with(on("a", d), request("hog", 500), 0), with(on("b", d), request("quiet", 400), 0))
	pred := pairs{"hog": 2, "quiet": 1.1, "new": 1.25}
	r := request("new", 500)
	o, _ := NewScorer(BestFit, pred).Score(c.At(0), &r)
	// The newcomer loses 500*(1-1/2), the hog 500*(1-1/1.25).
	plain, _ := NewScorer(BestFit, nil).Score(c.At(0), &r)
	if got, want := plain.Score-o.Score, 250.0+100; math.Abs(got-want) > 1e-9 || o.Slowdown != optional.Of(2.0) {
		t.Errorf("lost %v, want %v; slowdown %v", got, want, o.Slowdown)
	}
	_, p, err := NewPlacer(NewScorer(BestFit, pred)).Place(c, &r)
	if err != nil || p.Node != "b" {
		t.Errorf("%v, %v: want the quiet neighbour", p, err)
	}
	if _, p, err := NewPlacer(NewScorer(BestFit, nil)).Place(c, &r); err != nil || p.Node != "a" {
		t.Errorf("%v, %v: best-fit takes the fuller node", p, err)
	}
}

func TestUnplaced(t *testing.T) {
	d := device(kindA, sharing.MechanismMPS)
	small := func(name string, cpu int64) layout.Node { n := on(name, d); n.CPUMilli = cpu; return n }
	c := cluster(t, small("a", 100), small("b", 9_000), small("c", 200))
	r := &Request{Name: "job", CPUMilli: 1_000, GPUs: 1, Milli: 1000, Models: []string{"A100"}}
	_, _, err := NewPlacer(NewScorer(BestFit, nil)).Place(c, r)
	var e *UnplacedError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	want := []ReasonCount{{codes.CPU, filter.VerdictReject, 2, "needs 1000m CPU, 100m are free"}, {codes.Model, filter.VerdictReject, 1, "the GPU's model is not among those asked for"}}
	if diff := cmp.Diff(want, e.Reasons); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(err.Error(), "0 of 3 nodes take job: 2 cpu") {
		t.Error(err)
	}
	if NewScorer(BestFit, nil).Unplaced(c, &Request{Name: "small", CPUMilli: 10}) != nil {
		t.Error("a request that fits is explained away")
	}
}

// benchNode is a node with eight partly used GPUs, and a mix of 60 kinds.
func benchNode(b *testing.B) (*layout.Cluster, *lookAhead, []Request) {
	n := layout.Node{Name: "n", CPUMilli: 96_000, Memory: 384 * sharing.GiB}
	for g := range 8 {
		n.Devices = append(n.Devices, device(kindA, sharing.MechanismTimeSlicing))
		n.Assignments = append(n.Assignments, layout.Assignment{Key: fmt.Sprint(g), Device: int16(g), CPUMilli: 2_000, Compute: int16(100 * (1 + g%4))})
	}
	return cluster(b, n), busyMix(b), busyKinds()
}

// BenchmarkFilter filters a node whose GPUs are all too full.
func BenchmarkFilter(b *testing.B) {
	c, _, requests := benchNode(b)
	scorer := NewScorer(BestFit, nil)
	for name, r := range map[string]*Request{"fits": &requests[3], "full": &requests[0]} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scorer.Filter(c.At(0), r)
			}
		})
	}
}

// BenchmarkScore scores one node for a share of a GPU: every GPU state is tried.
func BenchmarkScore(b *testing.B) {
	c, p, requests := benchNode(b)
	for _, policy := range []Policy{BestFit, p} {
		b.Run(policy.Name(), func(b *testing.B) {
			scorer := NewScorer(policy, nil)
			b.ReportAllocs()
			for b.Loop() {
				scorer.Score(c.At(0), &requests[3])
			}
		})
	}
}
