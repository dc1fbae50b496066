package predict

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/memo"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/sharing"
	"gonum.org/v1/gonum/stat/distuv"
)

// Forecasts answers whether groups of workloads with profiles keep their limits by one predictor, and keeps what it
// simulated: asked again, even by another decision, it answers at once and the same. It is safe for concurrent use.
type Forecasts struct {
	predictor Predictor
	kept      memo.Table[string, []Prediction]
	alone     aloneCache
}

// mostForecasts bounds what Forecasts keeps: some 400 bytes a tenant of a group.
const mostForecasts = 1 << 14

// ForecastsOf returns what p says of the workloads in ps. It is the same for predictors
// of the same content until profiles are added.
func ForecastsOf(ps *profile.Profiles, p *Predictor) *Forecasts {
	return ps.Made(fmt.Sprintf("%+v", *p), func() any {
		return &Forecasts{predictor: *p}
	}).(*Forecasts)
}

// Predict predicts a group of the profiles' workloads as [Predictor.Predict] does by
// simulation. The result must not be changed.
func (f *Forecasts) Predict(mechanism sharing.Mechanism, group []profile.Solo) ([]Prediction, error) {
	key := []byte{byte(mechanism)}
	for i := range group {
		key = fmt.Appendf(key, "%v %v\n", group[i].Server, group[i].Load.Same())
	}
	return f.kept.Of(string(key), mostForecasts, func() ([]Prediction, error) {
		return f.predictor.predict(mechanism, group, MethodSimulated, &f.alone)
	})
}

// screened is by how much a simulation's latencies lie above (first) and below the closed form's, as logarithms:
// twice the worst in 383 co-located tenants of H200s and H100s in decision/predict/testdata, and at most six times.
var screened = map[sharing.Mechanism]map[profile.Metric][2]float64{
	sharing.MechanismTimeSlicing: {
		profile.MetricTPOTP50: {0.6, 0.25}, profile.MetricTPOTP99: {1, 0.15}, profile.MetricTTFTP99: {1.8,
			0.6}, profile.MetricE2EP99: {1, 0.15},
	},
	sharing.MechanismMPS: {
		profile.MetricTPOTP50: {0.25, 0.1}, profile.MetricTPOTP99: {0.4, 0.15}, profile.MetricTTFTP99: {0.7,
			0.4}, profile.MetricE2EP99: {0.4, 0.15},
	},
}

// Screen predicts a group by the closed form, with intervals at a one-sided confidence that also hold what a
// simulation would say: where they leave no limit open, none is needed.
func (f *Forecasts) Screen(mechanism sharing.Mechanism, group []profile.Solo, confidence float64) ([]Prediction,
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

// At returns the prediction with intervals at a one-sided confidence, 0.5 to 0.999; of others, the nearest.
func (p Prediction) At(confidence float64) Prediction {
	p.hold(confidence)
	return p
}

func (p *Prediction) hold(confidence float64) {
	z := distuv.UnitNormal.Quantile(min(max(confidence, 0.5), 0.999)) / profile.Z90
	for m := range p.value {
		stretch(&p.value[m], z)
	}
	stretch(&p.Slowdown, z)
}

// Widened returns the prediction with the interval of one metric so many times as wide, as a logarithm.
func (p Prediction) Widened(m profile.Metric, times float64) Prediction {
	stretch(&p.value[m], times)
	return p
}

// stretch multiplies the logarithms of the bounds over the value.
func stretch(i *profile.Interval, z float64) {
	if i.Value > 0 {
		i.Low, i.High = i.Value*math.Pow(i.Low/i.Value, z), i.Value*math.Pow(i.High/i.Value, z)
	}
}

// widenBy moves the bounds apart by logarithms, the upper one first.
func widenBy(i *profile.Interval, by [2]float64) {
	i.High, i.Low = i.High*math.Exp(by[0]), i.Low*math.Exp(-by[1])
}

// Alone returns a profile as a prediction of the workload on a whole GPU of the same
// product: what was measured, with no interval.
func Alone(p *profile.SoloProfile) Prediction {
	out := Prediction{Mechanism: sharing.MechanismExclusive, Basis: sharing.BasisMeasured}
	for m := range profile.Metric(profile.MetricCount) {
		if v, ok := p.Metric(m); ok {
			out.set(m, v, 0)
		}
	}
	return out
}

// Estimate converts a prediction to the figures of a tenant with such objectives. Where both the median and the P99
// of the time per output token are limited it has the one that comes closer to its limit.
func (p *Prediction) Estimate(slo *profile.SLO, d *prospect.Tenant) prospect.Prospect {
	o := prospect.Prospect{Rate: prospect.Bounds{Value: 1, Low: 1, High: 1}}
	if r := p.value[profile.MetricStepsPerSecond]; p.rateAlone > 0 {
		o.Rate = prospect.Bounds{Value: min(1, r.Value/p.rateAlone), Low: min(1, r.Low/p.rateAlone),
			High: min(1, r.High/p.rateAlone)}
	}
	for k, m := range [costs.LatencyCount]profile.Metric{profile.MetricTTFTP99, profile.MetricTPOTP99,
		profile.MetricE2EP99} {
		see(&o, k, p.value[m], 1)
	}
	median, ok := slo.TPOTP50.Get()
	if tail, both := slo.TPOTP99.Get(); ok {
		was, limit := o.P99[costs.LatencyTPOT], d.Limits[costs.LatencyTPOT]
		see(&o, costs.LatencyTPOT, p.value[profile.MetricTPOTP50], limit/median.Seconds())
		if was.Scale(limit / tail.Seconds()); both && was.High > o.P99[costs.LatencyTPOT].High {
			o.P99[costs.LatencyTPOT] = was
		}
	}
	return o
}

// see takes over a latency in milliseconds, in multiples of which it is counted.
func see(o *prospect.Prospect, k int, v profile.Interval, times float64) {
	o.P99[k], o.Known[k] = prospect.Bounds(v), v.Value > 0
	o.P99[k].Scale(times / 1e3)
}
