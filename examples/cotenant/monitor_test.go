// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

func TestMonitorDay(t *testing.T) {
	code, out, errs := program(t, "", "monitor", "-price", "3.5")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, "testdata/monitor.txt", []byte(out))
}

func TestMonitorJSON(t *testing.T) {
	code, out, errs := program(t, "", "monitor", "-json", "-duration", "3h", "-policy", "idlebot,45m", "-price", "2 EUR")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var rep struct {
		telemetry.Report
		Worth map[string]cost.Money
	}
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Source.Basis != sharing.BasisSimulated || len(rep.GPUs) != 4 || len(rep.Policies) != 2 || rep.DurationS != 3*3600 || rep.Worth["45m0s"].String() != "0.50 EUR" {
		t.Errorf("%+v", rep)
	}
}

func TestMonitorCSV(t *testing.T) {
	dir := t.TempDir()
	csv := filepath.Join(dir, "gpu.csv")
	code, _, errs := program(t, "", "monitor", "-duration", "1h", "-period", "1m", "-csv", csv)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	f, err := os.Open(csv)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := telemetry.ReadCSV(f)
	if err != nil {
		t.Fatal(err)
	}
	if s.Duration() != time.Hour || len(s.Devices) != 4 || s.Info.Basis != sharing.BasisSimulated {
		t.Errorf("%v of %d GPUs, %v", s.Duration(), len(s.Devices), s.Info)
	}
	code, _, errs = program(t, "", "monitor", "-csv", csv)
	if code != exitBadInput || !strings.Contains(errs, "exists") {
		t.Errorf("a second run: exit %d: %s", code, errs)
	}
}

// stopper cancels when it is given a text.
type stopper struct {
	bytes.Buffer
	text string
	stop context.CancelFunc
}

func (s *stopper) Write(b []byte) (int, error) {
	if strings.Contains(string(b), s.text) {
		s.stop()
	}
	return s.Buffer.Write(b)
}

func (s *stopper) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

func TestMonitorInterruptedKeepsWhatWasDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	csv := filepath.Join(t.TempDir(), "gpu.csv")
	out := &stopper{text: "after 6h", stop: cancel}
	var errs bytes.Buffer
	if code := run(ctx, []string{"monitor", "-csv", csv}, stdio{nil, out, &errs}); code != exitInterrupted {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), "Hours in each state, of 6h") {
		t.Error(out.String())
	}
	f, err := os.Open(csv)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s, err := telemetry.ReadCSV(f); err != nil || s.Duration() < 6*time.Hour {
		t.Errorf("the CSV file: %v", err)
	}
}

func TestMonitorBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"-duration", "-1h", "-policy", "idelbot", "-price", "-3"}, exitBadInput,
			[]string{"-duration", `did you mean "idlebot"`, "-price"}},
		{[]string{"-nonsense"}, exitBadInput, []string{"nonsense"}},
		{[]string{"extra"}, exitBadInput, []string{"extra"}},
		{[]string{"-period", "0"}, exitBadInput, []string{"-period: 0s"}},
		{[]string{"-price", "NaN"}, exitBadInput, []string{"-price"}},
		{[]string{"-slow-period", "1ms"}, exitBadInput, []string{"slow_period", "100ms"}},
		{[]string{"-csv", filepath.Join("no", "such", "folder", "x.csv")}, exitBadInput, []string{"x.csv"}},
		{[]string{"-real", "-nvml", "/nonexistent/libnvidia-ml.so.1"}, exitCannot, []string{"this build is", "cotenant-gpu", "-real"}},
	} {
		code, out, errs := program(t, "", append([]string{"monitor"}, c.args...)...)
		if code != c.code || out != "" {
			t.Errorf("%v: exit %d, printed %q", c.args, code, out)
		}
		for _, w := range c.want {
			if !strings.Contains(errs, w) {
				t.Errorf("%v: %q does not say %q", c.args, errs, w)
			}
		}
	}
}

// TestTableHasMIGInstances prints a GPU of two, of which one is lost, and an instance of the other.
func TestTableHasMIGInstances(t *testing.T) {
	figures := map[telemetry.Metric]float64{telemetry.MetricGraphicsUtilPercent: 80, telemetry.MetricSMUtilPercent: 41.5, telemetry.MetricMemUsedBytes: 1 << 33}
	src, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{
		{Phases: []telemetrytest.Phase{{Instances: []telemetrytest.Instance{{ID: 5, ComputeSlices: 3, Figures: figures}}}}}, {Phases: []telemetrytest.Phase{{Lost: true}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := telemetry.NewSampler(src, telemetry.SamplerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	d := telemetry.NewDigest(telemetry.IdleOptions{})
	if err := sampler.Simulate(t.Context(), time.Unix(0, 0), 2*time.Second, d); err != nil {
		t.Fatal(err)
	}
	if err := writeTable(&out, d, time.Second); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"after 1s (simulated, 2 x simulated GPU)", "0/5 80 41.5 - 8.0 GiB - - - - - MIG, slices: 3", "LOST"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}
