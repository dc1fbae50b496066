// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

func newEvidence(f *fleet.Fleet, workloads []*score.CompiledWorkload, opt Options) (*evidence, error) {
	n := len(workloads)
	e := &evidence{Predictor: opt.Predictor, Solos: make([]*profile.Solo, n), GPUs: make([]*sharing.GPU, n),
		otherMPS: make([]bool, n)}
	if e.Predictor == nil {
		p := predict.NewPredictor()
		e.Predictor = &p
	}
	if err := e.Predictor.Validate(); err != nil {
		return nil, err
	}
	var errs []error
	for i, w := range workloads {
		ref := w.Workload().Profile
		if ref == nil {
			continue
		}
		solo, err := opt.Profiles.Solo(ref.Server, ref.Load)
		if err != nil {
			errs = append(errs, fmt.Errorf("decision: workload %q: %w", w.Workload().Name, err))
			continue
		}
		e.Solos[i] = &solo
		if err := e.place(i); err != nil {
			at := slices.IndexFunc(f.Workloads, func(o fleet.Workload) bool { return o.Name == w.Workload().Name })
			errs = append(errs, fmt.Errorf("decision: workloads[%d] (%q): %w", at, w.Workload().Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	e.evaluator = predict.EvaluatorOf(opt.Profiles, e.Predictor)
	return e, nil
}

// place finds the GPU that the profile of workload i was taken on.
func (e *evidence) place(i int) error {
	solo := e.Solos[i]
	var names []string
	for _, p := range []*profile.SoloProfile{solo.TimeSlicing, solo.MPS} {
		if p != nil {
			names = append(names, cmp.Or(p.GPU, e.Predictor.GPU))
		}
	}
	if predict.SimulatedGPU(names[0]) {
		return nil
	}
	for _, name := range names {
		g, err := sharing.LookupGPU(name)
		if err != nil {
			return fmt.Errorf("profile: its gpu_name: %w; or leave profile out", err)
		}
		if e.GPUs[i] != nil && e.GPUs[i] != g {
			return fmt.Errorf("profile: was taken on %s under time-slicing and on %s under MPS; give profiles of one of them",
				e.GPUs[i].Name, g.Name)
		}
		e.GPUs[i], e.otherMPS[i] = g, !e.Predictor.KnowsMPS(g)
	}
	return nil
}

// Measured reports whether the profile of workload w holds under a mechanism on pool p: it was taken on that GPU, and
// the mechanism gives the workload a whole GPU or shares it in a way that the predictor models.
func (pl *Planner) Measured(w, p int, m sharing.Mechanism) bool {
	if !pl.Named(w) {
		return false
	}
	solo, gpu := pl.Evidence.Solos[w], pl.Evidence.GPUs[w]
	if gpu != nil && gpu != pl.Pools[p].Target().GPU() {
		return false
	}
	switch m {
	case sharing.MechanismExclusive, sharing.MechanismTimeSlicing:
		return solo.TimeSlicing != nil
	case sharing.MechanismMPS:
		return !pl.Evidence.otherMPS[w]
	}
	return false
}

// Named reports whether a workload has a profile.
func (pl *Planner) Named(w int) bool {
	return pl.Evidence != nil && pl.Evidence.Solos[w] != nil
}

// busyMeasured is the gpu_busy of workload w by its profile: it counts where that was
// taken, and elsewhere if none is stated.
func (pl *Planner) busyMeasured(w int) (busy float64, ok bool) {
	if pl.Named(w) {
		busy, ok = pl.Evidence.Solos[w].Uncontended().GPUBusyFraction.Get()
	}
	return busy, ok
}

// profiled returns the figures of workload w, with weights of width bytes, on a GPU of pool p by its profile: as
// measured, or transferred; the zero Tenant without such data.
func (pl *Planner) profiled(w, p int, measured bool, width float64) predict.Tenant {
	if !pl.Named(w) || pl.Evidence.GPUs[w] == nil && !measured {
		return predict.Tenant{}
	}
	d, ok := predict.FromProfile(pl.Evidence.Solos[w], pl.Evidence.GPUs[w], pl.Pools[p].Target().GPU(), measured, width)
	if !ok {
		return predict.Tenant{}
	}
	return d
}

// carried is a workload's figures from another GPU, profiled there or, with own set, stated by the workload itself.
type carried struct {
	predict.Tenant
	from, to *sharing.GPU
	own      bool
}

// carried takes over an isolated latency from another GPU or from a whole GPU to a part of it.
func (o *estimate) carried(w *fleet.Workload, known *carried, k int) {
	o.Demand.From, o.Demand.Isolated[k], o.Demand.IsolatedSigma[k] = known.From, known.Isolated[k], known.IsolatedSigma[k]
	a := fleet.Assumption{
		What: fmt.Sprintf("isolated %s P99 of %s is %s ms on a whole %s", predict.LatencyName(k), w.Name,
			plaintext.Digits(1e3*known.Isolated[k]), known.to.Name),
		Why:   fmt.Sprintf("carried over from its profile on a whole %s; it was not measured here", known.from.Name),
		Basis: sharing.BasisTransferred, Own: known.own,
	}
	if known.own {
		a.Why = fmt.Sprintf("transferred from its figure on a whole %s", known.from.Name)
	}
	if known.from == known.to {
		a.What += ", and this mechanism does to it what is usual"
	}
	o.Assumes = append(o.Assumes, a)
}

// leastOf is the least work of a workload's requests, by its model or, where none
// is stated, by the reads of its profile's server.
func (pl *Planner) leastOf(w int) (l predict.Least) {
	wl, gpus := pl.Workloads[w].Workload(), float64(pl.Workloads[w].Workload().GPUCount())
	input, output := 0.0, 0.0
	if load := wl.Load; load != nil {
		input, output = float64(load.InputTokens.Or(0)), float64(load.OutputTokens.Or(0))
	} else if pl.Named(w) {
		input, output = float64(wl.Profile.Load.Prompt), float64(wl.Profile.Load.Output)
	}
	l.Output = output
	if m := wl.Model; m != nil {
		l.Weights, l.Width = m.ActiveBytes()/gpus, m.Width()
		l.Prompt = 2 * float64(m.ActiveParameters()) * input / gpus
		if kv, known := m.KVAt(input + output/2); known {
			l.KV = float64(kv) * (input + output/2) / gpus
		}
	} else if pl.Named(w) && pl.Evidence.GPUs[w] != nil {
		l.Weights = weightsRead(pl.Evidence.Solos[w], predict.MachineOf(pl.Evidence.GPUs[w]).Bandwidth) / gpus
	}
	return l
}

// weightsRead returns the bytes of weights that a decode step of the server reads, by the DRAM traffic of its
// closed loops on a GPU of so much peak bandwidth (bytes a second): the least among its loads of the traffic of a
// cycle over the decode steps and prefills in it. On the 1B, 3B and 8B servers of decision/predict/testdata, of
// 16-bit weights, that is 0.8 to 0.95 of their size. 0 where the traffic was not measured.
func weightsRead(s *profile.Solo, bandwidth float64) float64 {
	least := math.Inf(1)
	for _, p := range s.Siblings {
		busy, ok := optional.Positive(p.DRAMFraction)
		clients, output := float64(p.Load.Concurrency), float64(p.Load.Output)
		if !ok || clients == 0 || p.Load.Concurrency > p.Server.Slots.Or(costs.UsualSlots) {
			continue
		}
		cycle := clients * output / p.TokensPerS.Or(0)
		least = min(least, busy*bandwidth*cycle/(output-1+clients))
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

func (o *estimate) assume(what, why string) {
	o.Assumes = append(o.Assumes, fleet.Assumption{What: what, Why: why})
}

func (o *estimate) assumeOwn(what, why string) {
	o.Assumes = append(o.Assumes, fleet.Assumption{What: what, Why: why, Own: true})
}

// seconds are the latencies of an SLO in the order of an outcome; 0 = none. A P99 that
// keeps the limit of a median is enough for the median.
func seconds(s profile.SLO) (out [predict.LatencyCount]float64) {
	for k, m := range [...]profile.Metric{profile.MetricTTFTP99, profile.MetricTPOTP99, profile.MetricE2EP99} {
		if limit, ok := s.At(m).Get(); ok {
			out[k] = time.Duration(limit).Seconds()
		}
	}
	if limit, ok := s.TPOTP50.Get(); ok && (out[predict.LatencyTPOT] == 0 || limit.Seconds() < out[predict.LatencyTPOT]) {
		out[predict.LatencyTPOT] = limit.Seconds()
	}
	return out
}
