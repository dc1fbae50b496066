package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// measureOptions are what -measure may be told.
type measureOptions struct {
	mechanisms []sharing.Mechanism // empty = those of the decision, and the usual ones
	seconds    float64             // of each run
	seed       uint64
	dir        string // for the artifacts; "" = none are kept

	simulatedTime bool          // for tests: connections and clocks of a bubble
	quantum       time.Duration // for tests: the simulated GPU's, which the predictor does not know
}

// defaultSeconds keeps the default fleet's five runs under a minute.
const defaultSeconds = 7

// parseMechanisms reads a comma-separated list.
func (o *measureOptions) parseMechanisms(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		m, err := sharing.ParseMechanism(strings.TrimSpace(name))
		if err != nil {
			var names []string
			for _, m := range sharing.Mechanisms() {
				names = append(names, m.String())
			}
			if near := problem.Nearest(strings.TrimSpace(name), names); near != "" {
				return fmt.Errorf("%w; did you mean %q?", err, near)
			}
			return err
		}
		if m == sharing.None {
			return errors.New("none is no way to run")
		}
		if !slices.Contains(o.mechanisms, m) {
			o.mechanisms = append(o.mechanisms, m)
		}
	}
	return nil
}

// check names what is wrong with the flags.
func (o *measureOptions) check(fs *flag.FlagSet, measuring bool) error {
	var list problem.List
	fs.Visit(func(f *flag.Flag) {
		if !measuring && slices.Contains([]string{"seconds", "seed", "mechanisms"}, f.Name) {
			list.Addf("-"+f.Name, "add -measure", "is for -measure only")
		}
	})
	if !(o.seconds >= 1 && o.seconds <= 600) {
		list.Addf("-seconds", "", "must lie between 1 and 600, is %v", o.seconds)
	}
	return list.Err()
}

// measurer runs a decision's GPUs on simulated ones.
type measurer struct {
	measureOptions
	log       io.Writer // progress
	result    *decision.Result
	predictor decision.Predictor
	report    *measured
	profiles  decision.Profiles
}

// warmup is the part of a run that does not count.
func (m *measurer) warmup() float64 { return min(1, m.seconds/5) }

func (m *measurer) say(format string, args ...any) {
	fmt.Fprintf(m.log, "quickstart: simulated: "+format+"\n", args...)
}

// measure simulates the GPUs that the decision fills: each workload alone, the
// prediction, then side by side under each mechanism. What was measured before
// an error is in the report.
func measure(ctx context.Context, log io.Writer, fleet *decision.Fleet, opt decision.Options, result *decision.Result, mo measureOptions) (*measured, error) {
	m := &measurer{measureOptions: mo, log: log, result: result, predictor: colocation.Predictor(0, 0)}
	m.report = &measured{Basis: sharing.BasisSimulated, Seed: mo.seed, SecondsPerRun: mo.seconds, Expected: []expectedRow{}, Rows: []measuredRow{}, Findings: []finding{}, alone: map[string]float64{}}
	list, missing, err := scenes(fleet, result, opt.Profiles)
	if err != nil {
		return nil, err
	}
	m.report.Scenes, m.report.NotRun = list, missing
	m.report.assume()
	if len(list) == 0 {
		m.report.Complete = true
		return m.report, nil
	}
	err = m.run(ctx)
	m.report.Complete = err == nil
	if err != nil {
		m.report.Problem = err.Error()
		if ctx.Err() != nil {
			m.report.Problem = "interrupted"
			err = fmt.Errorf("interrupted: %d rows were measured", len(m.report.Rows))
		}
	}
	m.report.judge(result)
	return m.report, errors.Join(err, m.write("report.json", m.report))
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
	out := []sharing.Mechanism{sharing.Exclusive, sharing.TimeSlicing, sharing.MPS, sharing.MIG}
	for i := range m.report.Scenes {
		if r := m.report.Scenes[i].Recommended; !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// client is a replica under load, on one of a run's GPUs.
type client struct {
	scene    *scene
	workload string
	gpu      int
	tenant   string // its name in the run
}

// setup is what a run needs.
type setup struct {
	gpus    []loadgentest.GPUOptions
	tenants []colocation.Tenant
	clients []client
	sims    []*simulated // of the clients
}

func (u *setup) gpu(o loadgentest.GPUOptions) int {
	u.gpus = append(u.gpus, o)
	return len(u.gpus) - 1
}

func (u *setup) add(s *scene, t sceneTenant, gpu int, edit func(*loadgentest.Model)) {
	model := t.sim.model
	if edit != nil {
		edit(&model)
	}
	u.tenants = append(u.tenants, colocation.Tenant{GPU: gpu, Model: model, Slots: t.sim.slots})
	u.sims = append(u.sims, t.sim)
	u.clients = append(u.clients, client{s, t.Workload, gpu, fmt.Sprintf("%s.%s.%d", s.Name, t.Workload, len(u.clients))})
}

// fewestAlone is how many replicas of a workload are profiled, each alone: one
// has few requests in a short run.
const fewestAlone = 6

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
				u.add(s, t, u.gpu(loadgentest.GPUOptions{Quantum: m.quantum}), nil)
			}
		}
	}
	groups, err := m.drive(ctx, "alone", &u)
	if err != nil {
		return fmt.Errorf("alone: %w", err)
	}
	var all []decision.Profile
	for _, g := range groups {
		if g.row.Requests == nil || *g.row.Requests == 0 {
			m.report.note("%s: no request ended alone in the counted time, so nothing is expected of it", g.workload)
			continue
		}
		list, err := decision.Rows{g.row}.Profiles()
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
		m.report.alone[g.workload] = colocation.Figures(&g.row)[decision.TPOTP50]
		all = append(all, list...)
	}
	return m.write("profiles.json", all)
}

func (u *setup) knows(workload string) bool {
	return slices.ContainsFunc(u.clients, func(c client) bool { return c.workload == workload })
}

// mostCopies is how often a scene is simulated at most in one run, for more
// requests; copies share nothing.
const mostCopies = 3

// measureBeside runs scenes under a mechanism, all at once, each on GPUs of its
// own.
func (m *measurer) measureBeside(ctx context.Context, how sharing.Mechanism, list []*scene) error {
	events := 0.0
	for _, s := range list {
		for _, t := range s.Tenants {
			events += t.sim.eventsPerS()
		}
	}
	copies := min(max(int(mostEvents/2/events), 1), mostCopies)
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

// place puts a scene's tenants on simulated GPUs under a mechanism.
func (m *measurer) place(u *setup, how sharing.Mechanism, s *scene) error {
	o := loadgentest.GPUOptions{Quantum: m.quantum}
	switch how {
	case sharing.Exclusive:
		for _, t := range s.Tenants {
			u.add(s, t, u.gpu(o), nil)
		}
		return nil
	case sharing.MIG:
		profiles, why := s.slices(m.result)
		if why != "" {
			return errors.New(why)
		}
		o.Sharing = loadgentest.Partitioned
		gpu := u.gpu(o)
		for i, t := range s.Tenants {
			u.add(s, t, gpu, func(model *loadgentest.Model) {
				model.SMShare, model.BandwidthShare = s.smShare(profiles[i]), float64(profiles[i].PlacementUnits)/float64(profiles[i].Model().Units)
			})
		}
		return nil
	case sharing.MPS, sharing.MIGLikeEmulation:
		o.Sharing = loadgentest.Concurrent
	}
	gpu := u.gpu(o)
	for _, t := range s.Tenants {
		u.add(s, t, gpu, func(model *loadgentest.Model) {
			if how == sharing.MIGLikeEmulation {
				model.SMShare = s.emulationPercent() / 100
			}
		})
	}
	return nil
}

// emulationPercent is the active thread percentage of each tenant under
// mig-like-emulation: equal parts.
func (s *scene) emulationPercent() float64 { return float64(100 / len(s.Tenants)) }

// group is a workload of a scene in one run, its replicas together.
type group struct {
	scene    *scene
	workload string
	sim      *simulated
	row      decision.Row
	replicas int
}

// drive loads the servers and puts the figures of each scene's workloads
// together.
func (m *measurer) drive(ctx context.Context, name string, u *setup) ([]group, error) {
	for i := range u.gpus {
		u.gpus[i].Seed = m.seed + uint64(i)
	}
	sim, err := colocation.Simulate(u.gpus, u.tenants, m.simulatedTime)
	if err != nil {
		return nil, err
	}
	m.say("%s: %d replicas on %d GPUs, %v s", name, len(u.clients), len(u.gpus), m.seconds)
	plan := loadgen.Plan{Scenario: name, Duration: milliseconds(1e3 * m.seconds), Drain: 5 * time.Second, Seed: m.seed, Simulated: true,
		Window: loadgen.Window{From: milliseconds(1e3 * m.warmup()), To: milliseconds(1e3 * m.seconds)}}
	for i, c := range u.clients {
		l := u.sims[i].load
		t := loadgen.Tenant{Name: c.tenant, Model: c.workload, API: loadgen.Completions, Endpoints: sim.Endpoints[i : i+1],
			// The same replica asks the same in each run.
			Prompts: colocation.NewPrompts(m.seed, c.tenant, l.Prompt), MaxTokens: l.Output, Body: map[string]any{"ignore_eos": true}}
		if l.Closed() {
			t.Load.Concurrency = l.Concurrency
		} else {
			t.Load.Schedule = loadgen.Poisson{PerS: l.Rate}
		}
		plan.Tenants = append(plan.Tenants, t)
	}
	opts := loadgen.Options{Meta: map[string]any{"basis": sharing.BasisSimulated, "run": name}}
	if m.dir != "" {
		opts.Dir = filepath.Join(m.dir, name)
	}
	if m.simulatedTime {
		opts.UserStamps, opts.Pacing = true, loadgen.PacingTimer
	}
	res, series, err := colocation.Drive(ctx, plan, opts, sim.Source)
	if err := errors.Join(err, sim.Close()); err != nil {
		return nil, err
	}
	if h := &res.Summary.ClientHealth; !h.Valid {
		m.report.note("%s: the client shaped the figures: %v", name, h.Reasons)
	}
	return collect(u, res, series), nil
}

// write writes a file of the artifacts, if any are kept.
func (m *measurer) write(name string, v any) error {
	if m.dir == "" {
		return nil
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(m.dir, name), append(data, '\n'), 0o644)
}
