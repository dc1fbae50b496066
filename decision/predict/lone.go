package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// SparedAlone says that a workload's profile under MPS had better be measured once more: for seconds, a lone tenant
// may be spared most of what MPS costs it, of which it has nothing beside others. Its step is then much shorter
// than those of the server's other loads, though it reads as much memory. On two hosts of four on which whole plans
// were measured that was so of 9 loads of 40 (h100-mixes-6 and h200-mixes-7 in examples/predict/testdata).
func (p *Predictor) SparedAlone(s *profile.Solo) bool {
	if s.MPS == nil {
		return false
	}
	_, spared := p.unspared(s.MPS, s.Siblings)
	return spared
}

// sparedStep is the step of a profile over those of the server's other loads below which it was spared what MPS costs.
var sparedStep = costs.Value("spared_step")

// unspared returns the step of a profile that was spared most of what MPS costs, as the server's other loads tell it.
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
		if !ok || !ok2 || q.Mechanism != base.Mechanism || own >= sparedStep*other {
			continue
		}
		a, err := p.alone(base)
		b, err2 := p.alone(q)
		if err != nil || err2 != nil {
			continue
		}
		grown := 1 + a.doubling*math.Log2(max(1, b.batch/a.batch))
		if own < sparedStep*b.step/grown && v/grown < sparedStep*u {
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
