// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

func (p *Predictor) model(mechanism sharing.Mechanism, s *profile.Solo, t *tenantModel) error {
	base := s.TimeSlicing
	if mechanism == sharing.MechanismMPS && s.MPS != nil {
		base = s.MPS
	}
	if base == nil {
		return fmt.Errorf("%w under %s: %s with %s", profile.ErrNoProfile, mechanism, s.Server, s.Load)
	}
	t.gaps = mechanism == sharing.MechanismTimeSlicing && p.manySlices(base)
	t.readGaps(base, s.Siblings)
	// MPS makes launches dearer: co-located, a host launches rather at the slower of its two isolated paces.
	if o := s.TimeSlicing; t.gaps && base == s.MPS && o != nil && o.Server == base.Server &&
		o.Figures()[profile.MetricTPOTP50] >= base.Figures()[profile.MetricTPOTP50] {
		*t, base = tenantModel{}, o
		t.readGaps(base, s.Siblings)
	}
	if s.MPS != nil {
		t.pressure = s.MPS.Pressure
	}
	if err := p.transfer(mechanism, base.GPU, t); err != nil {
		return err
	}
	if base.Driver != "" && p.Driver != "" && driverBranch(base.Driver) != driverBranch(p.Driver) {
		t.note(table.Doubts.Usual.Value, "profile taken with driver %s, predictor calibrated on %s", base.Driver, p.Driver)
	}
	if base.Kind != profile.KindServer {
		return t.readStepper(p, mechanism, s, base)
	}
	if err := t.readProfile(p, base, s.Siblings...); err != nil {
		return err
	}
	switch host := 1 - t.busy; {
	// 90% of two draws from a range lie as near
	case t.gaps && t.busy > 0 && host > table.Launched.SharedCore.Value*t.busy:
		t.note(host*(1-math.Sqrt(0.1))*math.Log(table.Launched.SharedCore.Value),
			"the GPU works for %.0f%% of a step only: the rest is its "+
				"host's, whose pace changes from one run to the next", 100*t.busy)
	case t.gaps && mechanism == sharing.MechanismMPS:
		t.note(math.Log(table.Launched.SharedCore.Value)/4, "its host launches kernel by kernel, at the pace of a core "+
			"that others share or not")
	}
	if mechanism == sharing.MechanismMPS && !home(base) && !base.GapsHoldPrompts() {
		t.paceOfRuns(s)
	}
	t.seen = p.seen(base)
	if !t.seen {
		t.notes = append(t.notes, "no row of its engine was calibrated on: the interval is that of engines left out")
		if mechanism == sharing.MechanismTimeSlicing && t.base.SlicesPerStep.Or(0) <= 0 {
			t.note(uncounted, "how often its step waits for a spinning neighbour was not measured")
		}
	}
	t.repeatArrivals(s, base)
	t.shareFirst(s)
	if !t.gaps { // else steps differ by the batch
		t.checkLone(p, base, s.Siblings)
	}
	if mechanism == sharing.MechanismMPS && s.MPS == nil {
		t.addMPSCost(p)
	}
	if percent, capped := s.CapPercent.Get(); capped && mechanism == sharing.MechanismMPS {
		t.addCap(p, percent)
	}
	if err := t.takeApart(p, base, p.usualHost(base, s.Siblings)); err != nil {
		return err
	}
	t.reference = t.isolated[profile.MetricTPOTP50]
	if ts := s.TimeSlicing; ts != nil {
		if v, ok := ts.Metric(profile.MetricTPOTP50); ok {
			t.reference = v
		}
	}
	if o := s.TimeSlicing; o != nil && !home(base) {
		t.growth = o.TTFTGrowth
	}
	t.contend(p, mechanism, s, base)
	return nil
}

// contend finds the tenant's part in the contention of a group.
func (t *tenantModel) contend(p *Predictor, mechanism sharing.Mechanism, s *profile.Solo, base *profile.SoloProfile) {
	if mechanism != sharing.MechanismMPS {
		t.countSlices(p, base)
		t.countEdge(p, base, s.Siblings)
		if !home(base) {
			if t.gpu > t.host { // it launches ahead of the GPU
				t.pieces = 1
			}
			if !t.gaps { // whatever GPM reports: they read the weights
				t.prefillGPU = max(t.prefillGPU, p.usualPrefill(t)*t.prefill)
			}
		}
		t.prefillGPU *= p.Parameters.PrefillCatchUp.Value
		return
	}
	if c := s.Server.SMPercent.Or(100); c < 100 {
		// Whether capped tenants' SMs overlap is the hardware's choice: equal tenants at 50% have been seen 20% apart.
		t.note(table.Doubts.Usual.Value, "capped to %g%% of the SMs, which may or may not overlap others'", c)
	}
	t.findWaits(p, base, s.Server.SMPercent.Or(100)/100)
	t.readSMs(base, s.Elsewhere)
}

// repeatArrivals gives an open loop its isolated rate where the seed is the same: then the same arrivals come, by
// chance more or fewer than the stated rate. A handful of requests doesn't show it.
func (t *tenantModel) repeatArrivals(s *profile.Solo, base *profile.SoloProfile) {
	if !t.closed && !base.Load.Seed.IsZero() && s.Load.Seed == base.Load.Seed && base.Requests.Or(0) >= fewRequests {
		t.rate = t.isolated[profile.MetricTokensPerSecond] / 1e3 / float64(t.output)
	}
}

// shareFirst combines the isolated first tokens of the runs under both mechanisms: they measure the same, and by chance
// they differ by 20% (decision/predict/testdata).
func (t *tenantModel) shareFirst(s *profile.Solo) {
	if s.MPS == nil || s.TimeSlicing == nil || s.MPS.Server != s.TimeSlicing.Server {
		return
	}
	a, ok := s.MPS.Metric(profile.MetricTTFTP50)
	b, ok2 := s.TimeSlicing.Metric(profile.MetricTTFTP50)
	if ok && ok2 {
		t.isolated[profile.MetricTTFTP50] = a * math.Pow(b/a, table.Steps.LoneError.Value)
	}
}

// transfer returns an error where the predictor's parameters do not carry over to the GPU of a profile, and widens the
// intervals of predictions there.
func (p *Predictor) transfer(mechanism sharing.Mechanism, gpu string, t *tenantModel) error {
	if gpu == "" || sameName(gpu, p.GPU) {
		return nil
	}
	if SimulatedGPU(gpu) || SimulatedGPU(p.GPU) {
		return fmt.Errorf("%w: %s; calibrated on %s (a simulation says nothing of a GPU, nor a GPU of it)", ErrOtherGPU,
			problem.Clip(gpu), problem.Clip(p.GPU))
	}
	there, err := sharing.LookupGPU(gpu)
	here, err2 := sharing.LookupGPU(p.GPU)
	if err == nil && there == here {
		return nil
	}
	t.transferred = true
	if err != nil || err2 != nil {
		unknown := gpu
		if err == nil {
			unknown = p.GPU
		}
		wider := table.Doubts.Far.Value
		t.note(wider, "carried over from %s to %s; nothing is known of %s: the interval under %s is wider by up to %.0f%% "+
			"either way, which is assumed and was never measured; calibrate there",
			problem.Clip(p.GPU), problem.Clip(gpu), problem.Clip(unknown), mechanism, 100*wider)
		return nil
	}
	if mechanism == sharing.MechanismMPS && !p.KnowsMPS(there) {
		return fmt.Errorf("%w: %s, calibrated on %s; before Volta MPS clients shared one address space and scheduler, "+
			"so nothing carries over", ErrOtherGPU, there.Name, here.Name)
	}
	wider, says := transferSigma(here, there), "carried over from %s to %s, of another architecture: the interval "+
		"under %s is wider by up to %.0f%% either way, which is assumed and was never measured; calibrate there"
	if there.Architecture == here.Architecture {
		says = "carried over from %s to %s, which widens the interval under %s by " +
			"up to %.0f%% either way; calibrate there for a narrower one"
	}
	t.note(wider, says, here.Name, there.Name, mechanism, 100*wider)
	return nil
}
