package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

var (
	promLine = regexp.MustCompile(`^([a-z_0-9]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?[0-9.e+]+)$`)
	promMeta = regexp.MustCompile(`^# (HELP|TYPE) ([a-z_0-9]+) (.+)$`)
)

// checkProm holds the text against the rules of the format: each family once,
// HELP and TYPE before its lines, no line twice, a line feed at the end.
func checkProm(text string) error {
	if text != "" && !strings.HasSuffix(text, "\n") {
		return errors.New("no line feed at the end")
	}
	types, seen, family := map[string]string{}, map[string]bool{}, ""
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := promMeta.FindStringSubmatch(line); m != nil {
			if m[1] == "TYPE" {
				if types[m[2]] != "" {
					return fmt.Errorf("%s has two types", m[2])
				}
				types[m[2]], family = m[3], m[2]
			}
			continue
		}
		m := promLine.FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("not a line: %q", line)
		}
		if m[1] != family || seen[m[1]+m[2]] {
			return fmt.Errorf("out of place or twice: %q", line)
		}
		if strings.HasSuffix(m[1], "_total") != (types[m[1]] == "counter") {
			return fmt.Errorf("%s is a %s", m[1], types[m[1]])
		}
		seen[m[1]+m[2]] = true
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	for _, p := range problems {
		err = errors.Join(err, fmt.Errorf("%s: %s", p.Metric, p.Text))
	}
	return err
}

func prom(t testing.TB, l *telemetry.Latest) string {
	t.Helper()
	var b bytes.Buffer
	if err := l.WritePrometheus(&b); err != nil {
		t.Fatal(err)
	}
	if err := checkProm(b.String()); err != nil {
		t.Error(err)
	}
	return b.String()
}

func TestWritePrometheus(t *testing.T) {
	script := mixed()
	script.NoisePercent = 0
	l := new(telemetry.Latest)
	s := simulated(t, script, telemetry.SamplerOptions{}, 900*time.Millisecond)
	if err := s.Replay(l); err != nil {
		t.Fatal(err)
	}
	out := prom(t, l)
	golden.Check(t, "testdata/mixed.prom", []byte(out))
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, `basis="simulated"`) {
			t.Errorf("no basis: %s", line)
		}
	}
	// Lost, the first GPU has no figures any more; the other keeps its.
	if err := simulated(t, script, telemetry.SamplerOptions{}, 1500*time.Millisecond).Replay(l); err != nil {
		t.Fatal(err)
	}
	out = prom(t, l)
	if strings.Contains(out, `cotenant_gpu_power_watts{device="0"`) || !strings.Contains(out, `cotenant_gpu_power_watts{device="1"`) ||
		!strings.Contains(out, `cotenant_gpu_up{device="0",uuid="GPU-a",basis="simulated"} 0`) {
		t.Errorf("a lost GPU:\n%s", out)
	}
	if _, ok := l.Get(0, telemetry.MetricPowerWatts); ok || l.Down(0).IsZero() || !l.Down(1).IsZero() {
		t.Error("a lost GPU has figures")
	}
	if _, ok := l.Processes(0); ok {
		t.Error("a lost GPU has processes")
	}
	if p, ok := l.Processes(1); !ok || len(p) != 1 {
		t.Errorf("%v, %v", p, ok)
	}
}

// TestPrometheusNames exposes every metric there is; prom holds the names
// against Prometheus' own linter.
func TestPrometheusNames(t *testing.T) {
	l := new(telemetry.Latest)
	if err := simulated(t, eightGPUs(), telemetry.SamplerOptions{}, time.Second).Replay(l); err != nil {
		t.Fatal(err)
	}
	x := telemetry.Sample{Groups: telemetry.GroupGPM, At: time.Second}
	in := telemetry.Instance{ID: 1}
	for _, m := range telemetry.Metrics() {
		in.Set(m, 42)
	}
	x.Instances = []telemetry.Instance{in}
	if err := l.Sample(&x); err != nil {
		t.Fatal(err)
	}
	text := prom(t, l)
	for _, want := range []string{"cotenant_gpu_sm_clock_hertz{", `gpu_instance="1"} 0.42`, `cotenant_gpu_util_ratio{device="7"`, "cotenant_gpu_instance_nvlink_rx_bytes_per_second{", "} 42000000\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "# TYPE"); n < 2*len(telemetry.Metrics()) {
		t.Errorf("%d families", n)
	}
}

// TestListedTwice: a process or instance that a reader lists twice is one.
func TestListedTwice(t *testing.T) {
	gib := func(n int) telemetry.Optional[sharing.Bytes] { return telemetry.Some(sharing.Bytes(n) * sharing.GiB) }
	processes := []telemetry.Process{{PID: 7, Memory: gib(1)}, {PID: 8, Memory: gib(5), GPUInstance: telemetry.Some(1)}, {PID: 7, Name: "server", Memory: gib(2)},
		{PID: 8, Memory: gib(5), GPUInstance: telemetry.Some(2)}, {PID: 7, SMUtilPercent: telemetry.Some(40.0)}, {PID: 9, SMUtilPercent: telemetry.Some(10.0)}}
	script := oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricSMUtilPercent: 50}, Processes: processes,
		Instances: []telemetrytest.Instance{{ID: 1, Figures: figures{telemetry.MetricSMUtilPercent: 60}}, {ID: 1, Figures: figures{telemetry.MetricSMUtilPercent: 70}}}})
	s := simulated(t, script, telemetry.SamplerOptions{}, time.Second)
	direct, sampled := new(telemetry.Latest), new(telemetry.Latest)
	if err := s.Replay(sampled); err != nil {
		t.Fatal(err)
	}
	if err := direct.Begin(s.Header); err != nil {
		t.Fatal(err)
	}
	for _, g := range []telemetry.Groups{telemetry.GroupProcesses, telemetry.GroupProcessUtil} {
		if err := direct.Sample(&telemetry.Sample{Groups: g, Reading: telemetry.Reading{Processes: processes}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*telemetry.Latest{direct, sampled} {
		text := prom(t, l)
		for _, want := range []string{`pid="7",process="server"} 2147483648`, `pid="8",process="",gpu_instance="2"} 5368709120`, `pid="9",process=""} 0.1`} {
			if strings.Count(text, want) != 1 {
				t.Errorf("not once %s in\n%s", want, text)
			}
		}
	}
	if processes[0].Memory != gib(1) || processes[0].Name != "" {
		t.Error("the reader's list was changed")
	}
}

func TestLatestForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(telemetry.Latest)
		src := source(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 100, telemetry.MetricSMUtilPercent: 5}}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := sampler(t, src, telemetry.SamplerOptions{}).Stream(ctx, l); err != nil {
			t.Fatal(err)
		}
		if v, ok := l.Get(0, telemetry.MetricSMUtilPercent); !ok || v != 5 {
			t.Errorf("%v, %v", v, ok)
		}
		time.Sleep(4 * time.Second) // nothing comes any more
		if v, ok := l.Get(0, telemetry.MetricPowerWatts); ok {
			t.Errorf("%v W, from 4 s ago", v)
		}
		if strings.Contains(prom(t, l), "power_watts{") {
			t.Error("an old figure is exposed")
		}
	})
}

func FuzzPrometheusLabels(f *testing.F) {
	f.Add("a\"b\\c\nd", "\xff{}")
	f.Fuzz(func(t *testing.T, uuid, name string) {
		script := oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 1}, Processes: []telemetry.Process{{PID: 1, Name: name, Memory: telemetry.Some(sharing.MiB)}}})
		script.GPUs[0].Device = telemetry.Device{UUID: uuid, Name: name}
		l := new(telemetry.Latest)
		if err := simulated(t, script, telemetry.SamplerOptions{}, 0).Replay(l); err != nil {
			t.Fatal(err)
		}
		prom(t, l)
	})
}
