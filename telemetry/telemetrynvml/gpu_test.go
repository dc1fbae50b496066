// SPDX-License-Identifier: Apache-2.0

//go:build gpu && linux && cgo

package telemetrynvml_test

import (
	"context"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// sampleGPUs samples every GPU of the machine for a while.
func sampleGPUs(t *testing.T, d time.Duration) *telemetry.Series {
	t.Helper()
	src, err := telemetrynvml.Open(telemetrynvml.Options{})
	if err != nil {
		t.Fatal(err) // the build tag promises a GPU
	}
	defer func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}()
	sampler, err := telemetry.NewSampler(src, telemetry.SamplerOptions{Period: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	s, err := sampler.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// nvidiaSMI asks nvidia-smi for figures of GPU 0; missing ones are NaN.
func nvidiaSMI(ctx context.Context, fields ...string) ([]float64, error) {
	out, err := exec.CommandContext(ctx, "nvidia-smi", "-i", "0", "--format=csv,noheader,nounits", "--query-gpu="+strings.Join(fields, ",")).Output()
	if err != nil {
		return nil, err
	}
	var vs []float64
	for _, cell := range strings.Split(strings.TrimSpace(string(out)), ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
		if err != nil {
			v = math.NaN()
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// TestAgainstNvidiaSMI reads every figure while nvidia-smi reads it too. Asking wakes an idle GPU, so nvidia-smi's
// figure must lie within the samples around it, give or take the tolerance.
func TestAgainstNvidiaSMI(t *testing.T) {
	type answer struct {
		figures []float64
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		time.Sleep(time.Second) // in the middle of the sampling
		figures, err := nvidiaSMI(t.Context(), "memory.used", "memory.total", "power.draw", "enforced.power.limit", "clocks.sm", "clocks.mem", "temperature.gpu", "utilization.gpu", "utilization.memory")
		answers <- answer{figures, err}
	}()
	s := sampleGPUs(t, 4*time.Second)
	smi := <-answers
	if smi.err != nil {
		t.Skipf("nvidia-smi: %v", smi.err)
	}
	t.Logf("%+v %+v", s.Info, s.Devices)
	t.Logf("events %+v", s.Events)
	for _, m := range telemetry.Metrics() {
		v, n := s.Mean(0, m)
		t.Logf("%-24v %12v (%d readings)", m, v, n)
	}
	for i, c := range []struct {
		m                   telemetry.Metric
		scale, abs, percent float64
	}{
		{telemetry.MetricMemUsedBytes, 1 << 20, 64 << 20, 2}, {telemetry.MetricMemTotalBytes, 1 << 20, 1 << 20, 0},
		{telemetry.MetricPowerWatts, 1, 10, 10}, {telemetry.MetricPowerLimitWatts, 1, 0.5, 0},
		{telemetry.MetricSMClockMHz, 1, 60, 5}, {telemetry.MetricMemClockMHz, 1, 1, 0}, {telemetry.MetricTemperatureCelsius, 1, 4, 0},
		{telemetry.MetricGPUUtilPercent, 1, 10, 0}, {telemetry.MetricMemUtilPercent, 1, 10, 0},
	} {
		if math.IsNaN(smi.figures[i]) {
			continue
		}
		want := smi.figures[i] * c.scale
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range s.Points(0, c.m) {
			low, high = min(low, p.Value), max(high, p.Value)
		}
		if give := c.abs + c.percent/100*want; want < low-give || want > high+give {
			t.Errorf("%v was between %v and %v; nvidia-smi has %v", c.m, low, high, want)
		}
	}
}

func TestGPUSanity(t *testing.T) {
	s := sampleGPUs(t, 5*time.Second)
	for _, m := range telemetry.Metrics() {
		for _, p := range s.Points(0, m) {
			if p.Value < 0 || strings.HasSuffix(m.String(), "_percent") && p.Value > 100 {
				t.Errorf("%v is %v", m, p.Value)
			}
		}
	}
	if s.Devices[0].GPM == sharing.AnswerYes && s.Devices[0].MIG == sharing.AnswerNo {
		for _, m := range []telemetry.Metric{telemetry.MetricGraphicsUtilPercent, telemetry.MetricSMUtilPercent, telemetry.MetricDRAMUtilPercent, telemetry.MetricPCIeTxBytesPerS} {
			if _, n := s.Mean(0, m); n == 0 {
				t.Errorf("%v was not read", m)
			}
		}
	}
	if counter := s.Points(0, telemetry.MetricEnergyJoules); len(counter) > 1 {
		first, last := counter[0], counter[len(counter)-1]
		mean, _ := s.Mean(0, telemetry.MetricPowerWatts)
		watts := (last.Value - first.Value) / (last.At - first.At).Seconds()
		t.Logf("mean power %v W, by the counter %.1f W", mean, watts)
		if math.Abs(watts-mean.Or(0)) > 0.1*watts {
			t.Errorf("the mean power is %v W, the counter gives %.1f W", mean, watts)
		}
	}
	rep, err := telemetry.DetectIdle(s, 0, telemetry.IdleOptions{Sustain: time.Second})
	t.Logf("idle %+v, %v", rep, err)
	for _, e := range s.Events {
		if e.Kind == "read-error" || e.Kind == telemetry.EventLost {
			t.Errorf("%+v", e)
		}
	}
}

// BenchmarkRead is the cost of each group on this GPU.
func BenchmarkRead(b *testing.B) {
	src, err := telemetrynvml.Open(telemetrynvml.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := src.Close(); err != nil {
			b.Error(err)
		}
	}()
	for g := telemetry.GroupBasic; g <= telemetry.GroupPCIe; g <<= 1 {
		b.Run(g.String(), func(b *testing.B) {
			for b.Loop() {
				var r telemetry.Reading
				_ = src.Read(context.Background(), 0, g, &r) // unsupported groups are cheap, and show it
			}
		})
	}
}
