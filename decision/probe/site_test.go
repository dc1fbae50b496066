// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

func TestLookAt(t *testing.T) {
	look := func(g telemetrytest.GPU, index int) (*probe.Snapshot, error) {
		t.Helper()
		r := must.Get(telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{g}}))(t)
		return probe.Inspect(t.Context(), r, index)
	}
	h100 := telemetry.Device{Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-1"}
	held := []telemetrytest.Phase{{Processes: []telemetry.Process{{PID: 7, Name: "vllm"}}}}
	l, err := look(telemetrytest.GPU{Device: h100, Phases: held}, 0)
	if err != nil || l.Device.UUID != "GPU-1" || !l.Only || !slices.Equal(l.Holders, []string{"process 7 (vllm)"}) {
		t.Errorf("%+v, %v", l, err)
	}
	_, err = look(telemetrytest.GPU{Device: h100, Phases: held}, 1)
	if !strings.Contains(err.Error(), "index 1, the machine has 1") {
		t.Errorf("an index that is none: %v", err)
	}
	h100.MIG = sharing.AnswerYes
	_, err = look(telemetrytest.GPU{Device: h100, Phases: held}, 0)
	if !errors.Is(err, probe.ErrMIG) || !strings.Contains(err.Error(), "GPU 0, NVIDIA H100 80GB HBM3") {
		t.Errorf("in MIG mode: %v", err)
	}
}

func TestNewcomers(t *testing.T) {
	got := probe.Newcomers([]string{"process 7 (vllm)"},
		[]string{"process 7 (vllm)", "process 8 (/usr/bin/nvidia-cuda-mps-server)", "process 9 (python)"})
	want := []string{"process 9 (python) came to the GPU meanwhile: its work is part of what was measured"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestReport checks the printed report of the simulated GPU.
func TestReport(t *testing.T) {
	r := must.Get(probe.Run(t.Context(), h200, probe.Options{}))(t)
	p := must.Get(r.Predictor(predict.NewPredictor()))(t)
	title, table, _ := strings.Cut(r.Report(&p).String(), "\n")
	if !strings.Contains(title, "SIMULATED") {
		t.Errorf("the title is %q", title)
	}
	golden.Check(t, "testdata/simulated.txt", []byte(table)) // the title holds how long it took
}
