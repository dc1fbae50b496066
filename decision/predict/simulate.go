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

// isolatedCache keeps the results of isolated simulations. It is valid as long as no parameter changes but those of
// contention.
type isolatedCache = memo.Table[isolatedKey, isolatedFound]

// isolatedKey is all of a tenantModel that differs between a profile's uses.
type isolatedKey struct {
	mechanism sharing.Mechanism
	base      *profile.SoloProfile
	adjusted
	host, first float64 // isolated TTFT
}

type isolatedFound struct {
	outcome
	adjusted
}

func (p *Predictor) simulate(mechanism sharing.Mechanism, models []tenantModel, out []Prediction,
	known *isolatedCache) error {
	known = cmp.Or(known, new(isolatedCache)) // for tenants that are in the group more than once
	isolated := make([]outcome, len(models))
	for i := range models {
		t := &models[i]
		key := isolatedKey{mechanism, t.base, t.adjusted, t.host, t.isolated[profile.MetricTTFTP50]}
		found, err := known.Of(key, mostKept, func() (isolatedFound, error) {
			o, err := p.adjust(mechanism, t)
			return isolatedFound{o, t.adjusted}, err
		})
		if err != nil {
			return err
		}
		isolated[i], t.adjusted = found.outcome, found.adjusted
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
		values[i] = combined(t, &isolated[i], &together[i])
	}
	var sides []side
	if mechanism == sharing.MechanismTimeSlicing {
		if sides, err = p.trySides(models, isolated, values); err != nil {
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
					if t.response > 0 && v > 0 { // its response was measured: only their distance from one another counts
						v2 *= mixed[m] / v
					}
					out[i].include(profile.Metric(m), v2)
				}
			}
		}
	}
	return nil
}

func combined(t *tenantModel, isolated, together *outcome) (out profile.Figures) {
	for m := range out {
		out[m] = combine(profile.Metric(m), t.isolated[m], isolated.Figures[m], together.Figures[m])
	}
	// Clients with answers of one length stay in step. Whether another engine then computes prompts in one batch or one by
	// one shows only in its isolated run; neighbours add to that.
	const ttft = profile.MetricTTFTP50
	first, others := t.isolated[ttft], t.gaps || !home(t.base)
	switch growth, counted := t.growth.Get(); {
	case counted && first > 0: // it was measured with a spinning neighbour
		out[ttft] = first + growth*max(0, out[profile.MetricTPOTP50]-t.isolated[profile.MetricTPOTP50])
	case t.closed && others && t.base.Load.OutputSpread == 0 && min(first, isolated.prefill, together.prefill) > 0:
		out[ttft] = first * together.prefill / isolated.prefill
	case others: // corrected wholly, as a tail is
		out[ttft] = combine(profile.MetricTTFTP99, first, isolated.Figures[ttft], together.Figures[ttft])
	}
	if tokens := profile.MetricTokensPerSecond; !t.closed && !together.few {
		out[tokens] = t.isolated[tokens] // its clients', whatever chance had come when the simulation ended
	}
	if *together != *isolated {
		usualTail(&out)
	}
	for _, m := range tails {
		if out[m[1]] > 0 {
			out[m[1]] = max(out[m[1]], out[m[0]])
		}
	}
	return out
}

// usualTail draws the P99 of the first token halfway to the usual: isolated, it is the latest of a few dozen requests.
func usualTail(f *profile.Figures) {
	f[profile.MetricTTFTP99] = math.Sqrt(f[profile.MetricTTFTP99] * table.Steps.UsualTail.Value * f[profile.MetricTTFTP50])
}

// combine corrects a simulated metric for the simulation's error on the isolated workload: by a part for medians, since
// an isolated measurement errs as well (3 to 5%), and wholly for tails, which the simulation underrates.
func combine(m profile.Metric, measured, isolatedSim, togetherSim float64) float64 {
	if measured <= 0 || isolatedSim <= 0 || togetherSim <= 0 {
		return togetherSim
	}
	switch m {
	case profile.MetricTokensPerSecond, profile.MetricStepsPerSecond:
		return togetherSim * measured / isolatedSim
	case profile.MetricTPOTP50, profile.MetricE2EP50, profile.MetricTTFTP50:
		return togetherSim + (measured-isolatedSim)*table.Steps.LoneError.Value
	}
	return max(togetherSim+measured-isolatedSim, togetherSim/2)
}

// adjust fits the pace of kernels launched one by one, and the length of a prefill, until the isolated engine has the
// measured throughput or, in an open loop, about the measured TPOT and TTFT. It returns the figures of its clients.
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
			pace = min(max(t.isolated[profile.MetricTPOTP50]/found, 0.8), 1.25)
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

// prefillError is about by how much a prefill is longer than the one with which the isolated engine has such figures.
func (t *tenantModel) prefillError(found *profile.Figures) float64 {
	if t.closed {
		tokens, of := 1e3*t.batch*float64(t.output), profile.MetricTokensPerSecond
		return 0.8 * (tokens/t.isolated[of] - tokens/found[of]) / t.batch
	}
	if t.isolated[profile.MetricTTFTP50] <= 0 {
		return 0
	}
	const ofTPOT, ofTTFT = 0.1, 0.5 // the latter is measured with less chance
	between := 0.0
	if !t.gaps { // else the pace of its steps decides it
		between = (t.isolated[profile.MetricTPOTP50] - found[profile.MetricTPOTP50]) * t.steps / max(t.interrupts, 0.5)
	}
	return ofTPOT*between + ofTTFT*(t.isolated[profile.MetricTTFTP50]-found[profile.MetricTTFTP50])
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

// horizon is the simulated time: room for some 75 requests of the slowest tenant, 40 to 270 s, and at most a few
// million tokens, so that no profile makes a simulation long. A tenth of it is to warm up.
func horizon(models []tenantModel) (from, until time.Duration) {
	const mostTokens = 3e6
	longest, tokens := 0.0, 0.0 // tokens a millisecond
	for i := range models {
		t := &models[i]
		longest = max(longest, t.isolated[profile.MetricE2EP50], t.step, (t.think+t.step)/4)
		tokens += t.batch / t.step
		if !t.closed {
			longest = max(longest, 8/t.rate)
			tokens += t.rate
		}
	}
	ms := min(max(75*longest*float64(len(models)), 40e3), 270e3, mostTokens/tokens)
	return millis(ms / 10), max(millis(ms), time.Microsecond)
}

// side holds the figures of a group where all steps of a tenant take the likely number of slices, and the other one.
type side struct {
	share       float64 // of the steps that are expected to take the other
	whole       bool    // intervals hold the other too
	same, other []profile.Figures
}

// trySides looks at tenants whose step may take another number of slices, which changes the whole group's figures: they
// become a mixture, with intervals half of the way there, or all of it where the other number was counted.
func (p *Predictor) trySides(models []tenantModel, isolated []outcome, together []profile.Figures) ([]side, error) {
	var out []side
	for i := range models {
		sliceCount, other, share := p.slicesOf(&models[i])
		if other == 0 {
			continue
		}
		edge := p.Parameters.slice() * float64(min(sliceCount, other))
		below, above := edge/(1+table.Steps.Jitter.Value), edge/(1-table.Steps.Jitter.Value)
		if other < sliceCount {
			below, above = above, below
		}
		s := side{share: share, whole: models[i].sliceCount > 0, same: together}
		var err error
		if s.other, err = p.withStep(models, isolated, i, above); err == nil &&
			math.Abs(models[i].gpu-edge) < math.Abs(below-edge) {
			s.same, err = p.withStep(models, isolated, i, below) // single steps lie on both sides
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// withStep returns the figures of the group when tenant i's step has this time on the GPU.
func (p *Predictor) withStep(models []tenantModel, isolated []outcome, i int, gpu float64) ([]profile.Figures, error) {
	with := slices.Clone(models)
	with[i].gpu = gpu
	together, err := p.runEngines(sharing.MechanismTimeSlicing, with)
	out := make([]profile.Figures, len(together))
	for j := range together {
		out[j] = combined(&models[j], &isolated[j], &together[j])
	}
	return out, err
}
