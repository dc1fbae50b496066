package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
)

// flow takes a plan through its modes.
type flow struct {
	config *config
	plan   *plan
	site   site
	now    func() time.Time
	log    io.Writer // progress, for people

	runs        []run // in the order in which they were made
	predictions []prediction
	notes       []string
	report      *report
}

// run is one run of loads, alone or side by side.
type run struct {
	mode    mode
	name    string // case, or "solo-" and the load
	loads   []string
	dir     string // below the results' folder
	began   time.Time
	rows    predict.Rows // by load
	healthy bool         // the client did not shape the figures
}

func (r *run) solo() bool { return len(r.loads) == 1 }

// run measures. On an error the runs so far stand.
func (f *flow) run(ctx context.Context) error {
	out := f.config.out
	if err := atomicfile.Write(filepath.Join(out, "plan.yaml"), f.config.planText, 0o644); err != nil {
		return err
	}
	var errs []error
	for _, m := range f.plan.Modes {
		// One mode that cannot be set up does not spoil the others.
		if err := f.measureMode(ctx, m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m, err))
		}
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted; %d runs are kept in %s: %w", len(f.runs), out, context.Cause(ctx))
		}
	}
	return errors.Join(errs...)
}

// measureMode runs everything under one mode: each load alone, the prediction,
// then the cases.
func (f *flow) measureMode(ctx context.Context, m mode) (err error) {
	dir := filepath.Join(f.config.out, m.String())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f.say("%s: starting the servers", m.title())
	st, err := f.site.start(ctx, m, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	for _, n := range st.notes {
		f.note("%s: %s", m, n)
	}
	for _, load := range f.plan.used() {
		if err := f.measure(ctx, st, m, "solo-"+load, []string{load}); err != nil {
			return err
		}
	}
	// Written before anything runs side by side, and never again.
	if err := f.predict(m); err != nil {
		return err
	}
	for _, c := range f.plan.Cases {
		if err := f.measure(ctx, st, m, c.Name, c.Loads); err != nil {
			return err
		}
	}
	return nil
}

// predict predicts the mode's cases from the runs alone, and writes that down.
func (f *flow) predict(m mode) error {
	profiles, err := f.profiles()
	if err != nil {
		return err
	}
	file := predictionFile{Basis: f.site.basis(), Mode: m, Written: f.now(), From: f.soloRuns(), Predictor: *f.config.predictor}
	for _, c := range f.plan.Cases {
		p := f.predictCase(m, c, &profiles)
		p.written = file.Written
		if p.Problem != "" {
			f.note("%s, %s: no prediction: %s", m, c.Name, p.Problem)
		}
		file.Cases = append(file.Cases, p)
		f.predictions = append(f.predictions, p)
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(f.config.out, m.String(), "predictions.json")
	if err := atomicfile.Write(path, append(data, '\n'), 0o444); err != nil {
		return err
	}
	f.say("%s: predictions written to %s", m, path)
	return nil
}

// measure makes one run and keeps its rows.
func (f *flow) measure(ctx context.Context, st *stand, m mode, name string, loads []string) error {
	r := run{mode: m, name: name, loads: loads, dir: filepath.Join(m.String(), name), began: f.now()}
	f.say("%s: %s, %v s", m, name, f.plan.Seconds)
	res, series, err := f.drive(ctx, st, &r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h := &res.Summary.ClientHealth
	if r.healthy = h.Valid; !r.healthy {
		f.note("%s, %s: the client shaped the figures: %v", m, name, h.Reasons)
	}
	for i, load := range loads {
		row, err := f.row(&r, i, &res.Summary, series, st.device)
		if err != nil {
			return fmt.Errorf("%s, load %s: %w", name, load, err)
		}
		r.rows = append(r.rows, row)
	}
	f.runs = append(f.runs, r)
	return f.writeRows()
}

// writeRows replaces the rows' file with all rows so far.
func (f *flow) writeRows() error {
	var rows predict.Rows
	for i := range f.runs {
		rows = append(rows, f.runs[i].rows...)
	}
	name := "rows.json"
	if f.simulated() {
		name = "rows.simulated.json"
	}
	data, err := json.MarshalIndent(rows, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(f.config.out, name), append(data, '\n'), 0o644)
}

// finish makes the report of what there is and writes it. failed is why the
// flow ended early, if it did.
func (f *flow) finish(failed error) error {
	if len(f.runs) == 0 {
		return nil
	}
	f.report = f.newReport(failed)
	data, err := json.MarshalIndent(f.report, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(f.config.out, "report.json"), append(data, '\n'), 0o644)
}

func (f *flow) simulated() bool { return f.site.basis() == sharing.BasisSimulated }

func (f *flow) say(format string, args ...any) {
	prefix := ""
	if f.simulated() {
		prefix = "simulated: "
	}
	fmt.Fprintf(f.log, prefix+format+"\n", args...)
}

func (f *flow) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
	f.say("note: "+format, args...)
}

// loadPlan turns loads into what loadgen runs.
func (f *flow) loadPlan(st *stand, r *run) loadgen.LoadPlan {
	p := f.plan
	out := loadgen.LoadPlan{
		Scenario: r.mode.String() + "-" + r.name, Duration: seconds(p.Seconds), Drain: time.Minute, Seed: p.seed(),
		Window: loadgen.Window{From: seconds(p.WarmSeconds), To: seconds(p.Seconds)}, Simulated: f.simulated(),
	}
	for _, name := range r.loads {
		l := p.load(name)
		s := p.server(l.Server)
		t := loadgen.Tenant{
			Name: name, Model: p.Servers[s].Model, API: p.Servers[s].API, Endpoints: st.endpoints[s : s+1],
			Prompts: colocation.NewPrompts(p.seed(), l.Name, l.Prompt), MaxTokens: l.Output, Warmup: max(1, l.Concurrency),
			Body: map[string]any{"ignore_eos": true}, // answers of the length that was asked for
		}
		if l.Concurrency > 0 {
			t.Load.Concurrency = l.Concurrency
		} else {
			t.Load.Schedule = loadgen.Poisson{PerS: l.Rate}
		}
		out.Tenants = append(out.Tenants, t)
	}
	return out
}
