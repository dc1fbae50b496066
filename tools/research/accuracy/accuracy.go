// SPDX-License-Identifier: Apache-2.0

// Package accuracy holds predictions against measurements: beside simpler rules, and of engines and kinds of tenants
// that nothing was calibrated on. Its tests hold the predictor to what is promised, and each of its constants to
// paying.
package accuracy

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// LeaveClassesOut returns predictions in which no class has intervals that its own rows chose: of each engine and kind
// of tenant that calibrates nothing ([ClassName]), those of a metric are as many times as wide as the ones of
// all others must be to hold 90% of what was measured of them (split conformal prediction).
func LeaveClassesOut(ms []predict.Measured) []predict.Measured {
	type key struct {
		mechanism sharing.Mechanism
		metric    profile.Metric
	}
	needed := map[key]map[string][]float64{} // by class, of an interval's half-width
	out := slices.Clone(ms)
	for i := range out {
		p := out[i].Prediction
		if p == nil || p.Calibrated {
			continue
		}
		for m, v := range p.All() {
			if got, ok := out[i].Row.Compared(m); ok {
				half := math.Log(v.High / v.Value)
				if got < v.Value {
					half = math.Log(v.Value / v.Low)
				}
				k := key{p.Mechanism, m}
				if needed[k] == nil {
					needed[k] = map[string][]float64{}
				}
				class := ClassName(&out[i])
				needed[k][class] = append(needed[k][class], math.Abs(math.Log(got/v.Value))/half)
			}
		}
	}
	for i := range out {
		p := out[i].Prediction
		if p == nil || p.Calibrated {
			continue
		}
		widened := *p
		for m := range p.All() {
			var others []float64
			for class, n := range needed[key{p.Mechanism, m}] {
				if class != ClassName(&out[i]) {
					others = append(others, n...)
				}
			}
			if len(others) > 0 {
				widened = widened.Widened(m, conformal(others, 0.9))
			}
		}
		out[i].Prediction = &widened
	}
	return out
}

// ClassName names the engine or kind of a tenant, for calibrated engines the evidence. Only rows of servers that launch
// steps as a whole calibrate, so that all other engines and kinds are predicted as if they were left out.
func ClassName(m *predict.Measured) string {
	switch {
	case m.Row.Kind != profile.KindServer:
		return m.Row.Kind.String()
	case m.Row.Server.Variant != "":
		return m.Row.Server.Variant
	case m.Prediction != nil && !m.Prediction.Calibrated:
		return "server, beside others"
	}
	return "calibrated on"
}

// Asked counts what predictions answer when asked whether the median of a token, or of a step, stays below a limit.
type Asked struct {
	Yes     int `json:"yes"`
	No      int `json:"no"`
	Unknown int `json:"unknown"`
	Wrong   int `json:"wrong"` // of the yeses
}

// AskedOf asks of each row whether it stays below so many times its figure alone without MPS.
func AskedOf(ms []predict.Measured, times ...float64) map[sharing.Mechanism]Asked {
	out := map[sharing.Mechanism]Asked{}
	for i := range ms {
		p, metric := ms[i].Prediction, ms[i].Row.Kind.MainMetric()
		got, ok := ms[i].Row.Metric(metric)
		if p == nil || !ok {
			continue
		}
		said, _ := p.Get(metric)
		a := out[p.Mechanism]
		for _, n := range times {
			limit := n * said.Value / p.Slowdown.Value
			switch said.Below(limit) {
			case sharing.AnswerYes:
				a.Yes++
				if got > limit {
					a.Wrong++
				}
			case sharing.AnswerNo:
				a.No++
			default:
				a.Unknown++
			}
		}
		out[p.Mechanism] = a
	}
	return out
}

// Baseline is a rule of thumb that predictions are compared with.
type Baseline uint8

// The baselines, each a factor on the figures of the workload alone without MPS.
const (
	// BaselineNTimesSlower: N tenants, N times slower.
	BaselineNTimesSlower Baseline = iota
	// BaselineFlat: everything 1.75 times slower, the middle of an article's +50 to +100%.
	BaselineFlat
	// BaselineGPUBusy: processor sharing, 1 plus the others' busy share of the GPU (GPM graphics_util).
	BaselineGPUBusy
	// BaselineEngineBusy: the same by the share of time in which the others' engines are busy.
	BaselineEngineBusy
)

var baselines = enum.Of[Baseline](sharing.ErrUnknownName, "baseline",
	"n-times-slower", "flat-1.75", "processor-sharing-graphics-util", "processor-sharing-engine-busy")

func (b Baseline) String() string                   { return baselines.String(b) }
func (b Baseline) MarshalText() ([]byte, error)     { return baselines.Text(b) }
func (b *Baseline) UnmarshalText(text []byte) error { return baselines.Parse(b, text) }

// Baselines lists the baselines.
func Baselines() []Baseline { return baselines.Values() }

// BaselineErrors summarises what a baseline says of the co-located rows of files against what was measured.
func BaselineErrors(b Baseline, files ...profile.Rows) ([]predict.ErrorSummary, error) {
	var out []comparison
	for _, rows := range files {
		ps, err := profile.NewProfiles(rows.Profiles()...)
		if err != nil {
			return nil, err
		}
		for _, c := range rows.Cases() {
			if len(c.Rows) < 2 {
				continue
			}
			for i := range c.Rows {
				alone := uncontended(ps, &c.Rows[i])
				factor, ok := b.factor(c.Rows, i, ps)
				if !ok || alone == nil {
					continue
				}
				out = append(out, comparison{&c.Rows[i], func(m profile.Metric) (profile.Interval, bool) {
					v, ok := alone.Metric(m)
					if m == profile.MetricTokensPerSecond {
						return profile.Interval{Value: v / factor}, ok
					}
					return profile.Interval{Value: v * factor}, ok
				}})
			}
		}
	}
	return summarise(out), nil
}

// factor returns the baseline's slowdown of tenant i of a case.
func (b Baseline) factor(rows profile.Rows, i int, ps *profile.Profiles) (float64, bool) {
	switch b {
	case BaselineNTimesSlower:
		return float64(len(rows)), true
	case BaselineFlat:
		return 1.75, true
	}
	f := 1.0
	for j := range rows {
		if j == i {
			continue
		}
		p := uncontended(ps, &rows[j])
		if p == nil {
			return 0, false
		}
		busy := p.GPUBusyFraction
		if b == BaselineEngineBusy {
			busy = p.EngineFraction
		}
		v, ok := busy.Get()
		if !ok {
			return 0, false
		}
		f += v
	}
	return f, true
}

// uncontended is a row's workload alone, without MPS; nil when not measured.
func uncontended(ps *profile.Profiles, r *profile.Row) *profile.SoloProfile {
	solo, _ := ps.Solo(uncapped(r.Server), r.Load) // the zero Solo where there is no profile
	return solo.TimeSlicing
}

// uncapped is the same server without an active thread percentage.
func uncapped(s profile.Server) profile.Server {
	s.SMPercent = sharing.Optional[float64]{}
	return s
}

// comparison is a measured row with what a baseline says of its metrics.
type comparison struct {
	row  *profile.Row
	said func(profile.Metric) (profile.Interval, bool)
}

// summarise is [predict.ErrorsOf] for what has no intervals.
func summarise(cs []comparison) []predict.ErrorSummary {
	var out []predict.ErrorSummary
	for _, mechanism := range profile.Mechanisms {
		for m := range profile.Metric(profile.MetricCount) {
			var errs []float64
			sum := 0.0
			for _, c := range cs {
				got, ok := c.row.Compared(m)
				if said, ok2 := c.said(m); ok && ok2 && c.row.Mechanism == mechanism {
					errs = append(errs, math.Abs(said.Value/got-1))
					sum += math.Abs(said.Value/got - 1)
				}
			}
			if len(errs) > 0 {
				slices.Sort(errs)
				out = append(out, predict.ErrorSummary{Mechanism: mechanism, Metric: m, Rows: len(errs),
					MeanFraction: sum / float64(len(errs)), P50Fraction: stats.NearestRank(errs, 0.5),
					P95Fraction: stats.NearestRank(errs, 0.95)})
			}
		}
	}
	return out
}

// conformal is the bound below which the next of a series of exchangeable values stays with probability q: the quantile
// of split conformal prediction (H. Papadopoulos and others, Inductive confidence machines for regression, ECML 2002).
func conformal(values []float64, q float64) float64 {
	slices.Sort(values)
	n := len(values)
	return values[min(n, int(math.Ceil(q*float64(n+1))))-1]
}
