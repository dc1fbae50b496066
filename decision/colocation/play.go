// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
)

// countSlices runs a load once more, co-located with a kernel that always spins, and counts the time slices of its
// decode step. A failure is a note: the predictions then infer the number from the step's length.
func (f *planFlow) countSlices(ctx context.Context, st *deployment, solo *run) error {
	if st.spinning == nil || f.Spinner <= 0 {
		return nil
	}
	load := solo.loads[0]
	r := run{mode: solo.mode, name: "spinner-" + load, loads: solo.loads}
	r.dir = filepath.Join(r.mode.String(), r.name)
	window := f.plan.window()
	window.To = window.From + f.Spinner
	f.say("%s: %s, %v next to a spinning neighbour", r.mode, r.name, f.Spinner)
	var row profile.Row
	err := st.spinning(ctx, func(ctx context.Context) error {
		_, rows, err := f.play(ctx, st, &r, window)
		if err == nil {
			row = rows[0]
		}
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	isolated, counted := &solo.rows[0], 0.0
	if err == nil {
		a, ok1 := stepOf(isolated)
		b, ok2 := stepOf(&row)
		if counted, err = f.Predictor.SlicesNextToSpinner(milliseconds(a), milliseconds(b)); !ok1 || !ok2 {
			err = errors.New("no step was measured")
		}
	}
	if err != nil {
		f.note("%s: the time slices of a step were not counted: %v", load, err)
		return nil
	}
	f.say("%s: a step of %s takes %.2f time slices", r.mode, load, counted)
	isolated.SlicesPerStep = sharing.Some(counted)
	// By how much later a first token came for each millisecond that a token took longer.
	first, ok1 := isolated.TTFT.P50.Get()
	later, ok2 := row.TTFT.P50.Get()
	if longer := row.TPOT.P50.Or(0) - isolated.TPOT.P50.Or(0); ok1 && ok2 && longer > 0 {
		isolated.TTFTGrowth = sharing.Some(max(0, later-first) / longer)
	}
	return f.writeRows()
}

// stressedOutput bounds the answers of a server with a stress kernel, which may slow it by far: the drain would take
// long.
const stressedOutput = 16

// stress measures how a load under MPS slows co-located kernels, and they it. A failure is a note: the predictions then
// have only its activity.
func (f *planFlow) stress(ctx context.Context, st *deployment, solo *run) error {
	if st.stressed == nil || f.Spinner <= 0 {
		return nil
	}
	load := solo.loads[0]
	if len(st.strangers) > 0 {
		f.note("%s: not measured next to stress kernels, which would slow others: %s", load, st.strangers[0])
		return nil
	}
	f.say("%s: %s next to stress kernels, %v at most, in which a step may take %g times as long and more", solo.mode,
		load, probe.MostStressed, probe.MostSlower)
	n := 0
	play := func(ctx context.Context, d time.Duration) (time.Duration, error) {
		n++
		r := run{mode: solo.mode, name: fmt.Sprintf("pressure-%s-%d", load, n), loads: solo.loads, stressed: true}
		r.dir = filepath.Join(r.mode.String(), r.name)
		_, rows, err := f.play(ctx, st, &r, loadgen.Window{To: d})
		if err != nil {
			return 0, err
		}
		step, _ := stepOf(&rows[0])
		return milliseconds(step), nil
	}
	var p *profile.Pressure
	err := st.stressed(ctx, play, func(tenant probe.Tenant) (err error) {
		p, err = probe.MeasurePressure(ctx, tenant, func(what string) { f.say("%s: %s: %s", solo.mode, load, what) })
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		f.note("%s: not all of its pressure was measured: %s", load, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if p == nil || len(p.Waits)+len(p.Stresses) == 0 {
		return nil
	}
	solo.rows[0].Pressure = p
	return f.writeRows()
}

// stepOf is the median of a load's step, in milliseconds.
func stepOf(r *profile.Row) (float64, bool) {
	if r.Kind != profile.KindServer {
		return r.Step.P50.Get()
	}
	return r.ITL.P50.Get()
}

// play has the loads of a run work co-located for a window of time, and returns a row for each.
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
		defer func() { _ = t.halt(true) }() // one that has ended is reported
		tenants[i] = t
	}
	rec, err := f.record(ctx, r.dir, plan, st.source)
	if err != nil {
		return nil, nil, err
	}
	if r.solo() && !r.stressed {
		r.drift = drift(ownSteps(rec, tenants[0]), &rec.Summary.Window)
	}
	var rows profile.Rows
	for i, name := range r.loads {
		l := f.plan.load(name)
		p, _ := f.plan.serverFor(l)
		row := rec.row(name, st.device)
		switch {
		case tenants[i] != nil:
			err = errors.Join(err, countSteps(&row, tenants[i], &rec.Summary.Window))
		case p.Kind != profile.KindServer:
			asSteps(&row, p.Kind)
		default:
			row.Load = f.loadOf(l)
			if row.Engine = p.Engine; row.Engine != "" {
				row.Version = sharing.Some(profile.VersionOfKinds)
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

// countSteps puts the steps of a tenant in a window into its row.
func countSteps(row *profile.Row, t *server, w *loadgen.WindowSummary) (err error) {
	from, to := time.Unix(0, w.FromNS), time.Unix(0, w.ToNS)
	row.Kind, row.Version = t.plan.Kind, sharing.Some(profile.VersionOfKinds)
	row.Requests, row.Errors = sharing.Optional[int]{}, sharing.Optional[int]{}
	row.WallS, row.Outcome = sharing.Some(to.Sub(from).Seconds()), profile.Outcome{}
	if t.ended() {
		return fmt.Errorf("tenant %s ended (%v) while it was measured; its last lines:\n%s", t.plan.Name, t.err, t.tail())
	}
	steps := 0
	if row.Outcome, steps, err = t.meter.outcome(from, to); err == nil && steps == 0 {
		err = fmt.Errorf("no step ended in the %v that count (seconds makes a run longer)", to.Sub(from))
	}
	row.Steps = sharing.Some(steps)
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
		if r.stressed {
			load.Rate, load.Concurrency, load.Output = 0, max(1, load.Concurrency), min(load.Output, stressedOutput)
		}
		t, err := offer(name, plan.Scenario, load, uint64(f.plan.Seed))
		if err != nil {
			return plan, err
		}
		if server.Simulated != nil {
			t.Load.ThinkTime = time.Duration(server.Simulated.Think)
		}
		t.Model, t.API, t.Endpoints, t.Warmup = server.Model, server.API, st.endpoints[i:i+1], max(1, l.Concurrency)
		limit := func(o sharing.Optional[profile.Duration]) time.Duration { return time.Duration(o.Or(0)) }
		if r.stressed { // its isolated run has warmed it up
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
