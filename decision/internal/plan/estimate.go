// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// priorBusy is assumed where neither the workload nor its kind states a busy share.
const priorBusy = 0.4

// assumedIsolated is the part of an objective that an isolated latency is assumed to take if it was not measured.
const assumedIsolated = 0.5

// EstimateOf returns the demand of workload w on a GPU of pool p under a mechanism, with its assumptions.
func (pl *Planner) EstimateOf(w, p int, m sharing.Mechanism) *estimate {
	key := estimateKey{w, pl.alike[p], pl.Measured(w, p, m)}
	if o := pl.estimates[key]; o != nil {
		return o
	}
	o := pl.newEstimate(w, p, key.measured)
	pl.estimates[key] = o
	return o
}

func (pl *Planner) newEstimate(w, p int, measured bool) *estimate {
	cw := pl.Workloads[w]
	wl := cw.Workload()
	o := &estimate{}
	if cw.Demand().Memory.Unknown {
		o.assume(wl.Name+" fits the memory of a whole GPU", "neither memory nor model is stated")
	}
	d := &o.Demand
	d.From, d.Workload, d.SLO, d.Limits, d.Isolated = sharing.BasisPrior, w, &wl.SLO, seconds(wl.SLO), seconds(wl.Solo)
	d.Online = wl.Kind == "online-inference"
	d.Decodes = wl.Decodes() || pl.Named(w)
	d.Least = pl.leastOf(w)
	gpu := pl.Pools[p].Target().GPU()
	known := carried{Tenant: pl.profiled(w, p, measured, d.Least.Width), to: gpu}
	if pl.Named(w) {
		known.from = pl.Evidence.GPUs[w]
	}
	if on := pl.statedGPU(w, wl.SoloOn); on != gpu && on != nil && !measured && wl.Solo != (profile.SLO{}) {
		if there, ok := statedOn(wl, on, gpu, d.Least.Width); ok {
			known, d.Isolated = carried{there, on, gpu, true}, [predict.LatencyCount]float64{}
		}
	} else if on == nil && wl.Solo != (profile.SLO{}) && !measured {
		o.assumeOwn(fmt.Sprintf("solo of %s was measured on %s", wl.Name, problem.A(gpu.Name)),
			"state on which GPU: solo: {on: ..., ...}")
	}
	if measured {
		if d.From, d.Solo = known.From, known.Solo; pl.Evidence.GPUs[w] == nil {
			o.Assumes = append(o.Assumes, fleet.Assumption{Basis: sharing.BasisSimulated, Why: "measure it on a real one",
				What: fmt.Sprintf("%s runs on %s as on the simulated GPU of its profile", wl.Name, problem.A(gpu.Name))})
		}
	}
	if wl.Job != nil {
		pl.deadline(w, p, o)
	}
	m := predict.MachineOf(gpu)
	if wl.Service != nil && !pl.Named(w) && o.requests(wl, gpu) {
		return o
	}
	if pl.Serves(wl) && m.Bandwidth > 0 && m.FLOPs > 0 {
		d.Serving = servingOf(wl)
		need := &cw.Demand().Memory
		have := sharing.Bytes(float64(pl.Pools[p].Memory) * (1 - pl.Opt.Driver))
		if in := need.Within(have); in < need.Total { // it holds fewer requests at once, and queues the others
			d.Serving.Sequences = max(1, math.Floor(float64(in-need.Weights-need.Context)/float64(need.Request)))
		}
		d.Serving.Slower = o.converted(wl, gpu)
		return o
	}
	pl.busy(o, w, gpu, measured)
	for k, limit := range d.Limits {
		switch {
		case limit == 0 || d.Isolated[k] > 0:
		case measured:
			d.Isolated[k] = known.Isolated[k]
		case known.Isolated[k] > 0:
			o.carried(wl, &known, k)
		case k == predict.LatencyTPOT && o.bySize(wl, m):
			d.IsolatedSigma[k] = math.Hypot(d.IsolatedSigma[k], o.converted(wl, gpu))
		default:
			d.Isolated[k] = assumedIsolated * limit
			o.assume(fmt.Sprintf("isolated %s P99 of %s is half of its limit", predict.LatencyName(k), wl.Name),
				"solo is not stated, and the load does not tell")
		}
	}
	return o
}

// busy fills in the share of time in which workload w uses a GPU: measured, stated or assumed.
func (pl *Planner) busy(o *estimate, w int, gpu *sharing.GPU, measured bool) {
	cw, d := pl.Workloads[w], &o.Demand
	wl := cw.Workload()
	stated := !wl.GPUBusy.IsZero()
	if wl.Load != nil && !stated && !measured {
		why := "the load is stated without a model and lengths, or the GPU's bandwidth is not known; state gpu_busy"
		if wl.GPUCount() > 1 {
			why = "servers on several GPUs are not computed; state gpu_busy"
		}
		o.assume(wl.Name+": how busy its load keeps a GPU", why)
	}
	d.Busy, d.Peak = wl.GPUBusy.Or(cw.Demand().Busy), wl.PeakBusy.Or(0)
	if on := pl.busyGPU(w); on == nil && stated && !measured {
		o.assumeOwn(fmt.Sprintf("gpu_busy of %s was measured on %s", wl.Name, problem.A(gpu.Name)),
			"state on which GPU: gpu_busy: {on: ..., mean: ...}")
	} else if _, by, _ := workTimes(wl, on, gpu); on != gpu && stated {
		busy := d.Busy
		if d.Busy, d.Peak = min(0.999, busy*by), min(0.999, d.Peak*by); !wl.Kind.Serves() && wl.Load == nil {
			d.Busy = busyOn(wl, busy, on, gpu)
		}
	}
	if wl.PeaksTogether {
		d.Busy = max(d.Busy, d.Peak)
	}
	m := predict.MachineOf(gpu)
	if l := wl.Load; l != nil && !stated && m.FLOPs > 0 { // its prompts keep it busy for so long
		d.Busy = max(d.Busy, l.PeakPerS()/float64(wl.ReplicaCount())*d.Least.Prompt/m.Rate(d.Least.Width))
	}
	if busy, ok := pl.busyMeasured(w); ok && (measured || !stated) {
		d.Busy = busy
	} else if !stated && cw.Archetype.BusyPrior.IsZero() && wl.Load == nil && !measured {
		o.assume(fmt.Sprintf("%s keeps a GPU %.0f%% busy", wl.Name, 100*d.Busy),
			"neither gpu_busy nor a load with a model is stated")
	}
}

// requests fills in the demand of a service whose requests have no tokens, and reports whether it is known. Where
// requests are batched, the host's part of one batch overlaps with the GPU's part of the one before; else one follows
// the other.
func (o *estimate) requests(w *fleet.Workload, gpu *sharing.GPU) bool {
	t, known := w.RequestTime(gpu)
	if !known || w.Load == nil && w.GPUBusy.IsZero() {
		return false
	}
	perS := w.PeakBusy.Or(w.GPUBusy.Or(0)) / t.GPU
	if w.Load != nil {
		perS = w.Load.PeakPerS() / float64(w.ReplicaCount())
	}
	most, wait := 0, 0.0
	if b := w.Service.Batch; b != nil {
		most, wait = b.Max, time.Duration(b.Wait).Seconds()
	}
	d, of := &o.Demand, predict.FromRequests(perS, t.Host, t.GPU, most, wait, t.Sigma)
	d.Online, d.Decodes, d.Requests, d.Busy, d.Host = true, false, true, of.Busy, of.Host
	if d.Limits[predict.LatencyE2E] > 0 && d.Isolated[predict.LatencyE2E] == 0 {
		d.Isolated, d.IsolatedSigma = of.Isolated, of.IsolatedSigma
	}
	if t.Assumed != "" {
		a := fleet.Assumption{What: t.Assumed, Why: "published servers of its kind took about that",
			Basis: sharing.BasisPrior}
		if !w.Service.GPUTime.IsZero() {
			a.Why, a.Basis = "it was not measured here", sharing.BasisTransferred
		}
		o.Assumes = append(o.Assumes, a)
	}
	return true
}

// Serves reports whether a workload is a model server whose load and model give its latencies.
func (pl *Planner) Serves(w *fleet.Workload) bool {
	return w.Service == nil && w.Model != nil && w.Load != nil && w.GPUs <= 1 &&
		!w.Load.InputTokens.IsZero() && !w.Load.OutputTokens.IsZero()
}

func servingOf(w *fleet.Workload) *predict.Serving {
	m, l := w.Model, w.Load
	input, output := float64(l.InputTokens.Or(0)), float64(l.OutputTokens.Or(0))
	kv, known := m.KVAt(input + output/2)
	if !known {
		kv = fleet.PriorKVPerToken(m.Parameters)
	}
	return &predict.Serving{PerS: l.PeakPerS() / float64(w.ReplicaCount()), Input: input,
		Output: output, LengthSigma: l.LengthSigma(),
		Weights: m.ActiveBytes(), Parameters: float64(m.ActiveParameters()),
		KVPerToken: float64(kv), Layers: m.Depth()}
}

// complete reports whether a workload on a pool has no assumptions that neighbours depend on. A simulated GPU is taken
// for the real one, for every neighbour alike.
func (pl *Planner) complete(w, p int, m sharing.Mechanism) bool {
	return !slices.ContainsFunc(pl.EstimateOf(w, p, m).Assumes, func(a fleet.Assumption) bool {
		return a.Basis != sharing.BasisSimulated && !a.Own
	})
}

// bySize fills in the isolated TPOT P99 from the bytes that the workload's model reads for a token, and reports whether
// it did. Where only memory is stated, all of it is an upper bound of the bytes: the estimate is used only if reading
// them takes less than the time that would be assumed otherwise.
func (o *estimate) bySize(w *fleet.Workload, m predict.Machine) bool {
	least, most, layers := w.Reads()
	b, sigma := predict.IsolatedToken(m, least, most, layers, w.GPUCount())
	if b.Value == 0 || w.Model == nil && b.High > assumedIsolated*o.Demand.Limits[predict.LatencyTPOT] {
		return false
	}
	o.Tokens = b
	o.Demand.Isolated[predict.LatencyTPOT], o.Demand.IsolatedSigma[predict.LatencyTPOT] = b.Value, sigma
	of := fmt.Sprintf("%.3g GB of weights", least/1e9)
	if w.Model == nil {
		of = fmt.Sprintf("up to %.3g GB to read", most/1e9)
	}
	o.Size = fmt.Sprintf("%s to %s ms, from %s and %.3g TB/s", About(1e3*b.Low), About(1e3*b.High), of,
		float64(w.GPUCount())*m.Bandwidth/1e12)
	o.Assumes = append(o.Assumes, fleet.Assumption{What: fmt.Sprintf("isolated TPOT P99 of %s is %s", w.Name, o.Size),
		Why: "solo is not stated, and the load does not tell", Basis: sharing.BasisPrior})
	return true
}

// converted notes where a GPU has no arithmetic for the numbers of a model's weights, and returns by how much its
// latencies may be longer than their bytes tell, as the standard deviation of their logarithm.
func (o *estimate) converted(w *fleet.Workload, gpu *sharing.GPU) float64 {
	if w.Model == nil || w.Model.Weights.Converted(gpu) != sharing.AnswerYes {
		return 0
	}
	a := fleet.Assumption{Why: "engines differ in it, or refuse such weights; measure it there", Basis: sharing.BasisPrior,
		What: fmt.Sprintf("the %s weights of %s, which %s has no arithmetic for, are converted on the way at little cost",
			w.Model.Weights, w.Name, problem.A(gpu.Name))}
	o.Assumes = append(o.Assumes, a)
	return costs.Table.Unmeasured.ConvertedWeights.Sigma
}

// About is a figure of two digits, or a whole number.
func About(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// Prepare fills in demands that are not stated: predictions from assumptions decide, and answers list the assumptions.
func (pl *Planner) Prepare() {
	for _, cp := range pl.Pools {
		same := func(o *score.CompiledPool) bool { return o.Target().GPU() == cp.Target().GPU() }
		pl.alike = append(pl.alike, slices.IndexFunc(pl.Pools, same))
	}
	for w, cw := range pl.Workloads {
		d := cw.Demand()
		// Without its isolated latency an objective can't be predicted, and the filter's facts of the kind decide.
		d.Predicted = true
		for k, limit := range seconds(cw.Workload().SLO) {
			d.Predicted = d.Predicted && (limit == 0 || seconds(cw.Workload().Solo)[k] > 0 || pl.Serves(cw.Workload()) ||
				cw.Workload().Service != nil)
		}
		d.Predicted = d.Predicted || pl.Named(w)
		if busy, ok := pl.busyMeasured(w); ok && cw.Workload().GPUBusy.IsZero() {
			d.Busy, d.BusyBasis = busy, filter.BusyFromLoad
		} else if d.BusyBasis == filter.BusyUnknown {
			d.Busy, d.BusyBasis = priorBusy, filter.BusyPrior
		}
		if d.BusyBasis == filter.BusyPrior && (pl.Serves(cw.Workload()) || cw.Workload().Service != nil) {
			d.BusyBasis = filter.BusyFromLoad
		}
	}
}
