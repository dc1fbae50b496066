package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision"
)

// bench plays fleets.
type bench struct {
	o       options
	spreads *spreads
	z       float64
	log     io.Writer
	shown   tally // the yardstick itself, played
}

func (j *bench) fleet(n int, s *scene, w *world, ours *tally, byRule []*tally, rep *report) error {
	rep.Fleets++
	rep.Workloads += len(s.full.Workloads)
	result, err := decision.Decide(s.shown, decision.Options{Confidence: j.o.confidence})
	if err != nil {
		return err
	}
	seed := j.o.seed*1_000_003 + uint64(n)
	known := newOracle(s, shown(s, j.spreads, seed^0x9e3779b9, j.z))
	real := newOracle(s, truth(s, w))
	decided := make([]bool, len(s.full.Workloads))
	provisional := make([]bool, len(decided))
	for i := range decided {
		d := result.Decision(s.shown.Workloads[i].Name)
		if s.stated[i] {
			ours.stated++
		}
		switch d.Status {
		case decision.StatusDecided:
			decided[i] = true
			ours.Decided++
		case decision.StatusProvisional:
			provisional[i] = true
			ours.Provisional++
			if s.stated[i] {
				ours.statedProvisional++
			}
		default:
			ours.None++
			if _, ok := known.feasible(i); ok {
				ours.WrongNone++
				fmt.Fprintf(j.log, "fleet %d (seed %d): %s got none, and a GPU of its own would have done\n", n, j.o.seed, d.Workload)
			}
		}
	}
	mine := arrangementOf(s, result)
	missed, over := played(s, w, mine)
	ours.Overcommitted += over
	for i, m := range missed {
		switch {
		case m == "":
		case decided[i]:
			ours.missed++
			fmt.Fprintf(j.log, "fleet %d (seed %d): %s missed: %s (outlier %q)\n", n, j.o.seed, s.full.Workloads[i].Name, m, w.outlier)
		case provisional[i]:
			ours.provisionalMissed++
		}
	}
	if s.exhaustive(decided) {
		rep.Exhaustive++
	}
	for _, part := range s.parts(placeable(known, decided)) {
		best, ok := known.cheapest(part)
		if !ok {
			continue
		}
		missed, over := played(s, w, best)
		j.shown.Overcommitted += over
		for i, in := range part {
			if !in {
				continue
			}
			j.shown.Decided++
			if missed[i] != "" {
				j.shown.missed++
			}
		}
	}
	if r := j.price(s, ours, known, real, mine, decided); r > 0.05 {
		fmt.Fprintf(j.log, "fleet %d (seed %d): costs %.0f%% more than what could be shown to do\n", n, j.o.seed, 100*r)
		fmt.Fprintf(j.log, "  decided: %s\n", mine.carrying(decided).words(s))
		for _, part := range s.parts(placeable(known, decided)) {
			best, _ := known.cheapest(part)
			fmt.Fprintf(j.log, "  shown:   %s\n", best.words(s))
		}
	}
	for i, r := range rules {
		t := byRule[i]
		a, placed := r.arrange(s)
		missed, over := played(s, w, a)
		t.Overcommitted += over
		for k, ok := range placed {
			if !ok {
				t.None++
				continue
			}
			t.Decided++
			if missed[k] != "" {
				t.missed++
			}
		}
		j.price(s, t, known, real, a, placed)
	}
	return nil
}

// played says of each workload what it missed, and how many GPUs were overcommitted.
func played(s *scene, w *world, a arrangement) (missed []string, over int) {
	missed = make([]string, len(s.full.Workloads))
	before := map[string][]string{}
	for i := range a {
		p := &a[i]
		tenants, how := p.tenants(s, w)
		if p.overcommits(s, w, tenants) {
			over++
			for _, t := range tenants {
				missed[t.workload] = "memory ran out"
			}
			continue
		}
		key := p.key()
		what, again := before[key]
		if !again {
			for k, v := range play(tenants, how, w, allStuck) {
				what = append(what, tenants[k].why(v))
			}
			before[key] = what
		}
		for k, t := range tenants {
			if what[k] != "" {
				missed[t.workload] = what[k] + " under " + p.mechanism.String()
			}
		}
	}
	return missed, over
}

// why says what was missed, or nothing.
func (t *tenant) why(v seen) string {
	if v.saturated {
		return "could not keep up with its load"
	}
	if t.rate == 0 && v.rate < keepsRate {
		return fmt.Sprintf("got %.0f%% of its rate alone", 100*v.rate)
	}
	for k, limit := range t.slo {
		if limit > 0 && v.p99[k] > limit {
			return fmt.Sprintf("%s %.1f ms > %.1f", metricNames[k], 1e3*v.p99[k], 1e3*limit)
		}
	}
	return ""
}

// price adds what an arrangement costs over the cheapest that could be shown to
// do, and over the cheapest in hindsight, for the workloads in the set that the
// yardstick can place.
func (j *bench) price(s *scene, t *tally, known, real *oracle, a arrangement, in []bool) float64 {
	regret := over(s, known, a, in)
	if !math.IsNaN(regret) {
		t.regret = append(t.regret, regret)
	}
	if h := over(s, real, a, in); !math.IsNaN(h) {
		t.hindsight = append(t.hindsight, h)
	}
	return regret
}

// over is how much dearer the arrangement is than the oracle's, as a fraction;
// NaN where the oracle has none. In fleets too large for an exhaustive search
// the workloads are taken a few at a time, and an arrangement that is cheaper
// counts as the best found.
func over(s *scene, o *oracle, a arrangement, in []bool) float64 {
	set := placeable(o, in)
	if !slices.Contains(set, true) {
		return math.NaN()
	}
	best := 0.0
	for _, part := range s.parts(set) {
		b, ok := o.cheapest(part)
		if !ok {
			return math.NaN()
		}
		best += b.cost(s)
	}
	return max(0, a.carrying(set).cost(s)/best-1)
}

// placeable is the part of a set of workloads that the oracle can place.
func placeable(o *oracle, in []bool) []bool {
	set := make([]bool, len(in))
	for i := range in {
		if in[i] {
			_, set[i] = o.feasible(i)
		}
	}
	return set
}

// parts divides a set of workloads into sets that can be searched exhaustively.
func (s *scene) parts(set []bool) [][]bool {
	var out [][]bool
	cur := make([]bool, len(set))
	for i, yes := range set {
		if !yes {
			continue
		}
		next := slices.Clone(cur)
		next[i] = true
		if !s.exhaustive(next) && slices.Contains(cur, true) {
			out = append(out, cur)
			next = make([]bool, len(set))
			next[i] = true
		}
		cur = next
	}
	return append(out, cur)
}
