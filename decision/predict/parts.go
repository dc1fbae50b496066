// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/stats"
)

func (t *tenantModel) readProfile(p *Predictor, b *profile.SoloProfile, siblings ...*profile.SoloProfile) error {
	t.perToken, t.doubling = p.Parameters.HostPerToken.Value, max(t.doubling, p.Parameters.BatchDoubling.Value)
	t.closed, t.clients, t.rate = b.Load.Closed(), b.Load.Concurrency, b.Load.Rate/1e3
	t.base, t.output, t.steps, t.pieces = b, b.Load.Output, float64(b.Load.Output-1), launches
	if !t.closed {
		t.offered = stats.Z90 / math.Sqrt(float64(max(b.Requests.Or(0), 30)))
	}
	if t.output < 2 {
		return fmt.Errorf("%w: one-token answers have no decode step (%s)", ErrUnpredictable, b.Load)
	}
	t.isolated = b.Figures()
	var ok bool
	t.step, ok = optional.Positive(b.ITL.P50)
	if b.GapsHoldPrompts() || !ok && b.Version >= profile.VersionOfKinds {
		t.step, ok = table.Steps.DecodeOfTPOT.Value*t.isolated[profile.MetricTPOTP50], true
		for _, q := range siblings {
			if own, known := optional.Positive(q.ITL.P50); known && alike(q, b) {
				t.step = min(t.step, own)
			}
		}
		t.note(table.Doubts.Usual.Value, "the profile's gaps between tokens are no decode steps: one taken for %.3g ms",
			t.step)
	}
	if !ok || t.isolated[profile.MetricTPOTP50] == 0 || t.isolated[profile.MetricE2EP50] == 0 ||
		t.isolated[profile.MetricTokensPerSecond] == 0 {
		return fmt.Errorf("%w: itl_ms.p50, tpot_ms.p50, e2e_ms.p50 and tokens_per_s are needed", ErrUnpredictable)
	}
	if n, ok := b.Requests.Get(); ok && n < fewRequests {
		t.note(table.Doubts.Usual.Value, "the profile holds %d requests only", n)
	}
	t.readSlots(b)
	return nil
}

// fewRequests is the number of requests below which a profile is too noisy.
const fewRequests = 10

// readSlots finds how many requests the server has in its batch at once.
func (t *tenantModel) readSlots(b *profile.SoloProfile) {
	if v, ok := b.Server.Slots.Get(); ok {
		t.slots = v
		return
	}
	t.slots = max(costs.UsualSlots, t.clients)
	// By Little's law, the requests that are decoding.
	live := t.isolated[profile.MetricTokensPerSecond] / 1e3 / float64(t.output) * t.steps * b.TPOT.Average()
	switch {
	case !t.closed:
		t.slots = max(t.slots, int(min(2*live, 1<<16)))
	case t.clients > costs.UsualSlots && live < 0.8*float64(t.clients):
		t.slots = max(1, int(math.Round(live))) // fewer than the clients
		t.note(table.Doubts.Usual.Value, "the server's slots are not stated; its profile looks like %d", t.slots)
	}
}

// leastGPUPart bounds the part of a step on the GPU: no row of a server comes near.
const leastGPUPart = 0.3

// takeApart finds the parts of a decode step and a prefill. Without GPM usualHost is the host's, 0 = the parameter.
func (t *tenantModel) takeApart(p *Predictor, b *profile.SoloProfile, usualHost float64) error {
	busy := 0.0 // GPU-active time for each request
	if t.closed {
		t.batch = float64(min(t.clients, t.slots))
		perMS := t.isolated[profile.MetricTokensPerSecond] / 1e3
		t.cycle = float64(t.clients) * float64(t.output) / perMS * t.batch / float64(t.clients)
		t.prefill = (t.cycle - t.steps*t.step - table.Steps.ClientDelay.Value) / t.batch
		busy = b.GPUBusyFraction.Or(0) * t.cycle
	} else {
		e2e, tpot := b.E2E.Average()+t.steps*t.added, b.TPOT.Average()+t.added
		t.batch = max(1, t.rate*e2e)
		t.prefill = (tpot - t.step) * t.steps / (t.rate * e2e)
		if ttft := t.isolated[profile.MetricTTFTP50]; ttft > 0 && t.prefill > 0 {
			// What prefills add to TPOT is a small difference of two noisy figures; the first token, less the step
			// that it waits for, is another view of the same time.
			first := max(0.5*ttft, ttft-t.liveFraction(e2e)*t.step/2)
			t.prefill = max(t.prefill, table.Steps.LeastOfFirst.Value*first)
		}
	}
	if ttft := t.isolated[profile.MetricTTFTP50]; ttft > 0 && (t.prefill < 0.1*ttft && t.batch < 2 || t.prefill <= 0) {
		t.prefill = ttft / max(1, (t.batch+1)/2)
		t.note(0, "the profile's throughput leaves no time for prefills; TTFT was used")
	}
	switch {
	case t.prefill <= 0:
		return fmt.Errorf("%w: its decode steps take longer than its requests do", ErrUnpredictable)
	case t.step < costs.ShortestPart || t.prefill < costs.ShortestPart || t.step > costs.LongestPart ||
		t.prefill > costs.LongestPart:
		return fmt.Errorf("%w: its throughput leaves %.3g ms for a step and %.3g ms for a prefill", ErrUnpredictable,
			t.step, t.prefill)
	}
	host, prefillBusy := p.idleParts(t, busy, usualHost)
	if t.gaps && t.busy > 0 {
		host, prefillBusy, t.perToken = 1-t.busy, table.Launched.BusyPrefilling.Value, 0
	}
	t.host = host * t.step
	t.gpu = t.step - t.host - t.perToken*t.batch
	if least := leastGPUPart * t.step; t.gpu < least && !t.gaps {
		t.gpu = least
		t.perToken = (t.step - t.host - t.gpu) / t.batch
	}
	t.interrupts = max(0, (t.isolated[profile.MetricTPOTP50]-t.step)*t.steps/t.prefill)
	t.prefillGPU = prefillBusy * t.prefill
	return nil
}

func (p *Predictor) isolated(b *profile.SoloProfile) (t tenantModel, err error) {
	if err = t.readProfile(p, b); err == nil {
		err = t.takeApart(p, b, 0)
	}
	return t, err
}

// usualHost is the host's part of a decode step by the server's other loads; 0 where none determines it.
func (p *Predictor) usualHost(base *profile.SoloProfile, siblings []*profile.SoloProfile) float64 {
	sum, n := 0.0, 0
	for _, q := range siblings {
		if !alike(q, base) || q.GPUBusyFraction.IsZero() {
			continue
		}
		if m, err := p.isolated(q); err == nil {
			sum, n = sum+m.host/m.step, n+1
		}
	}
	return sum / float64(max(n, 1))
}

// idleParts are the fraction of a decode step in which the GPU waits for the host, and the fraction of a prefill in
// which it works. One figure of GPM, the busy time of a whole request, depends on both: each is moved from its usual
// value in proportion to its variance, as by a Kalman filter.
func (p *Predictor) idleParts(t *tenantModel, busy, usualHost float64) (host, prefillBusy float64) {
	host, prefillBusy = p.Parameters.HostFraction.Value, p.usualPrefill(t)
	if busy <= 0 {
		if usualHost > 0 {
			host = usualHost
		}
		return host, prefillBusy
	}
	decoding, prefilling := t.steps*t.step, t.batch*t.prefill
	beyond := busy - (1-host)*decoding + t.steps*t.perToken*t.batch - prefillBusy*prefilling
	hostError, prefillError := table.Steps.HostError.Value, table.Steps.PrefillError.Value
	hostVar, prefillVar := hostError*hostError*decoding, prefillError*prefillError*prefilling
	gain := beyond / (hostVar*decoding + prefillVar*prefilling + math.Pow(table.Steps.GPMError.Value*busy, 2))
	host -= hostVar * gain
	prefillBusy += prefillVar * gain
	return min(max(host, 0), p.Parameters.HostFraction.High), min(max(prefillBusy, p.Parameters.PrefillBusy.Low), 1)
}

// usualPrefill is the fraction of a prefill in which the GPU works as a rule: it reads the weights as a decode step
// does, in kernels that are launched one by one, and then there is the work on its tokens.
func (p *Predictor) usualPrefill(t *tenantModel) float64 {
	sms := t.base.Server.SMPercent.Or(100) / 100 // of which more make prompts faster, and hardly steps
	steps := 1 + float64(t.base.Load.Prompt)/(p.Parameters.PrefillTokens.Value*sms)
	return min(p.Parameters.PrefillBusy.Value, steps*t.step/t.prefill)
}
