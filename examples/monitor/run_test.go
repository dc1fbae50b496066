package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

func monitorRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestTheSimulatedDay(t *testing.T) {
	code, out, errs := monitorRun(t, "-price", "3.5")
	if code != exitOK || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, "testdata/day.txt", []byte(out))
}

func TestJSON(t *testing.T) {
	code, out, errs := monitorRun(t, "-json", "-duration", "3h", "-policy", "idlebot,45m")
	if code != exitOK || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, "testdata/hours.json", []byte(out))
	var rep report
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Source.Basis != sharing.BasisSimulated || len(rep.GPUs) != 4 || len(rep.Policies) != 2 || rep.Policies[0].Money != "" {
		t.Errorf("%+v", rep)
	}
}

func TestCSVAndExposition(t *testing.T) {
	dir := t.TempDir()
	csv, prom := filepath.Join(dir, "gpu.csv"), filepath.Join(dir, "gpu.prom")
	code, _, errs := monitorRun(t, "-duration", "1h", "-period", "1m", "-csv", csv, "-prom", prom)
	if code != exitOK {
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
	text, err := os.ReadFile(prom)
	if err != nil || !strings.Contains(string(text), `cotenant_gpu_power_watts{device="0"`) {
		t.Errorf("%v: %.200s", err, text)
	}
	code, _, errs = monitorRun(t, "-csv", csv)
	if code != exitUsage || !strings.Contains(errs, "exists") {
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

func TestAnInterruptKeepsWhatWasDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	csv := filepath.Join(t.TempDir(), "gpu.csv")
	out := &stopper{text: "after 6h", stop: cancel}
	var errs bytes.Buffer
	if code := run(ctx, []string{"-csv", csv}, strings.NewReader(""), out, &errs); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), "What they did in 6h") {
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

func TestMIGInstancesHaveRows(t *testing.T) {
	src, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{{
		Figures: map[telemetry.Metric]float64{telemetry.MetricPowerWatts: 200},
		Instances: []telemetrytest.Instance{{ID: 5, ComputeSlices: 3, Figures: map[telemetry.Metric]float64{
			telemetry.MetricGraphicsUtilPercent: 80, telemetry.MetricSMUtilPercent: 41.5, telemetry.MetricMemUsedBytes: 1 << 33}}},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := telemetry.NewSampler(src, telemetry.SamplerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	m := newMonitor(&config{every: time.Second}, &out)
	if err := s.Simulate(t.Context(), simulatedStart, 2*time.Second, append(m.sinks(), m)...); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, "0/5 80 41.5 - 8.0 GiB - - - - - MIG, slices: 3") {
		t.Error(out.String())
	}
}

// hangs is a reader that hangs in the driver after a while.
type hangs struct {
	telemetry.Reader
	from    time.Time
	release chan struct{}
}

func (h *hangs) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	if time.Now().After(h.from) {
		<-h.release
	}
	return h.Reader.Read(ctx, device, group, r)
}

// TestAHungGPUIsExposed: the only GPU hangs, so that no sample comes any more,
// and the file says that it is down.
func TestAHungGPUIsExposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{{
			Figures: map[telemetry.Metric]float64{telemetry.MetricPowerWatts: 200}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		src := &hangs{Reader: script, from: time.Now().Add(1500 * time.Millisecond), release: make(chan struct{})}
		defer close(src.release)
		s, err := telemetry.NewSampler(src, telemetry.SamplerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		prom := filepath.Join(t.TempDir(), "gpu.prom")
		var out bytes.Buffer
		m := newMonitor(&config{every: time.Second}, &out)
		m.expose = func() error { return m.latest.SavePrometheus(prom) }
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		if err := s.Stream(ctx, append(m.sinks(), m)...); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(prom)
		if err != nil || !strings.Contains(string(text), `basis="simulated"} 0`) || !strings.Contains(string(text), `reason="hung"} 1`) {
			t.Errorf("%v:\n%s", err, text)
		}
		if state := m.state(0); state != "HUNG" {
			t.Errorf("the table says %s", state)
		}
	})
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"-duration", "-1h", "-policy", "idelbot", "-price", "-3", "extra"}, exitUsage, []string{"-duration", `did you mean "idlebot"`, "-price", "extra"}},
		{[]string{"-nonsense"}, exitUsage, []string{"nonsense"}},
		{[]string{"-period", "0"}, exitUsage, []string{"-period: 0s"}},
		{[]string{"-prom", "/nonexistent/p"}, exitUsage, []string{"-prom", "/nonexistent"}},
		{[]string{"-price", "NaN"}, exitUsage, []string{"-price"}},
		{[]string{"-slow-period", "1ms"}, exitUsage, []string{"slow_period", "100ms"}},
		{[]string{"-csv", filepath.Join("no", "such", "folder", "x.csv")}, exitUsage, []string{"x.csv"}},
		{[]string{"-real", "-nvml", "/nonexistent/libnvidia-ml.so.1"}, exitFailed, []string{"not available", "-real"}},
	} {
		code, out, errs := monitorRun(t, c.args...)
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

func TestHelp(t *testing.T) {
	code, out, errs := monitorRun(t, "-h")
	if code != exitOK || errs != "" {
		t.Errorf("exit %d, %q", code, errs)
	}
	for _, w := range []string{"simulated", "-policy", "Exit codes", "-real"} {
		if !strings.Contains(out, w) {
			t.Errorf("the help does not say %q", w)
		}
	}
}

// TestShortIdlenessIsNotUse: what was idle for as long as it was looked at is not
// said to be in use.
func TestShortIdlenessIsNotUse(t *testing.T) {
	for _, c := range []struct {
		pauses time.Duration
		want   string
	}{{3 * time.Second, "idle most of the time, too briefly each time to count"}, {time.Second, "in use"}} {
		r := telemetry.IdleReport{Intervals: []telemetry.StateInterval{{To: 3 * time.Second, State: telemetry.StateActive}}, Pauses: c.pauses}
		if got := verdict(&r); got != c.want {
			t.Errorf("idle for %v of 3s: %q", c.pauses, got)
		}
	}
}
