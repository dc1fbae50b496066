package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/sharing"
)

// Engine is the engine that a workload's profiles show, with what they do not say
// taken from prior: of the same model, on the same GPU. The profiles of the server's
// other loads tell how a step grows with the batch and a prefill with the prompt; a
// profile under MPS what MPS adds. The error is that of Predict where they do not
// allow one.
func (p *Predictor) Engine(prior Engine, s Solo) (Engine, error) {
	mechanism, base := sharing.MechanismTimeSlicing, s.TimeSlicing
	if base == nil {
		mechanism, base = sharing.MechanismMPS, s.MPS
	}
	if base == nil {
		return Engine{}, fmt.Errorf("%w: %s with %s", ErrNoProfile, s.Server, s.Load)
	}
	var t tenantModel
	if err := p.model(mechanism, &s, &t); err != nil {
		return Engine{}, err
	}
	e := prior
	basis, sigma := sharing.BasisFitted, stepSigma
	if t.transferred {
		basis, sigma = sharing.BasisTransferred, math.Hypot(sigma, t.widen/ninety)
	}
	set := func(c *Cost, v, sigma float64) { *c = Cost{Value: max(v, 0), Sigma: sigma, Basis: basis} }

	// Steps and prefills of all loads, without what their contexts take.
	type load struct{ batch, step, prompt, prefill float64 }
	var loads []load
	add := func(t *tenantModel, b *SoloProfile) {
		context := t.batch * (float64(b.Load.Prompt) + float64(b.Load.Output)/2) / 1e3
		loads = append(loads, load{t.batch, max(0.3*t.step, t.step-e.StepContext.Value*context), float64(b.Load.Prompt), t.prefill})
	}
	add(&t, base)
	for _, q := range s.Siblings {
		if q.like(base) {
			if m, err := p.alone(q); err == nil {
				add(&m, q)
			}
		}
	}
	// A step grows with the batch by what the loads that differ in it say.
	own := loads[0]
	slope := e.StepSequence.Value
	if fitted, ok := slopeOf(loads, func(l load) (x, y float64) { return l.batch, l.step }); ok {
		slope = min(max(fitted, 0), own.step/own.batch)
		set(&e.StepSequence, slope, 0.3)
	}
	set(&e.Step, max(own.step-slope*own.batch, 0.3*own.step), sigma)
	set(&e.HostFraction, min(1, t.host/t.step), 0.3)
	if t.turns > 0 {
		e.Turns = t.turns
	}
	// Short prompts are bound by launches, which long ones are not.
	short := slices.MinFunc(loads, func(a, b load) int { return cmp.Compare(a.prompt, b.prompt) })
	long := slices.MaxFunc(loads, func(a, b load) int { return cmp.Compare(a.prompt, b.prompt) })
	set(&e.Prefill, short.prefill, prefillSigma)
	if perToken := 1e3 * long.prefill / long.prompt; long.prompt > short.prompt && long.prefill > 1.15*short.prefill {
		set(&e.PrefillToken, perToken, prefillSigma)
	} else if perToken < e.PrefillToken.Value {
		set(&e.PrefillToken, perToken, 2*prefillSigma) // at most: the launches may hide it
	}
	set(&e.PrefillBusy, min(1, t.prefillGPU/t.prefill/p.Parameters.PrefillCatchUp.Value), 0.2)
	if mechanism == sharing.MechanismMPS {
		set(&e.PrefillBusy, min(1, t.prefillGPU/t.prefill/p.Parameters.PrefillOverlap.Value), 0.2)
		set(&e.MPSStep, 0, 0) // the step holds it already
		set(&e.DecodeSM, t.decodeSM, 0.15)
		set(&e.PrefillSM, t.prefillSM, 0.2)
	} else if err := p.calibrateMPS(&e, s, set); err != nil {
		return Engine{}, err
	}
	if v, ok := s.Server.Slots.Get(); ok {
		e.Sequences = v
	}
	return e, nil
}

// What profiles of a few seconds leave open of a step and of a prefill.
const stepSigma, prefillSigma = 0.03, 0.1

// calibrateMPS takes from profiles what MPS adds, and the shares of the SMs.
func (p *Predictor) calibrateMPS(e *Engine, s Solo, set func(c *Cost, v, sigma float64)) error {
	var t tenantModel
	if err := p.model(sharing.MechanismMPS, &s, &t); err != nil {
		return err
	}
	set(&e.DecodeSM, t.decodeSM, 0.15)
	set(&e.PrefillSM, t.prefillSM, 0.2)
	if s.MPS != nil {
		was, _ := positive(s.TimeSlicing.ITL.P50)
		set(&e.MPSStep, t.step-was, 0.1)
	} else if added, ok := addedByMPS(s.Siblings); ok {
		set(&e.MPSStep, added, 0.15)
	} else {
		set(&e.MPSStep, p.Parameters.LoneStepCost.Value, 0.3)
	}
	return nil
}

// addedByMPS is what MPS adds to a step, by the loads that were measured with it and
// without it: it hardly depends on the load.
func addedByMPS(profiles []*SoloProfile) (float64, bool) {
	var added []float64
	for _, q := range profiles {
		for _, w := range profiles {
			if q.Mechanism != sharing.MechanismMPS || w.Mechanism == q.Mechanism || w.Load.same() != q.Load.same() {
				continue
			}
			with, ok := positive(q.ITL.P50)
			if without, both := positive(w.ITL.P50); ok && both {
				added = append(added, with-without)
			}
		}
	}
	slices.Sort(added)
	if len(added) == 0 {
		return 0, false
	}
	return added[len(added)/2], true
}

// slopeOf is the slope of y over x by least squares, where x differs by a factor of
// two at least.
func slopeOf[T any](points []T, of func(T) (x, y float64)) (float64, bool) {
	n, sx, sy, sxx, sxy := 0.0, 0.0, 0.0, 0.0, 0.0
	low, high := math.Inf(1), 0.0
	for _, p := range points {
		x, y := of(p)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		low, high = min(low, x), max(high, x)
	}
	if high < 2*low {
		return 0, false
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx), true
}
