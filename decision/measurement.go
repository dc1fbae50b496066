// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// guessesBusy reports whether the GPU utilisation of workload w is an assumption.
func (pl *answers) guessesBusy(w int, c *plan.Choice) bool {
	cw := pl.Workloads[w]
	return cw.Workload().GPUBusy.IsZero() && cw.Workload().Service == nil &&
		cw.Archetype.BusyPrior.IsZero() && !pl.Measured(w, c.Pool, c.Mechanism) &&
		pl.EstimateOf(w, c.Pool, c.Mechanism).Demand.Serving == nil
}

// guessesAlone lists the limited metrics with an assumed value in isolation.
func (pl *answers) guessesAlone(w int, c *plan.Choice) []profile.Metric {
	var out []profile.Metric
	wl := pl.Workloads[w].Workload()
	if pl.EstimateOf(w, c.Pool, c.Mechanism).Demand.Serving != nil || wl.Service != nil ||
		pl.Measured(w, c.Pool, c.Mechanism) {
		return nil
	}
	for m := range wl.SLO.Limits() {
		if wl.Solo.At(m).IsZero() {
			out = append(out, m)
		}
	}
	return out
}

// measurement names the figures of one replica alone that settle a provisional answer, and where to state them.
func (pl *answers) measurement(w int, d *Decision) *Settle {
	cw, c := pl.Workloads[w], pl.Chosen[w]
	wl := cw.Workload()
	var what, keys []string
	for _, m := range pl.guessesAlone(w, c) {
		what = append(what, m.String())
	}
	if len(what) > 0 {
		keys = []string{"solo"}
	}
	if pl.guessesBusy(w, c) {
		what, keys = append(what, "SM activity"), append(keys, "gpu_busy")
	}
	if s := wl.Service; s != nil && (s.GPUTime.IsZero() || s.GPU != "") { // GPU busy over the rate of requests
		what, keys = append(what, "GPU time of a request"), append(keys, "service.gpu_time")
	}
	if cw.Demand().Memory.Unknown {
		what, keys = append(what, "peak memory"), append(keys, "memory")
	}
	if len(what) == 0 { // computed, and too near to a limit to tell
		for m := range wl.SLO.Limits() {
			what = append(what, m.String())
		}
		keys = []string{"solo, and gpu_busy in the place of load"}
		if wl.Job != nil {
			what, keys = []string{"time from start to end"}, []string{"job.duration"}
		}
	}
	file := cmp.Or(pl.Opt.Input, "the fleet file")
	s := settling(wl, what)
	for _, a := range d.Assumes {
		if a.Own && a.Basis == sharing.BasisUnknown {
			s.Measurement = a.Why + "; or measure "
			break
		}
	}
	if s.Spread = unstatedLengths(wl); s.Spread {
		s.Measurement = fmt.Sprintf("the 99th percentiles of the lengths of requests to %s; state them in %s as "+
			"input_tokens_p99 and output_tokens_p99 of its load. Then, with a trace that has them, ", d.Workload, file)
	}
	s.Measurement += fmt.Sprintf("%s of a replica of %s alone on %s at its load; state it in %s as its %s",
		strings.Join(what, ", "), d.Workload, problem.A(pl.Pools[c.Pool].Target().GPU().Name), file,
		strings.Join(keys, " and "))
	return &s
}

// moreGPUs is the cheapest addition to one pool that places all replicas of w,
// nil where none are missing or more GPUs would not help.
func (pl *answers) moreGPUs(w int) *MoreGPUs {
	var best *MoreGPUs
	price := 0.0
	for key, want := range pl.Full[w] {
		cp := pl.Pools[key.Pool]
		m := MoreGPUs{cp.Pool.Name, want - cp.Pool.Count}
		rate := cp.Price // reserved GPUs are there already
		if pl.Workloads[w].Workload().Spot {
			rate = cp.Spot.PricePerGPUHour
		}
		total := float64(m.GPUs) * pl.Counts(rate)
		if best == nil || total < price || total == price &&
			(m.GPUs < best.GPUs || m.GPUs == best.GPUs && m.Pool < best.Pool) {
			best, price = &m, total
		}
	}
	return best
}
