package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

func TestTelemetryAndServerLogBesideARun(t *testing.T) {
	t.Setenv("BENCH_TEST_KEY", "hunter2-key")
	dir := t.TempDir()
	log := filepath.Join(dir, "engine.log")
	if err := os.WriteFile(log, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	url := serve(t, func(r loadgentest.Request) loadgentest.Reply {
		if r.N == 0 {
			f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("key hunter2-key\n")
			}
			if err != nil {
				t.Error(err)
			} else if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		return loadgentest.Reply{TTFT: 150 * time.Millisecond}
	})
	src, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{{Figures: map[telemetry.Metric]float64{telemetry.MetricGPUUtilPercent: 42}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, health: noLimits,
		openGPUs: func() (telemetry.Reader, func() error, error) {
			return src, func() error { closed = true; return nil }, nil
		}}
	run := filepath.Join(dir, "run")
	code := a.run(t.Context(), []string{"-endpoint", url, "-concurrency", "1", "-requests", "2", "-progress=false", "-out", run, "-telemetry", "-server-log", log,
		"-api-key-env", "BENCH_TEST_KEY", "-json"})
	if code != want(readSummary(t, run)) || !closed || !strings.HasPrefix(out.String(), "[\n") {
		t.Fatalf("exit %d, closed %v: %s%s", code, closed, out.String(), errs.String())
	}
	csv, err := os.ReadFile(filepath.Join(run, "telemetry.csv"))
	if err != nil || !bytes.Contains(csv, []byte("42")) || !bytes.Contains(csv, []byte("simulated")) {
		t.Errorf("%v: %s", err, csv)
	}
	if got, err := os.ReadFile(filepath.Join(run, "server.log")); err != nil || string(got) != "key [redacted]\n" {
		t.Errorf("%v: %q", err, got)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.partial")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTelemetryNeedsAGPUAndAPlace(t *testing.T) {
	code, _, errs := execProgram(t.Context(), "", "-telemetry")
	if code != exitBad || strings.Count(errs, "-telemetry:") != 2 {
		t.Errorf("exit %d: %s", code, errs)
	}
}
