// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
)

// Measure takes a plan through its modes on a site, and writes everything below opts.Dir. After an error, or when
// ctx ends, the report has the runs until then; it is nil where there is none.
func Measure(ctx context.Context, plan *Plan, site Site, opts Options) (*Report, error) {
	f := &planFlow{plan: plan, site: site, runner: runner{
		Options: opts.filled(), simulated: site.basis() == sharing.BasisSimulated, shaped: map[string]bool{}}}
	f.Predictor = cmp.Or(f.Predictor, site.predictor())
	if gpu, _ := site.gpu(); gpu == "" {
		f.note("the GPU's name is unknown: it is taken for the predictor's, %s", f.Predictor.GPU)
	}
	err := f.measure(ctx)
	if len(f.runs)+len(f.missing) == 0 {
		return nil, err
	}
	calibrated, cerr := f.calibrate()
	rep := f.report(err)
	rep.Calibrated = calibrated
	return rep, errors.Join(err, cerr, f.write("report.json", rep))
}

func (f *planFlow) measure(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(f.Dir, "plan.yaml"), f.plan.text, 0o644); err != nil {
		return err
	}
	var errs []error
	for i, m := range f.plan.Modes {
		// One mode that cannot be set up does not spoil the others.
		err := f.measureMode(ctx, m)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m, err))
		}
		if ctx.Err() != nil && (err != nil || i < len(f.plan.Modes)-1) { // else all runs were made
			return fmt.Errorf("%w; kept in %s: %s: %w", errInterrupted, f.Dir, plaintext.Count(len(f.runs), "run"),
				context.Cause(ctx))
		}
	}
	return errors.Join(errs...)
}

// measureMode runs everything under one mode: each load alone, the prediction, then the cases.
func (f *planFlow) measureMode(ctx context.Context, m sharing.Mechanism) (err error) {
	dir := filepath.Join(f.Dir, m.String())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f.say("%s: starting the servers", title(m))
	st, err := f.site.start(ctx, m, dir, f.say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	for _, n := range st.notes {
		f.note("%s: %s", m, n)
	}
	var errs []error
	for _, load := range f.plan.used() {
		err := f.tryRun(ctx, st, run{mode: m, name: "solo-" + load, loads: []string{load}})
		switch {
		case err != nil:
		case m == sharing.MechanismTimeSlicing:
			err = f.countTurns(ctx, st, &f.runs[len(f.runs)-1])
		case m == sharing.MechanismMPS:
			err = f.press(ctx, st, &f.runs[len(f.runs)-1])
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
	// Written before anything runs side by side, and never again.
	if err := f.predict(m); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, c := range f.plan.Cases {
		errs = append(errs, f.tryRun(ctx, st, run{mode: m, name: c.Name, loads: c.Loads}))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// tryRun makes one run, or lists it with the reason as missing: the others are made all the same.
func (f *planFlow) tryRun(ctx context.Context, st *deployment, r run) error {
	err := f.measureRun(ctx, st, r)
	if err != nil && ctx.Err() == nil {
		f.missing = append(f.missing, missing{r.mode, r.name, r.loads, err.Error()})
		f.say("%s: %s is missing: %v", r.mode, r.name, err)
	}
	return err
}

// measureRun makes one run and keeps its rows.
func (f *planFlow) measureRun(ctx context.Context, st *deployment, r run) error {
	r.dir, r.began = filepath.Join(r.mode.String(), r.name), f.time()
	f.say("%s: %s, %v s", r.mode, r.name, f.plan.Seconds)
	rec, rows, err := f.play(ctx, st, &r, f.plan.window())
	if err != nil {
		return err
	}
	if r.drift > 0 && r.repeats < mostRepeats {
		delete(f.shaped, r.dir)
		r.repeats++
		r.name = fmt.Sprintf("solo-%s-again-%d", r.loads[0], r.repeats)
		return f.measureRun(ctx, st, r)
	}
	if r.drift > 0 {
		f.note("%s: steps took %.1f times as long in the first half as in the second, so predictions from it are off: "+
			"measure longer (seconds) with a longer warm-up (warm_seconds)", r.dir, r.drift)
	}
	for i, name := range r.loads {
		if t, ok := rec.Summary.Tenant(name); ok {
			f.noteCached(&r, name, t.PromptCache)
			for _, c := range slices.Sorted(maps.Keys(t.Counts.Examples)) {
				f.note("%s: %d of %d requests of %s failed: %s", r.dir, t.Counts.ByClass[c], t.Counts.Total, name,
					t.Counts.Examples[c])
			}
		}
		if row := &rows[i]; row.Requests.Or(0)+row.Steps.Or(0) == 0 && row.Kind == profile.KindServer {
			return fmt.Errorf("%s, load %s: no request was answered in the counted time; see %s", r.dir, name,
				filepath.Join(f.Dir, r.dir, loadgen.ArtifactRequests))
		}
	}
	r.rows = rows
	f.runs = append(f.runs, r)
	return f.writeRows()
}

// cachedShare is the share of a run's prompt tokens from which on it is noted that they came from a prefix cache.
const cachedShare = 0.1

// noteCached notes, once a load, that a prefix cache answered a noticeable part of its prompts.
func (f *planFlow) noteCached(r *run, load string, c *loadgen.PromptCache) {
	if c == nil || c.HitRate.Or(0) <= cachedShare || slices.Contains(f.cached, load) {
		return
	}
	f.cached = append(f.cached, load)
	f.note("%s: %.0f%% of the tokens of %s's prompts came from its server's prefix cache, so that its first tokens came "+
		"earlier than those of new prompts do: turn prefix caching off to measure (vLLM's --no-enable-prefix-caching), or "+
		"change the plan's seed where an earlier measurement filled the cache", r.dir, 100*c.HitRate.Or(0), load)
}

// play has the loads of a run work side by side for a window of time, and returns a row for each.
func (f *planFlow) play(ctx context.Context, st *deployment, r *run, window loadgen.Window) (*recording, profile.Rows,
	error) {
	plan, err := f.offer(st, r, window)
	if err != nil {
		return nil, nil, err
	}
	tenants := make([]*server, len(r.loads))
	for i, name := range r.loads {
		p, at := f.plan.serverFor(f.plan.load(name))
		if p.Kind == profile.KindServer || st.tenants == nil {
			continue
		}
		t := st.tenants[at]
		t.meter.begin()
		if err := t.halt(false); err != nil {
			return nil, nil, fmt.Errorf("tenant %s: %w", p.Name, err)
		}
		defer func() { _ = t.halt(true) }() // one that has ended is said to have
		tenants[i] = t
	}
	rec, err := f.record(ctx, r.dir, plan, st.source)
	if err != nil {
		return nil, nil, err
	}
	if r.solo() && !r.pressed {
		r.drift = drift(ownSteps(rec, tenants[0]), &rec.Summary.Window)
	}
	var rows profile.Rows
	for i, name := range r.loads {
		l := f.plan.load(name)
		p, _ := f.plan.serverFor(l)
		row := rec.row(name, st.device)
		switch {
		case tenants[i] != nil:
			err = errors.Join(err, countSteps(&row, tenants[i], &rec.Summary.Window, r.solo()))
		case p.Kind != profile.KindServer:
			asSteps(&row, p.Kind)
		default:
			row.Load = f.loadOf(l)
			if row.Engine = p.Engine; row.Engine != "" {
				row.Version = profile.Some(profile.VersionOfKinds)
			}
		}
		row.Mechanism, row.Case, row.Tenants, row.Server = predictedAs(r.mode), r.name, len(r.loads), f.serverOf(r.mode, l)
		row.GPUName, _ = f.site.gpu()
		if f.simulated { // the format has no word for that
			row.Case = "simulated/" + r.name
		}
		rows = append(rows, row)
	}
	return rec, rows, err
}

// countSteps puts the steps of a tenant in a window into its row. A tenant without visible progress has a nominal step
// alone, and none with others.
func countSteps(row *profile.Row, t *server, w *loadgen.WindowSummary, alone bool) (err error) {
	from, to := time.Unix(0, w.FromNS), time.Unix(0, w.ToNS)
	row.Kind, row.Version = t.plan.Kind, profile.Some(profile.VersionOfKinds)
	row.Requests, row.Errors = profile.Optional[int]{}, profile.Optional[int]{}
	row.WallS, row.Outcome = profile.Some(to.Sub(from).Seconds()), profile.Outcome{}
	if t.ended() {
		return fmt.Errorf("tenant %s ended (%v) while it was measured; its last lines:\n%s", t.plan.Name, t.err, t.tail())
	}
	if t.plan.Progress.Line == "" {
		if alone {
			row.Step.P50 = profile.Some(inMS(nominalStep))
			row.StepsPerS = profile.Some(float64(time.Second / nominalStep))
		}
		return nil
	}
	steps := 0
	if row.Outcome, steps, err = t.meter.outcome(from, to); err == nil && steps == 0 {
		err = fmt.Errorf("no step ended in the %v that count (seconds makes a run longer)", to.Sub(from))
	}
	row.Steps = profile.Some(steps)
	if err != nil {
		err = fmt.Errorf("tenant %s: %w; its last lines:\n%s", t.plan.Name, err, t.tail())
	}
	return err
}

// offer returns the load plan of a run's clients for a window of time.
func (f *planFlow) offer(st *deployment, r *run, window loadgen.Window) (plan loadgen.LoadPlan, err error) {
	plan = loadgen.LoadPlan{Scenario: r.mode.String() + "-" + r.name, Duration: window.To, Window: window,
		Drain: time.Minute, Seed: uint64(f.plan.Seed)}
	for _, name := range r.loads {
		l := f.plan.load(name)
		server, i := f.plan.serverFor(l)
		load := f.loadOf(l)
		if server.Kind != profile.KindServer {
			if st.tenants != nil {
				continue // it works by itself
			}
			load = profile.Load{Concurrency: 1, Prompt: 1, Output: stepsAtOnce[server.Kind]}
		}
		if r.pressed {
			load.Rate, load.Concurrency, load.Output = 0, max(1, load.Concurrency), min(load.Output, pressedOutput)
		}
		t, err := offer(name, plan.Scenario, load, uint64(f.plan.Seed))
		if err != nil {
			return plan, err
		}
		if server.Simulated != nil {
			t.Load.ThinkTime = time.Duration(server.Simulated.Think)
		}
		t.Model, t.API, t.Endpoints, t.Warmup = server.Model, server.API, st.endpoints[i:i+1], max(1, l.Concurrency)
		limit := func(o profile.Optional[profile.Duration]) time.Duration { return time.Duration(o.Or(0)) }
		if r.pressed { // its run alone has warmed it up
			t.Warmup = 0
		}
		t.SLO = loadgen.RequestSLO{TTFT: limit(l.SLO.TTFTP99), TPOT: limit(l.SLO.TPOTP99), E2E: limit(l.SLO.E2EP99)}
		plan.Tenants = append(plan.Tenants, t)
	}
	return plan, nil
}

// stepsAtOnce counts the tokens that the client of a simulated tenant asks for: each is a step of a stepper, all of
// them together one of a burster.
var stepsAtOnce = map[profile.Kind]int{profile.KindStepper: 16, profile.KindBurster: 5}

// calibrate fits the predictor to everything that was measured, keeps it, and
// names its file; "" where nothing was measured side by side.
func (f *planFlow) calibrate() (string, error) {
	p := *f.Predictor
	if gpu, driver := f.site.gpu(); gpu != "" {
		p = p.On(gpu, driver)
	}
	fitted, err := p.Fit(predict.MethodSimulated, f.rows())
	if errors.Is(err, predict.ErrNothingToFit) {
		f.note("%s was not written: %v", f.name("predictor"), err)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("calibrating on what was measured: %w", err)
	}
	name := f.name("predictor")
	return name, f.write(name, fitted)
}
