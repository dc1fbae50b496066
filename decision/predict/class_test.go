// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// The second version of rows and profiles says of what kind a tenant is, and the first holds servers only.
func TestKindsOfTenants(t *testing.T) {
	t.Parallel()
	row := func(with string) string {
		return `[{"mechanism": "mps", "case": "alone", "tenants": 1, "server": {"model": "train"}, ` + with + `}]`
	}
	const steps = `"steps": 90, "steps_per_s": 18, "step_ms": {"p50": 55, "mean": 55.5}`
	rows := must.Get(profile.ParseRows([]byte(row(`"version": 2, "kind": "stepper", ` + steps))))(t)
	isolated := rows.Profiles()[0]
	if v, ok := isolated.Metric(profile.MetricStepP50); !ok || v != 55 || isolated.Kind != profile.KindStepper || isolated.Requests.Or(0) != 90 {
		t.Errorf("%+v", isolated)
	}
	for with, want := range map[string]string{
		`"kind": "stepper", ` + steps: "[0].kind: a stepper needs the second version",
		`"version": 2, "kind": "stepper", ` + steps + `, "load": {"concurrency": 1, "prompt": 1, "output": 1}`: "[0].load: a stepper serves no requests",
		`"version": 2, "kind": "burster", "steps_per_s": 1`:                                                    "[0].step_ms.p50: is missing",
		`"version": 2, "kind": "stepper", "step_ms": {"p50": 5}`:                                               "[0].steps_per_s: is missing",
		`"version": 3, "kind": "stepper", ` + steps:                                                            "[0].version: is 3",
		`"version": 2, "kind": "trainer", ` + steps:                                                            "kind of tenant",
		`"version": 2, ` + steps:                                                                               "[0].load: asks for nothing",
	} {
		if _, err := profile.ParseRows([]byte(row(with))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", with, err)
		}
	}
}

// A server of an engine that nothing was calibrated on has the intervals of engines left out, whatever its model is
// called, until a predictor was calibrated on rows of that engine.
func TestEngineIsNoModelName(t *testing.T) {
	t.Parallel()
	p := predict.NewPredictor()
	class := func(p *predict.Predictor, engine string) (bool, float64) {
		group := fourTenants(t)[:2]
		for i := range group {
			own := *group[i].TimeSlicing
			own.Engine, own.Server.Model = engine, "8b"
			group[i].TimeSlicing, group[i].Server = &own, own.Server
		}
		out := must.Get(p.Predict(sharing.MechanismTimeSlicing, group, predict.MethodClosedForm))(t)
		v, _ := out[0].Get(profile.MetricTPOTP50)
		return out[0].Calibrated, v.WidthFraction()
	}
	own, width := class(&p, "cotenant-testbed")
	if !own {
		t.Errorf("the rows' own engine is calibrated: %v", own)
	}
	for _, engine := range []string{"", "vllm"} {
		if c, w := class(&p, engine); c || w < 1.4*width {
			t.Errorf("engine %q named 8b: calibrated: %v, width %.2f, of the calibrated engine %.2f", engine, c, w, width)
		}
	}
	rows := colocation(t)
	for i := range rows {
		rows[i].Engine = "vllm"
	}
	fitted := must.Get(p.Fit(predict.MethodClosedForm, rows))(t)
	if c, _ := class(fitted, "vllm"); !c {
		t.Errorf("calibrated on the engine, it is not: %v", c)
	}
	if c, _ := class(fitted, ""); c {
		t.Errorf("calibrated on another engine, an unknown one is calibrated: %v", c)
	}
}

// Rows of an engine that the models are not calibrated on move its predictions elsewhere, and their widths.
func TestEngineIsLearned(t *testing.T) {
	t.Parallel()
	race.Long(t)
	var files []profile.Rows
	for _, name := range []string{"h200-foreign", "h200-foreign-2"} {
		rows := must.Get(profile.LoadRows("testdata/" + name + ".json"))(t)
		files = append(files, rows)
	}
	before := predict.NewPredictor()
	learned := must.Get(before.Fit(predict.MethodClosedForm, files[0]))(t)
	for _, m := range profile.Mechanisms {
		if !slices.ContainsFunc(learned.Learned, func(l predict.Learned) bool {
			return l.Of == "jax" && l.Mechanism == m && l.Points >= 6 && l.Series == 1
		}) {
			t.Fatalf("%s: %+v", m, learned.Learned)
		}
	}
	var missed, width [2]float64
	n := 0.0
	for i, p := range []*predict.Predictor{&before, learned} {
		ms := must.Get(p.PredictRows(predict.MethodClosedForm, files[1], nil))(t)
		n = 0
		for _, m := range ms {
			if v, ok := m.Prediction.Get(profile.MetricTPOTP50); ok && m.Row.Engine == "jax" {
				got, _ := m.Row.Metric(profile.MetricTPOTP50)
				missed[i] += math.Abs(math.Log(v.Value / got))
				width[i] += v.WidthFraction()
				n++
			}
		}
	}
	if n < 8 || missed[1] >= missed[0] || width[1] >= width[0] {
		t.Errorf("%v rows missed by %v, widths %v", n, missed, width)
	}
	text := must.Get(json.Marshal(learned))(t)
	again, err := predict.ParsePredictor(text)
	if err != nil || !slices.Equal(again.Learned, learned.Learned) {
		t.Errorf("%v, %v", again, err)
	}
}
