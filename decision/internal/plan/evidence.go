package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/decision/score"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// evidence holds the profiles of a fleet's workloads.
type evidence struct {
	Predictor *predict.Predictor
	Solos     []*profile.Solo // by workload, nil where there is none
	GPUs      []*sharing.GPU  // by workload: that its profile was taken on, nil for a simulated one
	otherMPS  []bool          // by workload: MPS on that GPU is none that the predictor knows
	ranks     []int           // by workload: equal where profiles are
	forecasts *predict.Forecasts
}

func newEvidence(f *fleet.Fleet, workloads []*score.CompiledWorkload, opt Options) (*evidence, error) {
	n := len(workloads)
	e := &evidence{
		Predictor: opt.Predictor,
		Solos:     make([]*profile.Solo, n),
		GPUs:      make([]*sharing.GPU, n),
		otherMPS:  make([]bool, n),
		ranks:     make([]int, n),
	}
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
	e.forecasts = predict.ForecastsOf(opt.Profiles, e.Predictor)
	names := make([]string, n)
	for i, solo := range e.Solos {
		if solo != nil {
			names[i] = fmt.Sprint(solo.Server, solo.Load)
		}
	}
	sorted := slices.Sorted(slices.Values(names))
	for i, name := range names {
		e.ranks[i], _ = slices.BinarySearch(sorted, name)
	}
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

// Measured says whether the profile of workload w holds under a mechanism on pool p: it was taken on that GPU, all
// of which the workload gets, alone or beside others as the predictor knows it.
func (pl *Planner) Measured(w, p int, m sharing.Mechanism) bool {
	if !pl.Named(w) {
		return false
	}
	solo, gpu := pl.Evidence.Solos[w], pl.Evidence.GPUs[w]
	if gpu != nil && gpu != pl.Pools[p].Ground().GPU() {
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

// Named says whether a workload has a profile.
func (pl *Planner) Named(w int) bool { return pl.Evidence != nil && pl.Evidence.Solos[w] != nil }

// busyMeasured is the gpu_busy of workload w by its profile: it counts where that was
// taken, and elsewhere if none is stated.
func (pl *Planner) busyMeasured(w int) (busy float64, ok bool) {
	if pl.Named(w) {
		busy, ok = pl.Evidence.Solos[w].Uncontended().GPUBusyFraction.Get()
	}
	return busy, ok
}

// carryOver fills in a latency of workload w alone by its profile, which was taken on another GPU than that of pool
// p or is to hold on a part of it, and says whether the profile has it.
func (pl *Planner) carryOver(o *outlook, w, p, k int) bool {
	if !pl.Named(w) || pl.Evidence.GPUs[w] == nil {
		return false
	}
	profile := pl.Evidence.Solos[w].Uncontended()
	from, to := pl.Evidence.GPUs[w], pl.Pools[p].Ground().GPU()
	alone, sigma, ok := prospect.CarryOver(profile, from, to, o.Demand.Least.Width)
	if !ok || alone[k] == 0 {
		return false
	}
	o.Demand.Alone[k], o.Demand.AloneSigma[k] = alone[k], sigma[k]
	a := Assumption{
		What: fmt.Sprintf("%s P99 of %s alone is %s ms on a whole %s", costs.LatencyName(k),
			pl.Workloads[w].Workload().Name, plaintext.Digits(1e3*alone[k]), to.Name),
		Why:   fmt.Sprintf("carried over from its profile on a whole %s; it was not measured here", from.Name),
		Basis: sharing.BasisTransferred,
	}
	if from == to {
		a.What += ", and this mechanism does to it what is usual"
	}
	o.Assumes = append(o.Assumes, a)
	return true
}

// leastOf is the least work of a workload's requests, by its model or, where none
// is stated, by what its profile's server was seen to read.
func (pl *Planner) leastOf(w int) (l costs.Least) {
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
		l.Weights = pl.Evidence.Solos[w].WeightsRead(costs.MachineOf(pl.Evidence.GPUs[w]).Bandwidth) / gpus
	}
	return l
}

// foresee returns what members that all have profiles see together, by measurement
// where they are alone and else by the predictor: by its closed form where that leaves
// no objective open, and by simulation where it does. Not ok where it cannot tell.
func (pl *Planner) foresee(s Site, members []Member, tenants []prospect.Tenant) (
	out []prospect.Prospect, preds []predict.Prediction, ok bool) {
	e := pl.Evidence
	var order []int // of the group's tenants: by what they are, so that who is asked first changes nothing
	for _, m := range members {
		order = append(order, slices.Repeat([]int{m.Workload}, m.Replicas)...)
	}
	at := make([]int, len(order))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(e.ranks[order[a]], e.ranks[order[b]]) })
	group := make([]profile.Solo, len(at))
	for i, k := range at {
		group[i] = *e.Solos[order[k]]
	}
	see := func(found []predict.Prediction) (open bool) {
		preds, out = make([]predict.Prediction, len(at)), make([]prospect.Prospect, len(at))
		for i, k := range at {
			w, p := order[k], found[i]
			p.Raise(pl.floor(w, s.Pool))
			preds[k], out[k] = p, p.Estimate(&pl.Workloads[w].Workload().SLO, &tenants[k])
			open = open || out[k].Kept(&tenants[k]) == sharing.AnswerUnknown
		}
		return open
	}
	if s.Mechanism == sharing.MechanismExclusive {
		see([]predict.Prediction{predict.Alone(group[0].TimeSlicing)})
		return out, preds, true
	}
	if len(group) > predict.MaxGroup {
		return nil, nil, false
	}
	found, err := e.forecasts.Screen(s.Mechanism, group, pl.Opt.Confidence)
	if err != nil {
		return nil, nil, false
	}
	if see(found) {
		if found, err = e.forecasts.Predict(s.Mechanism, group); err != nil {
			return nil, nil, false
		}
		found = slices.Clone(found)
		for i := range found {
			found[i] = found[i].At(pl.Opt.Confidence)
		}
		see(found)
	}
	return out, preds, true
}

// floor is the least that each latency of workload w can be on a GPU of pool p, in seconds.
func (pl *Planner) floor(w, p int) [costs.LatencyCount]float64 {
	return costs.MachineOf(pl.Pools[p].Ground().GPU()).Floor(costs.Share{SMs: 1, Bandwidth: 1}, pl.leastOf(w))
}
