// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/memo"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// Evaluator estimates the latencies and rates of tenants that share a GPU, by one predictor, and caches its
// simulations, also across decisions. It is safe for concurrent use; a nil Evaluator is for tenants without
// measurements.
type Evaluator struct {
	predictor Predictor
	kept      memo.Table[string, []Prediction]
	isolated  isolatedCache
}

// EvaluatorOf returns the evaluator of the workloads in ps by p. Equal predictors share one evaluator until profiles
// are added.
func EvaluatorOf(ps *profile.Profiles, p *Predictor) *Evaluator {
	return ps.Made(fmt.Sprintf("%+v", *p), func() any { return &Evaluator{predictor: *p} }).(*Evaluator)
}

// Evaluate estimates each of the tenants on a share of a GPU, at a one-sided confidence (0.5 to 0.999). If all were
// measured on the GPU, the estimates are the predictor's: by its closed form, or by simulation if that leaves an
// objective open. Otherwise they are closed forms of queues, with bounds for every unmeasured quantity.
func (f *Evaluator) Evaluate(m Machine, share Share, tenants []Tenant, confidence float64) []Estimate {
	if f == nil || len(tenants) > maxGroup || slices.ContainsFunc(tenants, func(d Tenant) bool { return d.Solo == nil }) {
		return fromPriors(m, share, tenants, confidence)
	}
	if share.Mechanism == sharing.MechanismExclusive {
		isolated := []Prediction{isolatedPrediction(tenants[0].Solo.TimeSlicing)}
		isolated[0].hold(confidence)
		return estimates(m, share, tenants, isolated)
	}
	group := make([]profile.Solo, len(tenants))
	for i := range tenants {
		group[i] = *tenants[i].Solo
	}
	found, err := f.screen(share.Mechanism, group, confidence)
	if err != nil {
		return fromPriors(m, share, tenants, confidence)
	}
	out := estimates(m, share, tenants, found)
	for i := range out {
		if out[i].Kept(&tenants[i]) != sharing.AnswerUnknown {
			continue
		}
		if found, err = f.Predict(share.Mechanism, group); err != nil {
			return fromPriors(m, share, tenants, confidence)
		}
		found = slices.Clone(found)
		for j := range found {
			found[j].hold(confidence)
		}
		return estimates(m, share, tenants, found)
	}
	return out
}

// estimates returns the estimates of predictions.
func estimates(m Machine, share Share, tenants []Tenant, found []Prediction) []Estimate {
	out := make([]Estimate, len(tenants))
	for i := range out {
		floor := m.Floor(share, tenants[i].Least)
		found[i].raise(floor)
		out[i] = found[i].estimate(&tenants[i])
		out[i].Floor = floor
	}
	return out
}

// Predict predicts a group of the profiles' workloads by simulation, as [Predictor.Predict]. The result must not be
// changed.
func (f *Evaluator) Predict(mechanism sharing.Mechanism, group []profile.Solo) ([]Prediction, error) {
	key := []byte{byte(mechanism)}
	for i := range group {
		key = fmt.Appendf(key, "%v %v\n", group[i].Server, group[i].Load.Same())
	}
	return f.kept.Of(string(key), mostKept, func() ([]Prediction, error) {
		return f.predictor.predict(mechanism, group, MethodSimulated, &f.isolated)
	})
}

// screened is by how much a simulation's latencies lie above (first) and below the closed form's, as logarithms:
// twice the worst in 383 co-located tenants of H200s and H100s in decision/predict/testdata, and at most six times.
var screened = map[sharing.Mechanism]map[profile.Metric][2]float64{
	sharing.MechanismTimeSlicing: {profile.MetricTPOTP50: {0.6, 0.25}, profile.MetricTPOTP99: {1, 0.15},
		profile.MetricTTFTP99: {1.8, 0.6}, profile.MetricE2EP99: {1, 0.15}},
	sharing.MechanismMPS: {profile.MetricTPOTP50: {0.25, 0.1}, profile.MetricTPOTP99: {0.4, 0.15},
		profile.MetricTTFTP99: {0.7, 0.4}, profile.MetricE2EP99: {0.4, 0.15}},
}

// screen predicts a group by the closed form, with intervals at a one-sided confidence that include the result of a
// simulation: where they leave no limit open, none is needed.
func (f *Evaluator) screen(mechanism sharing.Mechanism, group []profile.Solo, confidence float64) ([]Prediction,
	error) {
	out, err := f.predictor.Predict(mechanism, group, MethodClosedForm)
	for i := range out {
		out[i].hold(confidence)
		for m, by := range screened[mechanism] {
			widenBy(&out[i].value[m], by)
		}
		widenBy(&out[i].Slowdown, screened[mechanism][profile.MetricTPOTP50])
	}
	return out, err
}

// isolatedPrediction returns a profile as a prediction of the workload on a whole GPU of the same product: the measured
// values, with the uncertainty of a measurement.
func isolatedPrediction(p *profile.SoloProfile) Prediction {
	out := Prediction{Mechanism: sharing.MechanismExclusive, Basis: sharing.BasisMeasured}
	for m := range profile.Metric(profile.MetricCount) {
		if v, ok := p.Metric(m); ok {
			out.set(m, v, stats.Z90*costs.Priors[costs.IsolatedError].Sigma)
		}
	}
	return out
}

// estimate converts a prediction to the figures of a tenant with such objectives. Where both the median and the P99
// of the time per output token are limited it has the one that comes closer to its limit.
func (p *Prediction) estimate(d *Tenant) Estimate {
	o := Estimate{Rate: profile.Interval{Value: 1, Low: 1, High: 1}, Predicted: p}
	if r := p.value[profile.MetricStepsPerSecond]; p.isolatedRate > 0 {
		o.Rate = profile.Interval{Value: min(1, r.Value/p.isolatedRate), Low: min(1, r.Low/p.isolatedRate),
			High: min(1, r.High/p.isolatedRate)}
	}
	for k, m := range [LatencyCount]profile.Metric{profile.MetricTTFTP99, profile.MetricTPOTP99,
		profile.MetricE2EP99} {
		o.P99[k] = scaled(p.value[m], 1e-3)
	}
	if d.SLO == nil {
		return o
	}
	if median, ok := d.SLO.TPOTP50.Get(); ok {
		to, limit := &o.P99[LatencyTPOT], d.Limits[LatencyTPOT]
		was := *to
		*to = scaled(p.value[profile.MetricTPOTP50], limit/median.Seconds()/1e3)
		if tail, both := d.SLO.TPOTP99.Get(); both {
			if was = scaled(was, limit/tail.Seconds()); was.High > to.High {
				*to = was
			}
		}
	}
	return o
}
