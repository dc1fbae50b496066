// SPDX-License-Identifier: Apache-2.0

package accuracy_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/sharing"
)

// seriesOfDays are all measurements of servers under time-slicing and MPS, by the day
// and host that they come from: what machines and versions have in common within a
// day, a series of another day does not tell.
var seriesOfDays = [][]string{
	{"h200-colocation", "h200-colocation-sm-percent"},
	{"h200-two-models"},
	{"h200-mixes"},
	{"h200-mixes-2"},
	{"h200-mixes-3", "h200-mps-order", "h100-colocation"},
	{"h100-two-models"},
	{"h200-mixes-4", "h100-mixes", "h100-mixes-2"},
	{"h200-mixes-5", "h100-mixes-3", "h100-mixes-4"},
	{"h100-mixes-5", "h100-mixes-6", "h200-mixes-6", "h200-mixes-7"},
	{"h100-mixes-7", "h100-mixes-8", "h100-mixes-9", "h100-mixes-10", "h200-mixes-8", "h200-mixes-9",
		"h100-mixes-11", "h100-mixes-12", "h100-mixes-13", "h100-mixes-14", "h200-mixes-10", "h200-mixes-11", "h200-mixes-12"},
}

var allSeries = slices.Concat(seriesOfDays...)

// daysLeftOut are all co-located rows, each series predicted by those of other days:
// those of the H100s, which are too few to calibrate on, by the H200s'.
var daysLeftOut = sync.OnceValues(func() ([]predict.Measured, error) {
	return leaveDaysOut(predict.NewPredictor(), profile.Mechanisms[:]...)
})

// leaveDaysOut predicts the co-located rows of mechanisms, each series from those of other days.
func leaveDaysOut(p predict.Predictor, mechanisms ...sharing.Mechanism) ([]predict.Measured, error) {
	var files []profile.Rows
	name := map[*profile.Row]string{}
	for day, series := range seriesOfDays {
		for _, of := range series {
			rows, err := profile.LoadRows(testdata + of + ".json")
			if err != nil {
				return nil, err
			}
			rows = slices.DeleteFunc(rows, func(r profile.Row) bool { return r.Tenants > 1 && !slices.Contains(mechanisms, r.Mechanism) })
			for i := range rows {
				name[&rows[i]], rows[i].Series = of, strconv.Itoa(day)
			}
			files = append(files, rows)
		}
	}
	measured, err := p.CrossValidate(predict.MethodSimulated, files...)
	for i := range measured {
		measured[i].Series = name[measured[i].Row]
	}
	return measured, err
}

// tpotBy are the errors of TPOT P50 by mechanism.
func tpotBy(measured []predict.Measured) map[sharing.Mechanism]predict.ErrorSummary {
	out := map[sharing.Mechanism]predict.ErrorSummary{}
	for m, e := range errorsBy(predict.ErrorsOf(measured)) {
		out[m] = e[profile.MetricTPOTP50]
	}
	return out
}

// TestLeaveOneSeriesOut holds predictions of each series by those of other days, with
// and without percentages, to what is promised.
func TestLeaveOneSeriesOut(t *testing.T) {
	nightly.Only(t)
	t.Parallel()
	measured, err := daysLeftOut()
	if err != nil {
		t.Fatal(err)
	}
	all := errorsBy(predict.ErrorsOf(measured))
	// The first token of these rows changed by 20, 18, 8 and 10% when their plans ran
	// once more under time-slicing, that of h100-mixes-5 by 22% under MPS; that of others
	// is missed by 12% at most.
	repeated := map[string]float64{}
	for of, file := range map[string]string{
		"h100-mixes-3": "h100-mixes-3-again.json", "h100-mixes-5": "h100-mixes-5-again.json", "h200-mixes-6": "h200-mixes-6-again.json",
		"h100-mixes-11": "h100-mixes-11-again.json",
	} {
		again := rowsOf(t, file)
		for i := range again {
			repeated[keyOf(of, &again[i])], _ = again[i].Metric(profile.MetricTTFTP50)
		}
	}
	for m, want := range map[sharing.Mechanism]struct{ mean, p95 float64 }{
		sharing.MechanismTimeSlicing: {0.045, 0.13},
		sharing.MechanismMPS:         {0.035, 0.09},
	} {
		e := all[m][profile.MetricTPOTP50]
		t.Logf("%s: %d rows, mean %.3f, P95 %.3f, coverage %.3f, width %.3f", m, e.Rows, e.MeanFraction, e.P95Fraction, e.CoverageFraction.Or(0), e.WidthFraction.Or(0))
		if e.MeanFraction > want.mean || e.P95Fraction > want.p95 {
			t.Errorf("%s: TPOT missed by %.3f, P95 %.3f", m, e.MeanFraction, e.P95Fraction)
		}
		if c := e.CoverageFraction.Or(0); c < 0.85 || c > 0.975 || e.WidthFraction.Or(1) > 0.3 {
			t.Errorf("%s: the interval holds %.3f with a width of %.3f", m, c, e.WidthFraction.Or(1))
		}
		sum, may := 0.0, 0.0
		for i := range measured {
			r := &measured[i]
			if r.Prediction == nil || r.Row.Mechanism != m {
				continue
			}
			v, ok := r.Prediction.Get(profile.MetricTTFTP50)
			if got, ok2 := r.Row.Metric(profile.MetricTTFTP50); ok && ok2 {
				sum += math.Abs(v.Value/got - 1)
				may += max(0.12, math.Abs(cmp.Or(repeated[keyOf(r.Series, r.Row)], got)/got-1))
			}
		}
		rows := float64(all[m][profile.MetricTTFTP50].Rows)
		t.Logf("%s: TTFT missed by %.3f, may be by %.3f", m, sum/rows, may/rows)
		if sum > may {
			t.Errorf("%s: TTFT missed by %.3f, and by %.3f when it is measured again", m, sum/rows, may/rows)
		}
		for _, name := range allSeries {
			for _, percentages := range []bool{false, true} {
				of := slices.DeleteFunc(slices.Clone(measured), func(r predict.Measured) bool {
					return r.Series != name || (r.Row.Server.SMPercent.Or(100) < 100) != percentages
				})
				e, ok := tpotBy(of)[m]
				if !ok {
					continue
				}
				t.Logf("%s, %s, with percentages %t: %d rows, mean %.3f, P95 %.3f, coverage %.3f, width %.3f", m, name, percentages, e.Rows, e.MeanFraction, e.P95Fraction, e.CoverageFraction.Or(0), e.WidthFraction.Or(0))
				if e.CoverageFraction.Or(0) < 0.8 {
					t.Errorf("%s, %s: the interval holds %.2f of %d rows", m, name, e.CoverageFraction.Or(0), e.Rows)
				}
			}
		}
	}
}

// keyOf tells a row of a series that was measured twice.
func keyOf(series string, r *profile.Row) string {
	return fmt.Sprint(series, r.Mechanism, r.Case, r.Load.Server)
}

// TestH100FromH200 holds predictions of an H100 by what H200s were calibrated on to
// what is promised: no row of an H100 side by side is used. Tenants with percentages are
// held to what they came to.
func TestH100FromH200(t *testing.T) {
	nightly.Only(t)
	t.Parallel()
	all, err := daysLeftOut()
	if err != nil {
		t.Fatal(err)
	}
	measured := slices.DeleteFunc(slices.Clone(all), func(r predict.Measured) bool { return !strings.HasPrefix(r.Series, "h100") })
	for _, want := range []struct {
		mechanism      sharing.Mechanism
		percentages    bool
		mean, p95      float64
		far, seriesP95 float64 // of one row, and of a series of 20
	}{
		{sharing.MechanismTimeSlicing, false, 0.06, 0.15, 0.15, 0.15},
		{sharing.MechanismMPS, false, 0.03, 0.07, 0.12, 0.095},
		{sharing.MechanismMPS, true, 0.04, 0.105, math.Inf(1), 0.125},
	} {
		m := want.mechanism
		rows := slices.DeleteFunc(slices.Clone(measured), func(r predict.Measured) bool {
			return r.Row.Mechanism != m || (r.Row.Server.SMPercent.Or(100) < 100) != want.percentages
		})
		e := tpotBy(rows)[m]
		t.Logf("%s, with percentages %t: %d rows, mean %.3f, P95 %.3f, coverage %.3f, width %.3f", m, want.percentages, e.Rows, e.MeanFraction, e.P95Fraction, e.CoverageFraction.Or(0), e.WidthFraction.Or(0))
		if e.MeanFraction > want.mean || e.P95Fraction > want.p95 || e.CoverageFraction.Or(0) < 0.8 {
			t.Errorf("%s, with percentages %t: TPOT missed by %.3f, P95 %.3f; the interval holds %.3f", m, want.percentages, e.MeanFraction, e.P95Fraction, e.CoverageFraction.Or(0))
		}
		for _, name := range allSeries {
			of := slices.DeleteFunc(slices.Clone(rows), func(r predict.Measured) bool { return r.Series != name })
			if len(of) == 0 {
				continue
			}
			e := tpotBy(of)[m]
			t.Logf("%s, %s: %d rows, mean %.3f, P95 %.3f, coverage %.3f", m, name, e.Rows, e.MeanFraction, e.P95Fraction, e.CoverageFraction.Or(0))
			if len(of) >= 20 {
				if e.P95Fraction > want.seriesP95 {
					t.Errorf("%s, %s: P95 %.3f", m, name, e.P95Fraction)
				}
				continue
			}
			far := 0 // one of a few rows may be
			for _, r := range of {
				v, _ := r.Prediction.Get(profile.MetricTPOTP50)
				got, _ := r.Row.Metric(profile.MetricTPOTP50)
				if math.Abs(v.Value/got-1) <= want.far {
					continue
				}
				// A step at the quantum says so.
				if far++; far > 1 || !v.Contains(got) || m == sharing.MechanismTimeSlicing && r.Prediction.OtherSlices.IsZero() {
					t.Errorf("%s, %s, %s: %v predicted, %v measured", name, r.Row.Case, r.Row.Server.Model, v, got)
				}
			}
		}
	}
	for _, r := range measured {
		if r.Prediction.Basis != sharing.BasisTransferred || !strings.Contains(strings.Join(r.Prediction.Notes, "\n"), "carried over from H200 to H100 80GB HBM3") {
			t.Errorf("%s: %s, %q", r.Row.Case, r.Prediction.Basis, r.Prediction.Notes)
		}
	}
}
