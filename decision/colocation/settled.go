// SPDX-License-Identifier: Apache-2.0

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

// A run alone is made again, up to moreRuns times, where it had not settled: by medians the steps of one of its halves
// took more than drifted times as long as those of the other, of which each has fewestSteps.
const (
	moreRuns    = 2
	drifted     = 1.2
	fewestSteps = 3
)

// runAlone runs a load alone. An engine that compiles or captures graphs as requests come is slow until it has, and one
// may slow down after its first requests (ik_llama.cpp's steps on an H100 took 2.7 ms for 30 of them, then 4.4): that
// would be the load's profile. Such a run is made again, and the last one counts.
func (f *planFlow) runAlone(ctx context.Context, st *stand, m sharing.Mechanism, load string) error {
	name, of := "solo-"+load, "tokens"
	if p, _ := f.plan.serverFor(f.plan.load(load)); p.Kind != profile.KindServer {
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
		times, way, wrong := f.runs[len(f.runs)-1].drift, "slow", "little"
		if times == 0 {
			return nil
		}
		if times > 1 {
			way, wrong = "fast", "much"
		}
		said := fmt.Sprintf("%s: the %s of the second half of %s came %.1f times as %s as those of its first", m, of,
			r.name, max(times, 1/times), way)
		if n > moreRuns {
			f.note("%s, after %d runs alone: what is predicted from it expects too %s time (seconds makes runs longer)",
				said, n, wrong)
			return nil
		}
		f.say("%s: it is made again", said)
		r.name = fmt.Sprintf("%s-again-%d", name, n)
	}
}

// ownSteps are the steps of a run alone: a tenant's own, or each request with its time a token.
func ownSteps(rec *recording, tenant *server) (steps []doneStep) {
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

// drift sorts steps, and returns how many times as fast they went in the second half of a window as in its first, by
// medians; 0 unless the run had not settled: more than drifted, or less than its inverse, and no chance, with three
// quarters of one half's above three quarters of the other's. Where a half has too few steps, those before the window
// are regarded too, and then the halves are of the steps and not of the time: in a run of few requests none may end in
// the window's first half.
func drift(steps []doneStep, w *loadgen.WindowSummary) float64 {
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
		at := func(half []doneStep, q float64) float64 { return float64(stats.NearestRank(half, q).took) }
		times := at(early, .5) / at(late, .5)
		if times > drifted && at(early, .25) > at(late, .75) || times < 1/drifted && at(early, .75) < at(late, .25) {
			return times
		}
		break
	}
	return 0
}
