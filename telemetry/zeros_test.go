// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"testing"
	"time"

	"github.com/cotenant/cotenant/telemetry"
)

// TestZerosThatNobodyFilled: with every subset of a device's counters at zero, one of which another shows work is not
// idle, and one that shows none is.
func TestZerosThatNobodyFilled(t *testing.T) {
	counters := []struct {
		m  telemetry.Metric
		at float64
	}{{telemetry.MetricGPUUtilPercent, 97}, {telemetry.MetricGraphicsUtilPercent, 90}, {telemetry.MetricSMUtilPercent, 80},
		{telemetry.MetricDRAMUtilPercent, 40}, {telemetry.MetricTensorUtilPercent, 30}}
	for zero := range 1 << len(counters) {
		d := telemetry.NewDigest(telemetry.IdleOptions{})
		if err := d.Begin(telemetry.Header{Devices: []telemetry.Device{{UUID: "GPU-1"}}, Period: time.Second, SlowPeriod: time.Second}); err != nil {
			t.Fatal(err)
		}
		for i := range 120 {
			x := telemetry.Sample{At: time.Duration(i) * time.Second}
			x.Set(telemetry.MetricMemUsedBytes, 60<<30)
			for k, c := range counters {
				v := c.at
				if zero&(1<<k) != 0 {
					v = 0
				}
				x.Set(c.m, v)
			}
			if err := d.Sample(&x); err != nil {
				t.Fatal(err)
			}
		}
		r, err := d.Idle(0)
		if err != nil {
			t.Fatal(err)
		}
		var idle time.Duration
		for _, in := range r.Intervals {
			if in.State.Idle() {
				idle += in.Length()
			}
		}
		if works := zero != 1<<len(counters)-1; works == (idle > 0) {
			t.Errorf("zero %05b: idle for %v: %+v", zero, idle, r.Intervals)
		}
	}
}
