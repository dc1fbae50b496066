package predict

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Metric returns a row's measured metric, and whether it was measured.
func (r *Row) Metric(m Metric) (float64, bool) {
	get := func(s *LatencyMS, f func(*LatencyMS) *float64) (float64, bool) {
		if s == nil {
			return 0, false
		}
		v := f(s)
		if v == nil || *v <= 0 {
			return 0, false
		}
		return *v, true
	}
	p50 := func(s *LatencyMS) *float64 { return s.P50 }
	p90 := func(s *LatencyMS) *float64 { return s.P90 }
	p99 := func(s *LatencyMS) *float64 { return s.P99 }
	switch m {
	case MetricTPOTP50:
		return get(r.TPOT, p50)
	case MetricTPOTP99:
		return get(r.TPOT, p99)
	case MetricTTFTP50:
		return get(r.TTFT, p50)
	case MetricTTFTP99:
		return get(r.TTFT, p99)
	case MetricE2EP50:
		return get(r.E2E, p50)
	case MetricE2EP90:
		return get(r.E2E, p90)
	case MetricE2EP99:
		return get(r.E2E, p99)
	}
	if m != MetricTokensPerSecond || r.TokensPerS == nil || *r.TokensPerS <= 0 {
		return 0, false
	}
	return *r.TokensPerS, true
}

// ErrorSummary is how far predictions of a metric were from measurements, as
// absolute relative errors; quantiles by nearest rank.
type ErrorSummary struct {
	Mechanism    sharing.Mechanism `json:"mechanism"`
	Metric       Metric            `json:"metric"`
	Rows         int               `json:"rows"`
	MeanFraction float64           `json:"mean"`
	P50Fraction  float64           `json:"p50"`
	P95Fraction  float64           `json:"p95"`
	// CoverageFraction is the share of measurements within their 90% interval,
	// and WidthFraction the intervals' mean width over their values. Both are
	// absent for baselines, which have no intervals.
	CoverageFraction *float64 `json:"coverage,omitempty"`
	WidthFraction    *float64 `json:"width,omitempty"`
}

// ErrorsOf summarises predictions against measurements by mechanism and metric.
// Throughput is compared in closed loops only: that of an open loop is what its
// clients offer.
func ErrorsOf(ms []Measured) []ErrorSummary {
	return summarise(ms, func(m *Measured, metric Metric) (Interval, bool) {
		if m.Prediction == nil {
			return Interval{}, false
		}
		return m.Prediction.Get(metric)
	}, true)
}

func summarise(ms []Measured, predict func(*Measured, Metric) (Interval, bool), intervals bool) []ErrorSummary {
	var out []ErrorSummary
	for _, mechanism := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		for i := range MetricCount {
			metric := Metric(i)
			var errs []float64
			inside, width := 0.0, 0.0
			for j := range ms {
				m := &ms[j]
				got, ok := m.Row.Metric(metric)
				if m.Row.Mechanism != mechanism || !ok || metric == MetricTokensPerSecond && !m.Row.Load.Closed() {
					continue
				}
				v, ok := predict(m, metric)
				if !ok {
					continue
				}
				errs = append(errs, math.Abs(v.Value/got-1))
				width += v.WidthFraction()
				if v.Contains(got) {
					inside++
				}
			}
			if len(errs) == 0 {
				continue
			}
			n := float64(len(errs))
			s := ErrorSummary{Mechanism: mechanism, Metric: metric, Rows: len(errs)}
			for _, e := range errs {
				s.MeanFraction += e / n
			}
			slices.Sort(errs)
			s.P50Fraction, s.P95Fraction = nearestRank(errs, 0.5), nearestRank(errs, 0.95)
			if intervals {
				inside, width = inside/n, width/n
				s.CoverageFraction, s.WidthFraction = &inside, &width
			}
			out = append(out, s)
		}
	}
	return out
}

// Baseline is a rule of thumb that predictions are compared with.
type Baseline uint8

// The baselines, each a factor on the figures of the workload alone without
// MPS.
const (
	// NTimesSlower: N tenants, N times slower.
	BaselineNTimesSlower Baseline = iota
	// Flat: everything 1.75 times slower, the middle of an article's +50 to
	// +100%.
	BaselineFlat
	// ByGPUBusy: processor sharing, 1 plus the others' busy share of the GPU
	// (GPM graphics_util).
	BaselineGPUBusy
	// ByEngineBusy: the same by the share of time in which the others' engines
	// are busy.
	BaselineEngineBusy
)

var baselineNames = []string{"n-times-slower", "flat-1.75", "processor-sharing-graphics-util", "processor-sharing-engine-busy"}

// Baselines lists the baselines.
func Baselines() []Baseline {
	return []Baseline{BaselineNTimesSlower, BaselineFlat, BaselineGPUBusy, BaselineEngineBusy}
}

// String returns the baseline's name.
func (b Baseline) String() string { return enum.String(baselineNames, int(b)) }

// MarshalText returns the baseline's name.
func (b Baseline) MarshalText() ([]byte, error) {
	return enum.Text(ErrUnknownName, "baseline", baselineNames, int(b))
}

// UnmarshalText reads a baseline's name.
func (b *Baseline) UnmarshalText(t []byte) error { return parse(baselineNames, t, "baseline", b) }

// BaselineErrors summarises what a baseline says of the co-located rows of a
// file against what was measured.
func BaselineErrors(b Baseline, rows Rows) ([]ErrorSummary, error) {
	profiles, err := rows.Profiles()
	if err != nil {
		return nil, err
	}
	var ps Profiles
	if err := ps.Add(profiles...); err != nil {
		return nil, err
	}
	var ms []Measured
	factor := map[*Row]float64{}
	alone := map[*Row]*SoloProfile{}
	for _, c := range rows.Cases() {
		if len(c.Rows) < 2 {
			continue
		}
		for _, i := range c.Rows {
			r := &rows[i]
			f, ok := b.factor(rows, c, i, &ps)
			base := ps.find(sharing.MechanismTimeSlicing, r.Server.uncapped(), r.Load)
			if !ok || base == nil {
				continue
			}
			factor[r], alone[r] = f, base
			ms = append(ms, Measured{Index: i, Row: r})
		}
	}
	return summarise(ms, func(m *Measured, metric Metric) (Interval, bool) {
		lone := Row{TTFT: alone[m.Row].TTFT, TPOT: alone[m.Row].TPOT, E2E: alone[m.Row].E2E, TokensPerS: alone[m.Row].TokensPerS}
		v, ok := lone.Metric(metric)
		if metric == MetricTokensPerSecond {
			return Interval{Value: v / factor[m.Row]}, ok
		}
		return Interval{Value: v * factor[m.Row]}, ok
	}, false), nil
}

func (b Baseline) factor(rows Rows, c Case, i int, ps *Profiles) (float64, bool) {
	switch b {
	case BaselineNTimesSlower:
		return float64(len(c.Rows)), true
	case BaselineFlat:
		return 1.75, true
	}
	f := 1.0
	for _, j := range c.Rows {
		if j == i {
			continue
		}
		p := ps.find(sharing.MechanismTimeSlicing, rows[j].Server.uncapped(), rows[j].Load)
		if p == nil {
			return 0, false
		}
		busy := p.GPUBusyFraction
		if b == BaselineEngineBusy {
			busy = p.EngineFraction
		}
		if busy == nil {
			return 0, false
		}
		f += *busy
	}
	return f, true
}
