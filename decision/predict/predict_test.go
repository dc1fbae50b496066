// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

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

// TestMPSFromTimeSlicingProfiles predicts MPS from what was measured without it.
func TestMPSFromTimeSlicingProfiles(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rows := colocation(t)
	var kept profile.Rows
	for _, r := range rows {
		if r.Tenants > 1 || r.Mechanism != sharing.MechanismMPS {
			kept = append(kept, r)
		}
	}
	p := predict.NewPredictor()
	measured := must.Get(p.PredictRows(predict.MethodSimulated, kept, nil))(t)
	e := errorsBy(predict.ErrorsOf(measured))[sharing.MechanismMPS][profile.MetricTPOTP50]
	if e.Rows != 39 || e.MeanFraction > 0.05 {
		t.Errorf("mean error %.1f%% over %d rows, want at most 5%% over 39", 100*e.MeanFraction, e.Rows)
	}
	for _, m := range measured {
		if m.Row.Mechanism == sharing.MechanismMPS && len(m.Prediction.Notes) == 0 {
			t.Fatalf("%s: nothing says that MPS's cost was assumed", m.Row.Case)
		}
	}
}

// TestCappedRows predicts tenants under active thread percentages, one of which was not measured alone under its own.
func TestCappedRows(t *testing.T) {
	t.Parallel()
	p := predict.NewPredictor()
	capped := rowsOf(t, "h200-colocation-sm-percent.json")
	measured := must.Get(p.PredictRows(predict.MethodSimulated, capped, profilesOf(t, colocation(t))))(t)
	e := errorsBy(predict.ErrorsOf(measured))[sharing.MechanismMPS][profile.MetricTPOTP50]
	if e.Rows != 10 || e.MeanFraction > 0.08 {
		t.Errorf("mean error %.1f%% over %d rows", 100*e.MeanFraction, e.Rows)
	}
	// On its own the file lacks the prefill tenant: its case is unknown.
	measured = must.Get(p.PredictRows(predict.MethodSimulated, capped, nil))(t)
	unknown := 0
	for _, m := range measured {
		if m.Err != nil {
			unknown++
			if !errors.Is(m.Err, profile.ErrNoProfile) || !strings.Contains(m.Err.Error(), "768 in") || m.Prediction != nil {
				t.Errorf("%s: %v", m.Row.Case, m.Err)
			}
		}
	}
	if unknown != 2 {
		t.Errorf("%d rows are unknown, want the two of one case", unknown)
	}
}

// TestOutcomesAreNotUsed: predictions are the same without the outcomes of the
// co-located rows, in the order of the file.
func TestOutcomesAreNotUsed(t *testing.T) {
	rows := colocation(t)
	blind := append(profile.Rows(nil), rows...)
	for i := range blind {
		if r := &blind[i]; r.Tenants > 1 {
			*r = profile.Row{Mechanism: r.Mechanism, Case: r.Case, Load: r.Load, Server: r.Server, Tenants: r.Tenants}
		}
	}
	p := predict.NewPredictor()
	want := must.Get(p.PredictRows(predict.MethodClosedForm, rows, nil))(t)
	got := must.Get(p.PredictRows(predict.MethodClosedForm, blind, nil))(t)
	last := -1
	for i := range want {
		if got[i].Index != want[i].Index || got[i].Index <= last {
			t.Fatalf("row %d has index %d after %d", i, got[i].Index, last)
		}
		last = got[i].Index
		for m := range profile.Metric(profile.MetricCount) {
			a, _ := want[i].Prediction.Get(m)
			b, _ := got[i].Prediction.Get(m)
			if a != b {
				t.Errorf("row %d, %s: %v with outcomes, %v without", i, m, a, b)
			}
		}
	}
	if len(predict.ErrorsOf(got)) != 0 {
		t.Error("there are errors without outcomes")
	}
}

// TestParametersArePlausible: calibrated parameters have units, lie within
// their physical ranges, and agree with independent measurements.
func TestParametersArePlausible(t *testing.T) {
	fitted := must.Get(predict.NewPredictor().Fit(predict.MethodClosedForm, colocation(t)))(t)
	if err := fitted.Validate(); err != nil {
		t.Error(err)
	}
	ranges := map[string][2]float64{ // narrower than the predictor's own
		"quantum": {2.0, 2.2}, "switch": {0.14, 0.17}, "slice_loss": {0, 0.1}, "host_fraction": {0.01, 0.1}, "host_per_token": {0.003, 0.03},
		"batch_doubling": {0, 0.06}, "prefill_busy": {0.6, 1}, "prefill_tokens": {300, 1200}, "prefill_catch_up": {0.4, 1}, "kernel_bandwidth": {0.7, 1},
		"memory_blocking": {0.7, 1}, "queue_share": {0.05, 0.2}, "batch_waits": {0, 0.1}, "prefill_waits": {0.3, 1}, "arbitration": {0, 0.1},
		"lone_step_cost": {0.37, 0.88}, "cap_exponent": {0.03, 0.2},
	}
	for name, n := range fitted.Parameters.Named() {
		r, ok := ranges[name]
		if !ok || n.Value < r[0] || n.Value > r[1] || n.Unit == "" || n.Source == "" {
			t.Errorf("%s is %v %q (%s), want %v", name, n.Value, n.Unit, n.Source, r)
		}
		if v, ok := n.Independent.Get(); ok && math.Abs(v/n.Value-1) > 0.05 {
			t.Errorf("%s is %v, measured in another way %v", name, n.Value, v)
		}
		delete(ranges, name)
	}
	if len(ranges) > 0 {
		t.Errorf("not listed: %v", ranges)
	}
	if got := fitted.Parameters.LoneStepCost.Basis; got != sharing.BasisFitted {
		t.Errorf("lone_step_cost is %s", got)
	}
	if r := fitted.MPS[profile.MetricTPOTP50]; r.Points != 39 || r.Mean.Or(1) > 0.05 {
		t.Errorf("the error is not reported: %+v", r)
	}
}

func TestPredictorRoundTrip(t *testing.T) {
	t.Parallel()
	race.Long(t)
	fitted := must.Get(predict.NewPredictor().Fit(predict.MethodClosedForm, colocation(t)))(t)
	b := must.Get(json.Marshal(fitted))(t)
	back := must.Get(predict.ParsePredictor(b))(t)
	if diff := cmp.Diff(fitted, back); diff != "" {
		t.Error(diff)
	}
	group := fourTenants(t)
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		x := must.Get(fitted.Predict(m, group, predict.MethodSimulated))(t)
		y := must.Get(back.Predict(m, group, predict.MethodSimulated))(t)
		if diff := cmp.Diff(x, y, cmp.AllowUnexported(predict.Prediction{})); diff != "" {
			t.Error(diff)
		}
		if x[0].Basis != sharing.BasisFitted {
			t.Errorf("basis %s", x[0].Basis)
		}
	}
}

func TestParsePredictorNamesEveryProblem(t *testing.T) {
	p := predict.NewPredictor()
	p.GPU = ""
	p.Parameters.Switch.Value = 50
	p.Parameters.QueueShare.Unit = ""
	delete(p.MPS, profile.MetricTTFTP50)
	b := must.Get(json.Marshal(p))(t)
	_, err := predict.ParsePredictor(b)
	for _, want := range []string{"gpu_name", "parameters.switch.value", "parameters.queue_share.unit", "mps.ttft_ms_p50.half_width"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// A predictor of another version is refused by that, and not by what its parameters are called.
func TestParsePredictorOfAnotherVersion(t *testing.T) {
	_, err := predict.ParsePredictor([]byte(`{"version": 1, "gpu_name": "H200", "parameters": {"prefill_busy": {"value": 0.4}}}`))
	if err == nil || err.Error() != "version: is 1, and this package reads 4: the models have other parameters since (calibrate again on the measurements that it was calibrated on)" {
		t.Error(err)
	}
	_, err = predict.ParsePredictor([]byte(`{"version": 5}`))
	if err == nil || err.Error() != "version: is 5, and this package reads 4: a later version of the package wrote it (update the package)" {
		t.Error(err)
	}
}

// A predictor's file may hold any parameter at its bounds.
func TestParametersAtTheirBounds(t *testing.T) {
	t.Parallel()
	race.Long(t)
	group := fourTenants(t)[:2]
	start := predict.NewPredictor()
	for name, q := range start.Parameters.Named() {
		for _, v := range []float64{q.Low, q.High} {
			p := start
			for n, q := range p.Parameters.Named() {
				if n == name {
					q.Value = v
				}
			}
			if p.Validate() != nil {
				continue // nothing would be left of a slice
			}
			for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
				for _, method := range []predict.Method{predict.MethodSimulated, predict.MethodClosedForm} {
					out, err := p.Predict(m, group, method)
					if err != nil {
						t.Errorf("%s %v: %s, %s: %v", name, v, m, method, err)
						continue
					}
					if tpot, ok := out[0].Get(profile.MetricTPOTP50); !ok || !(tpot.Low > 0 && tpot.High < 1e3) {
						t.Errorf("%s %v: %s, %s: TPOT %v", name, v, m, method, tpot)
					}
				}
			}
		}
	}
}

// An open loop of the seed that it was profiled with arrives as it did then; of
// another seed, and of a handful of requests, it offers its rate.
func TestSameSeedArrivesAlike(t *testing.T) {
	neighbour := func(seed, requests int, method predict.Method) float64 {
		t.Helper()
		group := fourTenants(t)[:2]
		open := *group[1].TimeSlicing
		open.Load = profile.Load{Server: 1, Rate: 2, Prompt: 128, Output: 64, Seed: sharing.Some(7)}
		open.Requests, open.TokensPerS = sharing.Some(requests), sharing.Some(6*64.0) // three times the rate
		load := open.Load
		load.Seed = sharing.Some(seed)
		group[1] = profile.Solo{Server: group[1].Server, Load: load, TimeSlicing: &open}
		p := predict.NewPredictor()
		out := must.Get(p.Predict(sharing.MechanismTimeSlicing, group, method))(t)
		v, _ := out[0].Get(profile.MetricTPOTP50)
		return v.Value
	}
	for _, method := range []predict.Method{predict.MethodSimulated, predict.MethodClosedForm} {
		same, other, few := neighbour(7, 50, method), neighbour(8, 50, method), neighbour(7, 6, method)
		if same < 1.1*other || few != other {
			t.Errorf("%s: beside the same arrivals TPOT is %.2f, beside others %.2f, beside a handful %.2f", method, same, other, few)
		}
	}
}

// Work with an active thread percentage holds few SMs and reads as much: what it reads slows others down.
func TestCappedWorkStillReads(t *testing.T) {
	beside := func(dram float64) float64 {
		t.Helper()
		group := fourTenants(t)[:2]
		capped := *group[1].TimeSlicing
		capped.Mechanism, capped.Server.SMPercent = sharing.MechanismMPS, sharing.Some(10.0)
		capped.SMFraction, capped.DRAMFraction, capped.GPUBusyFraction = sharing.Some(0.05), sharing.Some(dram), sharing.Some(0.9)
		group[1] = profile.Solo{Server: capped.Server, Load: capped.Load, MPS: &capped}
		p := predict.NewPredictor()
		out := must.Get(p.Predict(sharing.MechanismMPS, group, predict.MethodClosedForm))(t)
		v, _ := out[0].Get(profile.MetricTPOTP50)
		return v.Value
	}
	if little, much := beside(0.02), beside(0.4); much < 1.15*little {
		t.Errorf("TPOT is %.2f beside little reading and %.2f beside much", little, much)
	}
}

// TestQuantumMatters: on a GPU whose quantum is twice the calibrated one, a tenant falls out of its predicted interval.
func TestQuantumMatters(t *testing.T) {
	ps := profilesOf(t, colocation(t))
	var group []profile.Solo
	for _, model := range []string{"1b", "8b"} {
		s := must.Get(ps.Solo(profile.Server{Model: model}, profile.Load{Concurrency: 4, Prompt: 128, Output: 64}))(t)
		group = append(group, s)
	}
	p, other := predict.NewPredictor(), predict.NewPredictor()
	other.Parameters.Quantum.Value *= 2
	want := must.Get(p.Predict(sharing.MechanismTimeSlicing, group, predict.MethodSimulated))(t)
	got := must.Get(other.Predict(sharing.MechanismTimeSlicing, group, predict.MethodSimulated))(t)
	out := 0
	for i := range group {
		w, _ := want[i].Get(profile.MetricTPOTP50)
		g, _ := got[i].Get(profile.MetricTPOTP50)
		if !w.Contains(g.Value) {
			out++
		}
	}
	if out == 0 {
		t.Error("twice the quantum changes nothing")
	}
}

func TestLoneTenant(t *testing.T) {
	group := fourTenants(t)[:1]
	p := predict.NewPredictor()
	for _, method := range []predict.Method{predict.MethodSimulated, predict.MethodClosedForm} {
		out := must.Get(p.Predict(sharing.MechanismTimeSlicing, group, method))(t)
		if s := out[0].Slowdown.Value; math.Abs(s-1) > 0.02 {
			t.Errorf("%s: alone it is %.2fx slower", method, s)
		}
		out = must.Get(p.Predict(sharing.MechanismMPS, group, method))(t)
		// The server took 2.372 ms a token without MPS and 2.731 ms with it.
		if s := out[0].Slowdown.Value; math.Abs(s-2.731/2.372) > 0.02 {
			t.Errorf("%s: alone under MPS it is %.2fx slower", method, s)
		}
	}
}

// TestLessIsWider: what a profile lacks makes the interval wider, or the answer an error; never narrower.
func TestLessIsWider(t *testing.T) {
	p := predict.NewPredictor()
	width := func(change func(*profile.SoloProfile)) float64 {
		t.Helper()
		group := fourTenants(t)[:2]
		own := *group[0].MPS
		change(&own)
		group[0].MPS, group[0].Siblings, group[0].Elsewhere = &own, nil, nil
		out := must.Get(p.Predict(sharing.MechanismMPS, group, predict.MethodClosedForm))(t)
		v, _ := out[0].Get(profile.MetricTPOTP50)
		return v.WidthFraction()
	}
	full := width(func(*profile.SoloProfile) {})
	for name, change := range map[string]func(*profile.SoloProfile){
		"no SM utilisation": func(q *profile.SoloProfile) { q.SMFraction = sharing.Optional[float64]{} },
		"few requests":      func(q *profile.SoloProfile) { q.Requests = sharing.Some(3) },
		"another driver":    func(q *profile.SoloProfile) { q.Driver = "615.71.09" },
	} {
		if w := width(change); w <= full {
			t.Errorf("%s: width %.3f, with everything %.3f", name, w, full)
		}
	}
	same := width(func(q *profile.SoloProfile) { q.GPU, q.Driver = "NVIDIA H200", "580.65.06" })
	if same != full {
		t.Errorf("the same GPU by another name changes the width from %v to %v", full, same)
	}
}

func TestPredictRefuses(t *testing.T) {
	p := predict.NewPredictor()
	group := func(change func(*profile.SoloProfile)) []profile.Solo {
		g := fourTenants(t)[:2]
		own := *g[1].TimeSlicing
		change(&own)
		g[1].TimeSlicing = &own
		return g
	}
	for _, c := range []struct {
		name  string
		m     sharing.Mechanism
		group []profile.Solo
		err   error
		says  string
	}{
		{"MIG", sharing.MechanismMIG, fourTenants(t), nil, "use time-slicing or mps"},
		{"nobody", sharing.MechanismMPS, nil, nil, "1 to 64 tenants"},
		{"other GPU", sharing.MechanismTimeSlicing, group(func(q *profile.SoloProfile) { q.GPU = "simulated GPU" }), predict.ErrOtherGPU, "tenants[1]"},
		{"one token", sharing.MechanismTimeSlicing, group(func(q *profile.SoloProfile) { q.Load.Output = 1 }), predict.ErrUnpredictable, "tenants[1]"},
		{"no gaps", sharing.MechanismTimeSlicing, group(func(q *profile.SoloProfile) { q.Version, q.Engine, q.ITL = 1, "", profile.LatencyMS{} }), predict.ErrUnpredictable, "itl_ms.p50"},
		{"no profile", sharing.MechanismTimeSlicing, []profile.Solo{{MPS: fourTenants(t)[0].MPS}}, profile.ErrNoProfile, "tenants[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := p.Predict(c.m, c.group, predict.MethodClosedForm)
			if err == nil || out != nil || c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, %v", out, err)
			}
		})
	}
}

func TestSameInputSameBytes(t *testing.T) {
	p := predict.NewPredictor()
	text := func() []byte {
		out := must.Get(p.Predict(sharing.MechanismMPS, fourTenants(t), predict.MethodSimulated))(t)
		var b bytes.Buffer
		for _, o := range out {
			for m := range profile.Metric(profile.MetricCount) {
				v, _ := o.Get(m)
				must.Do(t, json.NewEncoder(&b).Encode(v))
			}
		}
		return b.Bytes()
	}
	if !bytes.Equal(text(), text()) {
		t.Error("two predictions of the same group differ")
	}
}

func TestSLO(t *testing.T) {
	at := func(ms float64) sharing.Optional[profile.Duration] { return sharing.Some(profile.Duration(ms * 1e6)) }
	s := profile.SLO{TTFTP99: at(500), E2EP99: at(2000)}
	if diff := cmp.Diff(map[profile.Metric]time.Duration{profile.MetricTTFTP99: 500 * time.Millisecond, profile.MetricE2EP99: 2 * time.Second}, maps.Collect(s.Limits())); diff != "" {
		t.Error(diff)
	}
	if err := s.Validate(); err != nil || s.At(profile.MetricTTFTP50) != nil {
		t.Errorf("%v; a limit of the first token's median at %v", err, s.At(profile.MetricTTFTP50))
	}
	*s.At(profile.MetricTPOTP50), *s.At(profile.MetricTPOTP99), s.E2EP99 = at(-2), at(-1), at(400)
	err := s.Validate()
	for _, want := range []string{"tpot_p50: -2ms is out of range", "tpot_p99: -1ms is out of range", "e2e_p99: 400ms is below ttft_p99 500ms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
