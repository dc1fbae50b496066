package accuracy_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/stat"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
)

var corpora = []corpus{turns, mps, turnsForeign, mpsForeign, turnsBare, mpsBare, mpsUncounted}

// day is the day of a series of servers that predictors are calibrated on, or else the series.
func (of corpus) day(series string) string {
	if i := slices.IndexFunc(seriesOfDays, func(names []string) bool { return slices.Contains(names, series) }); of.kind == "" {
		return strconv.Itoa(i)
	}
	return series
}

// derive chooses the rule's constant again by all of its first rows, and by those without one day, or series, after
// another.
func (r *rule) derive(t *testing.T, name string, with [3]missedBy, widens bool) {
	t.Helper()
	table, sigma := costs.Value(name), costs.Named(name).Sigma
	if slices.Contains(r.tried, table) {
		t.Fatalf("%s: %g in the table is tried beside it", name, table)
	}
	loss, units := map[float64]missedBy{}, with[2]
	for _, v := range append([]float64{table}, r.tried...) {
		e := with
		if v != table {
			e = r.on[0].errors(r.on[0].predict(t, constants{name: v}))
		}
		loss[v] = missedBy{}
		for u := range units {
			if loss[v][u] = e[0][u] + e[1][u]/4; widens { // first tokens are missed by four times as much
				loss[v][u] = e[2][u] / 20
			}
		}
	}
	choose := func(without string) (best float64) {
		low := math.Inf(1)
		for _, v := range slices.Sorted(maps.Keys(loss)) {
			sum, n := 0.0, 0.0
			for u := range units {
				if r.on[0].day(u.series) != without {
					sum, n = sum+loss[v][u], n+1
				}
			}
			if v != table {
				sum += n * 100 * costs.Value("pull")
			}
			if sum/n < low {
				best, low = v, sum/n
			}
			if without == "" {
				t.Logf("| %s | %s | %g | %.3f |", r.on[0], name, v, sum/n)
			}
		}
		return best
	}
	if best := choose(""); best != table {
		t.Errorf("%s: %g in the table, %g by all rows", name, table, best)
	}
	if doubt := doubtOf(loss); sigma < 0.9*doubt {
		t.Errorf("%s: sigma %.3f in the table, %.3f by all rows", name, sigma, doubt)
	}
	others := map[string]float64{}
	for u := range units {
		if v := choose(r.on[0].day(u.series)); v != table {
			others[r.on[0].day(u.series)] = v
		}
	}
	if diff := cmp.Diff(chosenWithout(t)[r.on[0].String()][name], others, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: testdata/chosen-without.json (-) and what days left out choose (+)\n%s", name, diff)
	}
}

// doubtOf is the distance of a constant's logarithm, half the range of the three values that were tried at most, at
// which the mean loss is worse by what a fit must save, pull: by the parabola through them.
func doubtOf(loss map[float64]missedBy) float64 {
	var x, y []float64
	for _, v := range slices.Sorted(maps.Keys(loss)) {
		x, y = append(x, math.Log(v)), append(y, stat.Mean(slices.Collect(maps.Values(loss[v])), nil))
	}
	bend := ((y[2]-y[1])/(x[2]-x[1]) - (y[1]-y[0])/(x[1]-x[0])) / (x[2] - x[0])
	return min((x[2]-x[0])/2, math.Sqrt(100*costs.Value("pull")/max(bend, 1e-9)))
}

// chosenWithout are values that constants have where a day, or series, plays no part in their choice: by rows, constant
// and day, where they are not those of the table.
func chosenWithout(t *testing.T) (out map[string]map[string]map[string]float64) {
	t.Helper()
	data, err := os.ReadFile("testdata/chosen-without.json")
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestChosenWithout holds predictions of each day, or series, by constants that were chosen without it, to those of the
// table: choosing constants with all rows in view makes TPOT of the calibrated servers no better by more than half a
// point.
func TestChosenWithout(t *testing.T) {
	nightly.Only(t)
	for on, chosen := range chosenWithout(t) {
		of := corpora[slices.IndexFunc(corpora, func(of corpus) bool { return of.String() == on })]
		days := map[string]constants{}
		for name, by := range chosen {
			for day, v := range by {
				if days[day] == nil {
					days[day] = constants{}
				}
				days[day][name] = v
			}
		}
		before := of.predict(t, nil)
		after := slices.Clone(before)
		for day, with := range days {
			for i, m := range of.predict(t, with) {
				if of.day(m.Series) == day {
					after[i] = m
				}
			}
		}
		for metric, e := range errorsBy(predict.ErrorsOf(after))[of.mechanism] {
			was := errorsBy(predict.ErrorsOf(before))[of.mechanism][metric]
			t.Logf("| %s | %s | %.1f / %.1f; %.0f, %.0f | %.1f / %.1f; %.0f, %.0f |", of, metric, 100*was.MeanFraction, 100*was.P95Fraction,
				100*was.CoverageFraction.Or(0), 100*was.WidthFraction.Or(0), 100*e.MeanFraction, 100*e.P95Fraction, 100*e.CoverageFraction.Or(0), 100*e.WidthFraction.Or(0))
			if main := metric == profile.MetricTPOTP50; main && of.kind == "" && (e.MeanFraction > was.MeanFraction+0.005 || e.P95Fraction > was.P95Fraction+0.005) {
				t.Errorf("%s: missed by %.3f, P95 %.3f, with the table by %.3f, P95 %.3f", of, e.MeanFraction, e.P95Fraction, was.MeanFraction, was.P95Fraction)
			}
		}
	}
}
