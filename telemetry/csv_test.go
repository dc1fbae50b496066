// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// mixed is a script with everything in it: MIG instances, processes, names that
// need quotes, a lost GPU, throttling, dropped values, missing figures.
func mixed() telemetrytest.Script {
	return telemetrytest.Script{NoisePercent: 5, Seed: 7, GPUs: []telemetrytest.GPU{
		{
			Device: telemetry.Device{UUID: "GPU-a", Name: `H200 "A", first`, GPM: sharing.AnswerYes, MIG: sharing.AnswerNo},
			Phases: []telemetrytest.Phase{
				{For: time.Second, Figures: figures{telemetry.MetricGPUUtilPercent: 97, telemetry.MetricPowerWatts: 612.5, telemetry.MetricMemUsedBytes: 1 << 36,
					telemetry.MetricSMUtilPercent: 41.25, telemetry.MetricDRAMUtilPercent: 22.05, telemetry.MetricPCIeTxBytesPerS: 1e9},
					Throttle: "power-cap+hw-thermal", Dropped: 2,
					Processes: []telemetry.Process{
						{PID: 1, Name: "a,\"b\"\nc", Memory: sharing.Some(30 * sharing.GiB), SMUtilPercent: sharing.Some(70.0)},
						{PID: 2, SMUtilPercent: sharing.Some(20.0)},
					}},
				{For: time.Second, Lost: true},
				{Figures: figures{telemetry.MetricPowerWatts: 90}},
			},
		},
		{
			Device: telemetry.Device{UUID: "GPU-b", Name: "H200 B"},
			Phases: []telemetrytest.Phase{{
				Figures: figures{telemetry.MetricPowerWatts: 300, telemetry.MetricMemUsedBytes: 0},
				Instances: []telemetrytest.Instance{
					{ID: 1, ComputeSlices: 3, Figures: figures{telemetry.MetricGraphicsUtilPercent: 80, telemetry.MetricSMUtilPercent: 50}},
					{ID: 5, ComputeSlices: 2, Figures: figures{telemetry.MetricGraphicsUtilPercent: 10}},
				},
				Processes: []telemetry.Process{{PID: 9, GPUInstance: sharing.Some(5), Memory: sharing.Some(sharing.MiB)}},
			}},
		},
	}}
}

func csvOf(t testing.TB, s *telemetry.Series) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func samples(s *telemetry.Series) []telemetry.Sample {
	var out []telemetry.Sample
	for x := range s.All() {
		out = append(out, *x)
	}
	return out
}

// sameSeries compares all that the CSV form carries.
func sameSeries(t *testing.T, want, got *telemetry.Series) {
	t.Helper()
	if len(got.Devices) != len(want.Devices) || got.Period != want.Period || got.SlowPeriod != want.SlowPeriod || !got.Start.Equal(want.Start) ||
		got.Info.Basis != want.Info.Basis || got.Devices[0].UUID != want.Devices[0].UUID || got.Devices[0].Name != want.Devices[0].Name {
		t.Errorf("%+v, want %+v", got.Header, want.Header)
	}
	a, b := samples(want), samples(got)
	if len(a) != len(b) {
		t.Fatalf("%d samples, want %d", len(b), len(a))
	}
	for i := range a {
		for _, m := range telemetry.Metrics() {
			va, okA := a[i].Get(m)
			vb, okB := b[i].Get(m)
			if va != vb || okA != okB {
				t.Errorf("sample %d, %v: %v %v, want %v %v", i, m, vb, okB, va, okA)
			}
		}
		listed := a[i].Groups.Has(telemetry.GroupProcesses)
		if a[i].At != b[i].At || a[i].Device != b[i].Device || a[i].Throttle != b[i].Throttle || listed != b[i].Groups.Has(telemetry.GroupProcesses) ||
			listed && len(a[i].Processes) != len(b[i].Processes) || len(a[i].Instances) != len(b[i].Instances) {
			t.Errorf("sample %d differs:\n%+v\n%+v", i, a[i], b[i])
		}
	}
}

func TestCSVRoundTrip(t *testing.T) {
	s := simulated(t, mixed(), telemetry.SamplerOptions{Period: 500 * time.Millisecond}, 3*time.Second)
	out := csvOf(t, s)
	golden.Check(t, "testdata/mixed.csv", out)
	back, err := telemetry.ReadCSV(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	sameSeries(t, s, back)
	if again := csvOf(t, back); !bytes.Equal(out, again) {
		t.Error("a file that is read and written again has other bytes")
	}
	if strings.Contains(string(out), "NaN") || strings.Contains(string(out), "-1") {
		t.Error("a sentinel in the file")
	}
}

func TestReadCSVNamesEveryProblem(t *testing.T) {
	good := string(csvOf(t, simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 100}}),
		telemetry.SamplerOptions{Skip: telemetry.GroupsSlow}, 200*time.Millisecond)))
	lines := strings.SplitAfter(good, "\n")
	edit := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q to edit", old)
		}
		return strings.ReplaceAll(good, old, with)
	}
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", []string{"header"}},
		{"another file", "a,b\n1,2\n", []string{"at_s", "missing", "CSV column"}},
		{"only a header", lines[0], []string{"no row"}},
		{"a mistyped column", edit("power_watts", "power_wats"), []string{"power_watts"}},
		{"not a number", edit(",100,", ",lots,"), []string{"line 2", "power_watts", "lots"}},
		{"a sentinel", edit(",100,", ",NaN,"), []string{"NaN"}},
		{"mixed bases", strings.Join(lines[:3], "") + strings.Replace(lines[3], "simulated", "measured", 1), []string{"line 4", "measured"}},
		{"backwards", lines[0] + lines[3] + lines[2], []string{"earlier"}},
		{"no time", edit("05.1Z", "05:1Z"), []string{"time"}},
		{"no such device", edit("simulated,0,", "simulated,4000,"), []string{"device"}},
		{"only an instance", "at_s,gpu_instance\n1,2\n", []string{"without its device"}},
		{"a cut line", good[:len(good)-20], []string{"line 4"}},
		{"several", edit(",100,", ",lots,") + "x\n", []string{"line 2", "line 3", "line 4", "line 5"}},
	} {
		s, err := telemetry.ReadCSV(strings.NewReader(c.in))
		if err == nil || s != nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v lacks %q", c.name, err, w)
			}
		}
	}
	for _, long := range []string{strings.Repeat("x"+strings.Repeat("y", 9000)+",", 900) + "at_s\n", edit(",100,", ",lots,") + strings.Repeat("x\n", 1000)} {
		if _, err := telemetry.ReadCSV(strings.NewReader(long)); len(err.Error()) > 20_000 || strings.Count(err.Error(), "\n") > 25 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

type fullDisk struct{ n int }

func (f *fullDisk) Write(b []byte) (int, error) {
	if f.n -= len(b); f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestAFullDiskIsReported(t *testing.T) {
	s := simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 100}}), telemetry.SamplerOptions{}, 5*time.Minute)
	if err := s.WriteCSV(&fullDisk{100_000}); !errors.Is(err, errFull) {
		t.Errorf("err = %v", err)
	}
}

func FuzzReadCSV(f *testing.F) {
	s, err := simulate(mixed(), telemetry.SamplerOptions{Period: 500 * time.Millisecond}, 2*time.Second)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(csvOf(f, s))
	f.Add(csvOf(f, simulated(f, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: math.Pi}}), telemetry.SamplerOptions{}, 0)))
	f.Add([]byte("at_s\n1\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := telemetry.ReadCSV(bytes.NewReader(in))
		if err != nil {
			if s != nil {
				t.Fatal("a series and an error")
			}
			return
		}
		out := csvOf(t, s)
		back, err := telemetry.ReadCSV(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("the written file is not read: %v", err)
		}
		if !bytes.Equal(out, csvOf(t, back)) {
			t.Fatal("the second round differs")
		}
	})
}

// TestCSVOfOthers: a table with few columns is a series too.
func TestCSVOfOthers(t *testing.T) {
	s, err := telemetry.ReadCSV(strings.NewReader("device,at_s,util_percent,power_watts\n0,0,0,110\n1,0,50,\n0,30,0,112\n1,30.5,60,400\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Devices) != 2 || s.Len() != 4 || s.Period != 30*time.Second || s.Duration() != 30500*time.Millisecond || s.Info.Basis != sharing.BasisUnknown {
		t.Errorf("%+v", s.Header)
	}
	if got := samples(s); got[1].Device != 1 || !got[1].Groups.Has(telemetry.GroupBasic) {
		t.Errorf("%+v", got[1])
	}
	again, err := telemetry.ReadCSV(bytes.NewReader(csvOf(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	sameSeries(t, s, again)
}
