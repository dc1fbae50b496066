//go:build nightly

package predict_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// rule is a part of the model that is left out when its constants, or parameters, have neutral values.
type rule struct {
	mechanism sharing.Mechanism
	foreign   bool // it is judged on engines and kinds of tenants that nothing is calibrated on
	neutral   map[string]float64
	stays     string // why, though it does not win
}

func (r *rule) name() string { return strings.Join(slices.Sorted(maps.Keys(r.neutral)), ", ") }

func (r *rule) of() string {
	if r.foreign {
		return r.mechanism.String() + " foreign"
	}
	return r.mechanism.String()
}

const turns, mps = sharing.MechanismTimeSlicing, sharing.MechanismMPS

var rules = []rule{
	{turns, false, map[string]float64{"slice_loss": 0}, ""},
	{turns, false, map[string]float64{"step_jitter": 0}, ""},
	{turns, false, map[string]float64{"prefill_catch_up": 1}, ""},
	{turns, false, map[string]float64{"host_per_token": 0}, ""},
	{turns, false, map[string]float64{"batch_doubling": 0}, ""},
	{turns, false, map[string]float64{"gpm_error": 1e9}, ""},
	{turns, false, map[string]float64{"most_moved": -1}, ""},
	{turns, false, map[string]float64{"unsure_turns": 9}, "no row counts turns so far from a whole number; it names the doubt"},
	{turns, false, map[string]float64{"alike_steps": 0}, "two series only lie there, and over all TPOT is missed by 0.5 points more"},
	{turns, false, map[string]float64{"larger_step": 1e9}, ""},
	{turns, false, map[string]float64{"edge_share": 0}, "the P95 over all rows grows from 9.0 to 9.3"},
	{turns, false, map[string]float64{"alike_steps": 0, "edge_share": 0, "larger_step": 1e9}, ""},
	{mps, false, map[string]float64{"queue_share": 0}, ""},
	{mps, false, map[string]float64{"step_jitter": 0}, "one law of steps for both mechanisms, and it wins under time-slicing"},
	{mps, false, map[string]float64{"prefill_blocking": 1}, "a parameter of calibrations that others keep in files; nothing is missed by more without it"},
	{mps, false, map[string]float64{"arbitration": 0}, ""},
	{mps, false, map[string]float64{"batch_waits": 0}, ""},
	{mps, false, map[string]float64{"prefill_waits": 1}, ""},
	{mps, false, map[string]float64{"spared_step": 0}, "two series only lie there; intervals would hold 72% of one, and the P95 over all rows grows from 7.9 to 8.5"},
	{turns, true, map[string]float64{"gapless": 0}, ""},
	{turns, true, map[string]float64{"between_steps": 0}, ""},
	{turns, true, map[string]float64{"launched_busy": 0, "launched_growth": 9}, ""},
	{turns, true, map[string]float64{"other_first": 1e300}, ""},
	{mps, true, map[string]float64{"gapless": 0}, ""},
	{mps, true, map[string]float64{"between_steps": 0}, ""},
	{mps, true, map[string]float64{"shared_core": 1}, ""},
	{mps, true, map[string]float64{"launched_busy": 0, "launched_growth": 9}, ""},
	{mps, true, map[string]float64{"other_first": 1e300}, ""},
	{mps, true, map[string]float64{"sm_filling": 1}, ""},
	{mps, true, map[string]float64{"fills_gpu": 2}, ""},
	{mps, true, map[string]float64{"arbitration": 0}, "all rows are missed by 0.2 points more"},
	{mps, true, map[string]float64{"slowest_speed": 0.001}, "a bound that no row comes near: work never stops"},
}

// missedBy are mean absolute relative errors of a metric: by series left out, or by case of what nothing is calibrated
// on, whose series are few.
type missedBy map[string]float64

// missed are the errors of the main metric (TPOT or step) and of the first token without a rule, or of all rules.
func (r *rule) missed(t *testing.T, without bool) (out [2]missedBy) {
	t.Helper()
	p := predict.NewPredictor()
	for name, v := range r.neutral {
		if !without {
			break
		}
		if at := predict.Trials[name]; at != nil {
			defer func(before []float64) { *at = before }(*at)
			*at = []float64{v, v + 1e-9}
		}
		if q := p.Parameters.Lookup(name); q != nil {
			q.Value = v
			continue
		}
		at := predict.Constants[name]
		defer func(before float64) { *at = before }(*at)
		*at = v
	}
	measured, err := leaveDaysOut(p, r.mechanism)
	if r.foreign {
		measured, err = foreignRows(p, foreignFiles, r.mechanism)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		rows := map[string]float64{}
		out[i] = missedBy{}
		for _, m := range measured {
			if m.Prediction == nil || m.Row.Mechanism != r.mechanism {
				continue
			}
			unit := m.Series
			if r.foreign {
				unit += " " + m.Row.Case
			}
			metric := []profile.Metric{m.Row.Kind.MainMetric(), profile.MetricTTFTP50}[i]
			v, ok := m.Prediction.Get(metric)
			if got, ok2 := m.Row.Compared(metric); ok && ok2 {
				out[i][unit] += math.Abs(v.Value/got - 1)
				rows[unit]++
			}
		}
		for unit := range out[i] {
			out[i][unit] /= rows[unit]
		}
	}
	return out
}

// signedRank is the one-sided exact P value of F. Wilcoxon's test (Individual comparisons by ranking methods,
// Biometrics Bulletin 1(6), 1945): of differences as large in sum of ranks if each had either sign. Those below 1e-6 say
// nothing.
func signedRank(differences []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool { return math.Abs(v) < 1e-6 })
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

// Every rule pays: without it, what was left out is missed by more, at 5% by a paired test, or says why it stays.
func TestAblation(t *testing.T) {
	whole := map[string][2]missedBy{}
	for _, r := range rules {
		t.Run(r.of()+"/"+r.name(), func(t *testing.T) {
			if whole[r.of()][0] == nil {
				whole[r.of()] = r.missed(t, false)
			}
			without, wins := r.missed(t, true), false
			for i, metric := range []string{"main", "first token"} {
				var d []float64
				with, now, worse := 0.0, 0.0, 0
				for _, unit := range slices.Sorted(maps.Keys(without[i])) {
					a, b := whole[r.of()][i][unit], without[i][unit]
					if d = append(d, b-a); b > a+1e-6 {
						worse++
					}
					with, now = with+100*a/float64(len(without[i])), now+100*b/float64(len(without[i]))
				}
				p := signedRank(d)
				wins = wins || p <= 0.05
				t.Logf("| %s | %s | %s | %.2f | %.2f | %d of %d | %.4f |", r.of(), r.name(), metric, with, now, worse, len(d), p)
			}
			if wins != (r.stays == "") {
				t.Errorf("wins: %t, and stays because %q", wins, r.stays)
			}
		})
	}
}
