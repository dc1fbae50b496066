// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// calibratedOn reports whether the models were calibrated on the steps of all tenants, which are then servers.
func calibratedOn(models []tenantModel) bool {
	return !slices.ContainsFunc(models, func(t tenantModel) bool {
		return t.kind != profile.KindServer || t.gaps || !t.seen
	})
}

// A response is a tenant's main figure when co-located, read from its measurements with standard neighbours: a
// spinning one under time-slicing, and stress kernels of several lengths under MPS. It is the method of Bubble-Up
// (J. Mars and others, MICRO 2011): the pressure of each neighbour is expressed as an equivalent stress, and the
// tenant's own curve is read there.

// uncounted is the half-width that is added where a step's waits were not counted.
const uncounted = 0.15

// respond finds the main figure of each tenant by its measured response, and the evidence of its prediction.
func (p *Predictor) respond(mechanism sharing.Mechanism, models []tenantModel) {
	if calibratedOn(models) || len(models) < 2 {
		for i := range models {
			if t := &models[i]; t.kind != profile.KindServer || t.gaps || !t.seen {
				t.level = isolatedOnly
			}
		}
		return
	}
	responses := p.sliceResponses
	if mechanism == sharing.MechanismMPS {
		responses = stressResponses
	}
	for i, v := range responses(models) {
		models[i].response, models[i].level = v, isolatedOnly
		if v > 0 && !models[i].waitsAssumed() {
			models[i].level = responded
		}
	}
}

// sliceState is a tenant in the fixed point of [Predictor.sliceResponses].
type sliceState struct {
	isolated, idle, slice, active float64 // ms; active is a share of the time
	waits                         float64 // in a step, for each of the others
	extra                         float64 // ms of a co-located step
}

// sliceResponses adds a step's waits for its neighbours' slices. It waits for each as often as it waited for the
// spinning neighbour, if that one has work then, for a quantum or for the neighbour's own work between two waits. A
// neighbour that is slowed down has work for more of the time.
func (p *Predictor) sliceResponses(models []tenantModel) []float64 {
	quantum, change := p.Parameters.Quantum.Value, p.Parameters.Switch.Value
	states := make([]sliceState, len(models))
	for i := range models {
		t := &models[i]
		s := sliceState{isolated: t.isolated[t.kind.MainMetric()], active: t.activeShare()}
		busy := t.base.GPUBusyFraction.Or(table.Launched.Gapless.Value)
		if t.base.Kind != profile.KindServer && t.base.GPUBusyFraction.IsZero() {
			busy = t.gpu / t.step
		}
		work := s.isolated * min(1, busy/s.active)
		s.idle = s.isolated - work
		if s.waits = t.base.SlicesPerStep.Or(0); t.waitsAssumed() { // its host's part passes while it waits
			s.waits = max(leastWaits, math.Ceil(work/quantum)-s.idle/(quantum+2*change))
		}
		s.slice = min(quantum, work/max(s.waits, leastWaits))
		states[i] = s
	}
	const rounds, damping = 30, 0.5
	for range rounds {
		for i := range states {
			sum := 0.0
			for j := range states {
				n := &states[j]
				if j == i {
					continue
				}
				slower := (n.isolated + n.extra) / n.isolated
				working := (1 - n.idle/(n.isolated+n.extra)) * min(1, n.active*slower)
				sum += working * (n.slice + 2*change)
			}
			states[i].extra += damping * (states[i].waits*sum - states[i].extra)
		}
	}
	out := make([]float64, len(models))
	for i, s := range states {
		if t := &models[i]; !t.waitsAssumed() || t.kind == profile.KindServer && !t.seen {
			out[i] = s.isolated + s.extra
		}
	}
	return out
}

// leastWaits bounds the length of a slice of a step that hides its only wait in its host's part.
const leastWaits = 0.3

// stressed is a tenant with its curve of stress kernels, and the equivalent ones of its neighbours.
type stressed struct {
	*tenantModel
	at    int // index in the group
	curve stressCurve
	by    []equivalentStress
}

// equivalentStress is the pressure of a neighbour as stress kernels of so many microseconds, for a share of the time.
type equivalentStress struct {
	of        int // index of the neighbour
	share, us float64
}

// stressResponses reads each tenant's curve of stress kernels at the pressures of its neighbours and adds the excesses.
// All tenants together hold no more of the SMs than a GPU gives: where their excesses leave more, all pressure
// rises by one factor until that is so, and the tenant with the steepest curve slows down most. It is at least that of
// each subgroup, so that another neighbour makes no tenant faster. Next to neighbours of unknown pressure the figure
// is a lower bound.
func stressResponses(models []tenantModel) []float64 {
	out := make([]float64, len(models))
	all := make([]stressed, 0, len(models))
	for i := range models {
		t := stressed{tenantModel: &models[i], curve: newStressCurve(models[i].pressure), at: i}
		for j := range models {
			if us, ok := models[j].equivalentTo(t.tenantModel); ok && j != i {
				t.by = append(t.by, equivalentStress{j, models[j].activeShare(), us})
			}
		}
		if len(t.curve) > 0 {
			all = append(all, t)
		}
	}
	everybody, factor, most := uint64(1)<<len(models)-1, 0.0, table.Response.MostSMs.Value // of the factor the logarithm
	for group := everybody; group > 2; group-- {
		if bits.OnesCount64(group) > 1 && smsHeld(all, math.Exp(factor), group) > most {
			high := math.Log(100)
			for range 20 {
				if middle := (factor + high) / 2; smsHeld(all, math.Exp(middle), group) > most {
					factor = middle
				} else {
					high = middle
				}
			}
			factor = high
		}
		if len(models) > 6 {
			break // too many subgroups
		}
	}
	for k := range all {
		t := &all[k]
		if t.least = t.slowed(math.Exp(factor), everybody); len(t.by) == len(models)-1 {
			out[t.at] = t.least
		}
	}
	return out
}

// slowed is a tenant's main figure where all of a group contend so many times as hard.
func (t *stressed) slowed(times float64, group uint64) float64 {
	v := t.isolated[t.kind.MainMetric()]
	for _, n := range t.by {
		if group>>n.of&1 == 1 {
			v += n.share * t.curve.at(times*n.us)
		}
	}
	return v
}

// smsHeld is the share of the SMs that the tenants of a group hold together, each as much less as it is slower.
func smsHeld(all []stressed, times float64, group uint64) (held float64) {
	for i := range all {
		if t := &all[i]; group>>t.at&1 == 1 {
			held += t.base.SMFraction.Or(0) * t.isolated[t.kind.MainMetric()] / t.slowed(times, group)
		}
	}
	return held
}

// equivalentTo is the length in microseconds of the stress kernels that slow u as much as a tenant at work: by the
// factor by which the reporter's wide kernel takes longer next to it. Kernels that leave some SMs slow it less than the
// reporter, which needs a block on each, waits, and on kernels that need few SMs less than on wide ones: so the
// exponent grows with the shares of the SMs of both. Readers of memory slow one another more.
func (t *tenantModel) equivalentTo(u *tenantModel) (us float64, ok bool) {
	w := reporterOf(t.pressure)
	if w == nil || w.IsolatedMeanUS <= 0 {
		return 0, false
	}
	wait := max(0, w.CoLocatedMeanUS-w.IsolatedMeanUS) / t.activeShare()
	exponent := table.Response.Exponent.Value * math.Pow(t.smsAtWork(), 0.75) * math.Pow(u.smsAtWork(), 0.3)
	return math.Pow(1+wait/w.IsolatedMeanUS, exponent) * (1 + t.base.DRAMFraction.Or(0)*u.base.DRAMFraction.Or(0)), true
}

// smsAtWork is the share of the SMs that a tenant holds while it is on the GPU.
func (t *tenantModel) smsAtWork() float64 {
	if sm, ok := optional.Positive(t.base.SMFraction); ok {
		return min(1, sm/t.base.GPUBusyFraction.Or(1))
	}
	return table.SMs.Usual.Value
}

// stressCurve is the growth of a tenant's step under compute stress kernels, by the logarithm of their length in
// microseconds, from none at one microsecond on. A growth that is smaller than that under shorter kernels is taken for
// chance.
type stressCurve [][2]float64

func newStressCurve(p *profile.Pressure) (out stressCurve) {
	if p == nil || p.StepMS <= 0 {
		return nil
	}
	stresses := slices.DeleteFunc(slices.Clone(p.Stresses), func(q profile.Stress) bool {
		return q.Reads || q.StepMS <= 0 || q.KernelUS <= 1
	})
	slices.SortFunc(stresses, func(a, b profile.Stress) int { return cmp.Compare(a.KernelUS, b.KernelUS) })
	if len(stresses) == 0 {
		return nil
	}
	out = stressCurve{{0, 0}}
	for _, q := range stresses {
		out = append(out, [2]float64{math.Log(q.KernelUS), max(out[len(out)-1][1], q.StepMS-p.StepMS)})
	}
	return out
}

// at returns the growth in ms under kernels of us microseconds; beyond the longest measured it is that of the longest.
func (c stressCurve) at(us float64) float64 {
	x := math.Log(max(us, 1))
	for i := 1; i < len(c); i++ {
		if from, to := c[i-1], c[i]; x <= to[0] {
			return from[1] + (to[1]-from[1])*(x-from[0])/(to[0]-from[0])
		}
	}
	return c[len(c)-1][1]
}

// reconcile returns a main figure between the simulated one and the response: their geometric mean for servers that the
// models are calibrated on. For others the simulation moves the response by at most half of the distance at which two
// candidates agree, and by twice that where the response is assumed.
func (t *tenantModel) reconcile(simulated, response float64) float64 {
	apart := math.Log(simulated / response)
	if t.kind != profile.KindServer || !t.seen {
		most := table.Response.Agreed.Value
		if t.waitsAssumed() {
			most *= 2
		}
		apart = min(max(apart, -most), most)
	}
	return response * math.Exp(apart/2)
}

// follow scales figures that a model computed to reconcile's main figure, and to the corrections learned of the
// tenant's like: a request takes so much longer for each of its tokens, and rates follow.
func (t *tenantModel) follow(values *profile.Figures) {
	of := t.kind.MainMetric()
	was := values[of]
	if was <= 0 || t.level == calibrated {
		return
	}
	if t.response > 0 {
		// A model that is further away missed the measurement: its distance says no more.
		t.apart = min(math.Abs(math.Log(was/t.response)), 4*table.Response.Agreed.Value)
		values[of] = t.reconcile(was, t.response)
		if t.apart > 2*table.Response.Agreed.Value {
			t.note(0, "the models compute %.3g ms, and its own response, measured next to standard neighbours, gives %.3g: the "+
				"interval is wider for that", was, t.response)
		}
	}
	if t.response == 0 {
		values[of] = max(values[of], t.least)
	}
	if t.learned != nil {
		values[of] *= t.learned.Factor
	}
	more := values[of] - was
	if t.kind != profile.KindServer {
		// Measured responses are means, and where few steps wait the simulated mean lies above the median.
		mean := 1e3/values[profile.MetricStepsPerSecond] - t.think
		from := max(was, min(mean, values[of]))
		values[profile.MetricStepP99] = later(values[profile.MetricStepP99], values[of]-from)
		values[profile.MetricStepsPerSecond] = 1e3 / (mean*values[of]/from + t.think)
		return
	}
	if growth, ok := t.growth.Get(); ok && values[profile.MetricTTFTP50] > 0 {
		values[profile.MetricTTFTP50] = max(t.isolated[profile.MetricTTFTP50], values[profile.MetricTTFTP50]+growth*more)
	}
	values[profile.MetricTPOTP99] = later(values[profile.MetricTPOTP99], more)
	before := values[profile.MetricE2EP50]
	for _, m := range []profile.Metric{profile.MetricE2EP50, profile.MetricE2EP90, profile.MetricE2EP99} {
		if values[m] > 0 {
			values[m] = max(values[m]+t.steps*more, t.isolated[m])
		}
	}
	if t.closed && before > 0 {
		values[profile.MetricTokensPerSecond] *= before / values[profile.MetricE2EP50]
	}
	for _, m := range tails {
		if values[m[1]] > 0 {
			values[m[1]] = max(values[m[1]], values[m[0]])
		}
	}
}

// later adds to a figure that is known.
func later(v, more float64) float64 {
	if v <= 0 {
		return v
	}
	return max(v/2, v+more)
}
