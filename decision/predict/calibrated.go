package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Engine is the engine that a workload's profiles show, with what they do not say taken from prior: of the same model,
// on the same GPU. The profiles of the server's other loads tell how a step grows with the batch and a prefill with the
// prompt; a profile under MPS what MPS adds. The error is that of Predict where they do not allow one.
func (p *Predictor) Engine(prior costs.Engine, s profile.Solo) (costs.Engine, error) {
	mechanism, base := sharing.MechanismTimeSlicing, s.TimeSlicing
	if base == nil {
		mechanism, base = sharing.MechanismMPS, s.MPS
	}
	if base == nil {
		return costs.Engine{}, fmt.Errorf("%w: %s with %s", profile.ErrNoProfile, s.Server, s.Load)
	}
	var t tenantModel
	if err := p.model(mechanism, &s, &t); err != nil {
		return costs.Engine{}, err
	}
	e := prior
	basis, sigma := sharing.BasisFitted, stepSigma
	if t.transferred {
		basis, sigma = sharing.BasisTransferred, math.Hypot(sigma, t.widen/profile.Z90)
	}
	set := func(c *costs.Cost, v, sigma float64) { *c = costs.Cost{Value: max(v, 0), Sigma: sigma, Basis: basis} }

	set(&e.Request, 0, 0) // the prefills hold it
	if mechanism == sharing.MechanismMPS {
		e.StepMatrix.Value = 0 // see ratesOf
	}
	// Steps and prefills of all loads, without what their contexts take.
	m := e.Model
	var loads, others []loadCosts // others are under the other mechanism: of these only the prefills
	add := func(to *[]loadCosts, t *tenantModel, b *profile.SoloProfile) {
		context := t.batch * (float64(b.Load.Prompt) + float64(b.Load.Output)/2) / 1e3
		matrix := e.StepMatrix.Value*min(1, max(0, t.batch-1)) +
			e.StepExperts.Value*max(0, m.UnusedExperts()-math.Pow(m.UnusedExperts(), t.batch))
		*to = append(*to, loadCosts{t.batch, max(0.3*t.step, t.step-matrix-e.StepContext.Value*context),
			float64(b.Load.Prompt), t.prefill, float64(max(1, b.Requests.Or(1)))})
	}
	add(&loads, &t, base)
	for _, q := range s.Siblings {
		if m, err := p.alone(q); err == nil && q != base && q.Load.Closed() {
			if alike(q, base) {
				add(&loads, &m, q)
			} else {
				add(&others, &m, q)
			}
		}
	}
	// A step grows with the batch by what the loads that differ in it say.
	own := loads[0]
	slope := e.StepSequence.Value
	var batches, steps []float64
	for _, l := range loads {
		batches, steps = append(batches, l.batch), append(steps, l.step)
	}
	if slices.Max(batches) >= 2*slices.Min(batches) {
		_, fitted := stat.LinearRegression(batches, steps, nil, false)
		slope = min(max(fitted, 0), own.step/own.batch)
		set(&e.StepSequence, slope, costs.Value("sequence_error"))
	}
	intercept := own.step - slope*own.batch
	if n := float64(len(loads) - 1); n > 0 { // the own load counts as much as all others
		intercept /= 2
		for _, l := range loads[1:] {
			intercept += (l.step - slope*l.batch) / (2 * n)
		}
	}
	set(&e.Step, max(intercept, 0.3*own.step), sigma)
	set(&e.HostFraction, min(1, t.host/t.step), costs.Value("host_part_error"))
	p.countTurns(&e, append([]*profile.SoloProfile{base}, s.Siblings...), set)
	least, perToken, grows := prefillOf(append(loads, others...))
	set(&e.Prefill, least, prefillSigma)
	if grows {
		set(&e.PrefillToken, perToken, prefillSigma)
	} else if perToken < e.PrefillToken.Value {
		set(&e.PrefillToken, perToken, 2*prefillSigma) // at most: the launches may hide it
	}
	set(&e.PrefillBusy, min(1, t.prefillGPU/t.prefill/p.Parameters.PrefillCatchUp.Value),
		costs.Value("prefill_busy_error"))
	if mechanism == sharing.MechanismMPS {
		set(&e.PrefillBusy, min(1, t.prefillGPU/t.prefill), costs.Value("prefill_busy_error"))
		set(&e.MPSStep, 0, 0) // the step holds it already
		set(&e.DecodeSM, t.decodeSM, costs.Value("decode_sm_error"))
		set(&e.PrefillSM, t.prefillSM, costs.Value("prefill_sm_error"))
	} else if err := p.calibrateMPS(&e, s, set); err != nil {
		return costs.Engine{}, err
	}
	if v, ok := s.Server.Slots.Get(); ok {
		e.Sequences = v
	}
	if base.Fit != nil {
		applyFit(base.Fit, &e, SimulatedGPU(base.GPU))
	}
	return e, nil
}

// loadCosts holds the times of a server's steps and prefills under a load, in ms, without
// what the contexts take, and what several sequences take more than one.
type loadCosts struct{ batch, step, prompt, prefill, requests float64 }

// prefillOf returns the least time of a prefill, and that of each 1000 tokens, if the longest
// prompts show that it grows; else for each 1000 tokens at most. Prefills differ by a
// fifth from one run of a server to the next: each load counts by its requests.
func prefillOf(loads []loadCosts) (least, perToken float64, grows bool) {
	long := slices.MaxFunc(loads, func(a, b loadCosts) int { return cmp.Compare(a.prompt, b.prompt) })
	perToken = 1e3 * long.prefill / long.prompt
	n, sum, most := [2]float64{}, [2]float64{}, 0.0
	for _, l := range loads {
		longest := 0
		if l.prompt == long.prompt {
			longest = 1
		} else {
			most = max(most, l.prefill)
		}
		n[longest] += l.requests
		sum[longest] += l.requests * l.prefill
	}
	if n[0] > 0 && long.prefill > 1.15*most {
		return sum[0] / n[0], perToken, true
	}
	return (sum[0] + sum[1]) / (n[0] + n[1]), perToken, false
}

// countTurns takes from profiles the turns that steps were counted to take beside a
// spinning neighbour. What the host does between two steps is hidden in the wait for the
// first turn, so that the count is the less of a whole number the more that is.
func (p *Predictor) countTurns(e *costs.Engine, profiles []*profile.SoloProfile,
	set func(c *costs.Cost, v, sigma float64)) {
	e.Turns = nil
	quantum, loss := p.Parameters.Quantum.Value, p.Parameters.SliceLoss.Value
	host := 0.0
	for _, b := range profiles {
		counted, ok := profile.Positive(b.Turns)
		n := max(1, math.Round(counted))
		if !ok || b.Mechanism == sharing.MechanismMPS || math.Abs(counted-n) > unsureTurns {
			continue
		}
		m, err := p.alone(b)
		if err != nil || slices.ContainsFunc(e.Turns, func(c costs.CountedTurns) bool { return c.Batch == m.batch }) {
			continue
		}
		e.Turns = append(e.Turns, costs.CountedTurns{Batch: m.batch, Turns: n})
		host += (n-counted)*(quantum+2*p.Parameters.Switch.Value) + (n-1)*loss - min(e.StepSequence.Value,
			costs.HostPerSequence)*m.batch
	}
	if len(e.Turns) == 0 {
		return
	}
	set(&e.HostFraction, min(1, max(0, host/float64(len(e.Turns)))/e.Step.Value), costs.Value("host_part_error"))
	// With the host known, the step of another load tells its turns where that is clear.
	for _, b := range profiles {
		m, err := p.alone(b)
		if err != nil || b.Mechanism == sharing.MechanismMPS || slices.ContainsFunc(e.Turns,
			func(c costs.CountedTurns) bool { return c.Batch == m.batch }) {
			continue
		}
		work := m.step - e.HostFraction.Value*e.Step.Value - min(e.StepSequence.Value, costs.HostPerSequence)*m.batch
		if n := p.Parameters.TurnsFor(work, costs.CountedTolerance); n == math.Round(n) {
			e.Turns = append(e.Turns, costs.CountedTurns{Batch: m.batch, Turns: n})
		}
	}
	slices.SortFunc(e.Turns, func(a, b costs.CountedTurns) int { return cmp.Compare(a.Batch, b.Batch) })
}

// The errors of a step and of a prefill in profiles of a few seconds.
var stepSigma, prefillSigma = costs.Value("step_error"), costs.Value("prefill_time_error")

// calibrateMPS takes from profiles what MPS adds, and the shares of the SMs.
func (p *Predictor) calibrateMPS(e *costs.Engine, s profile.Solo, set func(c *costs.Cost, v, sigma float64)) error {
	var t tenantModel
	if err := p.model(sharing.MechanismMPS, &s, &t); err != nil {
		return err
	}
	set(&e.DecodeSM, t.decodeSM, costs.Value("decode_sm_error"))
	set(&e.PrefillSM, t.prefillSM, costs.Value("prefill_sm_error"))
	added, ok := p.addedByMPS(e, s.Siblings)
	if own, measured := p.addedByMPS(e, []*profile.SoloProfile{s.MPS}); ok && measured {
		added = (added + own) / 2 // the own load counts as much as all others
	} else if measured {
		added, ok = own, true
	}
	if ok {
		set(&e.MPSStep, added, costs.Value("mps_step_error"))
	}
	return nil
}

// addedByMPS is the time that MPS adds to the engine's steps, by the mean of the closed loops that were measured
// with it.
func (p *Predictor) addedByMPS(e *costs.Engine, profiles []*profile.SoloProfile) (float64, bool) {
	sum, n := 0.0, 0.0
	for _, q := range profiles {
		if q == nil || q.Mechanism != sharing.MechanismMPS || !q.Load.Closed() {
			continue
		}
		step, ok := profile.Positive(q.ITL.P50)
		m, err := p.alone(q)
		if !ok || err != nil {
			continue
		}
		context := m.batch * (float64(q.Load.Prompt) + float64(q.Load.Output)/2) / 1e3
		sum, n = sum+step-e.Step.Value-e.StepSequence.Value*m.batch-e.StepContext.Value*context, n+1
	}
	return sum / max(n, 1), n > 0
}

// applyFit takes what was fitted over into an engine. Where a prefill's fixed part was not told from that of its
// tokens, half of what one takes at the mean prompt is either's. The errors to expect are those of the windows that
// were left out, and of a real engine what its steps and prefills differ by from one run to the next.
func applyFit(f *profile.ServingFit, e *costs.Engine, simulated bool) {
	set := func(c *costs.Cost, i profile.Interval, part float64) {
		if i.Value > 0 {
			*c = costs.Cost{Value: part * i.Value, Basis: sharing.BasisFitted,
				Sigma: math.Log(max(i.High, i.Value)/max(i.Low, i.Value/10)) / (2 * profile.Z90)}
		}
	}
	// about takes a line over whose value at the mean moves by itself, and its slope about that.
	about := func(fixed, slope *costs.Cost, f, s, at profile.Interval) bool {
		set(fixed, f, 1)
		set(slope, s, 1)
		if f.Value > 0 && s.Value > 0 {
			fixed.Sigma = math.Log1p((at.High-at.Value)/f.Value) / profile.Z90
		}
		return f.Value > 0 && s.Value > 0
	}
	if f.Step.Value > 0 { // in what was fitted
		e.StepMatrix, e.StepContext, e.StepExperts, e.Captured = costs.Cost{}, costs.Cost{}, costs.Cost{}, nil
	}
	if about(&e.Step, &e.StepSequence, f.Step, f.StepSequence, f.StepAt) {
		e.Batch = f.Batch
	}
	if f.PrefillAt.Value > 0 {
		e.Adds, e.Prefill, e.PrefillToken, e.PrefillContext = true, costs.Cost{}, costs.Cost{}, costs.Cost{}
		e.PrefillBusy.Value = 1
		if f.PrefillToken.Value > 0 || f.Prefill.Low > 0 {
			if about(&e.Prefill, &e.PrefillToken, f.Prefill, f.PrefillToken, f.PrefillAt) {
				e.Prompt = f.Prompt
			}
		} else {
			set(&e.Prefill, f.PrefillAt, 0.5)
			set(&e.PrefillToken, f.PrefillAt, 0.5e3/max(f.Prompt, 1))
		}
	}
	left := func(m profile.Metric, of profile.Optional[float64], between float64) {
		if v, ok := of.Get(); ok {
			if simulated {
				between = 0
			}
			e.Errors[m] = costs.Residual{HalfWidth: math.Hypot(v, profile.Z90*between)}
		}
	}
	e.Errors = costs.Residuals{}
	left(profile.MetricTPOTP50, f.StepLeftOut, stepSigma)
	left(profile.MetricTTFTP50, f.PrefillLeftOut, prefillSigma)
	if v, ok := f.Slots.Get(); ok {
		e.Sequences = v
	}
	if v, ok := f.Chunk.Get(); ok && v > e.MostSequences() && e.ChunkTokens > 0 {
		e.ChunkTokens = v
	}
}
