package predict

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// simulate predicts by running the tenants' engines, alone and together.
func (p *Predictor) simulate(mechanism sharing.Mechanism, models []tenantModel, out []Prediction) error {
	alone := make([]figures, len(models))
	for i := range models {
		if j := slices.IndexFunc(models[:i], func(o tenantModel) bool { return o.base == models[i].base && o.step == models[i].step }); j >= 0 {
			alone[i] = alone[j] // the same workload again
			models[i].prefill, models[i].prefillGPU = models[j].prefill, models[j].prefillGPU
			continue
		}
		var err error
		if alone[i], err = p.settle(mechanism, &models[i]); err != nil {
			return err
		}
	}
	together, short, err := p.runEngines(mechanism, models)
	if err != nil {
		return err
	}
	for i := range models {
		t := &models[i]
		if short[i] {
			t.note(0.1, "few requests end: the load is heavy, or too heavy, for the group")
		}
		p.fill(mechanism, t, &out[i], func(m Metric) float64 { return combine(m, t.alone[m], alone[i][m], together[i][m]) })
	}
	if mechanism == sharing.MechanismTimeSlicing {
		return p.trySides(mechanism, models, alone, together, out)
	}
	return nil
}

// combine corrects a simulated metric for what the simulation gets wrong of the
// workload alone: by half for middles, since a lone measurement errs as well
// (3 to 5%), and wholly for tails, which the simulation underrates.
func combine(m Metric, measured, aloneSim, togetherSim float64) float64 {
	if measured <= 0 || aloneSim <= 0 || togetherSim <= 0 {
		return togetherSim
	}
	switch m {
	case MetricTokensPerSecond:
		return togetherSim * measured / aloneSim
	case MetricTPOTP50, MetricE2EP50, MetricTTFTP50:
		return togetherSim + (measured-aloneSim)/2
	}
	return max(togetherSim+measured-aloneSim, togetherSim/2)
}

// settle adjusts the length of a prefill until the engine alone has the
// measured throughput, and returns what its clients see.
func (p *Predictor) settle(mechanism sharing.Mechanism, t *tenantModel) (figures, error) {
	var o figures
	for i := 0; ; i++ {
		got, _, err := p.runEngines(mechanism, []tenantModel{*t})
		if err != nil {
			return o, err
		}
		o = got[0]
		if !t.closed || i == 4 || o[MetricTokensPerSecond] <= 0 {
			return o, nil
		}
		tokens := 1e3 * t.batch * float64(t.output)
		change := 0.8 * (tokens/t.alone[MetricTokensPerSecond] - tokens/o[MetricTokensPerSecond]) / t.batch
		if math.Abs(change) < 0.005*t.prefill {
			return o, nil
		}
		grown := min(max(t.prefill+change, 0.1*t.prefill), 2*t.prefill)
		t.prefillGPU *= grown / t.prefill
		t.prefill = grown
	}
}

// runEngines simulates engines together. short says of each that hardly any of
// its requests ended.
func (p *Predictor) runEngines(mechanism sharing.Mechanism, models []tenantModel) (out []figures, short []bool, err error) {
	from, until := horizon(models)
	engines := make([]*engine, len(models))
	for i := range models {
		engines[i] = newEngine(&models[i], i, from, until)
	}
	if mechanism == sharing.MechanismMPS {
		p.runConcurrently(engines, until)
	} else {
		sim := timeslice.Engine{Scheduler: p.scheduler(), Tenants: make([]timeslice.Submitter, len(engines)), Until: until}
		for i, e := range engines {
			sim.Tenants[i] = e
		}
		if _, _, err := sim.Run(context.Background()); err != nil {
			return nil, nil, fmt.Errorf("predict: simulating the group: %w", err)
		}
	}
	out, short = make([]figures, len(engines)), make([]bool, len(engines))
	for i, e := range engines {
		var n int
		out[i], n = e.outcome()
		short[i] = n < 4 || e.waiting.len() > 4*e.t.slots && !e.t.closed || e.waiting.len() >= 64 && !e.t.closed
	}
	return out, short, nil
}

// horizon is the simulated time: room for some 25 requests of the slowest
// tenant, at least 12 and at most 90 s, and no more than a few million tokens,
// so that no profile makes a simulation long. A tenth of it is to warm up.
func horizon(models []tenantModel) (from, until time.Duration) {
	const mostTokens = 3e6
	longest, tokens := 0.0, 0.0 // tokens a millisecond
	for i := range models {
		t := &models[i]
		longest = max(longest, t.alone[MetricE2EP50])
		tokens += t.batch / t.step
		if !t.closed {
			longest = max(longest, 8/t.rate)
			tokens += t.rate
		}
	}
	ms := min(max(25*longest*float64(len(models)), 12e3), 90e3, mostTokens/tokens)
	return millis(ms / 10), max(millis(ms), time.Microsecond)
}

// trySides looks at tenants whose step is near a whole number of quanta: with
// the other number of turns the whole group may fare otherwise, and each
// interval is widened half of the way there, on a GPU that the predictor was not
// calibrated on all of it.
func (p *Predictor) trySides(mechanism sharing.Mechanism, models []tenantModel, alone, together []figures, out []Prediction) error {
	for i := range models {
		other, near := out[i].OtherTurns.Get()
		if !near {
			continue
		}
		turns, _ := out[i].Turns.Get()
		sides := slices.Clone(models)
		edge := p.Parameters.Quantum.Value * float64(min(turns, other))
		sides[i].gpu = edge * 0.99
		if other > turns {
			sides[i].gpu = edge * 1.01
		}
		otherwise, _, err := p.runEngines(mechanism, sides)
		if err != nil {
			return err
		}
		for j := range models {
			for m := range Metric(metricCount) {
				a := combine(m, models[j].alone[m], alone[j][m], together[j][m])
				b := combine(m, models[j].alone[m], alone[j][m], otherwise[j][m])
				if a > 0 && b > 0 {
					if !models[j].transferred {
						b = math.Sqrt(a * b)
					}
					out[j].include(m, b)
				}
			}
		}
	}
	return nil
}

func (p *Predictor) scheduler() timeslice.Scheduler {
	return timeslice.Scheduler{Quantum: millis(p.Parameters.Quantum.Value), Switch: millis(p.Parameters.Switch.Value)}
}

// unseenModel is how much wider an interval is for a model that the predictor
// was not calibrated on.
const unseenModel = 1.15

// fill writes a prediction from its metrics.
func (p *Predictor) fill(mechanism sharing.Mechanism, t *tenantModel, out *Prediction, value func(Metric) float64) {
	*out = Prediction{Mechanism: mechanism, Basis: sharing.BasisPrior, Notes: t.notes}
	residuals := p.residuals(mechanism)
	stretch := 1.0
	if len(p.Models) > 0 && !slices.Contains(p.Models, t.model) {
		stretch = unseenModel
	}
	for m := range Metric(metricCount) {
		r := residuals[m]
		if r.Points > 0 {
			out.Basis = sharing.BasisFitted
		}
		if t.transferred {
			out.Basis = sharing.BasisTransferred
		}
		extra := t.widen
		switch {
		case m == MetricTokensPerSecond && !t.closed:
			extra = math.Hypot(extra, t.offered)
		case m == MetricTTFTP50 || m == MetricTTFTP99:
			extra = math.Hypot(extra, t.first)
		}
		out.set(m, value(m), stretch*math.Hypot(r.HalfWidth, extra))
	}
	if v, ok := out.Get(MetricTPOTP50); ok {
		out.Slowdown = Interval{v.Value / t.reference, v.Low / t.reference, v.High / t.reference}
	}
	if mechanism == sharing.MechanismTimeSlicing {
		if t.turns > 0 {
			out.Turns = Some(int(t.turns))
			if t.otherTurns > 0 {
				out.OtherTurns = Some(int(t.otherTurns))
			}
			return
		}
		s := p.scheduler()
		out.Turns = Some(s.Slices(millis(t.gpu)))
		if other, near := s.NearBoundary(millis(t.gpu), timeslice.BoundaryTolerance); near {
			out.OtherTurns = Some(other)
		}
	}
}
