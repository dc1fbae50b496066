// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

func TestLatestOfALostGPU(t *testing.T) {
	script := mixed()
	script.NoisePercent = 0
	l := new(telemetry.Latest)
	// Lost, the first GPU has no figures any more; the other keeps its.
	if err := simulated(t, script, telemetry.SamplerOptions{}, 1500*time.Millisecond).Replay(l); err != nil {
		t.Fatal(err)
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
		list, ok := l.Processes(0)
		if !ok || len(list) != 4 || list[0].Name != "server" || list[0].Memory != gib(2) || list[2].Memory != gib(5) {
			t.Errorf("%+v, %v", list, ok)
		}
		if in := l.Instances(0); l == sampled && len(in) != 1 {
			t.Errorf("instances %+v", in)
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
	})
}
