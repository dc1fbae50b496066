package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// runFleet decides a fleet and simulates what was decided.
func (a *app) runFleet(ctx context.Context, c *config) int {
	fleet, opts, err := c.readFleet(a.stdin)
	if err != nil {
		return a.fail(err, exitUsage)
	}
	result, err := decision.Decide(fleet, opts)
	if err != nil {
		return a.fail(err, exitUsage)
	}
	if err := newFolder(c.out); err != nil {
		return a.fail(fmt.Errorf("-out: %w", err), exitUsage)
	}
	if !c.json {
		if err := result.WriteText(a.stdout, decision.TextOptions{}); err != nil {
			return a.fail(err, exitFailed)
		}
	}
	m := &measurer{config: c, app: a, result: result, predictor: colocation.Predictor(0, 0)}
	err = m.measure(ctx, fleet, opts.Profiles)
	switch {
	case m.report == nil:
	case c.json:
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = errors.Join(err, enc.Encode(struct {
			*decision.Result
			Simulated *measured `json:"simulated"`
		}{result, m.report}))
	default:
		err = errors.Join(err, writeMeasured(a.stdout, m.report))
	}
	if err != nil {
		return a.fail(err, exitFailed)
	}
	return exitOK
}

// readFleet reads the fleet, and the profiles and predictor to decide with.
func (c *config) readFleet(stdin io.Reader) (fleet *decision.Fleet, opts decision.Options, err error) {
	if c.input == "-" {
		fleet, err = decision.ReadFleet(stdin)
	} else {
		fleet, err = decision.LoadFleet(c.input)
	}
	if err == nil && c.use != "" {
		opts.Predictor, err = predict.LoadPredictor(c.use)
	}
	if err == nil && c.profiles != "" {
		opts.Profiles, err = predict.LoadProfiles(c.profiles)
	}
	return fleet, opts, err
}

// measurer runs a decision's GPUs on simulated ones.
type measurer struct {
	*config
	app       *app
	result    *decision.Result
	predictor predict.Predictor
	report    *measured
	profiles  predict.Profiles
}

// warmup is the part of a run that does not count.
func (m *measurer) warmup() float64 { return min(1, m.seconds/5) }

func (m *measurer) say(format string, args ...any) {
	fmt.Fprintf(m.app.stderr, "measure: simulated: "+format+"\n", args...)
}

// measure simulates the GPUs that the decision fills: each workload alone, the
// prediction, then side by side under each mechanism. What was measured before
// an error is in the report.
func (m *measurer) measure(ctx context.Context, fleet *decision.Fleet, profiles *predict.Profiles) error {
	list, missing, err := scenes(fleet, m.result, profiles, m.seconds)
	if err != nil {
		return err
	}
	m.report = &measured{Basis: sharing.BasisSimulated, Seed: m.seed, SecondsPerRun: m.seconds, Scenes: list, NotRun: missing,
		Expected: []expectedRow{}, Rows: []measuredRow{}, Findings: []finding{}, alone: map[string]float64{}}
	m.report.assume()
	if len(list) > 0 {
		err = m.run(ctx)
	}
	m.report.Complete = err == nil
	if err != nil {
		m.report.Problem = err.Error()
		if ctx.Err() != nil {
			m.report.Problem = "interrupted"
			err = fmt.Errorf("interrupted: %d rows were measured", len(m.report.Rows))
		}
	}
	m.report.judge(m.result)
	return errors.Join(err, m.write("report.json", m.report))
}

func (m *measurer) run(ctx context.Context) error {
	if err := m.measureAlone(ctx); err != nil {
		return err
	}
	plans := map[sharing.Mechanism][]*scene{}
	mechanisms := m.runs()
	for _, how := range mechanisms {
		for i := range m.report.Scenes {
			s := &m.report.Scenes[i]
			if why := s.runnable(how, m.result); why != "" {
				m.report.NotRun = append(m.report.NotRun, notRun{Scene: s.Name, Mechanism: &how, Reason: why})
				continue
			}
			plans[how] = append(plans[how], s)
			m.expect(how, s)
		}
	}
	// All that is expected is written down before anything runs side by side.
	if err := m.write("expected.json", m.report.Expected); err != nil {
		return err
	}
	m.report.sayExpected(m.say)
	for _, how := range mechanisms {
		if len(plans[how]) == 0 {
			continue
		}
		if err := m.measureBeside(ctx, how, plans[how]); err != nil {
			return fmt.Errorf("%s: %w", how, err)
		}
	}
	return nil
}

// runs lists the mechanisms to run.
func (m *measurer) runs() []sharing.Mechanism {
	if len(m.mechanisms) > 0 {
		return m.mechanisms
	}
	out := []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG}
	for i := range m.report.Scenes {
		if r := m.report.Scenes[i].Recommended; !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// fewestAlone is how many replicas of a workload are profiled, each alone: one
// has few requests in a short run.
const fewestAlone = 16

// measureAlone profiles each workload on GPUs of its own.
func (m *measurer) measureAlone(ctx context.Context) error {
	var u setup
	for i := range m.report.Scenes {
		s := &m.report.Scenes[i]
		for j, t := range s.Tenants {
			if slices.ContainsFunc(s.Tenants[:j], func(o sceneTenant) bool { return o.Workload == t.Workload }) || u.knows(t.Workload) {
				continue
			}
			n := 1
			if !t.sim.load.Closed() {
				n = fewestAlone
			}
			for range n {
				u.add(s, t, u.gpu(loadgentest.GPUOptions{Quantum: m.app.quantum}), nil)
			}
		}
	}
	groups, err := m.drive(ctx, "alone", &u)
	if err != nil {
		return fmt.Errorf("alone: %w", err)
	}
	var all []predict.SoloProfile
	for _, g := range groups {
		if g.row.Requests == nil || *g.row.Requests == 0 {
			m.report.note("%s: no request ended alone in the counted time, so nothing is expected of it", g.workload)
			continue
		}
		list, err := predict.Rows{g.row}.Profiles()
		if err != nil {
			return err
		}
		for i := range list {
			list[i].GPU, list[i].Run = colocation.SimulatedGPU, "alone"
		}
		if err := m.profiles.Add(list...); err != nil {
			m.report.note("%s: nothing is expected of it: %v", g.workload, err)
			continue
		}
		m.report.alone[g.workload] = colocation.Figures(&g.row)[predict.MetricTPOTP50]
		all = append(all, list...)
	}
	return m.write("profiles.json", all)
}

func (u *setup) knows(workload string) bool {
	return slices.ContainsFunc(u.clients, func(c client) bool { return c.workload == workload })
}

// mostCopies is how often a scene is simulated at most in one run, for more
// requests, as long as they are fewer events a second than usualEvents; copies
// share nothing.
const (
	mostCopies  = 3
	usualEvents = 2000.0
)

// measureBeside runs scenes under a mechanism, all at once, each on GPUs of its
// own.
func (m *measurer) measureBeside(ctx context.Context, how sharing.Mechanism, list []*scene) error {
	events := 0.0
	for _, s := range list {
		for _, t := range s.Tenants {
			events += t.sim.eventsPerS()
		}
	}
	copies := min(max(int(usualEvents/events), 1), mostCopies)
	var u setup
	for _, s := range list {
		for range copies {
			if err := m.place(&u, how, s); err != nil {
				return err
			}
		}
	}
	groups, err := m.drive(ctx, how.String(), &u)
	if err != nil {
		return err
	}
	for _, g := range groups {
		m.report.add(how, g, how.String())
	}
	return nil
}

// drive loads the servers and puts the figures of each scene's workloads
// together.
func (m *measurer) drive(ctx context.Context, name string, u *setup) ([]outcome, error) {
	for i := range u.gpus {
		u.gpus[i].Seed = m.seed + uint64(i)
	}
	sim, err := colocation.Simulate(u.gpus, u.tenants, m.app.simulatedTime)
	if err != nil {
		return nil, err
	}
	m.say("%s: running %d replicas on %d GPUs for %v s", name, len(u.clients), len(u.gpus), m.seconds)
	plan := loadgen.LoadPlan{Scenario: name, Duration: milliseconds(1e3 * m.seconds), Drain: 5 * time.Second, Seed: m.seed, Simulated: true,
		Window: loadgen.Window{From: milliseconds(1e3 * m.warmup()), To: milliseconds(1e3 * m.seconds)}}
	for i, c := range u.clients {
		l := u.sims[i].load
		t := loadgen.Tenant{Name: c.tenant, Model: c.workload, API: loadgen.APICompletions, Endpoints: sim.Endpoints[i : i+1],
			// The same replica asks the same in each run.
			Prompts: colocation.NewPrompts(m.seed, c.tenant, l.Prompt), MaxTokens: l.Output, Body: map[string]any{"ignore_eos": true}}
		if l.Closed() {
			t.Load.Concurrency = l.Concurrency
		} else {
			t.Load.Schedule = loadgen.Poisson{PerS: l.Rate}
		}
		plan.Tenants = append(plan.Tenants, t)
	}
	opts := loadgen.Options{Dir: filepath.Join(m.out, name), Meta: map[string]any{"basis": sharing.BasisSimulated, "run": name}}
	if m.app.simulatedTime {
		opts.Receive, opts.Pacing = loadgen.ReceivePlain, loadgen.PacingTimer
	}
	res, series, err := colocation.Drive(ctx, plan, opts, sim.Source)
	if err := errors.Join(err, sim.Close()); err != nil {
		return nil, err
	}
	if h := &res.Summary.ClientHealth; !h.Valid {
		m.report.note("%s: the client shaped the figures: %s", name, strings.Join(h.Reasons, "; "))
	}
	return collect(u, res, series), nil
}

// write writes a file of the artifacts.
func (m *measurer) write(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(m.out, name), append(data, '\n'), 0o644)
}
