// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// The held-out series plays no part: with other outcomes it is predicted alike.
func TestHeldOutSeriesIsNotUsed(t *testing.T) {
	t.Parallel()
	files := []profile.Rows{rowsOf(t, "h200-colocation.json"), rowsOf(t, "h200-mixes.json"), rowsOf(t, "h200-mixes-3.json")}
	held := func() []profile.Interval {
		measured := must.Get(predict.NewPredictor().CrossValidate(predict.MethodClosedForm, files...))(t)
		var out []profile.Interval
		for _, m := range measured {
			if m.Series == "h200-mixes-3" {
				v, _ := m.Prediction.Get(profile.MetricTPOTP50)
				out = append(out, v)
			}
		}
		return out
	}
	before := held()
	for i := range files[2] {
		if r := &files[2][i]; r.Tenants > 1 {
			r.Outcome = profile.Outcome{TPOT: profile.LatencyMS{P50: sharing.Some(50.0)}, TokensPerS: sharing.Some(1.0)}
		}
	}
	if after := held(); len(before) != 30 || !slices.Equal(before, after) {
		t.Errorf("%d rows; %v with the outcomes, %v with others", len(before), before, after)
	}
}

// What one series leaves in doubt, several tell: a predictor of one says so, and series may share a file.
func TestSeriesAreUnits(t *testing.T) {
	t.Parallel()
	one, two := rowsOf(t, "h200-mixes.json"), rowsOf(t, "h200-mixes-2.json")
	fit := func(files ...profile.Rows) predict.Residual {
		t.Helper()
		p := must.Get(predict.NewPredictor().Fit(predict.MethodClosedForm, files...))(t)
		return p.MPS[profile.MetricTPOTP50]
	}
	if r := fit(one); r.Series != 1 || r.Points != 41 {
		t.Errorf("%+v", r)
	}
	apart := fit(one, two)
	if apart.Series != 2 || apart.Points != 72 {
		t.Errorf("%+v", apart)
	}
	if merged := fit(slices.Concat(one, two)); merged != apart {
		t.Errorf("%+v in one file, %+v in two", merged, apart)
	}
	unnamed := slices.Clone(one)
	for i := range unnamed {
		unnamed[i].Series = ""
	}
	if r := fit(unnamed, two); r != apart {
		t.Errorf("%+v, with names %+v", r, apart)
	}
}

// Rows of another GPU do not calibrate this one's predictor.
func TestRowsOfAnotherGPUAreLeftOut(t *testing.T) {
	h200, h100 := rowsOf(t, "h200-mixes.json"), rowsOf(t, "h100-colocation.json")
	p, err := predict.NewPredictor().Fit(predict.MethodClosedForm, h200, h100)
	if err != nil || p.MPS[profile.MetricTPOTP50].Points != 41 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = predict.NewPredictor().On("NVIDIA H100 80GB HBM3", "").Fit(predict.MethodClosedForm, h100)
	if err != nil || p.MPS[profile.MetricTPOTP50].Points != 11 {
		t.Errorf("%+v, %v", p, err)
	}
}
