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

// Measure runs a plan in each mode on a site, and writes all files below opts.Dir. After an error, or when ctx ends,
// the report has the runs so far; it is nil without any.
func Measure(ctx context.Context, plan *Plan, site Site, opts Options) (*Report, error) {
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	f := &planFlow{plan: plan, site: site, expected: map[predictedRun]*tenantPrediction{}, runner: runner{
		Options: opts, simulated: site.basis() == sharing.BasisSimulated, shaped: map[string]bool{}}}
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

// measureMode runs everything under one mode: each load isolated, the prediction, then the cases.
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
			err = f.countSlices(ctx, st, &f.runs[len(f.runs)-1])
		case m == sharing.MechanismMPS:
			err = f.stress(ctx, st, &f.runs[len(f.runs)-1])
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
	// Written before anything runs co-located, and never again.
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
	r.dir, r.began = filepath.Join(r.mode.String(), r.name), time.Now()
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
			if cached := t.PromptCache; cached != nil && cached.HitRate.Or(0) > cachedShare && !slices.Contains(f.cached, name) {
				f.cached = append(f.cached, name)
				f.note("%s: %.0f%% of the tokens of %s's prompts came from its server's prefix cache, so that its first "+
					"tokens came earlier than those of new prompts do: turn prefix caching off to measure (vLLM's "+
					"--no-enable-prefix-caching), or change the plan's seed where an earlier measurement filled the cache",
					r.dir, 100*cached.HitRate.Or(0), name)
			}
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

// calibrate fits the predictor to everything that was measured, keeps it, and
// names its file; "" where nothing was measured co-located.
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

// predict predicts the mode's cases from the isolated runs, and writes the predictions to a file.
func (f *planFlow) predict(m sharing.Mechanism) error {
	profiles, from, err := f.profiles()
	if err != nil {
		return err
	}
	file := predictionFile{Basis: f.site.basis(), Mode: m, Written: time.Now(), From: from, Predictor: *f.Predictor}
	for _, c := range f.plan.Cases {
		p := prediction{Mode: m, Case: c.Name}
		if p.Tenants, err = f.predictCase(m, c, profiles); err != nil {
			p.Problem = err.Error()
			f.note("%s: no prediction: %s", m, p.Problem)
		}
		for i := range p.Tenants {
			t := &p.Tenants[i]
			t.written = file.Written
			f.expected[predictedRun{m, c.Name, t.Load}] = t
		}
		file.Cases = append(file.Cases, p)
	}
	name := filepath.Join(m.String(), "predictions.json")
	return errors.Join(f.write(name, file), os.Chmod(filepath.Join(f.Dir, name), 0o444))
}

func (f *planFlow) predictCase(m sharing.Mechanism, c Case, profiles *profile.Profiles) ([]tenantPrediction, error) {
	var group []profile.Solo
	for _, name := range c.Loads {
		l := f.plan.load(name)
		solo, err := profiles.Solo(f.serverOf(m, l), f.loadOf(l))
		if err != nil {
			return nil, err
		}
		group = append(group, solo)
	}
	predictions, err := f.Predictor.Predict(predictedAs(m), group, predict.MethodSimulated)
	if err != nil {
		return nil, err
	}
	var out []tenantPrediction
	for i, p := range predictions {
		out = append(out, tenantPrediction{Load: c.Loads[i], Basis: p.Basis, Predicted: maps.Collect(p.All()),
			Slowdown: p.Slowdown, Slices: p.Slices, OtherSlices: p.OtherSlices, Notes: p.Notes})
	}
	return out, nil
}

// serverOf is a load's server as profiles know it.
func (f *planFlow) serverOf(m sharing.Mechanism, l *Load) profile.Server {
	s, _ := f.plan.serverFor(l)
	key := profile.Server{Model: s.Model}
	if s.Slots > 0 {
		key.Slots = sharing.Some(s.Slots)
	}
	if s.Percent > 0 && m == sharing.MechanismMIGLikeEmulation {
		key.SMPercent = sharing.Some(s.Percent)
	}
	if slices.ContainsFunc(f.plan.Servers, func(o Server) bool { return o.Model == s.Model && o.Engine != s.Engine }) {
		key.Variant = s.Engine
	}
	return key
}

func (f *planFlow) loadOf(l *Load) profile.Load {
	s, i := f.plan.serverFor(l)
	if s.Kind != profile.KindServer {
		return profile.Load{}
	}
	return profile.Load{Server: i, Concurrency: l.Concurrency, Rate: l.Rate, Prompt: l.Prompt, Output: l.Output,
		Seed: sharing.Some(f.plan.Seed), OutputSpread: outputSpread}
}

// outputSpread is the fraction by which answers are shorter and longer than the plan's length. Clients in a closed loop
// synchronize where all answers have one length, which users do not: three at ik_llama.cpp's isolated server on an
// H100 had their prompts computed together for 30 requests, 18 to 23 ms to a first token and 2.6 to 3 ms a token, and
// then apart, 10 to 16 and 3.9 to 6.
const outputSpread = 0.25

// profiles are the isolated runs so far, as a Predictor takes them, and their folders.
func (f *planFlow) profiles() (ps *profile.Profiles, from []string, err error) {
	ps = &profile.Profiles{}
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

// predictedAs returns the mechanism that a Predictor knows: emulated slices are MPS clients.
func predictedAs(m sharing.Mechanism) sharing.Mechanism {
	if m == sharing.MechanismMIGLikeEmulation {
		return sharing.MechanismMPS
	}
	return m
}
