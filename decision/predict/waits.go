package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// addMPSCost turns a profile without MPS into what it would be alone under MPS:
// a constant more a decode step, which seems to follow the step's kernels.
func (t *tenantModel) addMPSCost(p *Predictor) {
	cost := p.Parameters.LoneStepCost.Value
	t.stretch(cost)
	t.note(0, "no profile under MPS: %.2f ms a step assumed for MPS itself", cost)
}

// addCap scales a profile without an active thread percentage to one. Decode is
// bound by memory and loses little; the exponent says how little.
func (t *tenantModel) addCap(p *Predictor, percent float64) {
	factor := math.Pow(100/percent, p.Parameters.CapExponent.Value)
	t.stretch(t.step * (factor - 1))
	t.note(0.5*(factor-1), "no profile at %g%%: scaled from the whole GPU's by %.2f",
		percent, factor)
}

// splitSMs finds the share of the SMs that decode takes, from the mean shares at several loads: each is a mixture of
// its and a prefill's.
func (t *tenantModel) splitSMs(p *Predictor, base *profile.SoloProfile, s *profile.Solo) {
	u, ok := base.SMFraction.Get()
	if !ok {
		t.decodeSM = costs.Priors[costs.SMDecoding].Value
		t.note(table.Doubts.Usual.Value, "no SM utilisation in the profile")
		return
	}
	alone, err := p.alone(base)
	if err != nil {
		return // t was read from the same profile
	}
	// Drawn to one share for both where the loads are too alike.
	const draw = 0.01
	fit := leastSquares{a11: draw, a12: -draw, a22: draw}
	decode, prefill := alone.duty()
	fit.add(decode, prefill, u)
	for _, q := range s.Siblings {
		share, ok := q.SMFraction.Get()
		if !ok || !alike(q, base) || q.Load.Prompt != base.Load.Prompt { // whose prefills are others
			continue
		}
		m, err := p.alone(q)
		if err != nil {
			continue
		}
		d, f := m.duty()
		fit.add(d, f, share)
	}
	d, f := fit.solve()
	if d <= 0.02 || f <= 0.02 {
		d = u / (decode + prefill)
	}
	// Where MPS or a cap stretches a step, its SM time is spread thinner.
	most := s.Server.SMPercent.Or(100) / 100
	t.decodeSM = min(d*alone.gpu/t.gpu, most)
}

// takeTurns finds how long a step's kernels wait for those of others under MPS, and others for them.
//
// The law is that of [contention.Law.Demand]: 74 steps of 1B, 3B and 8B servers beside up to three others on an H100
// and an H200 are missed by 3% on average (decision/predict/testdata/mps-steps.csv).
func (t *tenantModel) takeTurns(p *Predictor, b *profile.SoloProfile, share float64) {
	q := &p.Parameters
	u, ok := bandwidthOf(b)
	if !ok {
		u = t.decodeSM // about as much, on the rows of H100s and H200s
		t.note(table.Doubts.Usual.Value, "no memory bandwidth in the profile")
	}
	u *= (t.step - t.added) / t.step // where MPS or a cap stretches a step, it reads more slowly
	law := q.Law()
	d := law.Demand(u, share)
	t.decodeHolds, t.decodeWaits = d.Holds, d.Waits
	t.decodeWaits *= max(0, 1+q.BatchWaits.Value*(math.Log2(max(t.batch, 1))-table.Steps.UsualDoublings.Value))
	t.prefillHolds, t.prefillWaits = q.PrefillBlocking.Value*t.decodeHolds, q.PrefillWaits.Value*t.decodeWaits
}

// bandwidthOf is the share of the memory bandwidth that the workload takes while it runs, where it is known.
func bandwidthOf(p *profile.SoloProfile) (float64, bool) {
	dram, ok := profile.Positive(p.DRAMFraction)
	return dram / p.GPUBusyFraction.Or(1), ok
}

// leastSquares solves x*a + y*b = v over many (a, b, v) for x and y.
type leastSquares struct{ a11, a12, a22, b1, b2 float64 }

func (l *leastSquares) add(a, b, v float64) {
	l.a11, l.a12, l.a22 = l.a11+a*a, l.a12+a*b, l.a22+b*b
	l.b1, l.b2 = l.b1+a*v, l.b2+b*v
}

func (l *leastSquares) solve() (x, y float64) {
	det := l.a11*l.a22 - l.a12*l.a12
	return (l.b1*l.a22 - l.b2*l.a12) / det, (l.a11*l.b2 - l.a12*l.b1) / det
}

// unspared returns the step of a profile that was spared most of what MPS costs, as the server's other loads tell it:
// for seconds, a lone tenant may be spared what it has nothing of beside others. Its step is then much shorter than
// those of the server's other loads, though it reads as much memory. On two hosts of four on which whole plans were
// measured that was so of 9 loads of 40 (h100-mixes-6 and h200-mixes-7 in decision/predict/testdata).
func (p *Predictor) unspared(base *profile.SoloProfile, siblings []*profile.SoloProfile) (step float64, spared bool) {
	own, ok := profile.Positive(base.ITL.P50)
	u, ok2 := bandwidthOf(base)
	if !ok || !ok2 || base.Mechanism != sharing.MechanismMPS {
		return 0, false
	}
	step = math.Inf(1)
	for _, q := range siblings {
		other, ok := profile.Positive(q.ITL.P50)
		v, ok2 := bandwidthOf(q)
		if !ok || !ok2 || q.Mechanism != base.Mechanism || q.GapsHoldPrompts() || own >= table.Steps.Spared.Value*other {
			continue
		}
		a, err := p.alone(base)
		b, err2 := p.alone(q)
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

// checkLone gives a profile that was spared what MPS costs the step of the server's
// other loads. It holds up others as it did: that goes by the kernels, which are the
// same. With an active thread percentage, steps of many tokens grow as much.
func (t *tenantModel) checkLone(p *Predictor, base *profile.SoloProfile, siblings []*profile.SoloProfile) {
	usual, spared := p.unspared(base, siblings)
	extra := usual - t.step
	switch {
	case !spared:
	case base.Server.SMPercent.Or(100) < 100:
		t.note(extra/usual, "its step alone under MPS, %.2f ms, is shorter than the %.2f ms of another load of the "+
			"server: measure it again", t.step, usual)
	default:
		t.note(0.5*extra/usual, "its step alone under MPS, %.2f ms, was taken for the %.2f ms of another load of the "+
			"server: measure it again", t.step, usual)
		t.stretch(extra)
		t.added -= extra
	}
}
