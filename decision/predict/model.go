package predict

import (
	"fmt"
	"math"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// tenantModel is a workload taken apart for prediction. Times are in milliseconds, rates in requests a millisecond.
type tenantModel struct {
	base       *profile.SoloProfile // which it was read from
	pressure   *profile.Pressure    // measured under MPS, whichever profile it was read from; nil where it was not
	kind       profile.Kind
	evidence   Evidence       // in its group
	response   float64        // its main figure in the group by its measurements, ms; 0 = not known
	apart      float64        // distance of the simulated figure from it, as a logarithm
	learned    *costs.Learned // of its engine or model; nil = nothing
	seen       bool           // its engine is one that the predictor was calibrated on
	gaps       bool           // its kernels are launched one by one
	busy       float64        // of a step with gaps, in which the GPU works; 0 = not known
	think      float64        // between two steps of a burster
	pieces     int            // in which a server's prefill or another tenant's step reaches the GPU
	unknownSMs bool           // sms is assumed
	// smsError is the half-width that not knowing sms well adds to the intervals of those beside it under MPS.
	smsError float64
	// The share of the time on the GPU in which its kernels leave others' no room, and those that fill the GPU.
	sms, filled float64
	closed      bool
	// transferred says that the parameters are of another GPU.
	transferred bool
	otherWay    int8 // turns more than counted that a step may take as well: 1, -1, or 0 = sure
	clients     int
	rate        float64
	output      int
	steps       float64 // decode steps of a request: one fewer than its tokens
	slots       int

	settled
	// A decode step with batch sequences in it: host + perToken x batch on the host, then gpu on the GPU.
	host, perToken, batch, doubling float64
	added                           float64 // to each step, beyond what the profile measured
	// of a step, as counted beside a spinning neighbour; 0 = not counted
	turns float64
	// turns that end where a step does, which may take one more, 0 = none do
	edge       float64
	length     float64 // gpu, before it was moved to the turns that were counted
	otherShare float64 // of the steps that were counted with otherWay, with its sign
	// interrupts is the number of prefills, others' included, between a request's first and last token.
	interrupts float64
	cycle      float64 // closed loop: from one request in a slot of the batch to the next
	decodeSM   float64 // the share of the SMs that decode takes while on the GPU
	// Under MPS, by phase: by how much work takes longer for a neighbour that holds up
	// others by 1, and by how much it holds up others. See Predictor.takeTurns.
	decodeWaits, prefillWaits, decodeHolds, prefillHolds float64

	alone profile.Figures // of the workload alone under the mechanism
	// reference is the value that a slowdown is relative to.
	reference float64
	// offered is the half-width of an open loop's offered load: chance gives another seed another number of requests.
	offered float64
	// widen is added to the intervals' half-widths in quadrature.
	widen  float64
	notes  []string
	growth profile.Optional[float64] // of the first token beside others, for each ms of a token's
}

// settled holds the factors that adjust a tenant's engine alone, until it does what was measured.
type settled struct {
	step, gpu, prefill, prefillGPU float64 // of a step and a prefill: the time alone, and the GPU's work in it
}

func (t *tenantModel) note(widen float64, format string, args ...any) {
	t.widen = math.Hypot(t.widen, widen)
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

func (p *Predictor) model(mechanism sharing.Mechanism, s *profile.Solo, t *tenantModel) error {
	base := s.TimeSlicing
	if mechanism == sharing.MechanismMPS && s.MPS != nil {
		base = s.MPS
	}
	if base == nil {
		return fmt.Errorf("%w under %s: %s with %s", profile.ErrNoProfile, mechanism, s.Server, s.Load)
	}
	t.gaps = mechanism == sharing.MechanismTimeSlicing && p.manyTurns(base)
	t.readGaps(base, s.Siblings)
	// Under MPS, which makes launches dearer, a host launches beside others rather at the slower pace of those alone.
	if o := s.TimeSlicing; t.gaps && base == s.MPS && o != nil && o.Server == base.Server &&
		o.Figures()[profile.MetricTPOTP50] >= slowerPace*base.Figures()[profile.MetricTPOTP50] {
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
		if mechanism == sharing.MechanismTimeSlicing && t.base.Turns.Or(0) <= 0 {
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
	t.reference = t.alone[profile.MetricTPOTP50]
	if ts := s.TimeSlicing; ts != nil {
		if v, ok := ts.Metric(profile.MetricTPOTP50); ok {
			t.reference = v
		}
	}
	if o := s.TimeSlicing; o != nil && !home(base) {
		t.growth = o.TTFTGrowth
	}
	if mechanism != sharing.MechanismMPS {
		t.countTurns(p, base)
		t.countEdge(p, base, s.Siblings)
		if !home(base) {
			if t.gpu > t.host { // it launches ahead of the GPU
				t.pieces = 1
			}
			if !t.gaps { // whatever GPM says: they read the weights
				t.prefillGPU = max(t.prefillGPU, p.usualPrefill(t)*t.prefill)
			}
		}
		t.prefillGPU *= p.Parameters.PrefillCatchUp.Value
		return nil
	}
	if c := s.Server.SMPercent.Or(100); c < 100 {
		// Whether capped tenants' SMs overlap is the hardware's choice: equal tenants at 50% have been seen 20% apart.
		t.note(table.Doubts.Usual.Value, "capped to %g%% of the SMs, which may or may not overlap others'", c)
	}
	t.splitSMs(p, base, s)
	t.takeTurns(p, base, s.Server.SMPercent.Or(100)/100)
	t.readSMs(base, s.Elsewhere)
	return nil
}

func sameName(a, b string) bool {
	trim := func(s string) string { return strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "nvidia ") }
	return trim(a) == trim(b)
}

func driverBranch(s string) string {
	branch, _, _ := strings.Cut(s, ".")
	return branch
}

func (t *tenantModel) readProfile(p *Predictor, b *profile.SoloProfile, siblings ...*profile.SoloProfile) error {
	t.perToken, t.doubling = p.Parameters.HostPerToken.Value, max(t.doubling, p.Parameters.BatchDoubling.Value)
	t.closed, t.clients, t.rate = b.Load.Closed(), b.Load.Concurrency, b.Load.Rate/1e3
	t.base, t.output, t.steps, t.pieces = b, b.Load.Output, float64(b.Load.Output-1), launches
	if !t.closed {
		t.offered = profile.Z90 / math.Sqrt(float64(max(b.Requests.Or(0), 30)))
	}
	if t.output < 2 {
		return fmt.Errorf("%w: one-token answers have no decode step (%s)", ErrUnpredictable, b.Load)
	}
	t.alone = b.Figures()
	var ok bool
	t.step, ok = profile.Positive(b.ITL.P50)
	if b.GapsHoldPrompts() || !ok && b.Version >= profile.VersionOfKinds {
		t.step, ok = table.Steps.DecodeOfTPOT.Value*t.alone[profile.MetricTPOTP50], true
		for _, q := range siblings {
			if own, known := profile.Positive(q.ITL.P50); known && alike(q, b) {
				t.step = min(t.step, own)
			}
		}
		t.note(table.Doubts.Usual.Value, "the profile's gaps between tokens are no decode steps: one taken for %.3g ms",
			t.step)
	}
	if !ok || t.alone[profile.MetricTPOTP50] == 0 || t.alone[profile.MetricE2EP50] == 0 ||
		t.alone[profile.MetricTokensPerSecond] == 0 {
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

// repeatArrivals has an open loop offer what it offered alone where the seed is the same: so are the arrivals then,
// which chance had come more or less often than the rate says. Of a handful of requests that cannot be told.
func (t *tenantModel) repeatArrivals(s *profile.Solo, base *profile.SoloProfile) {
	if !t.closed && !base.Load.Seed.IsZero() && s.Load.Seed == base.Load.Seed && base.Requests.Or(0) >= fewRequests {
		t.rate = t.alone[profile.MetricTokensPerSecond] / 1e3 / float64(t.output)
	}
}

// shareFirst takes the first token alone from the runs under both mechanisms, where there are two: nobody else is
// on the GPU, so both measure the same, and by chance they differ by 20% (decision/predict/testdata).
func (t *tenantModel) shareFirst(s *profile.Solo) {
	if s.MPS == nil || s.TimeSlicing == nil || s.MPS.Server != s.TimeSlicing.Server {
		return
	}
	a, ok := s.MPS.Metric(profile.MetricTTFTP50)
	b, ok2 := s.TimeSlicing.Metric(profile.MetricTTFTP50)
	if ok && ok2 {
		t.alone[profile.MetricTTFTP50] = a * math.Pow(b/a, table.Steps.LoneError.Value)
	}
}

// readSlots finds how many requests the server has in its batch at once.
func (t *tenantModel) readSlots(b *profile.SoloProfile) {
	if v, ok := b.Server.Slots.Get(); ok {
		t.slots = v
		return
	}
	t.slots = max(profile.UsualSlots, t.clients)
	// By Little's law, the requests that are decoding.
	live := t.alone[profile.MetricTokensPerSecond] / 1e3 / float64(t.output) * t.steps * b.TPOT.Average()
	switch {
	case !t.closed:
		t.slots = max(t.slots, int(min(2*live, 1<<16)))
	case t.clients > profile.UsualSlots && live < 0.8*float64(t.clients):
		t.slots = max(1, int(math.Round(live))) // fewer than the clients
		t.note(table.Doubts.Usual.Value, "the server's slots are not stated; its profile looks like %d", t.slots)
	}
}

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

func (t *tenantModel) stretch(extra float64) {
	request := t.steps * extra
	t.step += extra
	t.added += extra
	for _, m := range []profile.Metric{profile.MetricTPOTP50, profile.MetricTPOTP99} {
		if t.alone[m] > 0 {
			t.alone[m] += extra
		}
	}
	if t.closed {
		t.alone[profile.MetricTokensPerSecond] *= t.alone[profile.MetricE2EP50] / (t.alone[profile.MetricE2EP50] + request)
	}
	for _, m := range []profile.Metric{profile.MetricE2EP50, profile.MetricE2EP90, profile.MetricE2EP99} {
		if t.alone[m] > 0 {
			t.alone[m] += request
		}
	}
}
