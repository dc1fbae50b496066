package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// gpmPeriod is the slow clock's period: GPM figures, each the mean since the
// reading before.
const gpmPeriod = 500 * time.Millisecond

// drive makes a run with telemetry beside it. The artifacts of an interrupted
// run stay, its figures do not count.
func (f *flow) drive(ctx context.Context, st *stand, r *run) (*loadgen.Result, *telemetry.Series, error) {
	dir := filepath.Join(f.config.out, r.dir)
	stop, err := watch(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	opts := loadgen.Options{Dir: dir, Meta: map[string]any{"mode": r.mode, "basis": f.site.basis()}}
	if f.config.userStamps { // simulated time
		opts.UserStamps, opts.Pacing = true, loadgen.PacingTimer
	}
	res, err := loadgen.Run(ctx, f.loadPlan(st, r), opts)
	series, watchErr := stop()
	if series != nil {
		watchErr = errors.Join(watchErr, atomicfile.WriteFunc(filepath.Join(dir, loadgen.ArtifactTelemetry), 0o644, series.WriteCSV))
	}
	if err := errors.Join(err, watchErr); err != nil {
		return nil, nil, err
	}
	return res, series, nil
}

// watch samples the stand's GPU until the returned function is called.
func watch(ctx context.Context, st *stand) (stop func() (*telemetry.Series, error), err error) {
	if st.source == nil {
		return func() (*telemetry.Series, error) { return nil, nil }, nil
	}
	// What costs milliseconds a reading and is not needed is left out.
	s, err := telemetry.NewSampler(st.source, telemetry.SamplerOptions{SlowPeriod: gpmPeriod, Skip: telemetry.GroupPCIe | telemetry.GroupProcessUtil})
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

// errNothing says that a load got no answers.
var errNothing = errors.New("no request was answered in the counted time")

// row is load i of a run in the co-location format.
func (f *flow) row(r *run, i int, s *loadgen.Summary, series *telemetry.Series, device int) (decision.Row, error) {
	l := f.plan.load(r.loads[i])
	t, ok := s.Tenant(l.Name)
	if !ok || t.Counts.OK == 0 {
		return decision.Row{}, fmt.Errorf("%w; see %s", errNothing, filepath.Join(f.config.out, r.dir, loadgen.ArtifactRequests))
	}
	requests, failed := int(t.Counts.OK), int(t.Counts.Failed)
	rate, wall := t.OutputTokensPerS, t.DurationS
	row := decision.Row{
		Mechanism: r.mode.mechanism(), Case: f.caseName(r), Tenants: len(r.loads), Server: f.serverOf(r.mode, l), Load: f.loadOf(l),
		Requests: &requests, Errors: &failed, TokensPerS: &rate, WallS: &wall,
		TTFT: millis(t.TTFT), TPOT: millis(t.TPOT), ITL: millis(t.ITL), E2E: millis(t.E2E),
	}
	if series != nil {
		from := time.Unix(0, s.Window.FromNS).Sub(series.Start)
		to := time.Unix(0, s.Window.ToNS).Sub(series.Start)
		mean := func(m telemetry.Metric) *float64 { return meanOf(series, device, m, from, to) }
		row.GPU = &decision.RowGPU{Util: mean(telemetry.GPUUtilPercent), MemUtil: mean(telemetry.MemUtilPercent), PowerW: mean(telemetry.PowerWatts), SMMHz: mean(telemetry.SMClockMHz)}
		if used := mean(telemetry.MemUsedBytes); used != nil {
			gib := *used / float64(sharing.GiB)
			row.GPU.UsedGiB = &gib
		}
		row.GPM = &decision.RowGPM{GraphicsUtil: mean(telemetry.GraphicsUtilPercent), SMUtil: mean(telemetry.SMUtilPercent), SMOccupancy: mean(telemetry.SMOccupancyPercent),
			TensorUtil: mean(telemetry.TensorUtilPercent), DRAMBwUtil: mean(telemetry.DRAMUtilPercent)}
	}
	return row, nil
}

// caseName is a run's name in the rows. The format has no word for simulated
// rows, so their names carry it.
func (f *flow) caseName(r *run) string {
	if f.simulated() {
		return "simulated/" + r.name
	}
	return r.name
}

// serverOf is a load's server as profiles know it: what may change its speed.
func (f *flow) serverOf(m mode, l *loadPlan) decision.Server {
	p := &f.plan.Servers[f.plan.server(l.Server)]
	s := decision.Server{"model": p.Model}
	if p.Slots > 0 {
		s["slots"] = p.Slots
	}
	if m == modeMIGLike {
		s["sm_percent"] = p.Percent
	}
	return s
}

func (f *flow) loadOf(l *loadPlan) decision.Load {
	return decision.Load{Server: f.plan.server(l.Server), Concurrency: l.Concurrency, Rate: l.Rate, Prompt: l.Prompt, Output: l.Output}
}

func millis(f loadgen.Figures) *decision.Millis {
	if f.Count == 0 {
		return nil
	}
	v := func(m loadgen.Millis) *float64 { x := float64(m); return &x }
	return &decision.Millis{P50: v(f.P50), P90: v(f.P90), P95: v(f.P95), P99: v(f.P99), Mean: v(f.Mean)}
}

// meanOf is the mean of a metric's readings in a part of a series, nil without
// any. A GPM figure is about the time before it, so that the first one after
// from is left out.
func meanOf(s *telemetry.Series, device int, m telemetry.Metric, from, to time.Duration) *float64 {
	if m >= telemetry.GraphicsUtilPercent {
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

// profiles are the runs alone, as a Predictor takes them.
func (f *flow) profiles() (decision.Profiles, error) {
	var ps decision.Profiles
	gpu, driver := f.site.gpu()
	for i := range f.runs {
		r := &f.runs[i]
		if !r.solo() {
			continue
		}
		profiles, err := r.rows.Profiles()
		if err != nil {
			return ps, fmt.Errorf("%s: %w", r.dir, err)
		}
		for j := range profiles {
			profiles[j].GPU, profiles[j].Driver, profiles[j].Run = gpu, driver, filepath.ToSlash(r.dir)
		}
		if err := ps.Add(profiles...); err != nil {
			return ps, fmt.Errorf("%s: %w", r.dir, err)
		}
	}
	return ps, nil
}

// soloRuns lists the runs alone so far.
func (f *flow) soloRuns() []string {
	var out []string
	for i := range f.runs {
		if f.runs[i].solo() {
			out = append(out, filepath.ToSlash(f.runs[i].dir))
		}
	}
	return out
}
