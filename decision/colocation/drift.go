// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/loadgen"
)

// An isolated run has drifted where the median step of one half of it is more than drifted times as long as that of
// the other; each half needs fewestSteps. An engine that compiles or captures graphs as requests come is slow at first,
// and one may slow down after its first requests (ik_llama.cpp's steps on an H100 took 2.7 ms for 30 of them, then
// 4.4): its profile would be that of neither state. Such a run is repeated, mostRepeats times at most.
const (
	drifted     = 1.2
	fewestSteps = 3
	mostRepeats = 2
)

// ownSteps are the steps of an isolated run: a tenant's own, or each request with its time per output token.
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

// drift returns by which factor the steps of the first half of a window took longer than those of the second, by
// medians; 0 where the run is steady. To rule out chance, three quarters of the slower half must lie above three
// quarters of the faster one.
func drift(steps []doneStep, w *loadgen.WindowSummary) float64 {
	var halves [2][]float64
	for _, s := range steps {
		if at := s.at.UnixNano() - w.FromNS; at >= 0 && at <= w.ToNS-w.FromNS {
			half := min(1, 2*at/(w.ToNS-w.FromNS))
			halves[half] = append(halves[half], inMS(s.took))
		}
	}
	early, late := halves[0], halves[1]
	if min(len(early), len(late)) < fewestSteps {
		return 0
	}
	slices.Sort(early)
	slices.Sort(late)
	at := stats.NearestRank[float64]
	times := at(early, .5) / at(late, .5)
	if times > drifted && at(early, .25) > at(late, .75) || times < 1/drifted && at(early, .75) < at(late, .25) {
		return times
	}
	return 0
}
