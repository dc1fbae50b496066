package colocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/simgpu"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// DefaultFleetSeconds keeps five runs under a minute.
const DefaultFleetSeconds = 7

// fleetFlow decides a fleet and simulates the GPUs that the decision fills: each
// workload alone, the prediction, then side by side under each mechanism.
type fleetFlow struct {
	bench
	opts     FleetOptions
	result   *decision.Result
	scenes   []scene
	rep      Report
	profiles profile.Profiles
	alone    map[string]*profile.Row // by workload
	expected []prediction
}

// fleetReport holds the parts of a report that only fleets have.
type fleetReport struct {
	Seed          uint64       `json:"seed,omitempty"`
	SecondsPerRun float64      `json:"seconds_per_run,omitempty"`
	Assumed       []assumption `json:"assumed,omitempty"`
	Scenes        []scene      `json:"scenes,omitempty"`
	NotRun        []notRun     `json:"not_run,omitempty"`
	Findings      []finding    `json:"findings,omitempty"`
	Alone         []ReportRow  `json:"alone,omitempty"` // each workload on a GPU of its own
}

// assumption lists what was assumed of a workload beyond the fleet file.
type assumption struct {
	Workload string   `json:"workload"`
	Assumed  []string `json:"assumed"`
}

// notRun names a workload or mechanism that is not simulated, with the reason.
type notRun struct {
	Scene     string             `json:"scene,omitempty"`
	Workload  string             `json:"workload,omitempty"`
	Mechanism *sharing.Mechanism `json:"mechanism,omitempty"`
	Reason    string             `json:"reason"`
}

// FleetOptions configure [SimulateFleet].
type FleetOptions struct {
	Options
	// Profiles are those that the fleet was decided with, or nil.
	Profiles *profile.Profiles
	// Seed of arrivals, prompts and kernel lengths.
	Seed uint64
	// Seconds of each run, 1 to 600; 0 is DefaultFleetSeconds.
	Seconds float64
	// Mechanisms to run; nil is exclusive, time-slicing, mps, mig and those recommended.
	Mechanisms []sharing.Mechanism
}

// SimulateFleet runs the GPUs that the result fills on simulated GPUs: each workload alone, the prediction, then side
// by side under what was recommended and what was not. The report lists contradictions of the decision. The simulated
// GPU's predictor makes the predictions. After an error, or when ctx ends, the report has the runs until then.
func SimulateFleet(ctx context.Context, fleet *decision.Fleet, result *decision.Result, opts FleetOptions) (*Report,
	error) {
	opts.Seconds = cmp.Or(opts.Seconds, DefaultFleetSeconds)
	opts.Options = opts.filled()
	opts.Predictor = simulatedPredictor(SimulatedGPU{})
	set, err := newSceneSet(fleet, result, opts.Profiles, opts.Seconds)
	if err != nil {
		return nil, err
	}
	f := &fleetFlow{bench: bench{Options: opts.Options, simulated: true, shaped: map[string]bool{}},
		opts: opts, result: result, scenes: set.scenes, alone: map[string]*profile.Row{}}
	f.rep = Report{Basis: sharing.BasisSimulated, GPU: simulatedName, Rows: []ReportRow{}, fleetReport: fleetReport{
		Seed: opts.Seed, SecondsPerRun: opts.Seconds, NotRun: set.missing, Assumed: set.assumed()}}
	err = f.measure(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %d rows side by side and %d alone are kept in %s: %w", errInterrupted, len(f.rep.Rows),
			len(f.rep.Alone), f.Dir, context.Cause(ctx))
	}
	f.rep.end(err, &f.bench)
	f.rep.Scenes = f.scenes
	f.rep.Agreement = agreements(f.rep.Rows, nil)
	f.judge()
	return &f.rep, errors.Join(err, f.write("report.json", f.rep))
}

func (f *fleetFlow) measure(ctx context.Context) error {
	if len(f.scenes) == 0 {
		return nil
	}
	if err := f.measureAlone(ctx); err != nil {
		return err
	}
	runs := map[sharing.Mechanism][]*scene{}
	mechanisms := f.toRun()
	for _, how := range mechanisms {
		for i := range f.scenes {
			s := &f.scenes[i]
			if why := s.runnable(how, f.result); why != "" {
				f.rep.NotRun = append(f.rep.NotRun, notRun{Scene: s.Name, Mechanism: &how, Reason: why})
				continue
			}
			runs[how] = append(runs[how], s)
			f.expected = append(f.expected, f.expect(how, s))
		}
	}
	// All that is expected is written down before anything runs side by side.
	if err := f.write("predictions.json", f.expected); err != nil {
		return err
	}
	for _, how := range mechanisms {
		if len(runs[how]) > 0 {
			if err := f.measureBeside(ctx, how, runs[how]); err != nil {
				return err
			}
		}
	}
	return nil
}

// toRun lists the mechanisms to run.
func (f *fleetFlow) toRun() []sharing.Mechanism {
	if len(f.opts.Mechanisms) > 0 {
		return f.opts.Mechanisms
	}
	out := []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS,
		sharing.MechanismMIG}
	for _, s := range f.scenes {
		if !slices.Contains(out, s.Recommended) {
			out = append(out, s.Recommended)
		}
	}
	return out
}

// fewestAlone counts the replicas of a workload that are profiled, each alone: a single
// one has few requests in a short run.
const fewestAlone = 16

// measureAlone profiles each workload on GPUs of its own.
func (f *fleetFlow) measureAlone(ctx context.Context) error {
	var l layout
	var sims []*replica // a workload's
	for i := range f.scenes {
		s := &f.scenes[i]
		for _, t := range s.Tenants {
			if slices.Contains(sims, t.sim) {
				continue
			}
			sims = append(sims, t.sim)
			n := 1
			if !t.sim.load.Closed() {
				n = fewestAlone
			}
			for range n {
				l.add(s, t, l.gpu(nil), 0, 0)
			}
		}
	}
	began := f.time()
	rec, err := f.drive(ctx, "alone", &l)
	if err != nil && (ctx.Err() == nil || rec == nil) {
		return err
	}
	var all []profile.SoloProfile
	for _, sim := range sims {
		name := sim.workload.Name
		row := rec.Row(l.clientsOf(nil, name))
		row.Mechanism, row.Case, row.Tenants, row.Server, row.Load = sharing.MechanismTimeSlicing, "simulated/"+name, 1,
			sim.serverKey(0), sim.load
		if row.Requests.Or(0) == 0 {
			f.note("%s: no request ended alone in the counted time, so nothing is expected of it", name)
			continue
		}
		r := ReportRow{Basis: sharing.BasisSimulated, Mode: sharing.MechanismExclusive, Case: "alone", Load: name,
			Tenants: 1, Began: began, Run: "alone", Cut: err != nil}
		r.fill(&row, nil, nil, time.Time{}, profile.SLO{})
		if f.rep.Alone = append(f.rep.Alone, r); r.Cut {
			continue
		}
		list := profile.Rows{row}.Profiles()
		for i := range list {
			list[i].GPU, list[i].Run = simulatedName, "alone"
		}
		if err := f.profiles.Add(list...); err != nil {
			f.note("%s: nothing is expected of it: %v", name, err)
			continue
		}
		f.alone[name] = &row
		all = append(all, list...)
	}
	if err != nil {
		return err
	}
	return f.write("profiles.json", all)
}

// mostCopies bounds the copies of a scene in one run, which share nothing and add
// requests, as long as they send fewer events a second than usualEvents.
const (
	mostCopies  = 3
	usualEvents = 2000.0
)

// measureBeside runs scenes under a mechanism, all at once, each on GPUs of its own.
func (f *fleetFlow) measureBeside(ctx context.Context, how sharing.Mechanism, list []*scene) error {
	events := 0.0
	for _, s := range list {
		events += s.eventsPerS()
	}
	physics := simulatedPredictor(SimulatedGPU{Quantum: profile.Duration(f.quantum)})
	var l layout
	for _, s := range list {
		for range min(max(int(usualEvents/events), 1), mostCopies) {
			l.place(how, s, f.result, simgpu.New(how, &physics.Parameters))
		}
	}
	began := f.time()
	rec, err := f.drive(ctx, how.String(), &l)
	if err != nil && (ctx.Err() == nil || rec == nil) {
		return err
	}
	for _, s := range list {
		for _, sim := range s.workloads() {
			w := sim.workload
			clients, gpus := l.clientsOf(s, w.Name)
			row := rec.Row(clients, gpus)
			r := ReportRow{Basis: sharing.BasisSimulated, Mode: how, Case: s.Name, Load: w.Name, Tenants: len(s.Tenants),
				Copies: len(clients), Began: began, Run: how.String(), Cut: err != nil}
			p, written := predicted(f.expected, how, s.Name, w.Name)
			if r.Cut && row.Requests.Or(0) == 0 {
				continue
			} else if r.Cut {
				p = nil
			}
			r.fill(&row, f.alone[w.Name], p, written, w.SLO)
			f.rep.Rows = append(f.rep.Rows, r)
		}
	}
	return err
}

// layout is replicas on the simulated GPUs of one run.
type layout struct {
	gpus  []loadgentest.GPUOptions
	seats []loadgentest.Seat
	who   []client // of the seats
}

// client is a replica under load.
type client struct {
	name  string // in the run
	scene *scene
	sim   *replica
}

func (l *layout) gpu(d loadgentest.Device) int {
	l.gpus = append(l.gpus, loadgentest.GPUOptions{Device: d})
	return len(l.gpus) - 1
}

// add puts a replica on a GPU, or on a share of it.
func (l *layout) add(s *scene, t tenant, gpu int, smShare, bandwidthShare float64) {
	model := t.sim.model
	model.SMShare, model.BandwidthShare = smShare, bandwidthShare
	l.seats = append(l.seats, loadgentest.Seat{Index: gpu,
		Options: loadgentest.Options{Model: model, Slots: t.sim.slots, NoLog: true}})
	l.who = append(l.who, client{fmt.Sprintf("%s.%s.%d", s.Name, t.Workload, len(l.who)), s, t.sim})
}

// place puts a scene's tenants on GPUs under a mechanism that it is runnable by.
func (l *layout) place(how sharing.Mechanism, s *scene, result *decision.Result, d loadgentest.Device) {
	if how == sharing.MechanismExclusive {
		for j, t := range s.Tenants {
			// Closed loops have requests enough with one.
			if again := slices.ContainsFunc(s.Tenants[:j], func(o tenant) bool { return o.sim == t.sim }); !again ||
				!t.sim.load.Closed() {
				l.add(s, t, l.gpu(nil), 0, 0)
			}
		}
		return
	}
	profiles, _ := s.slices(result)
	gpu := l.gpu(d)
	for i, t := range s.Tenants {
		sm, bandwidth := s.percent(how)/100, 0.0
		if how == sharing.MechanismMIG {
			sm, bandwidth = s.smShare(profiles[i]), float64(profiles[i].PlacementUnits)/float64(profiles[i].Model().Units)
		}
		l.add(s, t, gpu, sm, bandwidth)
	}
}

// clientsOf lists the clients of a workload in a scene, nil = any, and their GPUs.
func (l *layout) clientsOf(s *scene, workload string) (names []string, gpus []int) {
	for i, c := range l.who {
		if c.sim.workload.Name == workload && (s == nil || c.scene == s) {
			names, gpus = append(names, c.name), append(gpus, l.seats[i].Index)
		}
	}
	return names, gpus
}

// drive makes a run of the replicas. The first seconds of it do not count.
func (f *fleetFlow) drive(ctx context.Context, name string, l *layout) (rec *Recording, err error) {
	for i := range l.gpus {
		l.gpus[i].Seed = f.opts.Seed + uint64(i)
	}
	for i := range l.seats {
		l.seats[i].Pipe = f.simulatedTime
	}
	sim, err := loadgentest.NewSimulation(l.gpus, l.seats...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	f.say("%s: running %d replicas on %d GPUs for %v s", name, len(l.seats), len(l.gpus), f.opts.Seconds)
	ms := 1e3 * f.opts.Seconds
	plan := loadgen.LoadPlan{Scenario: name, Duration: milliseconds(ms), Drain: 5 * time.Second, Seed: f.opts.Seed,
		Window: loadgen.Window{From: milliseconds(min(1e3, ms/5)), To: milliseconds(ms)}}
	for i, c := range l.who {
		t, err := Offer(c.name, name, c.sim.load, f.opts.Seed)
		if err != nil {
			return nil, err
		}
		t.Model, t.API, t.Endpoints = c.sim.workload.Name, loadgen.APICompletions, sim.Endpoints()[i:i+1]
		plan.Tenants = append(plan.Tenants, t)
	}
	return f.record(ctx, name, plan, &gpuReader{gpus: sim.GPUs}, nil)
}

// expect predicts what a scene's workloads will see under a mechanism.
func (f *fleetFlow) expect(how sharing.Mechanism, s *scene) prediction {
	p := prediction{Mode: how, Case: s.Name, written: f.time()}
	var problems []error
	add := func(some []tenantPrediction, err error) {
		problems, p.Tenants = append(problems, err), append(p.Tenants, some...)
	}
	switch how {
	case sharing.MechanismExclusive: // each with nobody else
		for _, sim := range s.workloads() {
			add(f.predict(how, []*replica{sim}, 0))
		}
	case sharing.MechanismMIG:
		for _, sim := range s.workloads() {
			add(f.expectSlice(s, sim))
		}
	default:
		var sims []*replica
		for _, t := range s.Tenants {
			sims = append(sims, t.sim)
		}
		add(f.predict(how, sims, s.percent(how)))
	}
	for _, t := range p.Tenants {
		f.say("expected of %s on %s by %s: TTFT P99 %s ms, TPOT P99 %s ms", t.Load, s.Name, how,
			expectedCell(t.Predicted, t.Prior, profile.MetricTTFTP99), expectedCell(t.Predicted, t.Prior, profile.MetricTPOTP99))
	}
	if err := errors.Join(problems...); err != nil {
		p.Problem = err.Error()
		f.say("expected on %s by %s: nothing more: %s", s.Name, how, strings.ReplaceAll(p.Problem, "\n", "; "))
	}
	return p
}

// predict predicts replicas beside one another, of active thread percentages where they have some.
func (f *fleetFlow) predict(how sharing.Mechanism, sims []*replica, percent float64) ([]tenantPrediction, error) {
	var names []string
	var group []profile.Solo
	for _, sim := range sims {
		solo, err := f.profiles.Solo(sim.serverKey(percent), sim.load)
		if err != nil {
			return nil, err
		}
		names, group = append(names, sim.workload.Name), append(group, solo)
	}
	return predictTenants(f.Predictor, how, names, group)
}

// expectSlice expects of a slice what the one workload that was measured on
// slices showed. It says nothing of the spread, so there is no interval.
func (f *fleetFlow) expectSlice(s *scene, sim *replica) ([]tenantPrediction, error) {
	profiles, why := s.slices(f.result)
	if why != "" {
		return nil, errors.New(why)
	}
	i := slices.IndexFunc(s.Tenants, func(t tenant) bool { return t.sim == sim })
	solo, err := f.profiles.Solo(sim.serverKey(0), sim.load)
	if err != nil {
		return nil, err
	}
	t := tenantPrediction{Load: sim.workload.Name, Basis: sharing.BasisPrior, Prior: map[profile.Metric]float64{}}
	for metric, v := range solo.TimeSlicing.All() {
		if metric == profile.MetricTokensPerSecond {
			continue
		}
		slower, _ := predict.SliceSlowdown(s.smShare(profiles[i]), 1)
		t.Prior[metric] = v * slower
		if metric == profile.MetricTPOTP50 {
			t.PriorSlowdown = &slower
		}
	}
	return []tenantPrediction{t}, nil
}
