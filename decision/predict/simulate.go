// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/memo"
	"github.com/cotenant/cotenant/mps/contention"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// mostKept bounds the cache of an Evaluator: some 400 bytes a tenant of a group.
const mostKept = 1 << 14

// aloneCache keeps the results of isolated simulations. It is valid as long as no parameter changes but those of
// contention.
type aloneCache = memo.Table[aloneKey, aloneFound]

// aloneKey is all of a tenantModel that differs between a profile's uses.
type aloneKey struct {
	mechanism sharing.Mechanism
	base      *profile.SoloProfile
	adjusted
	host, first float64 // TTFT alone
}

type aloneFound struct {
	outcome
	adjusted
}

func (p *Predictor) simulate(mechanism sharing.Mechanism, models []tenantModel, out []Prediction,
	known *aloneCache) error {
	known = cmp.Or(known, new(aloneCache)) // for tenants that are in the group more than once
	alone := make([]outcome, len(models))
	for i := range models {
		t := &models[i]
		key := aloneKey{mechanism, t.base, t.adjusted, t.host, t.alone[profile.MetricTTFTP50]}
		found, err := known.Of(key, mostKept, func() (aloneFound, error) {
			o, err := p.adjust(mechanism, t)
			return aloneFound{o, t.adjusted}, err
		})
		if err != nil {
			return err
		}
		alone[i], t.adjusted = found.outcome, found.adjusted
	}
	together, err := p.runEngines(mechanism, models)
	if err != nil {
		return err
	}
	values := make([]profile.Figures, len(models))
	for i := range models {
		t := &models[i]
		if together[i].few {
			t.note(table.Doubts.Usual.Value, "few requests end: the load is heavy, or too heavy, for the group")
		}
		values[i] = combined(t, &alone[i], &together[i])
	}
	var sides []side
	if mechanism == sharing.MechanismTimeSlicing {
		if sides, err = p.trySides(models, alone, values); err != nil {
			return err
		}
	}
	for i := range models {
		t := &models[i]
		mixed := values[i]
		for m, v := range mixed {
			for _, s := range sides {
				if other := s.other[i][m]; v > 0 && other > 0 {
					mixed[m] += s.share * (other - v)
				}
			}
		}
		t.follow(&mixed)
		p.fill(mechanism, t, &out[i], &mixed)
		for _, s := range sides {
			for m, v := range values[i] {
				for _, v2 := range []float64{s.same[i][m], s.other[i][m]} {
					if !s.whole && !models[i].transferred {
						v2 = math.Sqrt(v2 * v)
					}
					out[i].include(profile.Metric(m), v2)
				}
			}
		}
	}
	return nil
}

func combined(t *tenantModel, alone, together *outcome) (out profile.Figures) {
	for m := range out {
		out[m] = combine(profile.Metric(m), t.alone[m], alone.Figures[m], together.Figures[m])
	}
	// Clients with answers of one length stay in step. Whether prompts of another engine are then computed in one batch or
	// in turn shows only in its isolated run; neighbours add to that.
	const ttft = profile.MetricTTFTP50
	first, others := t.alone[ttft], t.gaps || !home(t.base)
	switch growth, counted := t.growth.Get(); {
	case counted && first > 0: // it was measured with a spinning neighbour
		out[ttft] = first + growth*max(0, out[profile.MetricTPOTP50]-t.alone[profile.MetricTPOTP50])
	case t.closed && others && t.base.Load.OutputSpread == 0 && min(first, alone.prefill, together.prefill) > 0:
		out[ttft] = first * together.prefill / alone.prefill
	case others: // corrected wholly, as a tail is
		out[ttft] = combine(profile.MetricTTFTP99, first, alone.Figures[ttft], together.Figures[ttft])
	}
	if tokens := profile.MetricTokensPerSecond; !t.closed && !together.few {
		out[tokens] = t.alone[tokens] // its clients', whatever chance had come when the simulation ended
	}
	if *together != *alone {
		out[profile.MetricTTFTP99] = math.Sqrt(out[profile.MetricTTFTP99] * table.Steps.UsualTail.Value * out[ttft])
	}
	for _, m := range tails {
		if out[m[1]] > 0 {
			out[m[1]] = max(out[m[1]], out[m[0]])
		}
	}
	return out
}

// combine corrects a simulated metric for the simulation's error on the isolated workload: by a part for medians, since
// an isolated measurement errs as well (3 to 5%), and wholly for tails, which the simulation underrates.
func combine(m profile.Metric, measured, aloneSim, togetherSim float64) float64 {
	if measured <= 0 || aloneSim <= 0 || togetherSim <= 0 {
		return togetherSim
	}
	switch m {
	case profile.MetricTokensPerSecond, profile.MetricStepsPerSecond:
		return togetherSim * measured / aloneSim
	case profile.MetricTPOTP50, profile.MetricE2EP50, profile.MetricTTFTP50:
		return togetherSim + (measured-aloneSim)*table.Steps.LoneError.Value
	}
	return max(togetherSim+measured-aloneSim, togetherSim/2)
}

// adjust fits the pace of kernels launched one by one, and the length of a prefill, until the isolated engine has the
// measured throughput, or in an open loop, whose throughput is its clients', about the measured TPOT and TTFT. It
// returns the figures of its clients.
func (p *Predictor) adjust(mechanism sharing.Mechanism, t *tenantModel) (o outcome, err error) {
	const rounds = 5
	for i := range rounds {
		got, err := p.runEngines(mechanism, []tenantModel{*t})
		if err != nil {
			return o, err
		}
		o = got[0]
		if t.kind != profile.KindServer || i == rounds-1 || o.Figures[profile.MetricTokensPerSecond] <= 0 {
			break
		}
		change, pace := t.prefillError(&o.Figures), 1.0
		if found := o.Figures[profile.MetricTPOTP50]; t.gaps && found > 0 {
			pace = min(max(t.alone[profile.MetricTPOTP50]/found, 0.8), 1.25)
			t.step *= pace
			t.gpu = min(t.gpu, t.step)
		}
		if math.Abs(change) < 0.005*t.prefill && math.Abs(pace-1) < 0.005 {
			break
		}
		grown := min(max(t.prefill+change, 0.1*t.prefill), 2*t.prefill)
		t.prefillGPU *= grown / t.prefill
		t.prefill = grown
	}
	return o, nil
}

// prefillError is about by how much a prefill is longer than the one with which the engine alone has the figures found.
func (t *tenantModel) prefillError(found *profile.Figures) float64 {
	if t.closed {
		tokens := 1e3 * t.batch * float64(t.output)
		return 0.8 * (tokens/t.alone[profile.MetricTokensPerSecond] - tokens/found[profile.MetricTokensPerSecond]) / t.batch
	}
	if t.alone[profile.MetricTTFTP50] <= 0 {
		return 0
	}
	const ofTPOT, ofTTFT = 0.1, 0.5 // the latter is measured with less chance
	between := 0.0
	if !t.gaps { // else the pace of its steps decides it
		between = (t.alone[profile.MetricTPOTP50] - found[profile.MetricTPOTP50]) * t.steps / max(t.interrupts, 0.5)
	}
	return ofTPOT*between + ofTTFT*(t.alone[profile.MetricTTFTP50]-found[profile.MetricTTFTP50])
}

// runEngines simulates engines together.
func (p *Predictor) runEngines(mechanism sharing.Mechanism, models []tenantModel) ([]outcome, error) {
	from, until := horizon(models)
	engines := make([]*engine, len(models))
	for i := range models {
		equal := 0
		for j := range i {
			if models[j].base == models[i].base {
				equal++
			}
		}
		engines[i] = newEngine(&models[i], streamOf(&models[i], equal), from, until)
	}
	if mechanism == sharing.MechanismMPS {
		gpu := contention.GPU{Law: p.Parameters.Law(), BySMs: slices.ContainsFunc(engines, func(e *engine) bool {
			return e.t.kind != profile.KindServer
		})}
		for _, e := range engines {
			gpu.Attach(e)
		}
		gpu.Advance(0)
		gpu.Advance(until)
	} else {
		sim := timeslice.Engine{Scheduler: p.Parameters.Scheduler(), Until: until}
		for _, e := range engines {
			sim.Tenants = append(sim.Tenants, e)
		}
		if err := sim.Run(context.Background()); err != nil {
			return nil, fmt.Errorf("predict: simulating the group: %w", err)
		}
	}
	out := make([]outcome, len(engines))
	for i, e := range engines {
		out[i] = e.outcome()
	}
	return out, nil
}

// horizon is the simulated time: room for some 75 requests of the slowest tenant, at least 40 and at most 270 s,
// and no more than a few million tokens, so that no profile makes a simulation long. A tenth of it is to warm up.
// With a third of it the median of an open loop was off by up to 10% by chance.
func horizon(models []tenantModel) (from, until time.Duration) {
	const mostTokens = 3e6
	longest, tokens := 0.0, 0.0 // tokens a millisecond
	for i := range models {
		t := &models[i]
		longest = max(longest, t.alone[profile.MetricE2EP50], t.step, (t.think+t.step)/4)
		tokens += t.batch / t.step
		if !t.closed {
			longest = max(longest, 8/t.rate)
			tokens += t.rate
		}
	}
	ms := min(max(75*longest*float64(len(models)), 40e3), 270e3, mostTokens/tokens)
	return millis(ms / 10), max(millis(ms), time.Microsecond)
}

// side holds the figures of a group when all steps of a tenant take the number of turns
// that is likely, and when they take the other one.
type side struct {
	share       float64 // of the steps that are expected to take the other
	whole       bool    // intervals hold the other too
	same, other []profile.Figures
}

// trySides looks at tenants whose step may take another number of slices, which changes the whole group's figures.
// Predictions are a mixture of both, and each interval is widened half of the way there; all of it on a GPU without a
// calibration, and where the counted slices are not those of the step's length.
func (p *Predictor) trySides(models []tenantModel, alone []outcome, together []profile.Figures) ([]side, error) {
	var out []side
	for i := range models {
		turns, other, share := p.turnsOf(&models[i])
		if other == 0 {
			continue
		}
		edge := p.Parameters.slice() * float64(min(turns, other))
		below, above := edge/(1+table.Steps.Jitter.Value), edge/(1-table.Steps.Jitter.Value)
		if other < turns {
			below, above = above, below
		}
		s := side{share: share, whole: models[i].turns > 0, same: together}
		var err error
		if s.other, err = p.withStep(models, alone, i, above); err == nil &&
			math.Abs(models[i].gpu-edge) < math.Abs(below-edge) {
			s.same, err = p.withStep(models, alone, i, below) // single steps lie on both sides
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// withStep returns the figures of the group when tenant i's step has this time on the GPU.
func (p *Predictor) withStep(models []tenantModel, alone []outcome, i int, gpu float64) ([]profile.Figures, error) {
	with := slices.Clone(models)
	with[i].gpu = gpu
	together, err := p.runEngines(sharing.MechanismTimeSlicing, with)
	out := make([]profile.Figures, len(together))
	for j := range together {
		out[j] = combined(&models[j], &alone[j], &together[j])
	}
	return out, err
}
