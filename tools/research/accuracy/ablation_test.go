package accuracy_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/sharing"
)

// constants are values of constants and parameters, by their names.
type constants map[string]float64

// rule is a part of the model that is left out when its constants have neutral values. Tried are values of its only
// constant that it might have beside its own, by the first of the rows that judge it.
type rule struct {
	on      []corpus
	neutral constants
	tried   []float64
	stays   string // why, though it does not win
}

// corpus is rows under a mechanism: of the servers that predictors are calibrated on, of foreign engines and kinds of
// tenants, or of some of either by profiles that lack MPS, GPM and gaps between tokens (bare) or GPM alone (uncounted).
type corpus struct {
	mechanism sharing.Mechanism
	kind      string
}

var (
	turns        = corpus{sharing.MechanismTimeSlicing, ""}
	mps          = corpus{sharing.MechanismMPS, ""}
	turnsForeign = corpus{sharing.MechanismTimeSlicing, " foreign"}
	mpsForeign   = corpus{sharing.MechanismMPS, " foreign"}
	turnsBare    = corpus{sharing.MechanismTimeSlicing, " bare"}
	mpsBare      = corpus{sharing.MechanismMPS, " bare"}
	mpsUncounted = corpus{sharing.MechanismMPS, " uncounted"}
)

func (of corpus) String() string { return of.mechanism.String() + of.kind }

// bareFiles are some of all rows.
var bareFiles = []string{"h200-colocation.json", "h200-mixes-2.json", "h100-mixes-2.json", "h100-mixes-5.json", "h200-mixes-8.json",
	"h100-tenants-2.json", "h100-tenants-3.json", "h100-tenants-4.json", "h200-tenants-3.json", "h200-tenants-5.json", "h100-llamacpp-2.json",
	"h200-llamacpp.json"}

// bareRows predicts from profiles without GPM, and but for those that are uncounted only without MPS and gaps between
// tokens.
func bareRows(p predict.Predictor, mechanism sharing.Mechanism, uncounted bool) (out []predict.Measured, err error) {
	for _, name := range bareFiles {
		rows, err := profile.LoadRows(testdata + name)
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(r profile.Row) bool {
			return r.Mechanism != mechanism && r.Tenants > 1 || r.Mechanism == sharing.MechanismMPS && r.Tenants == 1 && !uncounted
		})
		for i := range rows {
			if rows[i].Tenants > 1 {
				continue
			}
			rows[i].GPM = profile.RowGPM{}
			if !uncounted {
				rows[i].Version, rows[i].ITL = profile.Some(profile.VersionOfKinds), profile.LatencyMS{}
			}
		}
		measured, err := p.PredictRows(predict.MethodSimulated, rows, nil)
		if err != nil {
			return nil, err
		}
		for i := range measured {
			measured[i].Series = name
		}
		out = append(out, measured...)
	}
	return out, nil
}

// set gives constants other values until they are restored.
func (c constants) set() (restore func()) {
	var undo []func()
	put := func(at *float64, v float64) {
		before := *at
		undo, *at = append(undo, func() { *at = before }), v
	}
	for name, v := range c {
		for _, at := range []*float64{tunable[name], tunable[name+"'"]} {
			if at != nil {
				put(at, v)
			}
		}
		if at := counts[name]; at != nil {
			before := *at
			undo, *at = append(undo, func() { *at = before }), int(v)
		}
		if at := trials[name]; at != nil {
			before := *at
			undo, *at = append(undo, func() { *at = before }), []float64{v, v + 1e-9}
		}
		// The parameters of a new predictor are those of the table.
		if i := slices.IndexFunc(costs.Constants(), func(c costs.Constant) bool { return c.Name == name }); i >= 0 {
			put(&costs.Constants()[i].Value, v)
		}
	}
	return func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
}

// predict predicts with constants of other values.
func (of corpus) predict(t *testing.T, with constants) []predict.Measured {
	t.Helper()
	defer with.set()()
	p := predict.NewPredictor()
	if v, ok := with["lone_step_cost"]; ok {
		p.Parameters.LoneStepCost.Value = v
	}
	var measured []predict.Measured
	var err error
	switch of.kind {
	case "":
		measured, err = leaveDaysOut(p, of.mechanism)
	case " foreign":
		measured, err = foreignRows(p, foreignFiles, of.mechanism)
	default:
		measured, err = bareRows(p, of.mechanism, of.kind == " uncounted")
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(measured, func(m predict.Measured) bool { return m.Prediction == nil || m.Row.Mechanism != of.mechanism })
}

// missedBy are mean errors in percent by series left out, or by case of what nothing is calibrated on, whose series are
// few.
type missedBy map[unit]float64

type unit struct{ series, name string }

// errors are those of the main metric (TPOT or step), absolute and relative, of the first token, and of the intervals of
// both: their width, and twenty times the distance of what lies outside, as logarithms (T. Gneiting and A. Raftery, Strictly
// Proper Scoring Rules, Journal of the American Statistical Association 102(477), 2007).
func (of corpus) errors(measured []predict.Measured) (out [3]missedBy) {
	var rows [3]map[unit]float64
	for i := range out {
		rows[i], out[i] = map[unit]float64{}, missedBy{}
	}
	for _, m := range measured {
		u := unit{series: m.Series}
		if of.kind != "" {
			u.name = m.Row.Case
		}
		for i, metric := range []profile.Metric{m.Row.Kind.MainMetric(), profile.MetricTTFTP50} {
			v, ok := m.Prediction.Get(metric)
			if got, ok2 := m.Row.Compared(metric); ok && ok2 {
				out[i][u] += 100 * math.Abs(v.Value/got-1)
				out[2][u] += 100*math.Log(v.High/v.Low) + 2000*max(0, math.Log(v.Low/got), math.Log(got/v.High))
				rows[i][u]++
				rows[2][u]++
			}
		}
	}
	for i := range out {
		for u := range out[i] {
			out[i][u] /= rows[i][u]
		}
	}
	return out
}

// least is the least difference of errors in percent that counts.
const least = 1e-4

// signedRank is the one-sided exact P value of F. Wilcoxon's test (Individual comparisons by ranking methods,
// Biometrics Bulletin 1(6), 1945): of differences as large in sum of ranks if each had either sign. Those below least say
// nothing.
func signedRank(differences []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool { return math.Abs(v) < least })
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	sum, most := 0, len(d)*(len(d)+1)/2
	ways := make([]float64, most+1) // shares of the signs by the sum of ranks that are positive
	ways[0] = 1
	for i, v := range d {
		rank := i + 1
		if v > 0 {
			sum += rank
		}
		for s := most; s >= 0; s-- {
			ways[s] /= 2
			if s >= rank {
				ways[s] += ways[s-rank] / 2
			}
		}
	}
	p := 0.0
	for _, w := range ways[sum:] {
		p += w
	}
	return p
}

func TestSignedRank(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want float64
	}{
		{nil, 1}, {[]float64{0, 0}, 1}, {[]float64{1, 2, 3}, 1. / 8}, {[]float64{-1, 2, 3}, 2. / 8}, {[]float64{1, -2, 3, 4, 5}, 3. / 32},
		{[]float64{-1, -2, -3}, 1},
	} {
		if got := signedRank(c.d); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.d, got, c.want)
		}
	}
}

// Every rule pays: without it, some of what was left out is missed by more, at 5% by a paired test, or says why it stays.
// What moves no prediction is judged by intervals. The report has all of it; rows of the calibrated servers are held to
// that. Constants are what all rows choose of the values that are tried.
func TestAblation(t *testing.T) {
	nightly.Only(t)
	report, err := os.ReadFile("../../../decision/predict/REPORT-2026-11.md")
	if err != nil {
		t.Fatal(err)
	}
	whole := map[corpus][3]missedBy{}
	for _, r := range rules {
		names := slices.Sorted(maps.Keys(r.neutral))
		t.Run(strings.Join(names, ", "), func(t *testing.T) {
			wins, moves := false, false
			for _, on := range r.on {
				if _, ok := whole[on]; !ok {
					whole[on] = on.errors(on.predict(t, nil))
				}
				with, without := whole[on], on.errors(on.predict(t, r.neutral))
				var cells [3]string
				var ps [3]float64
				moved := false
				for i := range without {
					var d []float64
					before, now, worse := 0.0, 0.0, 0
					for u, b := range without[i] {
						a := with[i][u]
						if d = append(d, b-a); b > a+least {
							worse++
						}
						before, now = before+a/float64(len(without[i])), now+b/float64(len(without[i]))
					}
					ps[i] = signedRank(d)
					if len(d) > 0 {
						cells[i] = fmt.Sprintf(" %.2f → %.2f | %d of %d, %.4f |", before, now, worse, len(d), ps[i])
					}
					moved = moved || i < 2 && slices.ContainsFunc(d, func(v float64) bool { return math.Abs(v) > least })
				}
				row := fmt.Sprintf("| %s | `%s` |", on, strings.Join(names, "`, `"))
				if moves = moves || moved; moved {
					wins, row = wins || min(ps[0], ps[1]) <= 0.05, row+cells[0]+cells[1]
				} else {
					wins, row = wins || ps[2] <= 0.05, row+cells[2]
				}
				if on.kind == "" && !bytes.Contains(report, []byte(row)) {
					t.Errorf("the report has no row\n%s", row)
				}
			}
			if wins != (r.stays == "") {
				t.Errorf("wins: %t, and stays because %q", wins, r.stays)
			}
			if len(r.tried) > 0 {
				r.derive(t, names[0], whole[r.on[0]], !moves)
			}
		})
	}
}
