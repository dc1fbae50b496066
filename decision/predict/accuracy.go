// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// ErrorSummary summarizes the absolute relative errors of a metric's predictions; quantiles are by nearest rank.
type ErrorSummary struct {
	Mechanism    sharing.Mechanism `json:"mechanism"`
	Metric       profile.Metric    `json:"metric"`
	Rows         int               `json:"rows"`
	MeanFraction float64           `json:"mean"`
	P50Fraction  float64           `json:"p50"`
	P95Fraction  float64           `json:"p95"`
	// CoverageFraction is the share of measurements within their 90% interval, and WidthFraction the intervals' mean width
	// over their values. Both are missing for baselines without intervals.
	CoverageFraction sharing.Optional[float64] `json:"coverage,omitzero"`
	WidthFraction    sharing.Optional[float64] `json:"width,omitzero"`
}

// ErrorsOf summarizes predictions against measurements by mechanism and metric. Throughput is compared in closed loops
// only, since clients of an open loop determine it.
func ErrorsOf(ms []Measured) []ErrorSummary {
	var out []ErrorSummary
	for _, mechanism := range profile.Mechanisms {
		for m := range profile.Metric(profile.MetricCount) {
			var errs []float64
			inside, width, sum := 0.0, 0.0, 0.0
			for i := range ms {
				if ms[i].Prediction == nil || ms[i].Row.Mechanism != mechanism {
					continue
				}
				got, ok := ms[i].Row.Compared(m)
				predicted, ok2 := ms[i].Prediction.Get(m)
				if !ok || !ok2 {
					continue
				}
				errs = append(errs, math.Abs(predicted.Value/got-1))
				sum += errs[len(errs)-1]
				width += predicted.WidthFraction()
				if predicted.Contains(got) {
					inside++
				}
			}
			if len(errs) == 0 {
				continue
			}
			n := float64(len(errs))
			slices.Sort(errs)
			out = append(out, ErrorSummary{mechanism, m, len(errs), sum / n, stats.NearestRank(errs, 0.5),
				stats.NearestRank(errs, 0.95), sharing.Some(inside / n), sharing.Some(width / n)})
		}
	}
	return out
}
