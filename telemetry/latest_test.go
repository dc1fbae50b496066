// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
