// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// closedState holds a tenant's part of the fixed point.
type closedState struct {
	step, prefill float64 // ms, co-located
	// Shares of time: in decode steps, in prefills, and of those on the GPU.
	decode, prefills        float64
	decodeOnGPU, prefillGPU float64
	slice, sliceCount       float64 // mean slice of a decode step, and their number
}

// closedForm predicts by closed forms: a decode step is the mean over the activities of the neighbours, independent and
// as long as their own steps: a fixed point, as in approximate mean value analysis (P. Schweitzer, 1979).
func (p *Predictor) closedForm(mechanism sharing.Mechanism, models []tenantModel, out []Prediction) {
	states := make([]closedState, 0, 8) // on the stack for the groups that matter
	mixed := false                      // some serve no tokens
	for i := range models {
		t := &models[i]
		mixed = mixed || t.kind != profile.KindServer
		n := t.sliceCount
		if n == 0 {
			n = meanSlices(t.gpu / p.Parameters.slice())
		} else {
			n += t.otherShare
		}
		st := closedState{step: t.step, prefill: t.prefill, slice: t.gpu / n, sliceCount: n}
		st.occupy(t, t.gpu, t.prefillGPU)
		states = append(states, st)
	}
	const rounds, damping, close = 32, 0.5, 2e-5
	moved := 1.0
	for range rounds {
		if moved < close {
			break
		}
		moved = 0
		for i := range models {
			t, st := &models[i], &states[i]
			var step, prefill, onGPU, prefillOn float64
			if mechanism == sharing.MechanismMPS {
				step, prefill, onGPU, prefillOn = p.contendedMPS(models, states, i, mixed)
			} else {
				step, prefill = p.contendedSlices(models, states, i)
				onGPU, prefillOn = t.gpu, t.prefillGPU
			}
			moved = max(moved, math.Abs(step/st.step-1), math.Abs(prefill/st.prefill-1))
			st.step += damping * (step - st.step)
			st.prefill += damping * (prefill - st.prefill)
			st.occupy(t, onGPU, prefillOn)
		}
	}
	for i := range models {
		t, st := &models[i], &states[i]
		var values profile.Figures
		for m := range values {
			values[m] = st.metric(t, profile.Metric(m))
		}
		if len(models) > 1 {
			usualTail(&values)
		}
		t.follow(&values)
		p.fill(mechanism, t, &out[i], &values)
	}
}

func (s *closedState) occupy(t *tenantModel, stepOnGPU, prefillOnGPU float64) {
	if t.kind != profile.KindServer {
		s.decode = s.step / (s.step + t.think)
		s.decodeOnGPU = s.decode * min(1, stepOnGPU/s.step)
		return
	}
	if t.closed {
		c := t.cycleOf(s.step, s.prefill)
		s.decode, s.prefills = t.steps*s.step/c, t.batch*s.prefill/c
	} else {
		s.prefills = min(0.95, t.rate*s.prefill)
		live := t.rate * t.steps * (s.step + t.interrupts*s.prefill/t.steps)
		s.decode = (1 - s.prefills) * (1 - math.Exp(-live))
	}
	s.decodeOnGPU = s.decode * min(1, stepOnGPU/s.step)
	s.prefillGPU = s.prefills * min(1, prefillOnGPU/s.prefill)
}

// prefillWaits is the number of times in a prefill that the host waits for the GPU.
const prefillWaits = 2

// contendedSlices is tenant i's decode step and prefill under time-slicing. Each of its slices is followed by those of
// the neighbours with work: a whole slice of one that decodes, and the piled-up work of one that prefills.
func (p *Predictor) contendedSlices(models []tenantModel, states []closedState, i int) (step, prefill float64) {
	t, own := &models[i], &states[i]
	change := p.Parameters.change()
	wait, nobody := 0.0, 1.0
	for j := range models {
		if j == i {
			continue
		}
		u, st := &models[j], &states[j]
		pile := u.prefillGPU / u.prefill * (own.slice + 2*change)
		wait += st.decode*(st.slice+change) + st.prefills*(pile+change)
		nobody *= 1 - min(1, st.decode+st.prefills)
	}
	some := 1 - nobody
	if some < 1e-9 {
		return t.step, t.prefill
	}
	wait += some * change
	busy := max(t.step, t.gpu+own.sliceCount*wait/some)
	return nobody*t.step + some*busy, t.prefill + prefillWaits*wait
}

// contendedMPS is tenant i's decode step and prefill under MPS, and the time of each on the GPU, which others hold up.
func (p *Predictor) contendedMPS(models []tenantModel, states []closedState, i int, mixed bool) (step, prefill, stepOn,
	prefillOn float64) {
	t := &models[i]
	if mixed {
		held := 0.0
		for j := range models {
			if j != i {
				u, st := &models[j], &states[j]
				held += u.sms * (st.decode*u.gpu/st.step + st.prefills*u.prefillGPU/st.prefill)
			}
		}
		slow := 1 / max(1-held, p.Parameters.Law().SlowestSpeed)
		stepOn, prefillOn = t.gpu*slow, t.prefillGPU*slow
		if t.kind != profile.KindServer {
			if step = t.step - t.gpu + stepOn; t.pieces > 1 {
				step = max(t.step, stepOn) // it goes on launching while its kernels wait
			}
			return step, max(t.prefill, prefillOn), stepOn, prefillOn
		}
	}
	held, nobody := 0.0, 1.0
	for j := range models {
		if j == i {
			continue
		}
		u, st := &models[j], &states[j]
		held += (st.decodeOnGPU + st.prefillGPU) * u.holds
		nobody *= 1 - min(1, st.decodeOnGPU+st.prefillGPU)
	}
	extra := 1 + p.Parameters.Arbitration.Value*(1-nobody)
	stepOn = max(stepOn, t.gpu*(extra+t.decodeWaits*held))
	prefillOn = max(prefillOn, t.prefillGPU*(extra+t.prefillWaits*held))
	return t.step - t.gpu + stepOn, max(t.prefill, prefillOn), stepOn, prefillOn
}

// metric derives a metric from the isolated workload and the lengths of its step and prefill when co-located.
func (s *closedState) metric(t *tenantModel, m profile.Metric) float64 {
	isolated := t.isolated[m]
	if isolated <= 0 {
		return 0
	}
	step, prefill := s.step-t.step, s.prefill-t.prefill
	tpot, first := step+t.interrupts*prefill/t.steps, prefill
	if ttft := t.isolated[profile.MetricTTFTP50]; ttft > 0 {
		first *= max(1, ttft/t.prefill)
	}
	switch m {
	case profile.MetricStepP50, profile.MetricStepP99:
		return isolated + step
	case profile.MetricStepsPerSecond:
		return isolated * (t.step + t.think) / (s.step + t.think)
	case profile.MetricTPOTP50, profile.MetricTPOTP99:
		return isolated + tpot
	case profile.MetricTTFTP50, profile.MetricTTFTP99:
		return isolated + first
	case profile.MetricTokensPerSecond:
		if !t.closed {
			return isolated
		}
		before := t.cycleOf(t.step, t.prefill)
		return isolated * before / (before + t.batch*prefill + t.steps*step)
	}
	return isolated + t.steps*tpot + first
}
