package predict

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// Measured is a co-located row with its prediction.
type Measured struct {
	Index      int // of the row in its file
	Row        *Row
	Prediction *Prediction // nil when it could not be predicted
	Err        error       // why not
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
	// missing for baselines, which have no intervals.
	CoverageFraction Optional[float64] `json:"coverage,omitzero"`
	WidthFraction    Optional[float64] `json:"width,omitzero"`
}

// ErrorsOf summarises predictions against measurements by mechanism and metric.
// Throughput is compared in closed loops only: that of an open loop is what its
// clients offer.
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
	row  *Row
	said func(Metric) (Interval, bool)
}

// compared returns a row's metric if it is one that predictions are judged by.
func (r *Row) compared(m Metric) (float64, bool) {
	v, ok := r.Metric(m)
	return v, ok && (m != MetricTokensPerSecond || r.Load.Closed())
}

func summarise(cs []comparison, intervals bool) []ErrorSummary {
	var out []ErrorSummary
	for _, mechanism := range mechanisms {
		for m := range Metric(metricCount) {
			var errs []float64
			inside, width := 0.0, 0.0
			for _, c := range cs {
				got, ok := c.row.compared(m)
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
				s.CoverageFraction, s.WidthFraction = Some(inside/n), Some(width/n)
			}
			out = append(out, s)
		}
	}
	return out
}
