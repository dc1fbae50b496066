// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// addMPSCost turns a profile without MPS into an isolated one under MPS: a constant more a decode step.
func (t *tenantModel) addMPSCost(p *Predictor) {
	cost := p.Parameters.LoneStepCost.Value
	t.stretch(cost)
	t.note(0, "no profile under MPS: %.2f ms a step assumed for MPS itself", cost)
}

// addCap scales a profile without an active thread percentage to one: by little, since decode is bound by memory.
func (t *tenantModel) addCap(p *Predictor, percent float64) {
	factor := math.Pow(100/percent, p.Parameters.CapExponent.Value)
	t.stretch(t.step * (factor - 1))
	t.note(0.5*(factor-1), "no profile at %g%%: scaled from the whole GPU's by %.2f",
		percent, factor)
}

// findWaits finds the waits under MPS of a step's kernels for those of others, and of others' for them.
//
// [contention.Law.Demand] misses 74 steps of 1B, 3B and 8B servers by 3% on average (testdata/mps-steps.csv).
func (t *tenantModel) findWaits(p *Predictor, b *profile.SoloProfile, share float64) {
	q := &p.Parameters
	u, ok := bandwidthOf(b)
	if !ok {
		u = t.decodeSM(b) // about as much, on the rows of H100s and H200s
		t.note(table.Doubts.Usual.Value, "no memory bandwidth in the profile")
	}
	u *= (t.step - t.added) / t.step // where MPS or a cap stretches a step, it reads more slowly
	law := q.Law()
	d := law.Demand(u, share)
	t.holds, t.decodeWaits = d.Holds, d.Waits
	t.decodeWaits *= max(0, 1+q.BatchWaits.Value*(math.Log2(max(t.batch, 1))-table.Steps.UsualDoublings.Value))
	t.prefillWaits = q.PrefillWaits.Value * t.decodeWaits
}

// decodeSM is the share of the SMs that decode takes while on the GPU.
func (t *tenantModel) decodeSM(b *profile.SoloProfile) float64 {
	sm, ok := optional.Positive(b.SMFraction)
	if !ok {
		t.note(table.Doubts.Usual.Value, "no SM utilisation in the profile")
		return costs.Priors[costs.SMDecoding].Value
	}
	// With an active thread percentage it has no more than that.
	return min(sm/b.GPUBusyFraction.Or(1), b.Server.SMPercent.Or(100)/100)
}

// bandwidthOf is the share of the memory bandwidth that the workload takes while it runs, where it is known.
func bandwidthOf(p *profile.SoloProfile) (float64, bool) {
	dram, ok := optional.Positive(p.DRAMFraction)
	return dram / p.GPUBusyFraction.Or(1), ok
}

// unspared returns the usual step of a profile without most of the cost of MPS, from the server's other loads: for
// seconds an isolated tenant may be spared a cost that it always has when co-located (9 of 40 loads on two hosts of
// four). Its step is then much shorter than those of the server's other loads, though it reads as much memory.
func (p *Predictor) unspared(base *profile.SoloProfile, siblings []*profile.SoloProfile) (step float64, spared bool) {
	own, ok := optional.Positive(base.ITL.P50)
	u, ok2 := bandwidthOf(base)
	if !ok || !ok2 || base.Mechanism != sharing.MechanismMPS {
		return 0, false
	}
	step = math.Inf(1)
	for _, q := range siblings {
		other, ok := optional.Positive(q.ITL.P50)
		v, ok2 := bandwidthOf(q)
		if !ok || !ok2 || q.Mechanism != base.Mechanism || q.GapsHoldPrompts() || own >= table.Steps.Spared.Value*other {
			continue
		}
		a, err := p.isolated(base)
		b, err2 := p.isolated(q)
		if err != nil || err2 != nil {
			continue
		}
		grown := 1 + a.doubling*math.Log2(max(1, b.batch/a.batch))
		if own < table.Steps.Spared.Value*b.step/grown && v/grown < table.Steps.Spared.Value*u {
			step, spared = min(step, b.step/grown), true
		}
	}
	return step, spared
}

// checkLone gives a profile that was spared the cost of MPS the step of the server's other loads. Its effect on others
// stays, since its kernels are the same. With an active thread percentage, steps of many tokens grow as much.
func (t *tenantModel) checkLone(p *Predictor, base *profile.SoloProfile, siblings []*profile.SoloProfile) {
	usual, spared := p.unspared(base, siblings)
	extra := usual - t.step
	switch {
	case !spared:
	case base.Server.SMPercent.Or(100) < 100:
		t.note(extra/usual, "its isolated step under MPS, %.2f ms, is shorter than the %.2f ms of another load of the "+
			"server: measure it again", t.step, usual)
	default:
		t.note(0.5*extra/usual, "its isolated step under MPS, %.2f ms, was taken for the %.2f ms of another load of the "+
			"server: measure it again", t.step, usual)
		t.stretch(extra)
		t.added -= extra
	}
}
