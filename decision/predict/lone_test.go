// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
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

// On an H100, the first load of a 1B server ran alone at 2.50 ms a step under MPS and its others at 2.80 to 2.87, and
// two loads of an 8B server at 8.57 and 8.70 and its third at 9.35; beside others they were not spared.
func TestSparedAlone(t *testing.T) {
	t.Parallel()
	p := predict.NewPredictor().On("NVIDIA H100 80GB HBM3", "")
	for _, c := range []struct {
		file   string
		spared map[string]bool // by case alone
	}{
		{"h100-mixes-6.json", map[string]bool{"solo-s-c1": true, "solo-l-c7": true, "solo-l-c4": true, "solo-s2-open, capped": true}},
		{"h200-mixes-7.json", map[string]bool{"solo-s-c1": true, "solo-s-open": true, "solo-s2-open": true, "solo-s2-open, capped": true}},
		{"h100-mixes-5.json", nil}, {"h200-mixes-6.json", nil}, {"h200-colocation.json", nil}, {"h200-mixes.json", nil}, {"h100-mixes-7.json", nil},
	} {
		rows := rowsOf(t, c.file)
		profiles := profilesOf(t, rows)
		for _, r := range rows {
			if r.Tenants != 1 || r.Mechanism != sharing.MechanismMPS {
				continue
			}
			solo := must.Get(profiles.Solo(r.Server, r.Load))(t)
			name := r.Case
			if r.Server.SMPercent.Or(100) < 100 {
				name += ", capped"
			}
			if got := p.SparedAlone(&solo); got != c.spared[name] && (c.spared[name] || r.Server.SMPercent.IsZero()) {
				t.Errorf("%s, %s, %s: spared %t", c.file, name, r.Server, got)
			}
		}
	}
}

// What a spared profile is taken for, and its note.
func TestSparedProfileIsLengthened(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rows := rowsOf(t, "h200-mixes-7.json")
	p := predict.NewPredictor()
	measured := must.Get(p.PredictRows(predict.MethodSimulated, rows, nil))(t)
	n := 0
	for _, m := range measured {
		r := m.Row
		if r.Mechanism != sharing.MechanismMPS || r.Load.Concurrency != 1 || r.Server.SMPercent.Or(100) < 100 {
			continue
		}
		n++
		v, _ := m.Prediction.Get(profile.MetricTPOTP50)
		got, _ := r.Metric(profile.MetricTPOTP50)
		if off := v.Value/got - 1; off < -0.05 || off > 0.05 || !v.Contains(got) {
			t.Errorf("%s: %v predicted, %.2f measured", r.Case, v, got)
		}
		if notes := strings.Join(m.Prediction.Notes, "\n"); !strings.Contains(notes, "its isolated step under MPS, 2.25 ms, was taken for the 2.") {
			t.Errorf("%s: %q", r.Case, notes)
		}
	}
	if n != 3 {
		t.Errorf("%d rows", n)
	}
}

// The first token alone is that of the runs under both mechanisms, but not of a server
// with a percentage, which has fewer SMs.
func TestFirstTokenAloneOfBothMechanisms(t *testing.T) {
	t.Parallel()
	race.Long(t)
	predictions := func(slower float64) []predict.Measured {
		rows := rowsOf(t, "h200-mixes-4.json")
		for i := range rows {
			if r := &rows[i]; r.Tenants == 1 && r.Mechanism == sharing.MechanismTimeSlicing {
				for _, v := range []*sharing.Optional[float64]{&r.TTFT.P50, &r.TTFT.P90, &r.TTFT.P95, &r.TTFT.P99} {
					*v = sharing.Some(slower * v.Or(0))
				}
			}
		}
		p := predict.NewPredictor()
		measured := must.Get(p.PredictRows(predict.MethodSimulated, rows, nil))(t)
		return measured
	}
	before, after := predictions(1), predictions(1.44)
	whole := 0
	for i, m := range before {
		if m.Row.Mechanism != sharing.MechanismMPS || m.Prediction == nil {
			continue
		}
		a, _ := m.Prediction.Get(profile.MetricTTFTP50)
		b, _ := after[i].Prediction.Get(profile.MetricTTFTP50)
		switch capped := m.Row.Server.SMPercent.Or(100) < 100; {
		case capped && a != b:
			t.Errorf("%s, %s: %v, and %v with another first token under time-slicing", m.Row.Case, m.Row.Server, a, b)
		case !capped:
			whole++
			if f := b.Value / a.Value; f < 1.03 || f > 1.25 {
				t.Errorf("%s, %s: the first token alone is 1.2 times as late, the prediction %.3f times", m.Row.Case, m.Row.Server, f)
			}
		}
	}
	if whole == 0 {
		t.Error("no row without a percentage")
	}
}

// Answers of uneven length end one by one: the longest takes its share more than the median, others' prompts come
// between the tokens of all, and the server does as much as with even ones.
func TestUnevenAnswers(t *testing.T) {
	t.Parallel()
	p := predict.NewPredictor()
	isolated := *fourTenants(t)[0].TimeSlicing
	even := must.Get(p.RunAlone(&isolated))(t)
	isolated.Load.OutputSpread = 0.25
	uneven := must.Get(p.RunAlone(&isolated))(t)
	for m, most := range map[profile.Metric]float64{profile.MetricTPOTP50: 1.12, profile.MetricTokensPerSecond: 1.03} {
		if r := uneven[m] / even[m]; r < 0.97 || r > most {
			t.Errorf("%v: %.4g, and %.4g with even answers", m, uneven[m], even[m])
		}
	}
	longest := func(f profile.Figures) float64 { return f[profile.MetricE2EP99] / f[profile.MetricE2EP50] }
	if a, b := longest(even), longest(uneven); a > 1.1 || b < 1.2 || b > 1.35 {
		t.Errorf("the longest answers take %.2f times as long as the median, even ones %.2f times", b, a)
	}
	isolated.Load.Output, isolated.Load.OutputSpread = 4, 0.99
	if out, err := p.RunAlone(&isolated); err != nil || !(out[profile.MetricTPOTP50] > 0 && out[profile.MetricTPOTP50] < 100) {
		t.Errorf("answers of two to six tokens: %v, %v", out, err)
	}
}

// A server without requests begins the next one when it comes, so that the first token of all takes as long.
func TestIdleServerBeginsAtOnce(t *testing.T) {
	t.Parallel()
	p := predict.NewPredictor()
	isolated := *fourTenants(t)[1].TimeSlicing
	isolated.Load = profile.Load{Rate: 0.2, Prompt: 128, Output: 64}
	out := must.Get(p.RunAlone(&isolated))(t)
	if p50, p99 := out[profile.MetricTTFTP50], out[profile.MetricTTFTP99]; p50 <= 0 || p99-p50 > 0.01 {
		t.Errorf("the first token after %.4g ms, the slowest after %.4g", p50, p99)
	}
}

// How the first token of an engine that nothing was calibrated on changes hangs on the whole of its prompt: beside a
// neighbour that always has work it takes at least its time alone and the turns that the work on the prompt lasts.
func TestFirstTokenOfAnotherEngine(t *testing.T) {
	t.Parallel()
	own := fourTenants(t)
	other := own[3]
	profiles := [2]profile.SoloProfile{*other.TimeSlicing, *other.MPS}
	for i := range profiles {
		profiles[i].Engine = "another"
	}
	other.TimeSlicing, other.MPS, other.Siblings = &profiles[0], &profiles[1], nil
	first := func(p predict.Predictor, s profile.Solo) float64 {
		out := must.Get(p.Predict(sharing.MechanismTimeSlicing, []profile.Solo{s, own[2]}, predict.MethodSimulated))(t)
		v, _ := out[0].Get(profile.MetricTTFTP50)
		return v.Value
	}
	p := predict.NewPredictor()
	isolated, beside := other.TimeSlicing.TTFT.P50.Or(0), first(p, other)
	if by := beside / isolated; by < 1.3 || by > 2.2 {
		t.Errorf("%.3g ms beside a server that always has work, %.3g alone", beside, isolated)
	}
	p.Engines = []string{"another"} // its intervals change by that, and not what its prompts do
	if again := first(p, other); again != beside {
		t.Errorf("%.5g ms, and %.5g where it was calibrated on", beside, again)
	}
}

// within holds the time per token of the n servers of a file whose cases have a name in theirs to what was measured.
func within(t *testing.T, file, name string, fraction float64, n int, mechanisms ...sharing.Mechanism) {
	t.Parallel()
	race.Long(t)
	rows := slices.DeleteFunc(rowsOf(t, file), func(r profile.Row) bool {
		return r.Tenants > 1 && !slices.Contains(mechanisms, r.Mechanism)
	})
	p := predict.NewPredictor()
	measured := must.Get(p.PredictRows(predict.MethodSimulated, rows, nil))(t)
	for _, m := range measured {
		if m.Row.Kind != profile.KindServer || !strings.Contains(m.Row.Case, name) {
			continue
		}
		n--
		got, _ := m.Prediction.Get(profile.MetricTPOTP50)
		if want := m.Row.TPOT.P50.Or(0); math.Abs(got.Value/want-1) > fraction {
			t.Errorf("%s, %s, %s: %.4g predicted for %.4g ms", m.Row.Case, m.Row.Mechanism, m.Row.Server, got.Value, want)
		}
	}
	if n != 0 {
		t.Errorf("%d servers are missing", n)
	}
}

// Answers so short that others' prompts fall into most of their gaps tell no decode step of theirs, and of the server's
// other loads only these do.
func TestShortAnswersTellNoStep(t *testing.T) {
	within(t, "h100-tenants-7.json", "", 0.25, 12, profile.Mechanisms[:]...)
}

// An 8B that prefills for a third of its time takes more turns than its length says, and no load of the server tells
// how long the GPU works in a step of it: it is not idle, and its neighbours wait for it.
func TestManyTurnsOfABusyServer(t *testing.T) {
	within(t, "h200-llamacpp-5.json", "l8a", 0.2, 9, sharing.MechanismTimeSlicing)
}

// A host that was slow alone under MPS, and fast beside the reporter, is not taken for slow where nothing was measured
// without MPS.
func TestPaceFromOneMechanism(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rows := slices.DeleteFunc(rowsOf(t, "h200-tenants-7.json"), func(r profile.Row) bool { return r.Mechanism != sharing.MechanismMPS })
	p := predict.NewPredictor()
	measured := must.Get(p.PredictRows(predict.MethodSimulated, rows, nil))(t)
	n := 0
	for _, m := range measured {
		if m.Row.Server.Model != "enc" {
			continue
		}
		n++
		got, _ := m.Prediction.Get(profile.MetricStepP50)
		if want := m.Row.Step.P50.Or(0); !(got.Low <= want && want <= got.High) || math.Abs(got.Value/want-1) > 0.3 {
			t.Errorf("%s: %.4g predicted, from %.4g to %.4g, for %.4g ms", m.Row.Case, got.Value, got.Low, got.High, want)
		}
	}
	if n != 2 {
		t.Errorf("%d rows", n)
	}
}
