package judge

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/decision"
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
	// Log, if not nil, gets a line for each workload that missed an objective and for
	// each fleet that cost more than it had to.
	Log io.Writer
	// Progress, if not nil, is called before each fleet.
	Progress func(played int)
}

// Run decides random fleets and plays each in a world that the decision does not see. When ctx ends it returns the
// report of the fleets played so far, and no error: its Fleets tell.
func Run(ctx context.Context, opts Options) (*Report, error) {
	if opts.Confidence == 0 {
		opts.Confidence = decision.DefaultConfidence
	}
	sp, err := readSpreads("")
	if err != nil {
		return nil, err
	}
	worlds, err := readSpreads(opts.Distort)
	if err != nil {
		return nil, err
	}
	dist, err := readDistributions()
	if err != nil {
		return nil, err
	}
	rep := &Report{Simulated: true, Confidence: opts.Confidence, Seed: opts.Seed, Rules: map[string]*Outcome{}}
	ours, byRule := &tally{}, make([]*tally, len(rules))
	for i := range byRule {
		byRule[i] = &tally{}
	}
	j := &bench{opts: opts, spreads: sp, z: distuv.UnitNormal.Quantile(opts.Confidence), log: io.Discard}
	if opts.Log != nil {
		j.log = opts.Log
	}
	for n := range opts.Fleets {
		if ctx.Err() != nil {
			break
		}
		if opts.Progress != nil {
			opts.Progress(n)
		}
		rng := rand.New(rand.NewPCG(opts.Seed, uint64(n)))
		s, err := dist.scene(rng)
		if err == nil {
			w := worlds.draw(rng, len(s.full.Workloads), rng.IntN(worlds.Outliers) == 0)
			err = j.fleet(context.WithoutCancel(ctx), n, s, w, ours, byRule, rep)
		}
		if err != nil {
			return nil, fmt.Errorf("judge: fleet %d: %w", n, err)
		}
	}
	rep.Ours, rep.Shown = *ours.sum(), *j.shown.sum()
	for i, r := range rules {
		rep.Rules[r.name] = byRule[i].sum()
	}
	return rep, nil
}

// bench plays fleets.
type bench struct {
	opts    Options
	spreads *spreads
	z       float64 // standard normal quantile of the confidence
	log     io.Writer
	shown   tally // of the cheapest arrangements that could be shown to do
}

// fleet decides the n-th fleet and plays it in its world, and the rules beside it.
func (j *bench) fleet(ctx context.Context, n int, s *scene, w *world, ours *tally, byRule []*tally, rep *Report) error {
	rep.Fleets++
	rep.Workloads += len(s.full.Workloads)
	result, err := decision.Decide(ctx, s.shown, decision.Options{Confidence: j.opts.Confidence})
	if err != nil {
		return err
	}
	seed := j.opts.Seed*1_000_003 + uint64(n)
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
			if known.feasible(i) {
				ours.WrongNone++
				fmt.Fprintf(j.log, "fleet %d (seed %d): %s got none, and a GPU of its own would have done\n", n, j.opts.Seed,
					d.Workload)
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
			fmt.Fprintf(j.log, "fleet %d (seed %d): %s missed: %s (outlier %q)\n", n, j.opts.Seed, s.full.Workloads[i].Name, m,
				w.outlier)
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
		j.shown.count(part, missed)
	}
	if r := j.price(s, ours, known, real, mine, decided); r > 0.05 {
		fmt.Fprintf(j.log, "fleet %d (seed %d): costs %.0f%% more than what could be shown to do\n", n, j.opts.Seed, 100*r)
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
		t.None += len(placed) - t.count(placed, missed)
		j.price(s, t, known, real, a, placed)
	}
	return nil
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
// cheapest in hindsight, for the workloads in the set that the oracles can place.
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
