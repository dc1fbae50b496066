// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// TestConsolidate lets a request in by as many moves as it takes and may take, and by none where it fits.
func TestConsolidate(t *testing.T) {
	d := device(kindA, sharing.MechanismTimeSlicing)
	share := func(milli int) Request {
		return Request{Name: "s", GPUs: 1, Milli: milli, Mechanisms: onTurns, Workload: tenant("t")}
	}
	n := func(name string, milli ...int) layout.Node {
		n := on(name, d)
		for _, m := range milli {
			n = with(n, share(m), 0)
		}
		return n
	}
	for name, c := range map[string]struct {
		nodes        []layout.Node
		moves, moved int
		milli        int
		err          bool
	}{
		"fits":             {[]layout.Node{n("a", 300), n("b")}, 1, 0, 800, false},
		"one":              {[]layout.Node{n("a", 300), n("b", 400)}, 1, 1, 900, false},
		"one of two":       {[]layout.Node{n("a", 300, 300), n("b", 200, 400)}, 2, 1, 600, false},
		"the other":        {[]layout.Node{n("a", 200, 300), n("b", 500)}, 2, 1, 1000, false},
		"two, to two":      {[]layout.Node{n("a", 200, 300), n("b", 600), n("c", 700)}, 2, 2, 900, false},
		"two are too many": {[]layout.Node{n("a", 200, 300), n("b", 600), n("c", 700)}, 1, 0, 900, true},
		"full":             {[]layout.Node{n("a", 700), n("b", 800)}, 2, 0, 600, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := cluster(t, c.nodes...)
			p := NewPlacer(NewScorer(BestFit, nil))
			r := share(c.milli)
			after, moves, placed, err := p.Consolidate(before, &r, c.moves, nil)
			if c.err {
				if !noFit(err) || after != nil {
					t.Errorf("%v, %v", placed, err)
				}
				return
			}
			if err != nil || len(moves) != c.moved {
				t.Fatalf("%v, %v, %v", placed, moves, err)
			}
			check(t, after)
			if got := len(layout.Diff(before, after)); got != c.moved+1 || after.Find("s") == nil {
				t.Errorf("%d changes for %d moves", got, c.moved)
			}
			none := func(*layout.Node, *layout.Assignment) bool { return false }
			if _, _, _, err := p.Consolidate(before, &r, c.moves, none); (err != nil) != (c.moved > 0) {
				t.Errorf("nobody may move: %v", err)
			}
		})
	}
}

// TestOneMove serves a stream of MIG requests at a load of 0.9 with one move for a request that would be refused. Two
// moves serve hardly more: what is refused then is refused for want of room, not for its places.
func TestOneMove(t *testing.T) {
	race.Long(t)
	const mix = "1g.10gb=1,1g.20gb=1,2g.20gb=1,3g.40gb=1,4g.40gb=1"
	served := func(moves int, policy func([]Typical) Policy) float64 {
		return migOn(t, "h100-80gb-sxm", 32, 0.9, mix, 1, 6_000, 0, moves, policy)
	}
	cotenant := func(m []Typical) Policy { return cotenant(t, m) }
	best := served(0, func([]Typical) Policy { return BestFit })
	without, one, two := served(0, cotenant), served(1, cotenant), served(2, cotenant)
	t.Logf("served: best-fit %.2f%%, cotenant %.2f%%, with one move for a refusal %.2f%%, with two %.2f%%", best, without, one,
		two)
	if one < 95.5 || one < without+0.5 || two > one+0.5 || best > without {
		t.Errorf("one move must bring what moves can")
	}
}

func TestExplain(t *testing.T) {
	mps := device(withMem, sharing.MechanismMPS)
	of := func(name string) Request {
		return Request{Name: name, GPUs: 1, Milli: 600, Mechanisms: onMPS, Workload: tenant(name)}
	}
	closed := on("closed", mps)
	closed.Closed = "cordoned"
	c, _ := layout.Observe([]layout.Node{with(on("full", mps), of("a"), 0), with(with(on("two", mps), Request{Name: "x", Milli: 300, Workload: tenant("a")}, 0),
		Request{Name: "y", Milli: 300, Workload: tenant("a")}, 0), with(on("strangers", mps), Request{Name: "z", Milli: 100, Workload: tenant("b")}, 0),
		on("turns", device(withMem, sharing.MechanismTimeSlicing)), on("mig", device(withMIG, sharing.MechanismMIG)), on("other", device(kindB, sharing.MechanismMPS)),
		closed, on("fits", mps)})
	r := of("a")
	r.Name, r.Models, r.Milli = "new", []string{"A100"}, 800
	var got []string
	for _, e := range NewScorer(BestFit, nil).Explain(c, &r) {
		got = append(got, e.String())
	}
	want := []string{
		"full: reject: needs 800 thousandths of a GPU, the most free is 400; to fit, ask for at most 400 thousandths of a GPU; or without afull0",
		"two: reject: needs 800 thousandths of a GPU, the most free is 400; to fit, ask for at most 400 thousandths of a GPU; or without xtwo0 and ytwo1",
		"strangers: reject: a tenant on the GPU is not trusted and the mechanism does not isolate; to fit, have it and b trust each other; or without zstrangers0",
		"turns: reject: the GPU runs a mechanism that the request does not accept; to fit, accept time-slicing",
		"mig: fixable: the GPU is in MIG mode: ask for a profile; to fit, ask for a MIG instance 1g.10gb",
		"other: reject: the GPU's model is not among those asked for; to fit, accept its GPU model",
		"closed: reject: the node takes no more replicas; to fit, open the node: cordoned",
		"fits: pass: it fits",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if e := NewScorer(BestFit, nil).Explain(c, &Request{Name: "cpu", CPUMilli: 9000}); !strings.Contains(e[0].String(), "ask for at most 8000m CPU") {
		t.Errorf("%v", e[0])
	}
}
