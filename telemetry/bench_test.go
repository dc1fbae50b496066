// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// eightGPUs is a node with every figure that an H200 has.
func eightGPUs() telemetrytest.Script {
	var s telemetrytest.Script
	for range 8 {
		f := figures{}
		for _, m := range telemetry.Metrics() {
			if m != telemetry.MetricEnergyJoules {
				f[m] = 42
			}
		}
		s.GPUs = append(s.GPUs, telemetrytest.GPU{Phases: []telemetrytest.Phase{{Figures: f, Processes: []telemetry.Process{
			{PID: 1, Name: "a", Memory: sharing.Some(sharing.GiB), SMUtilPercent: sharing.Some(40.0)},
			{PID: 2, Name: "b", Memory: sharing.Some(sharing.GiB), SMUtilPercent: sharing.Some(40.0)},
		}}}})
	}
	return s
}

// BenchmarkSampler100Hz8GPUs samples for two seconds of real time at 100 Hz and reports its share of a core and the
// jitter of its ticks. The aim is under 1% of a core and a period jitter p99 under 2 ms. The cost of a wake-up differs
// between machines by more than a factor of ten, so that a bare timer of 100 Hz runs in alternation: %core-bare is
// its share.
func BenchmarkSampler100Hz8GPUs(b *testing.B) {
	s := sampler(b, source(b, eightGPUs()), telemetry.SamplerOptions{Period: 10 * time.Millisecond})
	var cpu, wall, bareCPU, bareWall, p50, p99 time.Duration
	var missed, ticks int64
	for b.Loop() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		before, start := cpuTime(b), time.Now()
		series, err := s.Run(ctx)
		cpu += cpuTime(b) - before
		wall += time.Since(start)
		cancel()
		if err != nil {
			b.Fatal(err)
		}
		t := timingOf(series)
		p50, p99 = max(p50, t.JitterP50.Or(0)), max(p99, t.JitterP99.Or(0))
		missed += t.Missed
		ticks += t.Ticks
		before, start = cpuTime(b), time.Now()
		timer := time.NewTimer(0)
		for n := range 200 {
			timer.Reset(time.Until(start.Add(time.Duration(n) * 10 * time.Millisecond)))
			<-timer.C
		}
		bareCPU += cpuTime(b) - before
		bareWall += time.Since(start)
	}
	b.ReportMetric(100*bareCPU.Seconds()/bareWall.Seconds(), "%core-bare")
	b.ReportMetric(100*cpu.Seconds()/wall.Seconds(), "%core")
	b.ReportMetric(p50.Seconds()*1e3, "jitter-p50-ms")
	b.ReportMetric(p99.Seconds()*1e3, "jitter-p99-ms")
	b.ReportMetric(float64(missed)/float64(ticks), "missed/tick")
}

// BenchmarkSecond100Hz8GPUs is the work of sampling one second at 100 Hz over
// 8 GPUs, without the waiting: 10 ms of it would be 1% of a core.
func BenchmarkSecond100Hz8GPUs(b *testing.B) {
	s := sampler(b, source(b, eightGPUs()), telemetry.SamplerOptions{Period: 10 * time.Millisecond})
	series := new(telemetry.Series)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Simulate(context.Background(), time.Time{}, time.Second, series); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/1e7, "%core")
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkWriteCSV writes one second at 100 Hz over 8 GPUs.
func BenchmarkWriteCSV(b *testing.B) {
	s := simulated(b, eightGPUs(), telemetry.SamplerOptions{Period: 10 * time.Millisecond}, time.Second)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.WriteCSV(discard{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDetectIdle looks at one second at 100 Hz of one of 8 GPUs.
func BenchmarkDetectIdle(b *testing.B) {
	s := simulated(b, eightGPUs(), telemetry.SamplerOptions{Period: 10 * time.Millisecond}, time.Second)
	for b.Loop() {
		if _, err := telemetry.DetectIdle(s, 0, telemetry.IdleOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
