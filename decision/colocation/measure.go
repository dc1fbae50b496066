package colocation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
)

// planFlow takes a plan through its modes.
type planFlow struct {
	bench
	plan *Plan
	site Site

	runs        []run // in the order in which they were made
	cut         []run // the part of one that was interrupted
	missing     []missing
	predictions []prediction
}

// missing is a run of the plan without a result.
type missing struct {
	Mode   sharing.Mechanism `json:"mode"`
	Case   string            `json:"case"`
	Loads  []string          `json:"loads"`
	Reason string            `json:"reason"`
}

// run is one run of loads, alone or side by side.
type run struct {
	mode  sharing.Mechanism
	name  string // case, or "solo-" and the load
	loads []string
	dir   string // below the results' folder
	began time.Time
	rows  predict.Rows      // by load
	rates []cost.TokenRates // by load
}

func (r *run) solo() bool { return len(r.loads) == 1 }

// title describes a mode. MPS with limits bounds a client's resources; it contains
// neither faults nor contention, so it is never called isolation.
func title(m sharing.Mechanism) string {
	if m == sharing.MechanismMIGLikeEmulation {
		return m.String() + " (MPS with percentages and memory limits; it does not isolate)"
	}
	return m.String()
}

// Measure takes a plan through its modes on a site, and writes everything below opts.Dir. After an error, or when
// ctx ends, the report has the runs until then; it is nil where there is none.
func Measure(ctx context.Context, plan *Plan, site Site, opts Options) (*Report, error) {
	f := &planFlow{bench: bench{Options: opts.filled(), simulated: site.basis() == sharing.BasisSimulated}, plan: plan,
		site: site}
	if f.Predictor == nil {
		f.Predictor = site.predictor()
	}
	if gpu, _ := site.gpu(); gpu == "" {
		f.note("the GPU's name is unknown: it is taken for the predictor's, %s", f.Predictor.GPU)
	}
	err := f.measure(ctx)
	if len(f.runs)+len(f.cut)+len(f.missing) == 0 {
		return nil, err
	}
	rep := f.report(context.WithoutCancel(ctx), err)
	var cerr error
	rep.Calibrated, cerr = f.calibrate()
	return rep, errors.Join(err, cerr, f.write("report.json", rep))
}

func (f *planFlow) measure(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(f.Dir, "plan.yaml"), f.plan.text, 0o644); err != nil {
		return err
	}
	var errs []error
	for _, m := range f.plan.Modes {
		// One mode that cannot be set up does not spoil the others.
		if err := f.measureMode(ctx, m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m, err))
		}
		if ctx.Err() != nil {
			part := ""
			if len(f.cut) > 0 {
				part = fmt.Sprintf(", and what there is of %s", f.cut[0].dir)
			}
			return fmt.Errorf("%w; %d runs are kept in %s%s: %w", errInterrupted, len(f.runs), f.Dir, part, context.Cause(ctx))
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
	st, err := f.site.start(ctx, m, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	for _, n := range st.notes {
		f.note("%s: %s", m, n)
	}
	var errs []error
	for _, load := range f.plan.Used() {
		err := f.tryRun(ctx, st, run{mode: m, name: "solo-" + load, loads: []string{load}})
		if err == nil && m == sharing.MechanismTimeSlicing {
			err = f.countTurns(ctx, st, &f.runs[len(f.runs)-1])
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
	if err := f.repeatSpared(ctx, st, m); err != nil {
		return errors.Join(append(errs, err)...)
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
func (f *planFlow) tryRun(ctx context.Context, st *stand, r run) error {
	err := f.measureRun(ctx, st, r)
	if err != nil && ctx.Err() == nil {
		f.missing = append(f.missing, missing{r.mode, r.name, r.loads, err.Error()})
		f.say("%s: %s is missing: %v", r.mode, r.name, err)
	}
	return err
}

// errNothing says that a load got no answers.
var errNothing = errors.New("no request was answered in the counted time")

// measureRun makes one run and keeps its rows.
func (f *planFlow) measureRun(ctx context.Context, st *stand, r run) error {
	r.dir, r.began = filepath.Join(r.mode.String(), r.name), f.time()
	servers := map[string]int{}
	for _, name := range r.loads {
		_, i := f.plan.serverFor(f.plan.Load(name))
		if servers[name] = i; st.dead[i] != nil {
			return fmt.Errorf("load %s failed: server %s stopped answering before", name, f.plan.Servers[i].Name)
		}
	}
	f.say("%s: %s, %v s", r.mode, r.name, f.plan.Seconds)
	plan, err := f.offer(st, &r, f.plan.Window())
	if err != nil {
		return err
	}
	w := f.watch(ctx, st, servers)
	rec, err := f.record(w.ctx, r.dir, plan, st.source, w.progress)
	if stopped := w.end(); stopped != nil {
		return stopped
	}
	if err != nil && (ctx.Err() == nil || rec == nil) {
		return err
	}
	loads := r.loads
	r.loads = nil
	kept := func(name string, row predict.Row) {
		t, _ := rec.Summary.Tenant(name)
		rates := cost.TokenRates{Input: float64(t.PromptTokens) / t.DurationS, Output: t.OutputTokensPerS}
		if g := t.Goodput; g != nil {
			rates.Good = g.OutputTokensPerS.Or(0)
		}
		r.rows, r.loads, r.rates = append(r.rows, row), append(r.loads, name), append(r.rates, rates)
	}
	for _, name := range loads {
		l := f.plan.Load(name)
		row := rec.Row([]string{name}, []int{st.device})
		if row.Requests.Or(0) == 0 {
			if err != nil {
				continue
			}
			return fmt.Errorf("%s, load %s: %w; see %s", r.dir, name, errNothing,
				filepath.Join(f.Dir, r.dir, loadgen.ArtifactRequests))
		}
		row.Mechanism, row.Case, row.Tenants, row.Server, row.Load = predictedAs(r.mode), r.name, len(loads),
			f.serverOf(r.mode, l), f.loadOf(l)
		row.GPUName, _ = f.site.gpu()
		if f.simulated { // the format has no word for that
			row.Case = "simulated/" + r.name
		}
		kept(name, row)
	}
	if err != nil {
		if len(r.rows) > 0 {
			f.cut = append(f.cut, r)
		}
		return err
	}
	f.runs = append(f.runs, r)
	return f.writeRows()
}

// offer returns the load plan of a run's clients for a window of time.
func (f *planFlow) offer(st *stand, r *run, window loadgen.Window) (plan loadgen.LoadPlan, err error) {
	plan = loadgen.LoadPlan{Scenario: r.mode.String() + "-" + r.name, Duration: window.To, Window: window,
		Drain: time.Minute, Seed: uint64(f.plan.Seed)}
	for _, name := range r.loads {
		l := f.plan.Load(name)
		server, i := f.plan.serverFor(l)
		t, err := Offer(name, f.loadOf(l), uint64(f.plan.Seed))
		if err != nil {
			return plan, err
		}
		t.Model, t.API, t.Endpoints, t.Warmup = server.Model, server.API, st.endpoints[i:i+1], max(1, l.Concurrency)
		limit := func(o predict.Optional[predict.Duration]) time.Duration { return time.Duration(o.Or(0)) }
		t.SLO = loadgen.RequestSLO{TTFT: limit(l.SLO.TTFTP99), TPOT: limit(l.SLO.TPOTP99), E2E: limit(l.SLO.E2EP99)}
		plan.Tenants = append(plan.Tenants, t)
	}
	return plan, nil
}

// writeRows replaces the rows' file with all rows so far.
func (f *planFlow) writeRows() error { return f.write(f.name("rows"), f.rows()) }

func (f *planFlow) rows() (rows predict.Rows) {
	for i := range f.runs {
		rows = append(rows, f.runs[i].rows...)
	}
	return rows
}

// name is a file's name: what was simulated says so.
func (f *planFlow) name(what string) string {
	if f.simulated {
		what += ".simulated"
	}
	return what + ".json"
}

// calibrate fits the predictor to everything that was measured, keeps it, and
// names its file; "" where nothing was measured side by side.
func (f *planFlow) calibrate() (string, error) {
	p := *f.Predictor
	if gpu, driver := f.site.gpu(); gpu != "" {
		p = p.On(gpu, driver)
	}
	fitted, err := p.Fit(predict.MethodSimulated, f.rows())
	if errors.Is(err, predict.ErrNothingToFit) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("calibrating on what was measured: %w", err)
	}
	name := f.name("predictor")
	return name, f.write(name, fitted)
}

// predict predicts the mode's cases from the runs alone, and writes that down.
func (f *planFlow) predict(m sharing.Mechanism) error {
	profiles, from, err := f.profiles()
	if err != nil {
		return err
	}
	file := predictionFile{Basis: f.site.basis(), Mode: m, Written: f.time(), From: from, Predictor: *f.Predictor}
	for _, c := range f.plan.Cases {
		p := prediction{Mode: m, Case: c.Name, written: file.Written}
		if p.Tenants, err = f.predictCase(m, c, profiles); err != nil {
			p.Problem = err.Error()
			f.note("%s, %s: no prediction: %s", m, c.Name, p.Problem)
		}
		file.Cases = append(file.Cases, p)
	}
	f.predictions = append(f.predictions, file.Cases...)
	name := filepath.Join(m.String(), "predictions.json")
	return errors.Join(f.write(name, file), os.Chmod(filepath.Join(f.Dir, name), 0o444))
}

func (f *planFlow) predictCase(m sharing.Mechanism, c Case, profiles *predict.Profiles) ([]tenantPrediction, error) {
	var group []predict.Solo
	for _, name := range c.Loads {
		l := f.plan.Load(name)
		solo, err := profiles.Solo(f.serverOf(m, l), f.loadOf(l))
		if err != nil {
			return nil, err
		}
		group = append(group, solo)
	}
	return predictTenants(f.Predictor, m, c.Loads, group)
}

// serverOf is a load's server as profiles know it.
func (f *planFlow) serverOf(m sharing.Mechanism, l *Load) predict.Server {
	s, _ := f.plan.serverFor(l)
	if m != sharing.MechanismMIGLikeEmulation {
		return serverKey(s.Model, s.Slots, 0)
	}
	return serverKey(s.Model, s.Slots, s.Percent)
}

func (f *planFlow) loadOf(l *Load) predict.Load {
	_, i := f.plan.serverFor(l)
	return predict.Load{Server: i, Concurrency: l.Concurrency, Rate: l.Rate, Prompt: l.Prompt, Output: l.Output,
		Seed: predict.Some(f.plan.Seed)}
}

// profiles are the runs alone so far, as a Predictor takes them, and their folders.
func (f *planFlow) profiles() (ps *predict.Profiles, from []string, err error) {
	ps = &predict.Profiles{}
	gpu, driver := f.site.gpu()
	for i := range f.runs {
		r := &f.runs[i]
		if !r.solo() {
			continue
		}
		dir := filepath.ToSlash(r.dir)
		list := r.rows.Profiles()
		for j := range list {
			list[j].GPU, list[j].Driver, list[j].Run = gpu, driver, dir
		}
		if err := ps.Add(list...); err != nil {
			return ps, nil, fmt.Errorf("%s: %w", dir, err)
		}
		from = append(from, dir)
	}
	return ps, from, nil
}
