package accuracy_test

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/sharing"
)

// eachConstant calls f for each constant of the groups that predictions from measurements read, with its name.
func eachConstant(f func(name string, c *costs.Constant)) {
	table := reflect.ValueOf(&costs.Table).Elem()
	for i := range table.NumField() {
		group, name := table.Field(i), table.Type().Field(i).Name
		if group.Kind() != reflect.Struct || name == "Unmeasured" || name == "Doubts" {
			continue
		}
		for j := range group.NumField() {
			f(name+"."+group.Type().Field(j).Name, group.Field(j).Addr().Interface().(*costs.Constant))
		}
	}
}

// missedByClass is the mean over classes of foreign software of the mean error of the main figure under a mechanism, and
// that of the calibrated servers with series of other days left out.
func missedByClass(t *testing.T) (out map[string]float64) {
	t.Helper()
	out = map[string]float64{}
	sums := map[sharing.Mechanism]map[string]*tally{sharing.MechanismTimeSlicing: {}, sharing.MechanismMPS: {}}
	for _, files := range [][]string{foreignFiles, engineFiles} {
		addTallies(t, files, sums)
	}
	for m, classes := range sums {
		for _, name := range slices.Sorted(maps.Keys(classes)) {
			if a := classes[name]; a.rows >= 10 && name != allServers {
				out["foreign, "+m.String()] += a.missed / float64(a.rows) / float64(len(classes))
			}
		}
	}
	measured, err := leaveDaysOut(predict.NewPredictor(), sharing.MechanismTimeSlicing, sharing.MechanismMPS)
	if err != nil {
		t.Fatal(err)
	}
	for m, e := range tpotBy(measured) {
		out["calibrated, "+m.String()] = e.MeanFraction
	}
	return out
}

// TestAblation moves each constant to half and to twice its value: neither may be better by more than half a point on
// any of the four kinds of rows, and one that moves nothing at all has no place in the table.
func TestAblation(t *testing.T) {
	nightly.Only(t)
	whole := missedByClass(t)
	eachConstant(func(name string, c *costs.Constant) {
		moved := 0.0
		for _, factor := range []float64{0.5, 2} {
			value := c.Value
			c.Value *= factor
			with := missedByClass(t)
			c.Value = value
			for rows, before := range whole {
				moved = max(moved, math.Abs(with[rows]-before))
				t.Logf("%s x %v, %s: %.2f -> %.2f", name, factor, rows, 100*before, 100*with[rows])
				if with[rows] < before-0.005 {
					t.Errorf("%s x %v: %s are missed by %.4f, now %.4f", name, factor, rows, with[rows], before)
				}
			}
		}
		if moved == 0 {
			t.Errorf("%s moves nothing", name)
		}
	})
}
