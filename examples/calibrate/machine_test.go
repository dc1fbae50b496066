package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// TestLook: what NVML knows of the GPU before anything runs on it.
func TestLook(t *testing.T) {
	look := func(g telemetrytest.GPU, index int) (cudaprobe.Options, error) {
		t.Helper()
		r, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{g}})
		if err != nil {
			t.Fatal(err)
		}
		var opts cudaprobe.Options
		err = lookThrough(t.Context(), r, &config{device: index}, &opts)
		return opts, err
	}
	h100 := telemetry.Device{Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-1"}
	held := []telemetrytest.Phase{{Processes: []telemetry.Process{{PID: 7, Name: "vllm"}}}}
	opts, err := look(telemetrytest.GPU{Device: h100, Phases: held}, 0)
	if err != nil || opts.UUID != "GPU-1" || !slices.Equal(opts.Others, []string{"process 7 (vllm)"}) {
		t.Errorf("%+v, %v", opts, err)
	}
	if _, err = look(telemetrytest.GPU{Device: h100, Phases: held}, 1); err == nil || !strings.Contains(err.Error(), "there is no GPU 1, the machine has 1") {
		t.Errorf("an index that is none: %v", err)
	}
	h100.MIG = sharing.AnswerYes
	if _, err = look(telemetrytest.GPU{Device: h100, Phases: held}, 0); !errors.Is(err, cudaprobe.ErrMIG) || !strings.Contains(err.Error(), "GPU 0, NVIDIA H100 80GB HBM3") {
		t.Errorf("in MIG mode: %v", err)
	}
}

func TestNewcomers(t *testing.T) {
	got := newcomers([]string{"process 7 (vllm)"}, []string{"process 7 (vllm)", "process 8 (/usr/bin/nvidia-cuda-mps-server)", "process 9 (python)"})
	if want := []string{"process 9 (python) came to the GPU meanwhile: what it does is part of what was measured"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
