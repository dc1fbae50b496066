// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// The duration of measurements under load, and of watching the GPU.
const (
	loadDuration  = profile.Duration(5 * time.Minute)
	watchDuration = profile.Duration(10 * time.Minute)
)

// measuring returns the measurement of the given figures on a replica of w.
func measuring(w *Workload, figures []string) Measurement {
	s := Measurement{Workload: w.Name, Figures: figures,
		Endpoint: w.Kind.Serves() && w.Service == nil, Duration: watchDuration}
	if !s.Endpoint {
		return s
	}
	s.Duration = loadDuration
	if w.Load != nil {
		s.Rate = w.Load.PeakPerS() / float64(w.ReplicaCount())
		s.InputTokens, _ = w.Load.InputTokens.Get()
		s.OutputTokens, _ = w.Load.OutputTokens.Get()
	}
	return s
}

// unstatedLengths reports whether a model server's load leaves the spread of lengths open.
func unstatedLengths(w *Workload) bool {
	return w.Load != nil && w.Model != nil && w.Load.LengthSigma() == 0
}

// assumedLatencies lists the limited metrics with an assumed value in isolation.
func (pl *answers) assumedLatencies(w int, c *plan.Choice) []profile.Metric {
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

// measurement names the figures of one isolated replica that a provisional answer lacks, and where to state them.
func (pl *answers) measurement(w int, d *Decision) *Measurement {
	cw, c := pl.Workloads[w], pl.Chosen(w)
	wl := cw.Workload()
	var what, keys []string
	for _, m := range pl.assumedLatencies(w, c) {
		what = append(what, m.String())
	}
	if len(what) > 0 {
		keys = []string{"solo"}
	}
	if wl.GPUBusy.IsZero() && wl.Service == nil && cw.Archetype.BusyPrior.IsZero() && // it was assumed
		!pl.Measured(w, c.Pool, c.Mechanism) && pl.EstimateOf(w, c.Pool, c.Mechanism).Demand.Serving == nil {
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
	s := measuring(wl, what)
	for _, a := range d.Assumes {
		if a.Own && a.Basis == sharing.BasisUnknown {
			s.Text = a.Why + "; or measure "
			break
		}
	}
	if s.Spread = unstatedLengths(wl); s.Spread {
		s.Text = fmt.Sprintf("the 99th percentiles of the lengths of requests to %s; state them in %s as "+
			"input_tokens_p99 and output_tokens_p99 of its load. Then, with a trace that has them, ", d.Workload, file)
	}
	s.Text += fmt.Sprintf("the isolated %s of a replica of %s on %s at its load; state it in %s as its %s",
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
