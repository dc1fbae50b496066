package predict

import (
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Baseline is a rule of thumb that predictions are compared with.
type Baseline uint8

// The baselines, each a factor on the figures of the workload alone without
// MPS.
const (
	// BaselineNTimesSlower: N tenants, N times slower.
	BaselineNTimesSlower Baseline = iota
	// BaselineFlat: everything 1.75 times slower, the middle of an article's +50
	// to +100%.
	BaselineFlat
	// BaselineGPUBusy: processor sharing, 1 plus the others' busy share of the
	// GPU (GPM graphics_util).
	BaselineGPUBusy
	// BaselineEngineBusy: the same by the share of time in which the others'
	// engines are busy.
	BaselineEngineBusy
)

var baselines = enum.Of[Baseline](ErrUnknownName, "baseline", "n-times-slower", "flat-1.75", "processor-sharing-graphics-util", "processor-sharing-engine-busy")

// Baselines lists the baselines.
func Baselines() []Baseline { return baselines.Values() }

// String returns the baseline's name.
func (b Baseline) String() string { return baselines.String(b) }

// MarshalText returns the baseline's name.
func (b Baseline) MarshalText() ([]byte, error) { return baselines.Text(b) }

// UnmarshalText reads a baseline's name.
func (b *Baseline) UnmarshalText(t []byte) error { return baselines.Parse(b, t) }

// BaselineErrors summarises what a baseline says of the co-located rows of a
// file against what was measured.
func BaselineErrors(b Baseline, rows Rows) ([]ErrorSummary, error) {
	ps, err := NewProfiles(rows.Profiles()...)
	if err != nil {
		return nil, err
	}
	var out []comparison
	for _, c := range rows.shared(ps) {
		for i := range c.rows {
			alone := ps.uncontended(&c.rows[i])
			factor, ok := b.factor(c.rows, i, ps)
			if !ok || alone == nil {
				continue
			}
			out = append(out, comparison{&c.rows[i], func(m Metric) (Interval, bool) {
				v, ok := alone.Metric(m)
				if m == MetricTokensPerSecond {
					return Interval{Value: v / factor}, ok
				}
				return Interval{Value: v * factor}, ok
			}})
		}
	}
	return summarise(out, false), nil
}

// uncontended is a row's workload alone, without MPS; nil when not measured.
func (ps *Profiles) uncontended(r *Row) *SoloProfile {
	return ps.find(sharing.MechanismTimeSlicing, r.Server.uncapped(), r.Load)
}

// factor is what the baseline says of tenant i of a case.
func (b Baseline) factor(rows Rows, i int, ps *Profiles) (float64, bool) {
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
		p := ps.uncontended(&rows[j])
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
