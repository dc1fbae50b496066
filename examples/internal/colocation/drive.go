package colocation

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// gpmPeriod is the slow clock's period: GPM figures, each the mean since the
// reading before.
const gpmPeriod = 500 * time.Millisecond

// Drive makes a run with telemetry beside it, which goes to the run's folder as
// well. Without a source there is none, and the series is nil. The artifacts of
// an interrupted run stay, its figures do not count.
func Drive(ctx context.Context, plan loadgen.LoadPlan, opts loadgen.Options, source telemetry.Reader) (*loadgen.Result, *telemetry.Series, error) {
	stop, err := watch(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	res, err := loadgen.Run(ctx, plan, opts)
	series, watchErr := stop()
	if series != nil && opts.Dir != "" {
		watchErr = errors.Join(watchErr, atomicfile.WriteFunc(filepath.Join(opts.Dir, loadgen.ArtifactTelemetry), 0o644, series.WriteCSV))
	}
	if err := errors.Join(err, watchErr); err != nil {
		return nil, nil, err
	}
	return res, series, nil
}

// watch samples until the returned function is called.
func watch(ctx context.Context, source telemetry.Reader) (stop func() (*telemetry.Series, error), err error) {
	if source == nil {
		return func() (*telemetry.Series, error) { return nil, nil }, nil
	}
	// What costs milliseconds a reading and is not needed is left out.
	s, err := telemetry.NewSampler(source, telemetry.SamplerOptions{SlowPeriod: gpmPeriod, Skip: telemetry.GroupPCIe | telemetry.GroupProcessUtil})
	if err != nil {
		return nil, err
	}
	// The sampling ends with the run, which ctx ends as well.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	type result struct {
		series *telemetry.Series
		err    error
	}
	done := make(chan result, 1)
	go func() {
		series, err := s.Run(ctx)
		done <- result{series, err}
	}()
	return func() (*telemetry.Series, error) {
		cancel()
		r := <-done
		return r.series, r.err
	}, nil
}

// AddUtilisation gives a row the means of a device over a run's window.
func AddUtilisation(row *predict.Row, series *telemetry.Series, device int, window loadgen.WindowSummary) {
	from := time.Unix(0, window.FromNS).Sub(series.Start)
	to := time.Unix(0, window.ToNS).Sub(series.Start)
	mean := func(m telemetry.Metric) *float64 { return meanOf(series, device, m, from, to) }
	row.GPU = &predict.RowGPU{Util: mean(telemetry.MetricGPUUtilPercent), MemUtil: mean(telemetry.MetricMemUtilPercent), PowerW: mean(telemetry.MetricPowerWatts), SMMHz: mean(telemetry.MetricSMClockMHz)}
	if used := mean(telemetry.MetricMemUsedBytes); used != nil {
		gib := *used / float64(sharing.GiB)
		row.GPU.UsedGiB = &gib
	}
	row.GPM = &predict.RowGPM{GraphicsUtil: mean(telemetry.MetricGraphicsUtilPercent), SMUtil: mean(telemetry.MetricSMUtilPercent), SMOccupancy: mean(telemetry.MetricSMOccupancyPercent),
		TensorUtil: mean(telemetry.MetricTensorUtilPercent), DRAMBwUtil: mean(telemetry.MetricDRAMUtilPercent)}
}

// Millis are a distribution's figures as rows have them, nil without any.
func Millis(f loadgen.Figures) *predict.LatencyMS {
	if f.Count == 0 {
		return nil
	}
	v := func(m loadgen.Millis) *float64 { x := float64(m); return &x }
	return &predict.LatencyMS{P50: v(f.P50), P90: v(f.P90), P95: v(f.P95), P99: v(f.P99), Mean: v(f.Mean)}
}

// Figures are a row's metrics; what was not measured is not in it.
func Figures(r *predict.Row) map[predict.Metric]float64 {
	out := map[predict.Metric]float64{}
	for _, m := range predict.Metrics() {
		if v, ok := r.Metric(m); ok {
			out[m] = v
		}
	}
	return out
}

// meanOf is the mean of a metric's readings in a part of a series, nil without
// any. A GPM figure is about the time before it, so that the first one after
// from is left out.
func meanOf(s *telemetry.Series, device int, m telemetry.Metric, from, to time.Duration) *float64 {
	if m >= telemetry.MetricGraphicsUtilPercent {
		from += gpmPeriod
	}
	sum, n := 0.0, 0
	for _, p := range s.Points(device, m) {
		if p.At >= from && p.At <= to {
			sum += p.Value
			n++
		}
	}
	if n == 0 {
		return nil
	}
	mean := sum / float64(n)
	return &mean
}
