package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/colocation"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// site is where servers run: this machine, or a simulation.
type site interface {
	// basis says whether its figures are measured or simulated.
	basis() sharing.Basis
	// gpu names the GPU and its driver, "" where that is not known.
	gpu() (name, driver string)
	// start has the plan's servers serve in a mode; logs go below dir. What is
	// returned must be closed.
	start(ctx context.Context, m sharing.Mechanism, dir string) (*stand, error)
}

// stand is the plan's servers, serving in one mode.
type stand struct {
	endpoints []loadgen.Endpoint // by server
	source    telemetry.Reader   // of the GPU; nil = nobody looks
	device    int                // the GPU's index in source
	notes     []string           // what a reader of the figures must know
	close     func() error

	// ask asks a server for one token, and tail is the end of its log. nil: its
	// servers do not stop.
	ask func(ctx context.Context, server int) error
	// beside runs something while a neighbour spins on the GPU; nil: it cannot.
	beside func(ctx context.Context, run func(context.Context) error) error
	tail   func(server int) string
	dead   map[int]error // what is known to have stopped, by server
}

// planFlow takes a plan through its modes.
type planFlow struct {
	bench
	text []byte // of the plan
	plan *colocation.Plan
	site site

	runs        []run // in the order in which they were made
	cut         []run // what there is of one that was interrupted
	missing     []missing
	predictions []prediction
}

// missing is a run of the plan that there is nothing of.
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

// title is a mode in words. MPS with limits bounds what a client may use; it
// contains neither faults nor contention, so it is never called isolation.
func title(m sharing.Mechanism) string {
	if m == sharing.MechanismMIGLikeEmulation {
		return m.String() + " (MPS with percentages and memory limits; it does not isolate)"
	}
	return m.String()
}

// newPlanFlow reads the plan and the predictor: that of -use, else what this
// project measured on an H200, else the simulated GPU's.
func newPlanFlow(a *app, c *config) (f *planFlow, err error) {
	f = &planFlow{bench: bench{config: c, app: a}}
	name := c.plan
	if name == "" {
		name = "built-in plan"
		f.text, err = plans.ReadFile("plans/simulated.yaml")
	} else {
		f.text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("-plan: %w", err)
	}
	if f.plan, err = colocation.ParsePlan(f.text, colocation.PlanOptions{Real: c.real, Seconds: c.seconds}); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case c.use != "":
		f.predictor, err = predict.LoadPredictor(c.use)
	case c.real:
		p := predict.NewPredictor()
		f.predictor = &p
	case f.plan.SimGPU != nil:
		f.predictor = simulatedPredictor(*f.plan.SimGPU)
	default:
		f.predictor = simulatedPredictor(colocation.SimulatedGPU{})
	}
	return f, err
}

// run measures, and reports what there is. After an error the runs so far stand.
func (f *planFlow) run(ctx context.Context) error {
	var closeSite func() error
	var err error
	switch {
	case f.app.site != nil:
		f.site, closeSite, err = f.app.site(f.config, f.plan)
	case f.real:
		f.site, closeSite, err = openMachine(f.config, f.plan)
	default:
		f.site, closeSite = &simulatedSite{f.plan, f.app.simulatedTime}, func() error { return nil }
	}
	if err != nil {
		return err
	}
	f.simulated = f.site.basis() == sharing.BasisSimulated
	if gpu, _ := f.site.gpu(); gpu == "" {
		f.note("nobody says which GPU this is: it is taken for the predictor's, %s", f.predictor.GPU)
	}
	err = f.measure(ctx)
	err = errors.Join(err, closeSite())
	if len(f.runs)+len(f.cut)+len(f.missing) == 0 {
		return err
	}
	rep := f.report(err)
	// What failed or was interrupted leaves the other runs.
	var cerr error
	if rep.Calibrated, cerr = f.calibrate(); rep.Calibrated != "" {
		rep.again = f.again(rep.Calibrated)
	}
	err = errors.Join(err, cerr, f.write("report.json", rep))
	if !f.json {
		return errors.Join(err, rep.writeText(f.app.stdout, f.plan.Modes))
	}
	enc := json.NewEncoder(f.app.stdout)
	enc.SetIndent("", "  ")
	return errors.Join(err, enc.Encode(rep))
}

func (f *planFlow) measure(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(f.out, "plan.yaml"), f.text, 0o644); err != nil {
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
			return fmt.Errorf("%w; %d runs are kept in %s%s: %w", errInterrupted, len(f.runs), f.out, part, context.Cause(ctx))
		}
	}
	return errors.Join(errs...)
}

// measureMode runs everything under one mode: each load alone, the prediction,
// then the cases.
func (f *planFlow) measureMode(ctx context.Context, m sharing.Mechanism) (err error) {
	dir := filepath.Join(f.out, m.String())
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

// tryRun makes one run, or says why it is missing: the others are made all the
// same.
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
	r.dir, r.began = filepath.Join(r.mode.String(), r.name), f.app.now()
	servers := map[string]int{}
	for _, name := range r.loads {
		_, i := f.plan.ServerOf(f.plan.Load(name))
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
			return fmt.Errorf("%s, load %s: %w; see %s", r.dir, name, errNothing, filepath.Join(f.out, r.dir, loadgen.ArtifactRequests))
		}
		row.Mechanism, row.Case, row.Tenants, row.Server, row.Load = predictedAs(r.mode), r.name, len(loads), f.serverOf(r.mode, l), f.loadOf(l)
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

// offer is what a run's clients ask, in a window of time.
func (f *planFlow) offer(st *stand, r *run, window loadgen.Window) (plan loadgen.LoadPlan, err error) {
	plan = loadgen.LoadPlan{Scenario: r.mode.String() + "-" + r.name, Duration: window.To, Window: window, Drain: time.Minute, Seed: uint64(f.plan.Seed)}
	for _, name := range r.loads {
		l := f.plan.Load(name)
		server, i := f.plan.ServerOf(l)
		t, err := colocation.Offer(name, f.loadOf(l), uint64(f.plan.Seed))
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
	p := *f.predictor
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
	f.say("calibrated on this run: -use %s", filepath.ToSlash(filepath.Join(f.out, name)))
	return name, f.write(name, fitted)
}

// again is the line that makes the next run with the predictor of this one: this
// run's own, with another predictor and another folder.
func (f *planFlow) again(name string) string {
	line := []string{"go run ./examples/measure"}
	add := func(arg string) {
		if strings.ContainsFunc(arg, func(r rune) bool {
			return !strings.ContainsRune("/._-+:@%,=~", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		line = append(line, arg)
	}
	for i := 0; i < len(f.args); i++ {
		flag, _, whole := strings.Cut(strings.TrimLeft(f.args[i], "-"), "=")
		switch {
		case flag != "out" && flag != "use":
			add(f.args[i])
		case !whole:
			i++ // its value
		}
	}
	add("-use")
	add(filepath.ToSlash(filepath.Join(f.out, name)))
	return strings.Join(line, " ")
}

// predict predicts the mode's cases from the runs alone, and writes that down.
func (f *planFlow) predict(m sharing.Mechanism) error {
	profiles, from, err := f.profiles()
	if err != nil {
		return err
	}
	file := predictionFile{Basis: f.site.basis(), Mode: m, Written: f.app.now(), From: from, Predictor: *f.predictor}
	for _, c := range f.plan.Cases {
		p := prediction{Mode: m, Case: c.Name, written: file.Written}
		if p.Tenants, err = f.predictCase(m, c, &profiles); err != nil {
			p.Problem = err.Error()
			f.note("%s, %s: no prediction: %s", m, c.Name, p.Problem)
		}
		file.Cases = append(file.Cases, p)
	}
	f.predictions = append(f.predictions, file.Cases...)
	name := filepath.Join(m.String(), "predictions.json")
	return errors.Join(f.write(name, file), os.Chmod(filepath.Join(f.out, name), 0o444))
}

func (f *planFlow) predictCase(m sharing.Mechanism, c colocation.Case, profiles *predict.Profiles) ([]tenantPrediction, error) {
	var group []predict.Solo
	for _, name := range c.Loads {
		l := f.plan.Load(name)
		solo, err := profiles.Solo(f.serverOf(m, l), f.loadOf(l))
		if err != nil {
			return nil, err
		}
		group = append(group, solo)
	}
	return predictTenants(f.predictor, m, c.Loads, group)
}

// serverOf is a load's server as profiles know it.
func (f *planFlow) serverOf(m sharing.Mechanism, l *colocation.Load) predict.Server {
	s, _ := f.plan.ServerOf(l)
	if m != sharing.MechanismMIGLikeEmulation {
		return serverKey(s.Model, s.Slots, 0)
	}
	return serverKey(s.Model, s.Slots, s.Percent)
}

func (f *planFlow) loadOf(l *colocation.Load) predict.Load {
	_, i := f.plan.ServerOf(l)
	return predict.Load{Server: i, Concurrency: l.Concurrency, Rate: l.Rate, Prompt: l.Prompt, Output: l.Output, Seed: predict.Some(f.plan.Seed)}
}

// profiles are the runs alone so far, as a Predictor takes them, and their
// folders.
func (f *planFlow) profiles() (ps predict.Profiles, from []string, err error) {
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
