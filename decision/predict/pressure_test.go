// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// withoutGPM are rows as a GPU without GPM gives them, with pressures or without.
func withoutGPM(t *testing.T, pressures bool) profile.Rows {
	t.Helper()
	rows := must.Get(profile.LoadRows(testdata + "h200-tenants-3.json"))(t)
	var out profile.Rows
	for _, r := range rows {
		if r.Mechanism.String() != "mps" {
			continue
		}
		r.GPM = profile.Readings{}.GPM
		if !pressures {
			r.Pressure = nil
		}
		out = append(out, r)
	}
	return out
}

// Where no counter tells a tenant's share of the SMs, the reporter's waits beside it tell how much it presses others:
// predictions under MPS get better, and their intervals a third narrower.
func TestPressureStandsForSMs(t *testing.T) {
	t.Parallel()
	race.Long(t)
	missed := map[bool]float64{}
	width := map[bool]float64{}
	for _, pressures := range []bool{false, true} {
		p := predict.NewPredictor()
		ms := must.Get(p.PredictRows(predict.MethodSimulated, withoutGPM(t, pressures), &profile.Profiles{}))(t)
		n, inside := 0, 0
		for _, m := range ms {
			if m.Err != nil {
				t.Fatal(m.Err)
			}
			metric := profile.MetricTPOTP50
			if m.Row.Kind != profile.KindServer {
				metric = profile.MetricStepP50
			}
			said, _ := m.Prediction.Get(metric)
			got, ok := m.Row.Metric(metric)
			if !ok {
				continue
			}
			n++
			missed[pressures] += math.Abs(said.Value/got - 1)
			width[pressures] += said.WidthFraction()
			if said.Contains(got) {
				inside++
			}
			t.Logf("%v %s %s: %.2f of %.2f, %t", pressures, m.Row.Case, m.Row.Server.Model, said.Value, got, m.Prediction.Calibrated)
		}
		missed[pressures] /= float64(n)
		width[pressures] /= float64(n)
		t.Logf("with pressures %v: %d rows, mean error %.3f, width %.2f, %d inside", pressures, n, missed[pressures], width[pressures], inside)
		if float64(inside) < 0.75*float64(n) {
			t.Errorf("pressures %v: %d of %d rows in their interval", pressures, inside, n)
		}
	}
	if missed[true] >= missed[false] || width[true] > 0.8*width[false] {
		t.Errorf("mean errors %v, widths %v", missed, width)
	}
}

// linksOf returns the growth of the tenant's step with the length of co-located kernels that fill the GPU: about the
// number of its kernels that wait for another. 0 where that was not measured.
func linksOf(p *profile.Pressure) float64 {
	xy, xx := 0.0, 0.0
	for _, q := range p.Stresses {
		if !q.Reads && q.StepMS > 0 {
			xy, xx = xy+q.KernelUS*max(0, q.StepMS-p.StepMS)*1e3, xx+q.KernelUS*q.KernelUS
		}
	}
	if xx == 0 {
		return 0
	}
	return xy / xx
}

// The press tells the number of a step's kernels, and the reporter which tenants fill the GPU: a profiler counted
// 1,088 kernels in training, 700 in diffusion and 7 in the FFT.
func TestPressureReadings(t *testing.T) {
	t.Parallel()
	links := map[string]float64{}
	for _, r := range withoutGPM(t, true) {
		if r.Pressure != nil {
			links[r.Server.Model] = linksOf(r.Pressure)
			solo := profile.Solo{Server: r.Server, Load: r.Load, MPS: &(profile.Rows{r}).Profiles()[0]}
			_, fills := predict.FillsGPU(&solo)
			if want := r.Server.Model == "fft-256" || r.Server.Model == "dgemm-4096"; fills != want {
				t.Errorf("%s fills the GPU: %v", r.Server.Model, fills)
			}
		}
	}
	for model, kernels := range map[string]float64{"train-350m": 1088, "diffusion-320": 700, "fft-256": 7, "encoder-12x768": 108} {
		if l := links[model]; math.Abs(l/kernels-1) > 0.2 {
			t.Errorf("%s: %v links of %v kernels", model, l, kernels)
		}
	}
}

// A step whose kernels leave gaps takes more turns than its length tells, as the 10.3 ms of an 8B server did seven.
func TestTurnsOfStepsWithGaps(t *testing.T) {
	t.Parallel()
	p := predict.NewPredictor()
	wait := time.Duration((p.Parameters.Quantum.Value + 2*p.Parameters.Switch.Value) * float64(time.Millisecond))
	const isolated = 10300 * time.Microsecond
	if sliceCount, err := p.SlicesNextToSpinner(isolated, isolated+7*wait); err != nil || math.Abs(sliceCount-7) > 0.01 {
		t.Error(sliceCount, err)
	}
}

// Pressures that cannot be are refused, with their path.
func TestBadPressure(t *testing.T) {
	t.Parallel()
	for with, want := range map[string]string{
		`{"waits": [{"kernels": 0, "kernel_us": 2, "alone_us": 1, "beside_us": 1, "alone_mean_us": 1, "beside_mean_us": 1}]}`: "[0].pressure.waits[0].kernels: must be positive",
		`{"presses": [{"kernel_us": 5, "step_ms": -1}]}`:                                                                      "[0].pressure.presses[0]: must lie between",
		`{"step": 3}`:        "unknown key",
		`{"step_ms": 55000}`: "[0].pressure.step_ms: is 55000, and the isolated tenant's step is 55",
		`{"step_ms": 55, "presses": [{"kernel_us": 5, "step_ms": 0.06}]}`: "[0].pressure.presses[0].step_ms: is 0.06",
	} {
		_, err := profile.ParseRows([]byte(`[{"version": 2, "kind": "stepper", "mechanism": "mps", "case": "a", "tenants": 1, "server": {"model": "x"}, "steps_per_s": 18, "step_ms": {"p50": 55}, "pressure": ` + with + `}]`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", with, err)
		}
	}
}

// What was measured beside standard neighbours is never refused because it is odd: a step that is shorter beside them
// than alone, by chance, has no growth, and one without a curve has the models' figure, with a wider interval.
func TestOddResponses(t *testing.T) {
	t.Parallel()
	rows := must.Get(profile.LoadRows("testdata/h200-foreign.json"))(t)
	predicted := func(change func(*profile.Pressure)) profile.Interval {
		own := slices.Clone(rows)
		for i := range own {
			if own[i].Tenants == 1 && own[i].Pressure != nil && own[i].Server.Model == "jax-7b" {
				pressure := *own[i].Pressure
				pressure.Stresses = slices.Clone(pressure.Stresses)
				change(&pressure)
				own[i].Pressure = &pressure
			}
		}
		p := predict.NewPredictor()
		ms := must.Get(p.PredictRows(predict.MethodClosedForm, own, nil))(t)
		for _, m := range ms {
			if m.Row.Case == "jsum-numba" && m.Row.Server.Model == "jax-7b" && m.Row.Mechanism == sharing.MechanismMPS {
				v, _ := m.Prediction.Get(profile.MetricTPOTP50)
				return v
			}
		}
		t.Fatal("no such row")
		return profile.Interval{}
	}
	measured := predicted(func(*profile.Pressure) {})
	below := predicted(func(p *profile.Pressure) {
		for i := range p.Stresses {
			p.Stresses[i].StepMS = 0.9 * p.StepMS
		}
	})
	none := predicted(func(p *profile.Pressure) { p.Stresses = nil })
	if measured.Value < 2.5*below.Value || below.Value < 4.5 || none.Value <= 0 || none.WidthFraction() <= 0.2 {
		t.Errorf("measured %v, below the step alone %v, without a curve %v", measured, below, none)
	}
}
