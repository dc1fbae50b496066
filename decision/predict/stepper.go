// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// FillsGPU reports whether a workload without tokens is known to fill the GPU while its kernels run, and their share of
// the SMs then: under MPS it starves neighbours with steps of many small kernels.
func FillsGPU(s *profile.Solo) (share float64, fills bool) {
	b := s.Uncontended()
	var t tenantModel
	t.kind, t.gpu, t.step = b.Kind, table.Launched.Gapless.Value, 1
	t.readSMs(b, s.Elsewhere)
	fills = b.Kind != profile.KindServer && !t.unknownSMs && t.filled >= table.MPS.FillsGPU.Value
	return math.Pow(t.filled, 1/table.SMs.Filling.Value), fills
}

// readStepper takes a tenant apart that serves no tokens.
func (t *tenantModel) readStepper(p *Predictor, mechanism sharing.Mechanism, s *profile.Solo,
	base *profile.SoloProfile) error {
	t.base, t.kind, t.seen, t.closed = base, base.Kind, true, true
	t.clients, t.slots, t.batch, t.output, t.steps = 1, 1, 1, 2, 1
	t.prefill = costs.ShortestPart
	t.isolated = base.Figures()
	t.step = t.isolated[profile.MetricStepP50]
	t.reference = t.step
	if ts := s.TimeSlicing; ts != nil {
		t.reference, _ = optional.Positive(ts.Step.P50)
	}
	cycle := max(1e3/t.isolated[profile.MetricStepsPerSecond], t.step)
	mean := max(base.Step.Average(), t.step)
	if t.kind == profile.KindBurster {
		t.think = max(0, cycle-mean)
	}
	busy, ok := optional.Positive(base.GPUBusyFraction)
	switch e := s.Elsewhere; {
	case ok:
		t.gpu = min(busy*cycle*t.step/mean, t.step)
	// its gaps are the host's
	case e != nil && e.GPUBusyFraction.Or(0) < table.Launched.Gapless.Value && e.StepsPerS.Or(0) > 0:
		t.gpu, ok = min(e.GPUBusyFraction.Or(0)*1e3/e.StepsPerS.Or(1), t.step), true
	default:
		t.gpu = table.Launched.Gapless.Value * t.step
		t.note(0, "no GPU activity in the profile")
	}
	if t.pieces = 1; t.kind == profile.KindStepper { // a burster's kernels are all queued once its thought ends
		if t.paceCoLocated(mechanism, s, ok); t.gpu < table.Launched.Gapless.Value*t.step {
			t.pieces = launches
		}
	}
	t.host = t.step - t.gpu
	if mechanism == sharing.MechanismMPS && s.MPS == nil {
		t.note(0, "no profile under MPS")
	}
	t.readSMs(base, s.Elsewhere)
	return nil
}

// readSMs finds the share of the time in which a tenant's kernels leave others no room, from its profile or one taken
// on another machine, or else from the waits of a chain's links next to it.
func (t *tenantModel) readSMs(b, elsewhere *profile.SoloProfile) {
	sm, ok := optional.Positive(b.SMFraction)
	if !ok && elsewhere != nil {
		b, ok = elsewhere, true
		sm, _ = optional.Positive(b.SMFraction)
		t.note(0, "the share of the SMs that its kernels hold was measured on another machine")
	}
	busy, ok2 := optional.Positive(b.GPUBusyFraction)
	if !ok2 {
		busy = t.gpu / t.step
	}
	switch {
	case ok && ok2:
		t.sms = min(sm/busy, 1)
	case t.kind == profile.KindServer:
		t.sms = t.decodeSM(b)
	case chainOf(b.Pressure) != nil:
		held := linkUS(chainOf(b.Pressure)) / busy // during its kernels, not its gaps
		t.sms = held / (held + table.SMs.LinkHalf.Value)
		t.filled, t.smsError = t.sms, table.Doubts.Usual.Value
		t.note(table.Doubts.Usual.Value,
			"no SM utilisation in the profile: the links of a chain waited %.3g us next to it", held)
		return
	default:
		t.sms, t.unknownSMs, t.smsError = table.SMs.Usual.Value, true, table.Doubts.CoLocated.Value
		t.note(0, "no SM utilisation in the profile: its kernels are taken for such as nearly fill the GPU")
	}
	if t.filled = math.Pow(t.sms, table.SMs.Filling.Value); t.kind != profile.KindServer {
		t.sms = t.filled
	}
}
