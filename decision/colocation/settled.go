package colocation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
)

// A run alone is made again, up to moreRuns times, where it had not settled: by medians the steps of its second half
// went more than spedUp times as fast as those of its first, of which each half has fewestSteps.
const (
	moreRuns    = 2
	spedUp      = 1.2
	fewestSteps = 3
)

// runAlone runs a load alone. An engine that compiles or captures graphs as requests come is slow until it has, and
// that would be the load's profile: such a run is made again, and the last one counts.
func (f *planFlow) runAlone(ctx context.Context, st *stand, m sharing.Mechanism, load string) error {
	name, of := "solo-"+load, "tokens"
	if p, _ := f.plan.serverFor(f.plan.Load(load)); p.Kind != profile.KindServer {
		of = "steps"
	}
	r := run{mode: m, name: name, loads: []string{load}}
	for n := 1; ; n++ {
		if err := f.tryRun(ctx, st, r); err != nil {
			return err
		}
		if last := len(f.runs) - 1; n > 1 {
			delete(f.shaped, f.runs[last-1].dir)
			f.runs = slices.Delete(f.runs, last-1, last)
			if err := f.writeRows(); err != nil {
				return err
			}
		}
		times := f.runs[len(f.runs)-1].sped
		if times == 0 {
			return nil
		}
		said := fmt.Sprintf("%s: the %s of the second half of %s came %.1f times as fast as those of its first", m, of,
			r.name, times)
		if n > moreRuns {
			f.note("%s, after %d runs alone: what is predicted from it expects too much time (seconds makes runs longer)",
				said, n)
			return nil
		}
		f.say("%s: it is made again", said)
		r.name = fmt.Sprintf("%s-again-%d", name, n)
	}
}

// ownSteps are the steps of a run alone: a tenant's own, or each request with its time a token.
func ownSteps(rec *Recording, tenant *server) (steps []doneStep) {
	if tenant != nil {
		tenant.meter.mu.Lock()
		defer tenant.meter.mu.Unlock()
		return slices.Clone(tenant.meter.steps)
	}
	for i := range rec.Records {
		r := &rec.Records[i]
		if d, ok := r.TPOT(); ok && r.Class == loadgen.ClassOK {
			steps = append(steps, doneStep{time.Unix(0, r.EndNS), d})
		}
	}
	return steps
}

// sped sorts steps, and returns how many times as fast they went in the second half of a window as in its first, by
// medians; 0 unless that is a warm-up: more than spedUp, and no chance, with three quarters of the first half's above
// three quarters of the second's. Where a half has too few steps, those before the window are regarded too, and then
// the halves are of the steps and not of the time: in a run of few requests none may end in the window's first half.
func sped(steps []doneStep, w *loadgen.WindowSummary) float64 {
	slices.SortFunc(steps, func(a, b doneStep) int { return a.at.Compare(b.at) })
	from := func(ns int64) int {
		i, _ := slices.BinarySearchFunc(steps, time.Unix(0, ns), func(s doneStep, t time.Time) int { return s.at.Compare(t) })
		return i
	}
	middle := from(w.FromNS + (w.ToNS-w.FromNS)/2)
	for _, cut := range [][2]int{{from(w.FromNS), middle}, {0, middle}, {0, len(steps) / 2}} {
		if min(cut[1]-cut[0], len(steps)-cut[1]) < fewestSteps {
			continue
		}
		early, late := steps[cut[0]:cut[1]], steps[cut[1]:]
		for _, half := range [][]doneStep{early, late} {
			slices.SortFunc(half, func(a, b doneStep) int { return cmp.Compare(a.took, b.took) })
		}
		times := float64(stats.NearestRank(early, .5).took) / float64(stats.NearestRank(late, .5).took)
		if times > spedUp && stats.NearestRank(early, .25).took > stats.NearestRank(late, .75).took {
			return times
		}
		break
	}
	return 0
}
