// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// measurements counts those of a whole probe.
const measurements = 4

// TestSimulatedIsFoundAgain: the probe finds the quantum and the switch that the simulated GPU was given.
func TestSimulatedIsFoundAgain(t *testing.T) {
	for _, c := range []struct{ quantum, change time.Duration }{
		{2090600, 152900}, {time.Millisecond, 50 * time.Microsecond}, {6 * time.Millisecond, 300 * time.Microsecond}, {2 * time.Millisecond, 0},
	} {
		site := probe.Simulated(timeslice.Scheduler{Quantum: c.quantum, Switch: c.change})
		r := must.Get(probe.Run(t.Context(), site, probe.Options{}))(t)
		for name, want := range map[string]time.Duration{"quantum": c.quantum, "switch": c.change} {
			m, ok := r.Get(name)
			if ms := float64(want) / 1e6; !ok || math.Abs(m.Value-ms) > 0.005*ms+1e-9 || m.Low > m.Value || m.High < m.Value {
				t.Errorf("%v: %s is %+v, want %v", c, name, m, ms)
			}
		}
		if lost, ok := r.Get("slice_loss"); !ok || math.Abs(lost.Value) > 0.003*float64(c.quantum)/1e6 {
			t.Errorf("%v: %+v of each slice is lost on a GPU that loses nothing", c, lost)
		}
		if len(r.NotMeasured) > 0 || len(r.Measured) != measurements {
			t.Errorf("%v: %d measured, not measured: %v", c, len(r.Measured), r.NotMeasured)
		}
	}
}

// TestStrangers: another process on the GPU is found by the probe's own gaps, and nothing is measured next to it.
func TestStrangers(t *testing.T) {
	for _, work := range []time.Duration{50 * time.Microsecond, time.Millisecond, 4 * time.Millisecond} {
		r, err := probe.Run(t.Context(), &failing{Site: h200, stranger: work}, probe.Options{})
		if !errors.Is(err, probe.ErrStranger) || !strings.Contains(err.Error(), "stop the other") {
			t.Fatalf("%v: %v", work, err)
		}
		if len(r.Measured) != 0 || len(r.NotMeasured) != measurements || !strings.Contains(reason(r, "switch"), "another process ran") {
			t.Errorf("%v: measured %v, not measured %v", work, r.Measured, r.NotMeasured)
		}
	}
}

func reason(r *probe.Result, name string) string {
	for _, n := range r.NotMeasured {
		if n.Name == name {
			return n.Why
		}
	}
	return ""
}

func TestWhatCannotBeMeasuredIsSaid(t *testing.T) {
	r := must.Get(probe.Run(t.Context(), &held{h200, probe.Info{Exclusive: true}}, probe.Options{}))(t)
	if why := reason(r, "switch"); !strings.Contains(why, "one process only") {
		t.Errorf("exclusive mode: the switch was not measured because %q", why)
	}
	if _, ok := r.Get("lone_step_cost"); !ok {
		t.Error("exclusive mode: MPS was not measured")
	}
	r = must.Get(probe.Run(t.Context(), &failing{Site: h200, fails: func(m sharing.Mechanism, _ []probe.Task) error {
		if m == sharing.MechanismMPS {
			return errors.New("MPS: nvidia-cuda-mps-control: executable file not found in $PATH")
		}
		return nil
	}}, probe.Options{}))(t)
	if why := reason(r, "lone_step_cost"); !strings.Contains(why, "MPS") {
		t.Errorf("no MPS: lone_step_cost was not measured because %q", why)
	}
	if _, ok := r.Get("quantum"); !ok {
		t.Error("no MPS: the quantum was not measured")
	}
}

// h200 is a simulated one.
var h200 = probe.Simulated(timeslice.Scheduler{})

// failing is a GPU on which some tasks fail, or another process works for so long, every 5 ms.
type failing struct {
	probe.Site
	fails    func(m sharing.Mechanism, tasks []probe.Task) error
	stranger time.Duration
}

func (f *failing) Run(ctx context.Context, m sharing.Mechanism, tasks ...probe.Task) ([]probe.Reading, error) {
	n := len(tasks)
	if f.fails != nil {
		if err := f.fails(m, tasks); err != nil {
			return nil, err
		}
	}
	if f.stranger > 0 && tasks[0].Kind == probe.KindSpin {
		tasks = append(tasks[:n:n], probe.Task{Kind: probe.KindCompute, Kernel: f.stranger, Pause: 5 * time.Millisecond, For: tasks[0].For})
	}
	out, err := f.Site.Run(ctx, m, tasks...)
	return out[:min(n, len(out))], err
}

// TestFewProcesses: where no four processes fit, two give quantum and switch.
func TestFewProcesses(t *testing.T) {
	r, err := probe.Run(t.Context(), &failing{Site: h200, fails: func(_ sharing.Mechanism, tasks []probe.Task) error {
		if len(tasks) > 2 {
			return errors.Join(errors.New("no memory is left"), errors.New("no memory is left"))
		}
		return nil
	}}, probe.Options{})
	if err != nil || len(r.NotMeasured) > 0 || len(r.Warnings) != 1 || !strings.HasSuffix(r.Warnings[0], "4 at once: no memory is left") {
		t.Fatalf("%v, not measured %v, warnings %q", err, r.NotMeasured, r.Warnings)
	}
	if m, _ := r.Get("switch"); math.Abs(m.Value-0.1529) > 0.001 || strings.Contains(m.What, "4") {
		t.Errorf("the switch is %+v", m)
	}
}

// TestReasons: each name has its own reason, on one line, once.
func TestReasons(t *testing.T) {
	r := must.Get(probe.Run(t.Context(), &failing{Site: h200, fails: func(_ sharing.Mechanism, tasks []probe.Task) error {
		if tasks[0].Exchange {
			return errors.Join(errors.New("no memory"), errors.New("no memory"), errors.New("try later"))
		}
		return nil
	}}, probe.Options{}))(t)
	for name, want := range map[string]string{"lone_step_cost": "no memory; try later", "quantum": ""} {
		if got := reason(r, name); got != want {
			t.Errorf("%s was not measured because %q, want %q", name, got, want)
		}
	}
}

// TestLateStranger: a process that came after the time slices were measured is a warning.
func TestLateStranger(t *testing.T) {
	late := &failing{Site: h200}
	late.fails = func(m sharing.Mechanism, _ []probe.Task) error {
		if m == sharing.MechanismMPS {
			late.stranger = time.Millisecond
		}
		return nil
	}
	r, err := probe.Run(t.Context(), late, probe.Options{})
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "another process ran on the GPU") {
		t.Fatalf("%v, warnings %q", err, r.Warnings)
	}
}

// TestHeldGPU: a GPU without free memory is refused, and one that idle processes hold is measured and flagged.
func TestHeldGPU(t *testing.T) {
	full := &held{h200, probe.Info{GPU: "NVIDIA L4", SMs: 58, Free: 300 << 20}}
	if r, err := probe.Run(t.Context(), full, probe.Options{}); err == nil || r != nil || !strings.Contains(err.Error(), "300 MiB of the GPU's memory are free and 1GiB are needed: stop what holds it") {
		t.Errorf("%+v, %v", r, err)
	}
	idle := &held{h200, probe.Info{GPU: "NVIDIA L4", SMs: 58, Others: []string{"process 7 (vllm)"}}}
	r, err := probe.Run(t.Context(), idle, probe.Options{})
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "process 7 (vllm) holds the GPU too") {
		t.Errorf("%+v, %v", r, err)
	}
}

type held struct {
	probe.Site
	info probe.Info
}

func (h *held) Info(context.Context) (probe.Info, error) { return h.info, nil }

// TestInterrupted: earlier measurements are kept.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	r, err := probe.Run(ctx, h200, probe.Options{Progress: func(what string, done float64) {
		if strings.HasPrefix(what, "MPS") {
			cancel(why)
		}
	}})
	if !errors.Is(err, why) || r == nil {
		t.Fatalf("%v, %v", r, err)
	}
	if _, ok := r.Get("quantum"); !ok || !strings.Contains(reason(r, "lone_step_cost"), "ended before") {
		t.Errorf("measured %v, not measured %v", r.Measured, r.NotMeasured)
	}
}

// TestRecorded: what an H100's spinning processes recorded gives the quantum and
// the switch that another program measured on it.
func TestRecorded(t *testing.T) {
	r := must.Get(probe.Run(t.Context(), &recording{h200, t}, probe.Options{}))(t)
	for name, want := range map[string]float64{"quantum": 2.0905, "switch": 0.1521} {
		if m, _ := r.Get(name); math.Abs(m.Value/want-1) > 0.02 {
			t.Errorf("%s is %v, want %v", name, m.Value, want)
		}
	}
}

// recording is a site that answers as an H100 did.
type recording struct {
	probe.Site
	t *testing.T
}

func (r *recording) Run(ctx context.Context, m sharing.Mechanism, tasks ...probe.Task) ([]probe.Reading, error) {
	if tasks[0].Kind != probe.KindSpin || len(tasks) == 1 || tasks[1].Kind == probe.KindStream {
		return r.Site.Run(ctx, m, tasks...)
	}
	name := map[int]string{2: "testdata/h100-2.json", 4: "testdata/h100-4.json"}[len(tasks)]
	data, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []probe.Reading
	if err := json.Unmarshal(data, &out); err != nil {
		r.t.Fatal(err)
	}
	return out, nil
}

func TestPredictor(t *testing.T) {
	r := &probe.Result{Info: probe.Info{GPU: "NVIDIA H100 80GB HBM3", Driver: "580.159.04"}, Basis: sharing.BasisMeasured,
		Measured: []probe.Measurement{{Name: "quantum", Value: 2.2, Unit: "ms", What: "turns"}, {Name: "switch", Value: 0.2}, {Name: "lone_step_cost", Value: 0.01}}}
	p := must.Get(r.Predictor(predict.NewPredictor()))(t)
	must.Do(t, p.Validate())
	if q := p.Parameters.Quantum; p.GPU != "H100 80GB HBM3" || p.Driver != "580.159.04" || q.Value != 2.2 || q.Basis != sharing.BasisMeasured || q.Independent != sharing.Some(2.2) || q.Source != "probe: turns" {
		t.Errorf("%s with %s: %+v", p.GPU, p.Driver, q)
	}
	if q, was := p.Parameters.LoneStepCost, predict.NewPredictor().Parameters.LoneStepCost; q.Value != was.Value || q.Basis == sharing.BasisMeasured || q.Independent != sharing.Some(0.01) {
		t.Errorf("the cost of MPS: %+v", q)
	}
	base := predict.NewPredictor()
	if w, was := p.TimeSlicing[profile.MetricTPOTP50].HalfWidth, base.TimeSlicing[profile.MetricTPOTP50].HalfWidth; w <= was {
		t.Errorf("on another GPU than the one that it was calibrated on the half-width is %v, and was %v", w, was)
	}
	r.Info.GPU = "NVIDIA H200"
	if same, err := r.Predictor(base); err != nil || same.TimeSlicing[profile.MetricTPOTP50] != base.TimeSlicing[profile.MetricTPOTP50] {
		t.Errorf("on the same GPU the errors to expect are %+v, %v", same.TimeSlicing, err)
	}
	r.Measured[0].Value = 40
	p, err := r.Predictor(predict.NewPredictor())
	if err == nil || !strings.Contains(err.Error(), "quantum is 40 ms") || p.Validate() != nil || p.Parameters.Switch.Value != 0.2 {
		t.Errorf("an implausible quantum: %v", err)
	}
	r.Basis = sharing.BasisSimulated
	if p, _ = r.Predictor(predict.NewPredictor()); p.Parameters.Switch.Basis != sharing.BasisSimulated {
		t.Errorf("a simulated switch is %s", p.Parameters.Switch.Basis)
	}
}
