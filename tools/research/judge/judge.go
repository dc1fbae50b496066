// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat/distuv"
)

// Options configure [Run]. The zero value plays nothing.
type Options struct {
	Fleets int
	// Seed draws fleets and worlds: the same seed gives the same report.
	Seed uint64
	// Confidence asked of decisions, between 0.5 and 1; 0 is decision.DefaultConfidence.
	Confidence float64
	// Distort names what the worlds differ by from what is published, one of Distortions; "" is nothing.
	Distort string
	// Worlds in which each fleet is played; 0 is 1.
	Worlds int
	// Log, if not nil, gets a line for each workload that missed an objective and for
	// each fleet that cost more than it had to.
	Log io.Writer
	// Progress, if not nil, is called after each fleet, never twice at once.
	Progress func(played int)
}

// Run decides random fleets, as many at a time as there are processors, and plays each in worlds that the decision
// does not see. When ctx ends it returns the report of the fleets played so far, and no error: its Fleets tell.
func Run(ctx context.Context, opts Options) (*Report, error) {
	opts.Confidence = cmp.Or(opts.Confidence, decision.DefaultConfidence)
	opts.Worlds = max(1, opts.Worlds)
	sp, err := readSpreads("")
	if err != nil {
		return nil, err
	}
	worlds, err := readSpreads(opts.Distort)
	if err != nil {
		return nil, err
	}
	var dist distributions
	if err := strictyaml.Decode(fleetsYAML, &dist, strictyaml.Options{}); err != nil {
		return nil, fmt.Errorf("fleets.yaml: %w", err)
	}
	rep := &Report{Simulated: true, Confidence: opts.Confidence, Seed: opts.Seed, Worlds: opts.Worlds,
		Rules: map[string]*Outcome{}}
	all := &bench{byRule: make([]tally, len(rules))}
	waiting := map[int]*bench{} // played, and one before it is not
	var mu sync.Mutex
	group, failed := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n := range opts.Fleets {
		group.Go(func() error {
			if failed.Err() != nil {
				return nil
			}
			j := &bench{opts: &opts, name: fmt.Sprintf("fleet %d (seed %d)", n, opts.Seed), spreads: sp.alone(),
				z: distuv.UnitNormal.Quantile(opts.Confidence), byRule: make([]tally, len(rules))}
			if err := j.fleet(context.WithoutCancel(ctx), n, &dist, worlds.alone()); err != nil {
				return fmt.Errorf("judge: fleet %d: %w", n, err)
			}
			mu.Lock()
			defer mu.Unlock()
			waiting[n] = j
			for ; waiting[rep.Fleets] != nil; rep.Fleets++ {
				all.add(waiting[rep.Fleets], rep)
				if opts.Log != nil {
					opts.Log.Write(waiting[rep.Fleets].log.Bytes())
				}
				delete(waiting, rep.Fleets)
			}
			if opts.Progress != nil {
				opts.Progress(rep.Fleets + len(waiting))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	rep.Ours, rep.Shown = *all.ours.sum(opts.Worlds), *all.shown.sum(opts.Worlds)
	for i, r := range rules {
		rep.Rules[r.name] = all.byRule[i].sum(opts.Worlds)
	}
	return rep, nil
}

// bench plays a fleet.
type bench struct {
	opts       *Options
	name       string
	spreads    *spreads
	z          float64 // standard normal quantile of the confidence
	log        bytes.Buffer
	s          *scene
	worlds     []*world // that are played
	exhaustive bool     // the cheapest arrangement is sought among all
	ours       tally
	shown      tally // of the cheapest arrangements that could be shown to do
	byRule     []tally
}

// add adds what a fleet came to.
func (j *bench) add(one *bench, rep *Report) {
	rep.Workloads += len(one.s.full.Workloads)
	if one.exhaustive {
		rep.Exhaustive++
	}
	j.ours.add(&one.ours)
	j.shown.add(&one.shown)
	for i := range j.byRule {
		j.byRule[i].add(&one.byRule[i])
	}
}

// fleet decides the n-th fleet and plays it in its worlds, and the rules beside it.
func (j *bench) fleet(ctx context.Context, n int, dist *distributions, worlds *spreads) error {
	rng := rand.New(rand.NewPCG(j.opts.Seed, uint64(n)))
	s, err := dist.scene(rng)
	if err != nil {
		return err
	}
	j.s = s
	for range j.opts.Worlds {
		j.worlds = append(j.worlds, worlds.draw(rng, len(s.full.Workloads), rng.IntN(worlds.Outliers) == 0))
	}
	s.stateLengths(rng, j.spreads.Quantities["length_sigma"])
	result, err := decision.Decide(ctx, s.shown, decision.Options{Confidence: j.opts.Confidence})
	if err != nil {
		return err
	}
	seed := j.opts.Seed*1_000_003 + uint64(n)
	known := newOracle(s, shown(s, j.spreads, seed^0x9e3779b9, j.z))
	real := newOracle(s, truth(s, j.worlds[0]))
	decided := make([]bool, len(s.full.Workloads))
	provisional := make([]bool, len(decided))
	for i := range decided {
		d := result.Decision(s.shown.Workloads[i].Name)
		if s.stated[i] {
			j.ours.stated++
		}
		switch d.Status {
		case decision.StatusDecided:
			decided[i] = true
			j.ours.Decided++
			if s.meansAlone(i) {
				j.ours.means++
			}
		case decision.StatusProvisional:
			provisional[i] = true
			j.ours.Provisional++
			if s.stated[i] {
				j.ours.statedProvisional++
			}
		default:
			j.ours.None++
			if known.feasible(i) {
				j.ours.WrongNone++
				fmt.Fprintf(&j.log, "%s: %s got none, and a GPU of its own would have done\n", j.name, d.Workload)
			}
		}
	}
	mine := arrangementOf(s, result)
	for _, w := range j.worlds {
		missed, over := played(s, w, mine)
		j.ours.Overcommitted += over
		for i, m := range missed {
			switch {
			case m == "":
			case decided[i]:
				j.ours.missed++
				if s.meansAlone(i) {
					j.ours.missedMeans++
				}
				fmt.Fprintf(&j.log, "%s: %s missed: %s (outlier %q)\n", j.name, s.full.Workloads[i].Name, m, w.outlier)
			case provisional[i]:
				j.ours.provisionalMissed++
			}
		}
	}
	j.exhaustive = s.exhaustive(decided)
	for _, part := range s.parts(placeable(known, decided)) {
		if best, ok := known.cheapest(part); ok {
			j.count(&j.shown, part, best)
		}
	}
	if r := j.price(&j.ours, known, real, mine, decided); r > 0.05 {
		fmt.Fprintf(&j.log, "%s: costs %.0f%% more than what could be shown to do\n", j.name, 100*r)
		fmt.Fprintf(&j.log, "  decided: %s\n", mine.carrying(decided).words(s))
		for _, part := range s.parts(placeable(known, decided)) {
			best, _ := known.cheapest(part)
			fmt.Fprintf(&j.log, "  shown:   %s\n", best.words(s))
		}
	}
	for i, r := range rules {
		a, placed := r.arrange(s)
		j.byRule[i].None += len(placed) - j.count(&j.byRule[i], placed, a)
		j.price(&j.byRule[i], known, real, a, placed)
	}
	return nil
}

// count adds the workloads of a set, and those that missed an objective in the arrangement; it returns how many there
// are.
func (j *bench) count(t *tally, set []bool, a arrangement) (n int) {
	for _, w := range j.worlds {
		missed, over := played(j.s, w, a)
		t.Overcommitted += over
		for i, in := range set {
			if in && missed[i] != "" {
				t.missed++
			}
		}
	}
	for _, in := range set {
		if in {
			n++
		}
	}
	t.Decided += n
	return n
}

// played returns what each workload missed, and how many GPUs were overcommitted.
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
				what = append(what, tenants[k].miss(v))
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

// price adds an arrangement's cost over the cheapest that could be shown to keep the objectives, and over the
// cheapest in hindsight of the first world, for the workloads in the set that the oracles can place.
func (j *bench) price(t *tally, known, real *oracle, a arrangement, in []bool) float64 {
	regret := over(j.s, known, a, in)
	if !math.IsNaN(regret) {
		t.regret = append(t.regret, regret)
	}
	if h := over(j.s, real, a, in); !math.IsNaN(h) {
		t.hindsight = append(t.hindsight, h)
	}
	return regret
}

// over returns the arrangement's cost over the oracle's, as a fraction; NaN where the oracle has none. In fleets
// too large for an exhaustive search the workloads are taken a few at a time, and an arrangement that is cheaper
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
	return max(0, a.share(s, set)/best-1)
}

// placeable returns the workloads of a set that the oracle can place, and whose users stated all that it knows.
func placeable(o *oracle, in []bool) []bool {
	set := make([]bool, len(in))
	for i := range in {
		set[i] = in[i] && o.s.stated[i] && o.feasible(i)
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
