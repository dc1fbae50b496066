// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// offer returns a load for package loadgen: prompts of random words, about a token each, and answers of the load's
// lengths. The same name and seed send requests at the same times in every run, isolated and co-located, and no two
// names do. The words, and the lengths that are drawn, are the run's own, so that no run finds its prompts in a prefix
// cache that another has filled. The caller adds the endpoints.
func offer(name, run string, load profile.Load, seed uint64) (loadgen.Tenant, error) {
	h := fnv.New64a()
	fmt.Fprint(h, name, "/", run) // a hash's Write never fails
	around := max(0, int(load.OutputSpread*float64(load.Output)))
	lengths := make([]int, 0, 2*around+1)
	for n := load.Output - around; n <= load.Output+around; n++ {
		lengths = append(lengths, n)
	}
	prompts, err := prompt.NewSynthetic(prompt.SyntheticOptions{Input: prompt.Lengths{Fixed: load.Prompt},
		Output: prompt.Lengths{Empirical: lengths}, Seed: seed ^ h.Sum64(), IgnoreEOS: true})
	t := loadgen.Tenant{Name: name, Prompts: prompts, Load: loadgen.OfferedLoad{Concurrency: load.Concurrency}}
	if !load.Closed() {
		t.Load.Schedule = loadgen.Poisson(load.Rate)
	}
	return t, err
}

// window is the part of a run that counts, without the warm-up at its start.
func (p *Plan) window() loadgen.Window {
	return loadgen.Window{From: seconds(p.WarmSeconds), To: seconds(p.Seconds)}
}

// recording holds a run's requests and telemetry.
type recording struct {
	*loadgen.Result
	Series *telemetry.Series // nil without a source
}

// gpmPeriod is the slow clock's period: GPM figures, each the mean since the reading before.
const gpmPeriod = 500 * time.Millisecond

// record makes a run and samples telemetry during it, which goes to the run's folder as well. source may be nil. The
// artifacts of an interrupted run remain, its figures do not count.
func record(ctx context.Context, plan loadgen.LoadPlan, opts loadgen.Options, source telemetry.Reader) (*recording,
	error) {
	run := loadgen.Run
	if len(plan.Tenants) == 0 {
		run = wait
	}
	if source == nil {
		res, err := run(ctx, plan, opts)
		return &recording{Result: res}, err
	}
	// Groups that cost milliseconds a reading and are not needed are left out.
	sampler, err := telemetry.NewSampler(source, telemetry.SamplerOptions{SlowPeriod: gpmPeriod,
		Skip: telemetry.GroupPCIe | telemetry.GroupProcessUtil})
	if err != nil {
		return nil, err
	}
	// The sampling ends with the run, which ctx ends as well.
	sampling, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var r recording
	var samplerErr error
	var sampled sync.WaitGroup
	sampled.Go(func() { r.Series, samplerErr = sampler.Run(sampling) })
	r.Result, err = run(ctx, plan, opts)
	stop()
	sampled.Wait()
	if r.Series != nil && opts.Dir != "" {
		samplerErr = errors.Join(samplerErr, atomicfile.WriteFunc(filepath.Join(opts.Dir, telemetryFile), 0o644,
			r.Series.WriteCSV))
	}
	return &r, errors.Join(err, samplerErr)
}

// telemetryFile is the name of a run's samples in its directory.
const telemetryFile = "telemetry.csv"

// wait lets the time of a run without requests pass.
func wait(ctx context.Context, plan loadgen.LoadPlan, opts loadgen.Options) (*loadgen.Result, error) {
	if opts.Dir != "" {
		if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	r := &loadgen.Result{Dir: opts.Dir, Summary: loadgen.Summary{Window: loadgen.WindowSummary{
		FromNS: began.Add(plan.Window.From).UnixNano(), ToNS: began.Add(plan.Window.To).UnixNano()}}}
	r.Summary.ClientHealth.Valid = true
	select {
	case <-time.After(plan.Duration):
		r.Summary.Complete = true
		return r, nil
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
}

// asSteps turns the requests of a simulated tenant's client into the tenant's steps: each token of a stepper, and each
// request of a burster, is one.
func asSteps(row *profile.Row, kind profile.Kind) {
	row.Kind, row.Version, row.Load = kind, sharing.Some(profile.VersionOfKinds), profile.Load{}
	step, rate := row.ITL, row.TokensPerS.Or(0)
	row.Steps = sharing.Some(int(rate * row.WallS.Or(0)))
	if kind == profile.KindBurster {
		step, row.Steps = row.E2E, row.Requests
		rate = float64(row.Requests.Or(0)) / max(row.WallS.Or(0), 1e-9)
	}
	row.Outcome = profile.Outcome{Step: step, StepsPerS: sharing.Some(rate)}
	row.Requests, row.Errors = sharing.Optional[int]{}, sharing.Optional[int]{}
}

// row returns a tenant's figures of its server on a device. The caller adds mechanism, case, server, load and
// the number of tenants on the GPU.
func (r *recording) row(tenant string, device int) profile.Row {
	var row profile.Row
	seen, ok := r.Summary.Tenant(tenant)
	if !ok {
		seen = &loadgen.TenantSummary{} // it works by itself, and no client asks it
	}
	row.Requests, row.Errors = sharing.Some(int(seen.Counts.OK)), sharing.Some(int(seen.Counts.Failed))
	row.WallS, row.TokensPerS = sharing.Some(seen.DurationS), sharing.Some(seen.OutputTokensPerS)
	h := r.Histograms[tenant]
	row.TTFT, row.TPOT = millis(h[loadgen.MetricTTFT]), millis(h[loadgen.MetricTPOT])
	row.ITL, row.E2E = millis(h[loadgen.MetricITL]), millis(h[loadgen.MetricE2E])
	if r.Series == nil {
		return row
	}
	for metric, to := range map[telemetry.Metric]*sharing.Optional[float64]{
		telemetry.MetricGPUUtilPercent: &row.GPU.Util, telemetry.MetricMemUtilPercent: &row.GPU.MemUtil,
		telemetry.MetricPowerWatts: &row.GPU.PowerW, telemetry.MetricMemUsedBytes: &row.GPU.UsedGiB,
		telemetry.MetricSMClockMHz: &row.GPU.SMMHz, telemetry.MetricGraphicsUtilPercent: &row.GPM.GraphicsUtil,
		telemetry.MetricSMUtilPercent: &row.GPM.SMUtil, telemetry.MetricSMOccupancyPercent: &row.GPM.SMOccupancy,
		telemetry.MetricTensorUtilPercent: &row.GPM.TensorUtil, telemetry.MetricDRAMUtilPercent: &row.GPM.DRAMBwUtil,
	} {
		*to = r.mean(device, metric)
	}
	if used, ok := row.GPU.UsedGiB.Get(); ok {
		row.GPU.UsedGiB = sharing.Some(used / float64(sharing.GiB))
	}
	return row
}

func millis(h *loadgen.Histogram) profile.LatencyMS {
	if h == nil || h.Count() == 0 {
		return profile.LatencyMS{}
	}
	f := h.Figures()
	v := func(m loadgen.Millis) sharing.Optional[float64] { return sharing.Some(float64(m)) }
	return profile.LatencyMS{P50: v(f.P50), P90: v(f.P90), P95: v(f.P95), P99: v(f.P99), Mean: v(f.Mean)}
}

// mean is the mean of a device's metric in the run's window. A GPM figure is about the time before it, so that the
// first one of the window is left out.
func (r *recording) mean(device int, m telemetry.Metric) sharing.Optional[float64] {
	from, to := time.Unix(0, r.Summary.Window.FromNS).Sub(r.Series.Start),
		time.Unix(0, r.Summary.Window.ToNS).Sub(r.Series.Start)
	if m >= telemetry.MetricGraphicsUtilPercent {
		from += gpmPeriod
	}
	sum, n := 0.0, 0
	for _, p := range r.Series.Points(device, m) {
		if p.At >= from && p.At <= to {
			sum, n = sum+p.Value, n+1
		}
	}
	if n == 0 {
		return sharing.Optional[float64]{}
	}
	return sharing.Some(sum / float64(n))
}

// An isolated run has drifted where the median step of one half of it is more than drifted times as long as that of
// the other; each half needs fewestSteps. An engine that compiles or captures graphs as requests come is slow at first,
// and one may slow down after its first requests (ik_llama.cpp's steps on an H100 took 2.7 ms for 30 of them, then
// 4.4): its profile would be that of neither state. Such a run is repeated, mostRepeats times at most.
const (
	drifted     = 1.2
	fewestSteps = 3
	mostRepeats = 2
)

// ownSteps are the steps of an isolated run: a tenant's own, or each request with its time per output token.
func ownSteps(rec *recording, tenant *server) (steps []doneStep) {
	if tenant != nil {
		tenant.meter.mu.Lock()
		defer tenant.meter.mu.Unlock()
		return slices.Clone(tenant.meter.steps)
	}
	for i := range rec.Records {
		r := &rec.Records[i]
		if d, ok := r.TPOT(); ok && r.Class == loadgen.ClassOK {
			steps = append(steps, doneStep{time.Unix(0, r.EndNS), d})
		}
	}
	return steps
}

// drift returns by which factor the steps of the first half of a window took longer than those of the second, by
// medians; 0 where the run is steady. To rule out chance, three quarters of the slower half must lie above three
// quarters of the faster one.
func drift(steps []doneStep, w *loadgen.WindowSummary) float64 {
	var halves [2][]float64
	for _, s := range steps {
		if at := s.at.UnixNano() - w.FromNS; at >= 0 && at <= w.ToNS-w.FromNS {
			half := min(1, 2*at/(w.ToNS-w.FromNS))
			halves[half] = append(halves[half], inMS(s.took))
		}
	}
	early, late := halves[0], halves[1]
	if min(len(early), len(late)) < fewestSteps {
		return 0
	}
	slices.Sort(early)
	slices.Sort(late)
	at := stats.NearestRank[float64]
	times := at(early, .5) / at(late, .5)
	if times > drifted && at(early, .25) > at(late, .75) || times < 1/drifted && at(early, .75) < at(late, .25) {
		return times
	}
	return 0
}
