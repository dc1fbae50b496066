// SPDX-License-Identifier: Apache-2.0

package accuracy_test

import (
	"math"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/tools/research/accuracy"
)

// testdata is where the measurements are; its DATA.md says where they come from.
const testdata = "../../../decision/predict/testdata/"

func rowsOf(tb testing.TB, name string) profile.Rows {
	tb.Helper()
	rows, err := profile.LoadRows(testdata + name)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

// errorsBy indexes summaries by mechanism and metric.
func errorsBy(es []predict.ErrorSummary) map[sharing.Mechanism]map[profile.Metric]predict.ErrorSummary {
	out := map[sharing.Mechanism]map[profile.Metric]predict.ErrorSummary{}
	for _, e := range es {
		if out[e.Mechanism] == nil {
			out[e.Mechanism] = map[profile.Metric]predict.ErrorSummary{}
		}
		out[e.Mechanism][e.Metric] = e
	}
	return out
}

// TestH200 holds the predictions of the H200 data against the errors, the coverage and the widths that are demanded.
func TestH200(t *testing.T) {
	race.Long(t)
	rows := rowsOf(t, "h200-colocation.json")
	type limit struct{ mean, p95 float64 }
	limits := map[sharing.Mechanism]map[profile.Metric]limit{
		sharing.MechanismTimeSlicing: {profile.MetricTPOTP50: {0.04, 0.12}, profile.MetricE2EP50: {0.04, 0.12}, profile.MetricTokensPerSecond: {0.045, 1}},
		sharing.MechanismMPS:         {profile.MetricTPOTP50: {0.035, 0.10}, profile.MetricE2EP50: {0.035, 0.10}, profile.MetricTokensPerSecond: {0.04, 1}},
	}
	for _, method := range []predict.Method{predict.MethodSimulated, predict.MethodClosedForm} {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			measured, err := predict.NewPredictor().CrossValidate(method, rows)
			if err != nil {
				t.Fatal(err)
			}
			got := errorsBy(predict.ErrorsOf(measured))
			for m, metrics := range limits {
				for metric, want := range metrics {
					e := got[m][metric]
					if wantRows := map[bool]int{true: 36, false: 39}[metric == profile.MetricTokensPerSecond]; e.Rows != wantRows {
						t.Errorf("%s %s: %d rows, want %d", m, metric, e.Rows, wantRows)
					}
					// One series, widened for what others differ by, may hold all of itself.
					if c := e.CoverageFraction.Or(0); c < 0.85 {
						t.Errorf("%s %s: the 90%% interval covers %.0f%%", m, metric, 100*c)
					}
					if w := e.WidthFraction.Or(1); w > 0.3 {
						t.Errorf("%s %s: mean width %.0f%%", m, metric, 100*w)
					}
					slack := 1.0
					if method == predict.MethodClosedForm {
						slack = 1.15 // the demanded figures are the simulation's
					}
					if e.MeanFraction > slack*want.mean || e.P95Fraction > slack*want.p95 {
						t.Errorf("%s %s: mean %.1f%%, p95 %.1f%%; want at most %.1f and %.1f", m, metric,
							100*e.MeanFraction, 100*e.P95Fraction, 100*want.mean, 100*want.p95)
					}
				}
			}
		})
	}
}

// TestBaselines: the rules of thumb err as they were found to on this data.
func TestBaselines(t *testing.T) {
	rows := rowsOf(t, "h200-colocation.json")
	for _, c := range []struct {
		b       accuracy.Baseline
		ts, mps float64
	}{{accuracy.BaselineNTimesSlower, 0.123, 0.487}, {accuracy.BaselineFlat, 0.199, 0.190}, {accuracy.BaselineGPUBusy, 0.077, 0}, {accuracy.BaselineEngineBusy, 0.124, 0}} {
		es, err := accuracy.BaselineErrors(c.b, rows)
		if err != nil {
			t.Fatal(err)
		}
		got := errorsBy(es)
		if e := got[sharing.MechanismTimeSlicing][profile.MetricTPOTP50].MeanFraction; math.Abs(e-c.ts) > 0.001 {
			t.Errorf("%s, time-slicing: %.3f, want %.3f", c.b, e, c.ts)
		}
		if e := got[sharing.MechanismMPS][profile.MetricTPOTP50].MeanFraction; c.mps > 0 && math.Abs(e-c.mps) > 0.001 {
			t.Errorf("%s, MPS: %.3f, want %.3f", c.b, e, c.mps)
		}
	}
}
