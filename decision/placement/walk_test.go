// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// check holds that nothing of a layout contradicts itself, and that who shares a GPU that does not isolate trusts
// each other.
func check(t *testing.T, c *layout.Cluster) {
	t.Helper()
	if err := layout.Err(c.Check()); err != nil {
		t.Fatal(err)
	}
	for n := range c.Nodes() {
		for i := range n.Assignments {
			for k := range n.Assignments[:i] {
				a, b := &n.Assignments[i], &n.Assignments[k]
				if a.Device == b.Device && a.Device >= 0 && traits.Of(n.Devices[a.Device].Mode).Trusting && !a.Workload.Trust(b.Workload) {
					t.Fatalf("%v beside %v", a, b)
				}
			}
		}
	}
}

// TestRandomWalk assigns and releases at random under every policy and holds the books after every step; a Placer,
// which keeps scores, must choose what scoring every node afresh would.
func TestRandomWalk(t *testing.T) {
	nodes, requests := zoo()
	for _, policy := range policies(t) {
		t.Run(policy.Name(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			c := cluster(t, nodes...)
			empty := c
			scorer := NewScorer(policy, nil)
			placer := NewPlacer(scorer)
			var live []string
			placed := 0
			for range 400 {
				if len(live) > 0 && rng.IntN(3) == 0 {
					i := rng.IntN(len(live))
					next, ok := c.Release(live[i])
					if !ok {
						t.Fatalf("%s is not there", live[i])
					}
					c, live = next, slices.Delete(live, i, i+1)
				} else {
					r := fresh(requests[rng.IntN(len(requests))])
					best, ok := placer.Best(c, r)
					var want Offer
					wantOK := false
					for n := range c.Nodes() {
						if o, f := scorer.Score(n, r); f.Verdict == filter.VerdictPass && (!wantOK || o.Score > want.Score+tie) {
							want, wantOK = o, true
						}
					}
					if best != want || ok != wantOK {
						t.Fatalf("kept scores choose %+v, fresh ones %+v", best, want)
					}
					if !ok {
						if e := scorer.Unplaced(c, r); e == nil || !noFit(e) {
							t.Fatal("nothing says why")
						}
						continue
					}
					next, p, err := scorer.Assign(c, r, best)
					if err != nil {
						t.Fatal(err)
					}
					c, live = next, append(live, p.Key)
					placed++
				}
				check(t, c)
			}
			if placed < 100 {
				t.Errorf("only %d placed", placed)
			}
			for _, key := range live {
				c, _ = c.Release(key)
			}
			if d := layout.Diff(empty, c); len(d) > 0 {
				t.Fatalf("not empty again: %v", d)
			}
		})
	}
}

// TestAssignAgain carries an offer out where something else took its place, or the node changed or went.
func TestAssignAgain(t *testing.T) {
	bert := &layout.Workload{Name: "bert", Tenant: "t"}
	strict := &layout.Workload{Name: "strict", Tenant: "t", Objective: layout.Objective{Slowdown: 1.2}}
	r := Request{Name: "r", GPUs: 1, Milli: 600, Mechanisms: onMPS, Workload: bert}
	c := cluster(t, on("a", device(kindA, sharing.MechanismMPS)), on("b", device(kindA, sharing.MechanismMPS)))
	scorer := NewScorer(BestFit, pairs{"bert": 2, "strict": 1})
	o, _ := scorer.Score(c.Node("a"), &r)
	next, p, err := scorer.Assign(c, &r, o)
	if err != nil || p.String() != "r on a GPU [0] as 600m of mps" {
		t.Fatal(p, err)
	}
	if _, _, err := scorer.Assign(next, fresh(r), o); !errors.Is(err, layout.ErrConflict) || !strings.Contains(err.Error(), "the most free is 400") {
		t.Errorf("taken: %v", err)
	}
	if _, _, err := scorer.Assign(c.WithoutNode("a"), &r, o); !errors.Is(err, layout.ErrNodeGone) {
		t.Errorf("gone: %v", err)
	}
	tenanted := must.Get(c.Assign("a", layout.Assignment{Key: "s", Workload: strict, Compute: 100}))(t)
	if _, _, err := scorer.Assign(tenanted, &r, o); !errors.Is(err, layout.ErrConflict) || !strings.Contains(err.Error(), "slowdown") {
		t.Errorf("a neighbour whose objective it would break came meanwhile: %v", err)
	}
	ill, _ := c.WithNode(layout.Node{Name: "a", CPUMilli: 8000, Devices: []layout.Device{{GPU: kindA, Mode: sharing.MechanismMPS, Health: "unhealthy"}}})
	if _, _, err := scorer.Assign(ill, &r, o); !errors.Is(err, layout.ErrConflict) {
		t.Errorf("ill: %v", err)
	}
	if c.Node("a").Used() {
		t.Error("the old layout changed")
	}
}

func TestScoringDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	nodes, requests := zoo()
	c := cluster(t, nodes...)
	for _, policy := range policies(t) {
		scorer := NewScorer(policy, nil)
		for name, f := range map[string]func(n *layout.Node, r *Request){
			"scoring":   func(n *layout.Node, r *Request) { scorer.Score(n, r) },
			"filtering": func(n *layout.Node, r *Request) { scorer.Filter(n, r) },
		} {
			n := testing.AllocsPerRun(20, func() {
				for i := range c.Len() {
					for j := range requests {
						f(c.At(i), &requests[j])
					}
				}
			})
			// A garbage collection in between may empty the pool.
			if n > 2 {
				t.Errorf("%s: %v allocations for %d of %s", policy.Name(), n, c.Len()*len(requests), name)
			}
		}
	}
}

// TestIdleGPUIsPartitioned partitions an open GPU that is dynamic, and gives it back whole; one that is not is refused.
func TestIdleGPUIsPartitioned(t *testing.T) {
	slice, whole := Request{Name: "slice", GPUs: 1, Profile: "1g.10gb"}, Request{Name: "whole", GPUs: 1, Milli: 1000}
	scorer := NewScorer(BestFit, nil)
	if f := scorer.Filter(cluster(t, on("a", layout.Device{GPU: withMIG})).At(0), &slice); f.Code != codes.NotMIG {
		t.Errorf("a GPU for which nobody makes instances: %v", f)
	}
	empty := cluster(t, on("a", device(withMIG, sharing.MechanismNone)))
	placer, c := NewPlacer(scorer), empty
	if f := scorer.Filter(c.At(0), &whole); f.Verdict != filter.VerdictPass {
		t.Errorf("a whole idle GPU: %v", f)
	}
	var placed []string
	for range 7 {
		next, p, err := placer.Place(c, fresh(slice))
		if err != nil {
			t.Fatal(err)
		}
		c, placed = next, append(placed, p.Key)
	}
	if f := scorer.Filter(c.At(0), &slice); f.Code != codes.Slices {
		t.Errorf("an eighth instance: %v", f)
	}
	for _, key := range placed {
		if f := scorer.Filter(c.At(0), &whole); f.Code != codes.MIGMode {
			t.Errorf("a whole GPU that is partitioned: %v", f)
		}
		c, _ = c.Release(key)
	}
	if d := layout.Diff(empty, c); len(d) > 0 || ViewOf(c.At(0)) != ViewOf(empty.At(0)) {
		t.Errorf("not as before: %v", d)
	}
}
