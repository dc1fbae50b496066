package predict

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// Measured is a co-located row with its prediction.
type Measured struct {
	Series     string // of the row, or where it does not say, that of its file
	Index      int    // of the row in its file
	Row        *profile.Row
	Prediction *Prediction // nil when it could not be predicted
	Err        error       // why not
}

// ClassName names the engine or kind of a tenant, and beside what it was where that says more. Only rows of servers
// that launch steps as a whole calibrate, so that all other engines and kinds are predicted as if they were left out.
func (m *Measured) ClassName() string {
	switch {
	case m.Row.Kind != profile.KindServer:
		return m.Row.Kind.String()
	case m.Prediction != nil && m.Prediction.Class >= profile.ClassMixed:
		return "server, " + m.Prediction.Class.String()
	case m.Row.Server.Variant != "":
		return m.Row.Server.Variant
	case m.Prediction != nil && m.Prediction.Class == profile.ClassLaunched:
		return "server, launched"
	}
	return "calibrated on"
}

// LeaveClassesOut returns predictions in which no class has intervals that its own rows chose: of each engine and kind
// of tenant that calibrates nothing ([Measured.ClassName]), those of a metric are as many times as wide as the ones of
// all others must be to hold 90% of what was measured of them (split conformal prediction).
func LeaveClassesOut(ms []Measured) []Measured {
	type key struct {
		mechanism sharing.Mechanism
		metric    profile.Metric
	}
	needed := map[key]map[string][]float64{} // by class, of an interval's half-width
	out := slices.Clone(ms)
	for i := range out {
		p := out[i].Prediction
		if p == nil || p.Class == profile.ClassGraphs {
			continue
		}
		copied := *p
		out[i].Prediction = &copied
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
				needed[k][out[i].ClassName()] = append(needed[k][out[i].ClassName()], math.Abs(math.Log(got/v.Value))/half)
			}
		}
	}
	for i := range out {
		p := out[i].Prediction
		if p == nil || p.Class == profile.ClassGraphs {
			continue
		}
		for m := range p.value {
			var others []float64
			for class, n := range needed[key{p.Mechanism, profile.Metric(m)}] {
				if class != out[i].ClassName() {
					others = append(others, n...)
				}
			}
			if len(others) > 0 {
				stretch(&p.value[m], conformal(others, 0.9))
			}
		}
	}
	return out
}

// Asked counts what predictions answer when asked whether the median of a token, or of a step, stays below a limit.
type Asked struct {
	Yes     int `json:"yes"`
	No      int `json:"no"`
	Unknown int `json:"unknown"`
	Wrong   int `json:"wrong"` // of the yeses
}

// AskedOf asks of each row whether it stays below so many times its figure alone without MPS.
func AskedOf(ms []Measured, times ...float64) map[sharing.Mechanism]Asked {
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

// ErrorSummary holds the distance of a metric's predictions from measurements, as
// absolute relative errors; quantiles by nearest rank.
type ErrorSummary struct {
	Mechanism    sharing.Mechanism `json:"mechanism"`
	Metric       profile.Metric    `json:"metric"`
	Rows         int               `json:"rows"`
	MeanFraction float64           `json:"mean"`
	P50Fraction  float64           `json:"p50"`
	P95Fraction  float64           `json:"p95"`
	// CoverageFraction is the share of measurements within their 90% interval, and WidthFraction the intervals'
	// mean width over their values. Both are missing for baselines, which have no intervals.
	CoverageFraction profile.Optional[float64] `json:"coverage,omitzero"`
	WidthFraction    profile.Optional[float64] `json:"width,omitzero"`
}

// ErrorsOf summarises predictions against measurements by mechanism and metric. Throughput is compared in closed
// loops only: that of an open loop is what its clients offer.
func ErrorsOf(ms []Measured) []ErrorSummary {
	out := make([]comparison, 0, len(ms))
	for i := range ms {
		if p := ms[i].Prediction; p != nil {
			out = append(out, comparison{ms[i].Row, p.Get})
		}
	}
	return summarise(out, true)
}

// comparison is a measured row with what was said of its metrics.
type comparison struct {
	row  *profile.Row
	said func(profile.Metric) (profile.Interval, bool)
}

func summarise(cs []comparison, intervals bool) []ErrorSummary {
	var out []ErrorSummary
	for _, mechanism := range profile.Mechanisms {
		for m := range profile.Metric(profile.MetricCount) {
			var errs []float64
			inside, width := 0.0, 0.0
			for _, c := range cs {
				got, ok := c.row.Compared(m)
				said, ok2 := c.said(m)
				if !ok || !ok2 || c.row.Mechanism != mechanism {
					continue
				}
				errs = append(errs, math.Abs(said.Value/got-1))
				width += said.WidthFraction()
				if said.Contains(got) {
					inside++
				}
			}
			if len(errs) == 0 {
				continue
			}
			n := float64(len(errs))
			s := ErrorSummary{Mechanism: mechanism, Metric: m, Rows: len(errs)}
			for _, e := range errs {
				s.MeanFraction += e / n
			}
			slices.Sort(errs)
			s.P50Fraction, s.P95Fraction = stats.NearestRank(errs, 0.5), stats.NearestRank(errs, 0.95)
			if intervals {
				s.CoverageFraction, s.WidthFraction = profile.Some(inside/n), profile.Some(width/n)
			}
			out = append(out, s)
		}
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

var baselines = enum.Of[Baseline](profile.ErrUnknownName, "baseline",
	"n-times-slower", "flat-1.75", "processor-sharing-graphics-util", "processor-sharing-engine-busy")

// Baselines lists the baselines.
func Baselines() []Baseline { return baselines.Values() }

// BaselineErrors summarises what a baseline says of the co-located rows of files against what was measured.
func BaselineErrors(b Baseline, files ...profile.Rows) ([]ErrorSummary, error) {
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
	return summarise(out, false), nil
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
	return ps.Find(sharing.MechanismTimeSlicing, r.Server.Uncapped(), r.Load)
}
