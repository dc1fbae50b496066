package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/telemetry"
)

// drive makes a run with telemetry beside it.
func (f *flow) drive(ctx context.Context, st *stand, r *run) (*loadgen.Result, *telemetry.Series, error) {
	opts := loadgen.Options{Dir: filepath.Join(f.config.out, r.dir), Meta: map[string]any{"mode": r.mode, "basis": f.site.basis()}}
	if f.config.userStamps { // simulated time
		opts.Receive, opts.Pacing = loadgen.ReceivePlain, loadgen.PacingTimer
	}
	return colocation.Drive(ctx, f.loadPlan(st, r), opts, st.source)
}

// errNothing says that a load got no answers.
var errNothing = errors.New("no request was answered in the counted time")

// row is load i of a run in the co-location format.
func (f *flow) row(r *run, i int, s *loadgen.Summary, series *telemetry.Series, device int) (predict.Row, error) {
	l := f.plan.load(r.loads[i])
	t, ok := s.Tenant(l.Name)
	if !ok || t.Counts.OK == 0 {
		return predict.Row{}, fmt.Errorf("%w; see %s", errNothing, filepath.Join(f.config.out, r.dir, loadgen.ArtifactRequests))
	}
	requests, failed := int(t.Counts.OK), int(t.Counts.Failed)
	rate, wall := t.OutputTokensPerS, t.DurationS
	row := predict.Row{
		Mechanism: r.mode.mechanism(), Case: f.caseName(r), Tenants: len(r.loads), Server: f.serverOf(r.mode, l), Load: f.loadOf(l),
		Requests: &requests, Errors: &failed, TokensPerS: &rate, WallS: &wall,
		TTFT: colocation.Millis(t.TTFT), TPOT: colocation.Millis(t.TPOT), ITL: colocation.Millis(t.ITL), E2E: colocation.Millis(t.E2E),
	}
	if series != nil {
		colocation.AddUtilisation(&row, series, device, s.Window)
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
func (f *flow) serverOf(m mode, l *loadPlan) predict.Server {
	p := &f.plan.Servers[f.plan.server(l.Server)]
	s := predict.Server{"model": p.Model}
	if p.Slots > 0 {
		s["slots"] = p.Slots
	}
	if m == modeMIGLike {
		s["sm_percent"] = p.Percent
	}
	return s
}

func (f *flow) loadOf(l *loadPlan) predict.Load {
	return predict.Load{Server: f.plan.server(l.Server), Concurrency: l.Concurrency, Rate: l.Rate, Prompt: l.Prompt, Output: l.Output}
}

// profiles are the runs alone, as a Predictor takes them.
func (f *flow) profiles() (predict.Profiles, error) {
	var ps predict.Profiles
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
