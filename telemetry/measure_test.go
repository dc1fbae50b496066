// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

func near(t *testing.T, name string, got sharing.Optional[float64], want, tolerance float64) {
	t.Helper()
	if v, ok := got.Get(); !ok || math.Abs(v-want) > tolerance {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

func TestEnergy(t *testing.T) {
	at := func(d time.Duration, w float64) telemetrytest.Phase {
		return telemetrytest.Phase{For: d, Figures: figures{telemetry.MetricPowerWatts: w}}
	}
	steps := []telemetrytest.Phase{at(20*time.Second, 100), at(20*time.Second, 700), at(0, 300)}
	noCounter := oneGPU(steps...)
	noCounter.GPUs[0].NoEnergy = true
	seconds := func(watts float64, joules func(i int) float64) *telemetry.Series {
		s := new(telemetry.Series)
		if err := s.Begin(telemetry.Header{Devices: make([]telemetry.Device, 1), Period: time.Second, SlowPeriod: time.Second}); err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			x := telemetry.Sample{At: time.Duration(i) * time.Second}
			x.Set(telemetry.MetricPowerWatts, watts)
			x.Set(telemetry.MetricEnergyJoules, joules(i))
			if err := s.Sample(&x); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	minute := func(s telemetrytest.Script) *telemetry.Series {
		return simulated(t, s, telemetry.SamplerOptions{}, time.Minute)
	}
	for name, c := range map[string]struct {
		series   *telemetry.Series
		integral float64 // -1 = missing
		counter  float64
	}{
		// The trapezoid over the 100 ms before each step adds half the step: 30 J up and 20 J down.
		"steps": {minute(oneGPU(steps...)), 22000 + 30 - 20, 22000},
		// The second before the counter begins anew is lost to it.
		"restart":    {seconds(100, func(i int) float64 { return 100 * float64((i+970)%1000) }), 100 * 59, 100 * 58},
		"no counter": {minute(noCounter), 22000 + 30 - 20, -1},
		"no power":   {minute(oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricGPUUtilPercent: 1}})), -1, -1},
		"gap":        {minute(oneGPU(at(20*time.Second, 100), telemetrytest.Phase{For: 10 * time.Second, Lost: true}, at(0, 300))), 100*19.9 + 300*29.9, 11000},
	} {
		e, err := telemetry.MeasureEnergy(c.series, 0)
		if err != nil || math.Abs(e.IntegratedJoules.Or(-1)-c.integral) > 1e-6 || math.Abs(e.CounterJoules.Or(-1)-c.counter) > 1e-6 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	if _, err := telemetry.MeasureEnergy(new(telemetry.Series), 0); !errors.Is(err, telemetry.ErrNoDevice) {
		t.Errorf("err = %v", err)
	}
}

type span struct {
	State  telemetry.State
	Length time.Duration
}

func spans(r telemetry.IdleReport) []span {
	var out []span
	for _, in := range r.Intervals {
		if n := len(out); n > 0 && out[n-1].State == in.State {
			out[n-1].Length += in.Length()
			continue
		}
		out = append(out, span{in.State, in.Length()})
	}
	return out
}

func TestDetectIdle(t *testing.T) {
	server := []telemetry.Process{{PID: 1}}
	type fig = figures
	phase := func(d time.Duration, procs []telemetry.Process, f figures) telemetrytest.Phase {
		return telemetrytest.Phase{For: d, Processes: procs, Figures: f}
	}
	minute := time.Minute
	util, watts, used, sm, dram, pcie := telemetry.MetricGPUUtilPercent, telemetry.MetricPowerWatts, telemetry.MetricMemUsedBytes, telemetry.MetricSMUtilPercent, telemetry.MetricDRAMUtilPercent, telemetry.MetricPCIeRxBytesPerS
	for _, c := range []struct {
		name   string
		opts   telemetry.IdleOptions
		phases []telemetrytest.Phase
		want   []span
	}{
		{"the three kinds of idle, with the power of deep idle learnt from later", telemetry.IdleOptions{}, []telemetrytest.Phase{
			phase(minute, server, fig{util: 95, watts: 500, used: 9e9}),
			phase(minute, server, fig{util: 0, watts: 120, used: 9e9}),
			phase(minute, server, fig{util: 0, watts: 78, used: 9e9}),
			phase(minute, nil, fig{util: 0, watts: 75, used: 0}),
		}, []span{{telemetry.StateActive, minute}, {telemetry.StateExecutionIdle, minute}, {telemetry.StateResidentIdle, minute}, {telemetry.StateDeepIdle, minute}}},
		{"a one-thread kernel: NVML reports 100%, GPM no work", telemetry.IdleOptions{}, []telemetrytest.Phase{
			phase(2*minute, server, fig{util: 100, watts: 130, sm: 0.76, dram: 0}),
		}, []span{{telemetry.StateActive, 2 * time.Second}, {telemetry.StateStalled, 2*minute - 2*time.Second}}},
		{"busy without GPM is active", telemetry.IdleOptions{}, []telemetrytest.Phase{
			phase(minute, server, fig{util: 100, watts: 130}),
		}, []span{{telemetry.StateActive, minute}}},
		{"an old GPM figure does not make a start a stall", telemetry.IdleOptions{Sustain: 1}, []telemetrytest.Phase{
			phase(minute, server, fig{util: 0, watts: 130, sm: 0, dram: 0}),
			phase(minute, server, fig{util: 100, watts: 500, sm: 50, dram: 40}),
		}, []span{{telemetry.StateExecutionIdle, minute - 100*time.Millisecond}, {telemetry.StateActive, minute + 100*time.Millisecond}}},
		{"traffic is work", telemetry.IdleOptions{}, []telemetrytest.Phase{
			phase(minute, server, fig{util: 0, watts: 100, pcie: 2e9}),
		}, []span{{telemetry.StateActive, minute}}},
		{"pauses shorter than the sustain time are active", telemetry.IdleOptions{}, []telemetrytest.Phase{
			phase(minute, server, fig{util: 90, watts: 500}),
			phase(5*time.Second, server, fig{util: 0, watts: 130}),
			phase(minute, server, fig{util: 90, watts: 500}),
		}, []span{{telemetry.StateActive, 2*minute + 5*time.Second}}},
		{"memory shows a resident program that no list shows", telemetry.IdleOptions{}, []telemetrytest.Phase{
			phase(minute, nil, fig{util: 0, watts: 120, used: 4e9}),
		}, []span{{telemetry.StateExecutionIdle, minute}}},
		{"without utilization nothing is known", telemetry.IdleOptions{}, []telemetrytest.Phase{
			phase(minute, server, fig{watts: 120}),
		}, []span{{telemetry.StateUnknown, minute}}},
		{"a given power of deep idle", telemetry.IdleOptions{DeepIdleWatts: 115}, []telemetrytest.Phase{
			phase(minute, server, fig{util: 0, watts: 120}),
		}, []span{{telemetry.StateResidentIdle, minute}}},
	} {
		total := time.Duration(0)
		for _, p := range c.phases {
			total += p.For
		}
		c.phases[len(c.phases)-1].For = 0
		s := simulated(t, oneGPU(c.phases...), telemetry.SamplerOptions{}, total)
		r, err := telemetry.DetectIdle(s, 0, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		got := spans(r)
		// Samples describe the time before them, so that a change is seen up to one period early.
		slack := 100 * time.Millisecond
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		for i, g := range got {
			if g.State != c.want[i].State || (g.Length-c.want[i].Length).Abs() > slack {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
		if r.Observed() != total {
			t.Errorf("%s: observed %v of %v", c.name, r.Observed(), total)
		}
	}
}

func TestIdleOnMIG(t *testing.T) {
	phase := func(active float64) telemetrytest.Phase {
		return telemetrytest.Phase{For: time.Minute, Processes: []telemetry.Process{{PID: 1}}, Instances: []telemetrytest.Instance{
			{ID: 1, Figures: figures{telemetry.MetricGraphicsUtilPercent: active, telemetry.MetricSMUtilPercent: active}},
			{ID: 2, Figures: figures{telemetry.MetricGraphicsUtilPercent: 0, telemetry.MetricSMUtilPercent: 0}}}}
	}
	last := phase(0)
	last.For = 0
	r, err := telemetry.DetectIdle(simulated(t, oneGPU(phase(90), last), telemetry.SamplerOptions{}, 2*time.Minute), 0, telemetry.IdleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := spans(r); len(got) != 2 || got[0].State != telemetry.StateActive || got[1].State != telemetry.StateExecutionIdle {
		t.Errorf("%v", got)
	}
}

func TestMeasureOptionsAreChecked(t *testing.T) {
	s := simulated(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 1}}), telemetry.SamplerOptions{}, time.Second)
	_, err := telemetry.DetectIdle(s, 0, telemetry.IdleOptions{Sustain: -1, DeepIdleWatts: math.NaN()})
	for _, want := range []string{"sustain", "deep_idle_watts"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	x := new(telemetry.Sample)
	csv, _ := telemetry.NewCSVWriter(nil)
	for _, sink := range []telemetry.Sink{new(telemetry.Series), new(telemetry.Latest), csv, telemetry.NewDigest(telemetry.IdleOptions{})} {
		if err := sink.Sample(x); err == nil {
			t.Errorf("%T takes a sample without a header", sink)
		}
	}
	if err := new(telemetry.Latest).Event(telemetry.Event{}); !errors.Is(err, telemetry.ErrNotBegun) {
		t.Errorf("err = %v", err)
	}
}

func TestIdleEvidence(t *testing.T) {
	s := simulated(t, oneGPU(telemetrytest.Phase{Processes: []telemetry.Process{{PID: 1}},
		Figures: figures{telemetry.MetricGPUUtilPercent: 0, telemetry.MetricPowerWatts: 120}}), telemetry.SamplerOptions{}, time.Minute)
	for watts, want := range map[float64]telemetry.State{0: telemetry.StateExecutionIdle, 75: telemetry.StateExecutionIdle, 115: telemetry.StateResidentIdle} {
		r, err := telemetry.DetectIdle(s, 0, telemetry.IdleOptions{DeepIdleWatts: watts})
		if err != nil || len(r.Intervals) != 1 || r.Intervals[0].State != want {
			t.Errorf("deep idle at %v W: %+v, %v", watts, r.Intervals, err)
		}
		near(t, "energy", r.Joules(want), 7200, 1e-6)
		if !r.Joules(telemetry.StateActive).IsZero() {
			t.Error("a state that never was has an energy")
		}
	}
}

// idleFor makes a report of alternating active and execution-idle times.
func idleFor(times ...time.Duration) telemetry.IdleReport {
	r := telemetry.IdleReport{Basis: sharing.BasisSimulated}
	at := time.Duration(0)
	for i, d := range times {
		st := telemetry.StateActive
		if i%2 == 1 {
			st = telemetry.StateExecutionIdle
		}
		r.Intervals = append(r.Intervals, telemetry.StateInterval{From: at, To: at + d, State: st})
		at += d
	}
	return r
}

func TestPolicies(t *testing.T) {
	h, m := time.Hour, time.Minute
	type row struct {
		Episodes, Reaped int
		Recoverable      time.Duration
	}
	for _, c := range []struct {
		name   string
		report telemetry.IdleReport
		want   map[string]row
	}{
		// A job that is busy 8 of 24 hours is idle for 16, two thirds.
		{"8 of 24 hours", idleFor(8*h, 16*h), map[string]row{"idlebot": {1, 1, 15 * h}, "princeton": {1, 1, 14 * h}, "kubeflow": {1, 0, 0}}},
		{"just short", idleFor(h, h-1), map[string]row{"idlebot": {1, 0, 0}, "princeton": {1, 0, 0}, "kubeflow": {1, 0, 0}}},
		{"just long enough", idleFor(h, h), map[string]row{"idlebot": {1, 1, 0}, "princeton": {1, 0, 0}, "kubeflow": {1, 0, 0}}},
		{"many short gaps are no reaper's business", idleFor(m, 10*m, m, 10*m, m, 10*m), map[string]row{"idlebot": {3, 0, 0}, "princeton": {3, 0, 0}, "kubeflow": {3, 0, 0}}},
		{"never idle", idleFor(h), map[string]row{"idlebot": {}, "princeton": {}, "kubeflow": {}}},
	} {
		for _, p := range telemetry.ReapPolicies() {
			r, err := p.Recoverable([]telemetry.IdleReport{c.report})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want[p.Name], row{r.Episodes, r.Reaped, r.Recoverable}); d != "" {
				t.Errorf("%s, %s: %s", c.name, p.Name, d)
			}
		}
	}
	rep := idleFor(8*h, 16*h)
	if share := rep.Total(telemetry.StateExecutionIdle).Hours() / rep.Observed().Hours(); math.Abs(share-2.0/3) > 1e-12 {
		t.Errorf("idle %v", share)
	}
	p := telemetry.ReapPolicies()[0]
	r, err := p.Recoverable([]telemetry.IdleReport{idleFor(h, 20*m), idleFor(h, 3*h)})
	if err != nil || r.Observed != 5*h+20*m {
		t.Errorf("%+v, %v", r, err)
	}
	near(t, "hours a day", r.HoursPerDay, 24*2/(5+1.0/3), 1e-9)
	if pr, _ := telemetry.ParseReapPolicy("princeton"); pr.ReapAfter != 2*h {
		t.Errorf("%+v", pr)
	}
	if own, err := telemetry.ParseReapPolicy("45m"); err != nil || own.ReapAfter != 45*m {
		t.Errorf("%+v, %v", own, err)
	}
	for _, bad := range []string{"idelbot", "-1h", "0s", ""} {
		if _, err := telemetry.ParseReapPolicy(bad); err == nil {
			t.Errorf("%q is a policy", bad)
		}
	}
	if _, err := (telemetry.ReapPolicy{Name: "x"}).Recoverable(nil); err == nil || !strings.Contains(err.Error(), `"x" reaps after 0s`) {
		t.Error(err)
	}
}

func TestUnknownTimeIsNeverRecoverable(t *testing.T) {
	r := idleFor(time.Hour, 3*time.Hour)
	r.Intervals = append(r.Intervals, telemetry.StateInterval{From: 4 * time.Hour, To: 9 * time.Hour})
	got, err := telemetry.ReapPolicies()[0].Recoverable([]telemetry.IdleReport{r})
	if err != nil || got.Recoverable != 2*time.Hour || got.Unknown != 5*time.Hour {
		t.Errorf("%+v, %v", got, err)
	}
}
