// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// errDrainTime cancels requests in flight when LoadPlan.Drain is over.
var errDrainTime = errors.New("cut off at the end of the run")

// Run executes the plan and reports on it. It blocks until the run is over and every goroutine that it started has
// ended.
//
// When ctx ends, no further requests are sent, those in flight are cancelled, and Run writes the artifacts and returns
// the Result so far (Summary.Complete false) with an error that wraps ctx's. After a failing prompt source or write it
// also returns the Result so far. For an invalid plan or directory the Result is nil, and nothing is sent.
func Run(ctx context.Context, plan LoadPlan, opts Options) (*Result, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if opts.RunID == "" {
		opts.RunID = newRunID(time.Now(), plan.Scenario, plan.tenantRand("run id"))
	}
	r := &runner{plan: &plan, opts: &opts, clock: wire.NewClock(), scrub: newScrubber(plan.Tenants)}
	runCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := r.prepare(runCtx); err != nil {
		return nil, errors.Join(err, r.dir.abandon())
	}
	defer r.close()
	err := r.execute(ctx, runCtx, cancel)
	r.finish()
	if err != nil {
		r.stopped = cmp.Or(r.stopped, strings.TrimPrefix(r.scrub.clean(err.Error()), "loadgen: "))
	}
	res, artifactErr := r.result(r.stopped == "")
	return res, errors.Join(err, artifactErr)
}

type runner struct {
	plan      *LoadPlan
	opts      *Options
	clock     *wire.Clock
	scrub     *scrubber
	dir       *runDir // nil without a directory
	tenants   []*tenantRun
	start     time.Time
	process   processStats
	stopped   string // why the run ended early
	endedWall time.Duration
}

// prepare opens the directory and the tenants' clients.
func (r *runner) prepare(runCtx context.Context) error {
	if r.opts.Dir != "" {
		dir, err := newRunDir(r.opts.Dir, r.scrub)
		if err != nil {
			return err
		}
		r.dir = dir
	}
	for i := range r.plan.Tenants {
		t := &r.plan.Tenants[i]
		c, err := newClient(runCtx, t, r.clock, r.opts.receive(), r.scrub)
		if err != nil {
			return fmt.Errorf("loadgen: tenant %q: %w", t.Name, err)
		}
		tr := &tenantRun{plan: r.plan, tenant: t, opts: r.opts, client: c, clock: r.clock}
		if r.dir != nil {
			tr.log = r.dir.requests
		}
		r.tenants = append(r.tenants, tr)
	}
	if r.dir != nil {
		return r.dir.writeJSON(artifactConfig, newConfig(r.plan, r.opts, r.clock, r.scrub))
	}
	return nil
}

func (r *runner) close() {
	for _, t := range r.tenants {
		t.client.close()
	}
}

// execute warms up, offers the load and waits for its end. The error says why the run is not complete.
func (r *runner) execute(ctx, runCtx context.Context, cancel context.CancelCauseFunc) error {
	r.beginAt(time.Now()) // replaced below; a cancelled warm-up needs a start too
	err := r.each(func(t *tenantRun) error { return t.warm(runCtx) })
	if err == nil {
		for _, t := range r.tenants {
			if t.tenant.Load.open() {
				t.fill(runCtx)
				defer t.stock.close()
			}
		}
	}
	r.beginAt(time.Now())
	if err != nil || ctx.Err() != nil {
		return cmpErr(ctx, err)
	}
	offer, stopOffer := context.WithCancel(runCtx)
	defer stopOffer()
	if d := r.plan.Duration; d > 0 {
		defer time.AfterFunc(d, stopOffer).Stop()
	}

	watch, stopWatch := context.WithCancel(runCtx)
	var watchers sync.WaitGroup
	if r.opts.Progress != nil {
		watchers.Go(func() { r.progress(watch) })
	}
	var offering sync.WaitGroup
	offering.Add(len(r.tenants))
	if d := r.plan.Drain; d > 0 {
		watchers.Go(func() {
			offering.Wait()
			if sleep(watch, d) == nil {
				cancel(errDrainTime)
			}
		})
	}
	err = r.each(func(t *tenantRun) error {
		err := t.drive(offer, runCtx, sync.OnceFunc(offering.Done))
		if err != nil {
			cancel(err)
		}
		return err
	})
	r.endedWall = time.Since(r.start)
	stopWatch()
	watchers.Wait()
	return cmpErr(ctx, err)
}

// cmpErr prefers the run's own error to the context's.
func cmpErr(ctx context.Context, err error) error {
	if err == nil && ctx.Err() != nil {
		return fmt.Errorf("loadgen: run cut off: %w", context.Cause(ctx))
	}
	return err
}

// beginAt sets the run's start and empties the collectors.
func (r *runner) beginAt(t time.Time) {
	r.start = t
	startNS := r.clock.At(t)
	w := r.plan.window()
	from, to := int64(0), int64(math.MaxInt64)
	if w.From > 0 {
		from = startNS + int64(w.From)
	}
	if w.To > 0 {
		to = startNS + int64(w.To)
	}
	for _, tr := range r.tenants {
		tr.start = t
		tr.collector = newCollector(from, to, startNS, tr.tenant.SLO)
	}
	r.process = readProcessStats()
}

func (r *runner) each(do func(*tenantRun) error) error {
	var g errgroup.Group
	for _, t := range r.tenants {
		g.Go(func() error { return do(t) })
	}
	return g.Wait()
}

func (r *runner) snapshot() Progress {
	p := Progress{Elapsed: time.Since(r.start)}
	for _, t := range r.tenants {
		tp := TenantProgress{
			Name: t.tenant.Name, OK: t.live.ok.Load(), Failed: t.live.failed.Load(), Sent: t.live.sent.Load(),
			Tokens: t.live.tokens.Load(),
		}
		tp.InFlight = max(0, tp.Sent-tp.OK-tp.Failed)
		p.Tenants = append(p.Tenants, tp)
	}
	return p
}

func (r *runner) progress(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-ticker.C:
		}
		r.opts.Progress(r.snapshot())
	}
}

// finish takes the process's figures before anything is computed or written.
func (r *runner) finish() {
	r.endedWall = cmp.Or(r.endedWall, time.Since(r.start))
	r.process = readProcessStats().since(r.process)
}

// result puts the summary together and writes the artifacts.
func (r *runner) result(complete bool) (*Result, error) {
	first := r.tenants[0].collector
	total := newCollector(first.from, first.to, first.timeline.start, RequestSLO{})
	res := &Result{Dir: r.opts.Dir, Histograms: map[string]map[LatencyMetric]*Histogram{}}
	sum := &res.Summary
	*sum = Summary{
		SchemaVersion: schemaVersion, RunID: r.opts.RunID, Scenario: r.plan.Scenario, Basis: "measured", Complete: complete,
		Stopped: r.stopped, Definitions: Definitions(),
	}
	if r.plan.Simulated {
		sum.Basis = "simulated"
	}
	pacer := ""
	for _, t := range r.tenants {
		slo := t.tenant.SLO
		sum.Tenants = append(sum.Tenants, TenantSummary{
			Name: t.tenant.Name, Model: t.tenant.Model, API: cmp.Or(t.tenant.API, apiChat), Load: t.tenant.Load.describe(),
			Measures: t.collector.measures(&slo),
		})
		res.Histograms[t.tenant.Name] = t.collector.histograms()
		res.Timeline = append(res.Timeline, t.collector.timeline.rows(t.tenant.Name)...)
		res.Records = append(res.Records, t.records...)
		if t.pacerName != "" {
			pacer = t.pacerName
		}
		total.merge(t.collector)
	}
	sum.Measures = total.measures(nil)
	for i := range sum.Tenants {
		sum.addGoodput(&sum.Tenants[i].Measures)
	}
	sum.rates()
	from, to := total.interval()
	w := r.plan.window()
	sum.Window = WindowSummary{FromNS: from, ToNS: to, Cut: w.From > 0 || w.To > 0}
	sum.ClientHealth = r.health(pacer)
	if r.dir == nil {
		sum.ClientHealth.evaluate(r.opts.Health, &sum.Measures, r.endedWall)
		return res, nil
	}
	problems := r.dir.writeData(res)
	sum.ClientHealth.ArtifactProblems = len(problems)
	sum.ClientHealth.evaluate(r.opts.Health, &sum.Measures, r.endedWall)
	return res, errors.Join(append(problems, r.dir.writeJSON(artifactSummary, sum))...)
}

// health collects the client's own figures.
func (r *runner) health(pacer string) ClientHealth {
	h := ClientHealth{Pacer: pacer}
	send, pacing, read := newHistogram(), newHistogram(), newHistogram()
	for _, t := range r.tenants {
		c := t.collector
		send.merge(c.metrics[metricSendLag])
		pacing.merge(c.metrics[metricPacingLag])
		read.merge(c.metrics[metricReadLag])
		h.ReadCounts.add(c.reads)
		h.ClientLimits += c.counts.ByClass[ClassClientLimit]
		h.clientLimit = cmp.Or(h.clientLimit, c.counts.Examples[ClassClientLimit])
	}
	h.Stamps = h.stamps()
	h.SendLag, h.PacingLag, h.ReadLag = send.Figures(), pacing.Figures(), read.Figures()
	r.process.fill(&h, r.endedWall)
	return h
}
