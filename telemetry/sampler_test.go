// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

type figures = map[telemetry.Metric]float64

func source(t testing.TB, script telemetrytest.Script) *telemetrytest.Reader {
	t.Helper()
	src, err := telemetrytest.New(script)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func sampler(t testing.TB, src telemetry.Reader, opts telemetry.SamplerOptions) *telemetry.Sampler {
	t.Helper()
	s, err := telemetry.NewSampler(src, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// record samples a script in real (or bubble) time.
func record(t testing.TB, script telemetrytest.Script, opts telemetry.SamplerOptions, d time.Duration) *telemetry.Series {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	s, err := sampler(t, source(t, script), opts).Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func simulated(t testing.TB, script telemetrytest.Script, opts telemetry.SamplerOptions, d time.Duration) *telemetry.Series {
	t.Helper()
	s, err := simulate(script, opts, d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func oneGPU(phases ...telemetrytest.Phase) telemetrytest.Script {
	return telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: phases}}}
}

type stamp struct {
	At     time.Duration
	Tick   int64
	Groups telemetry.Groups
}

func stamps(s *telemetry.Series) []stamp {
	var out []stamp
	for x := range s.All() {
		out = append(out, stamp{x.At, x.Tick, x.Groups})
	}
	return out
}

func TestSamplerKeepsItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := time.Millisecond
		script := oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 100}})
		script.Cost = map[telemetry.Groups]time.Duration{telemetry.GroupBasic: 3 * ms, telemetry.GroupEnergy: 40 * ms}
		s := record(t, script, telemetry.SamplerOptions{Period: 50 * ms, SlowPeriod: 100 * ms,
			Skip: telemetry.GroupProcesses | telemetry.GroupGPM | telemetry.GroupProcessUtil | telemetry.GroupPCIe}, 170*ms)
		want := []stamp{
			{3 * ms, 0, telemetry.GroupBasic}, {40 * ms, 0, telemetry.GroupEnergy}, {53 * ms, 1, telemetry.GroupBasic},
			{103 * ms, 2, telemetry.GroupBasic}, {140 * ms, 1, telemetry.GroupEnergy}, {153 * ms, 3, telemetry.GroupBasic},
		}
		if d := cmp.Diff(want, stamps(s)); d != "" {
			t.Error(d)
		}
		if len(s.Events) != 0 {
			t.Errorf("events %v", s.Events)
		}
		tm := timingOf(s)
		if tm.Ticks != 4 || tm.Missed != 0 || tm.JitterMax != sharing.Some(time.Duration(0)) {
			t.Errorf("timing %+v", tm)
		}
	})
}

func TestSamplerRecordsMissedTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := time.Millisecond
		script := oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 100}})
		script.Cost = map[telemetry.Groups]time.Duration{telemetry.GroupBasic: 250 * ms}
		s := record(t, script, telemetry.SamplerOptions{Period: 100 * ms, Skip: telemetry.GroupProcesses | telemetry.GroupsSlow}, 700*ms)
		want := []stamp{{250 * ms, 0, telemetry.GroupBasic}, {500 * ms, 2, telemetry.GroupBasic}}
		if d := cmp.Diff(want, stamps(s)); d != "" {
			t.Error(d)
		}
		tm := timingOf(s)
		if tm.Ticks != 2 || tm.Missed != 1 || !tm.JitterP99.IsZero() {
			t.Errorf("timing %+v: a missed tick is no jitter", tm)
		}
		if len(s.Events) != 2 || s.Events[0].Kind != telemetry.EventGap || s.Events[0].Count != 1 || s.Events[0].Length != 250*ms {
			t.Errorf("events %+v", s.Events)
		}
	})
}

func TestSamplerSurvivesALostGPU(t *testing.T) {
	busy := figures{telemetry.MetricPowerWatts: 300, telemetry.MetricGPUUtilPercent: 99}
	script := telemetrytest.Script{GPUs: []telemetrytest.GPU{
		{Phases: []telemetrytest.Phase{{For: 2500 * time.Millisecond, Figures: busy}, {For: 3 * time.Second, Lost: true}, {Figures: busy}}},
		{Phases: []telemetrytest.Phase{{Figures: busy}}},
	}}
	s := simulated(t, script, telemetry.SamplerOptions{}, 10*time.Second)
	want := []telemetry.Event{
		{Kind: telemetry.EventLost, At: 2500 * time.Millisecond, Device: 0,
			Detail: "telemetry: read basic on GPU-00000000-0000-0000-0000-000000000000: the GPU is lost"},
		{Kind: telemetry.EventBack, At: 6 * time.Second, Device: 0},
	}
	if d := cmp.Diff(want, s.Events); d != "" {
		t.Error(d)
	}
	for _, p := range s.Points(0, telemetry.MetricPowerWatts) {
		if p.At >= 2500*time.Millisecond && p.At < 6*time.Second {
			t.Errorf("the lost GPU has a figure at %v", p.At)
		}
	}
	if n := len(s.Points(1, telemetry.MetricPowerWatts)); n != 101 {
		t.Errorf("the other GPU has %d readings, want 101", n)
	}
	rep, err := telemetry.DetectIdle(s, 0, telemetry.IdleOptions{})
	if err != nil || rep.Total(telemetry.StateUnknown) < 3*time.Second {
		t.Errorf("lost time is %v unknown, %v", rep.Total(telemetry.StateUnknown), err)
	}
}

func TestReadErrorsAreReportedAtPowersOfTen(t *testing.T) {
	broken := errors.New("broken")
	script := oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 300},
		Processes: []telemetry.Process{{PID: 1, SMUtilPercent: sharing.Some(5.0)}}, Dropped: 3,
		Fail: map[telemetry.Groups]error{telemetry.GroupProcesses: broken}})
	s := simulated(t, script, telemetry.SamplerOptions{}, 12*time.Second)
	counts := map[telemetry.EventKind][]int{}
	for _, e := range s.Events {
		counts[e.Kind] = append(counts[e.Kind], e.Count)
	}
	want := map[telemetry.EventKind][]int{telemetry.EventReadError: {1, 10, 100}, telemetry.EventDropped: {3, 12}}
	if d := cmp.Diff(want, counts); d != "" {
		t.Error(d)
	}
	for x := range s.All() {
		if x.Groups.Has(telemetry.GroupProcesses) {
			t.Fatal("a failed reading of processes looks like no processes")
		}
	}
	if m, n := s.Mean(0, telemetry.MetricPowerWatts); n != 121 || m != sharing.Some(300.0) {
		t.Errorf("power %v from %d readings", m, n)
	}
}

type failingSink struct {
	telemetry.Series
	after int
}

var errFull = errors.New("disk full")

func (f *failingSink) Sample(x *telemetry.Sample) error {
	if f.after--; f.after < 0 {
		return errFull
	}
	return f.Series.Sample(x)
}

func TestASinkThatFailsStopsTheSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := source(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 1}}))
		kept := new(telemetry.Series)
		err := sampler(t, src, telemetry.SamplerOptions{}).Stream(context.Background(), kept, &failingSink{after: 5})
		if !errors.Is(err, errFull) || kept.Len() != 6 {
			t.Errorf("err %v, %d samples kept", err, kept.Len())
		}
	})
}

func TestStreamErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	src := source(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 1}}))
	if _, err := sampler(t, src, telemetry.SamplerOptions{}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("listing devices with a dead context: %v", err)
	}
	if _, err := sampler(t, empty{src}, telemetry.SamplerOptions{}).Run(context.Background()); !errors.Is(err, telemetry.ErrNoDevices) {
		t.Errorf("no devices: %v", err)
	}
	if err := sampler(t, measured{src}, telemetry.SamplerOptions{}).Simulate(context.Background(), time.Time{}, time.Second); !errors.Is(err, telemetry.ErrNotSimulated) {
		t.Errorf("simulating a real source: %v", err)
	}
	_, err := telemetry.NewSampler(nil, telemetry.SamplerOptions{Period: -1, SlowPeriod: time.Millisecond, Skip: telemetry.GroupsFast | telemetry.GroupsSlow})
	for _, want := range []string{"reader", "period", "slow_period", "skip"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

type empty struct{ telemetry.Reader }

func (empty) Devices(context.Context) ([]telemetry.Device, error) { return nil, nil }

// measured hides a source's simulated clock.
type measured struct{ telemetry.Reader }

func (measured) Info() telemetry.ReaderInfo {
	return telemetry.ReaderInfo{Name: "real", Basis: sharing.BasisMeasured}
}

func TestMeanOfNothing(t *testing.T) {
	s := simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 1}}), telemetry.SamplerOptions{}, time.Second)
	if v, n := s.Mean(0, telemetry.MetricSMUtilPercent); n != 0 || !v.IsZero() {
		t.Errorf("the mean of nothing is %v of %d", v, n)
	}
}
