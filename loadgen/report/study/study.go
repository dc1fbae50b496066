// Package study makes load tests of several runs: sweeps over loads and repeats, tenants alone and together,
// searches for the highest rate that keeps the SLOs, and a demonstration on simulated GPUs.
//
//	file, err := planfile.Load("plan.yaml", planfile.Options{})
//	if err != nil {
//		return err
//	}
//	outcome, err := study.Run(ctx, study.Config{File: *file, Interference: true, Dir: "out"})
//	if err != nil {
//		return err
//	}
//	return errors.Join(outcome.WriteText(os.Stdout), outcome.Verdict())
//
// Experimental: its API may change.
package study

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/planfile"
	"github.com/cotenant/cotenant/loadgen/report"
)

// Config describes a load test. With none of Concurrency, Rates, Scenarios, Search
// and Demo the tenants of File are run together, as they stand there.
type Config struct {
	// File is the plan, resolved. A sweep and a search take its first tenant alone.
	// Resolve reads it from PlanFile where that is not empty.
	File     planfile.File
	PlanFile string
	// Concurrency and Rates (requests/s) are the loads of a sweep, one run for each.
	Concurrency []int
	Rates       []float64
	// Scenarios names simulated GPUs (see ScenarioNames) that the first tenant is run on; empty means its endpoint.
	Scenarios []string
	// Search looks for the highest rate between Low and High at which the first
	// tenant keeps its SLO; the zero value means no search.
	Search loadgen.Search
	// Interference runs each tenant of File alone, and then all together.
	Interference bool
	// Demo runs two tenants under five ways of sharing simulated GPUs, each at the loads of Concurrency.
	Demo bool
	// FailIf holds conditions under which Outcome.Verdict fails.
	FailIf []report.Condition
	// Repeats is the number of runs of each point, with different seeds; 0 means 1.
	Repeats int

	// Dir receives the artifacts: those of one run, or a folder for each of several.
	// It must not exist or must be empty; "" keeps nothing.
	Dir string
	// ServerLog is a file to which the server appends; what it appends during a run
	// is copied into the run's folder.
	ServerLog string
	// Sample, when not nil, writes telemetry as CSV beside each run until its context
	// ends; the CSV is put into the run's folder.
	Sample func(ctx context.Context, w io.Writer) error
	// Progress, when not nil, receives the state of the named run; see loadgen.Options.
	Progress func(run string, now loadgen.Progress)
	// Note, when not nil, receives a line for each run that is made again, discarded or lengthened.
	Note func(text string)
	// Health, Meta, Worker and StartAt are those of loadgen.Options, for every run.
	Health  loadgen.HealthLimits
	Meta    map[string]any
	Worker  loadgen.Worker
	StartAt time.Time

	inMemory bool // simulated servers are reached through memory, as synctest needs
}

// Outcome holds the results of a load test in the order of its runs.
type Outcome struct {
	Results []*loadgen.Result
	// Slowdowns has a table for each repeat of an interference study.
	Slowdowns []report.SlowdownTable
	// Search is nil unless there was one.
	Search *loadgen.SearchResult

	demo   bool
	failIf []report.Condition
}

// The names of files in Config.Dir beside the runs.
const (
	SearchFile    = "search.json"
	SlowdownsFile = "slowdowns.json"
)

var (
	// ErrNothingSucceeded says that no request of a load test was answered.
	ErrNothingSucceeded = errors.New("study: no request succeeded")
	// ErrInvalid says that the client spoiled a run, or that a server's token counts
	// contradict its answers; see loadgen.ClientHealth and loadgen.Summary.Implausible.
	ErrInvalid = errors.New("study: invalid")
)

// Check returns an error that names every problem of the configuration, File's own apart, which planfile finds.
func (c *Config) Check() error {
	var l problem.List
	l.If(c.Repeats < 0, "repeats", "use 1 or more", "is %d", c.Repeats)
	for _, name := range c.Scenarios {
		_, known := scenarios[name]
		l.If(!known, "scenarios", "use one of "+strings.Join(ScenarioNames(), ", "), "unknown scenario %q", name)
	}
	for i := range c.File.Tenants {
		l.If(c.File.Tenants[i].API == loadgen.APIResponses && (len(c.Scenarios) > 0 || c.Demo || c.File.Embedded != ""),
			fmt.Sprintf("tenants[%d].api", i), "use chat or completions", "simulated servers have no responses API")
	}
	for _, n := range c.Concurrency {
		l.If(n < 1, "concurrency", "use 1 or more", "is %d", n)
	}
	for _, r := range c.Rates {
		l.If(!(r > 0), "rates", "use a rate above 0", "is %v", r)
	}
	if c.searches() {
		slo, whole := c.File.Tenants[0].SLO, c.File.Tenants[0].NonStreaming
		l.If(!(0 < c.Search.Low && c.Search.Low < c.Search.High), "search", "use 0 < low < high, e.g. 1,50",
			"is %v to %v", c.Search.Low, c.Search.High)
		l.If(slo.IsZero(), "search", "bound ttft, tpot or e2e", "needs an SLO")
		l.If(whole && (slo.TTFT > 0 || slo.TPOT > 0), "search", "bound e2e, or stream",
			"whole answers have neither ttft nor tpot")
		l.If(len(c.Scenarios) > 1, "search", "name one", "searches one scenario at a time, not %d", len(c.Scenarios))
	}
	if c.Worker.Count > 0 {
		l.AddErr("worker", c.OneRun())
		l.If(c.Dir == "", "worker", "set the directory for artifacts (out)", "its run would be lost")
	}
	if c.Dir != "" {
		entries, err := os.ReadDir(c.Dir)
		if err == nil && len(entries) > 0 {
			err = fmt.Errorf("%w: %s (choose another one, or remove it)", loadgen.ErrRunExists, c.Dir)
		}
		if !errors.Is(err, os.ErrNotExist) {
			l.AddErr("out", err)
		}
	}
	return l.Under(errors.New("study: invalid configuration"))
}

// Resolve reads PlanFile, or, with none, the files that File names, where a first tenant without a load of its own
// takes the test's first one. Tenants without prompts get Prompts.
func (c *Config) Resolve(opts planfile.Options) (err error) {
	if opts.Prompts == nil {
		if opts.Prompts, err = Prompts(); err != nil {
			return err
		}
	}
	if c.PlanFile != "" {
		file, err := planfile.Load(c.PlanFile, opts)
		if err == nil {
			c.File = *file
		}
		return err
	}
	if len(c.Scenarios) > 0 || c.Demo {
		c.File.Embedded = "concurrent" // each scenario has its own way
	}
	if levels := append(c.levels(), rateLevel(c.Search.Low)); levels[0] != rateLevel(0) {
		levels[0].apply(&c.File.Tenants[0])
	}
	return c.File.Resolve(opts)
}

// FromEnv takes this process's part of the load from the environment of a
// loadgen.Job: its run goes into a folder of Dir named by the worker's index.
func (c *Config) FromEnv(lookup func(string) (string, bool)) (err error) {
	if c.Worker, c.StartAt, err = loadgen.WorkerFromEnv(lookup); c.Worker.Count > 0 && c.Dir != "" {
		c.Dir = filepath.Join(c.Dir, strconv.Itoa(c.Worker.Index))
	}
	return err
}

// OneRun returns an error unless the test is a single run, the only kind that several workers can share.
func (c *Config) OneRun() error {
	if len(c.levels()) > 1 || len(c.Scenarios) > 1 || c.Repeats > 1 || c.Interference || c.Demo || c.searches() {
		return errors.New("a worker makes one run: no sweep, repeats, study or search")
	}
	return nil
}

func (c *Config) searches() bool { return c.Search != loadgen.Search{} }

// Run makes the load test. An error comes with the outcome of what was measured
// until then, nil when nothing was sent. It blocks until every run has ended.
func Run(ctx context.Context, c Config) (*Outcome, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Note == nil {
		c.Note = func(string) {}
	}
	c.Repeats = max(c.Repeats, 1)
	t := &test{Config: c, Outcome: &Outcome{demo: c.Demo, failIf: c.FailIf}}
	var err error
	switch {
	case c.Demo:
		err = t.runDemo(ctx)
	case c.searches():
		err = t.search(ctx)
	case len(c.levels())+len(c.Scenarios) > 0:
		err = t.sweep(ctx)
	default:
		err = t.plan(ctx)
	}
	if len(t.Results) == 0 {
		return nil, err
	}
	return t.Outcome, err
}

// test gathers the runs that are made.
type test struct {
	Config
	*Outcome
	several bool // each run has a folder of its own
}

// run makes one run and keeps its result, also when it was cut off.
func (t *test) run(
	ctx context.Context, name string, plan loadgen.LoadPlan, saturation *loadgen.Saturation,
) (res *loadgen.Result, err error) {
	opts := loadgen.Options{Health: t.Health, Meta: t.Meta, Saturation: saturation, Worker: t.Worker, StartAt: t.StartAt}
	if t.Dir != "" {
		opts.Dir = t.Dir
		if t.several {
			opts.Dir = filepath.Join(t.Dir, fileName(name))
		}
		b, besideErr := t.recordBeside(ctx, opts.Dir)
		if besideErr != nil {
			return nil, besideErr
		}
		defer func() { err = errors.Join(err, b.end(&plan)) }()
	}
	if t.Progress != nil {
		opts.Progress = func(now loadgen.Progress) { t.Progress(name, now) }
	}
	res, err = loadgen.Run(ctx, plan, opts)
	if res != nil {
		t.Results = append(t.Results, res)
	}
	return res, err
}

// repeated names a repeat.
func (t *test) repeated(name string, repeat int) string {
	if t.Repeats > 1 {
		return fmt.Sprintf("%s-%d", name, repeat+1)
	}
	return name
}

// fileName turns a name into one path element.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>| `, r) {
			return '-'
		}
		return r
	}, name)
}

// level is a load of a sweep and its short name.
type level struct {
	name        string
	concurrency int
	rate        float64
}

func rateLevel(rate float64) level { return level{name: fmt.Sprintf("r%.6g", rate), rate: rate} }

func (c *Config) levels() []level {
	var out []level
	for _, r := range c.Rates {
		out = append(out, rateLevel(r))
	}
	for _, n := range c.Concurrency {
		out = append(out, level{name: fmt.Sprintf("c%d", n), concurrency: n})
	}
	return out
}

func (l level) apply(t *planfile.Tenant) {
	if t.Concurrency, t.Rate = l.concurrency, l.rate; l.rate == 0 {
		t.Arrivals = ""
	}
}

// target is the server or the simulation that one scenario's load goes to.
type target struct {
	scenario  string
	simulated *loadgentest.Simulation // nil: the tenant's own endpoint
}

// targets opens each of the scenarios in turn for do.
func (t *test) targets(do func(target) error) error {
	if len(t.Scenarios) == 0 {
		name := t.File.Scenario
		if name == "" {
			name = "endpoint"
		}
		return do(target{scenario: name})
	}
	for _, name := range t.Scenarios {
		sim, err := scenarios[name].open(t.File.Seed, t.inMemory)
		if err != nil {
			return err
		}
		if t.File.Scenario != "" {
			name = t.File.Scenario + "-" + name
		}
		if err := errors.Join(do(target{name, sim}), sim.Close()); err != nil {
			return err
		}
	}
	return nil
}

// at returns the first tenant's plan at a load, with prompts from their beginning. Repeats differ in their seed.
func (t *test) at(to target, l *level, repeat int) (loadgen.LoadPlan, error) {
	f := t.File
	f.Tenants = slices.Clone(f.Tenants[:1])
	if l != nil {
		l.apply(&f.Tenants[0])
	}
	plan, err := f.Plan(to.simulated.Endpoints())
	if err != nil {
		return plan, err
	}
	if to.simulated != nil {
		plan.Tenants[0].Endpoints = to.simulated.Endpoints() // each replica
	}
	plan.Scenario = to.scenario
	plan.Seed += uint64(repeat)
	return plan, nil
}

func (t *test) sweep(ctx context.Context) error {
	levels := t.levels()
	t.several = max(len(t.Scenarios), 1)*max(len(levels), 1)*t.Repeats > 1
	return t.targets(func(to target) error {
		for i := range max(len(levels), 1) {
			name, l := to.scenario, (*level)(nil) // the tenant's own load
			if i < len(levels) {
				l = &levels[i]
				name += "-" + l.name
			}
			for repeat := range t.Repeats {
				plan, err := t.at(to, l, repeat)
				if err != nil {
					return err
				}
				if _, err := t.run(ctx, t.repeated(name, repeat), plan, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// plan runs the tenants together once for each repeat, or their interference study.
func (t *test) plan(ctx context.Context) (err error) {
	sim, err := embedTenants(&t.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	cases := func() ([]loadgen.StudyCase, error) {
		plan, err := t.File.Plan(sim.Endpoints())
		if t.Interference {
			return loadgen.Study(plan), err
		}
		return []loadgen.StudyCase{{Name: plan.Scenario, Plan: plan}}, err
	}
	all, err := cases()
	if err != nil {
		return err
	}
	t.several = len(all)*t.Repeats > 1
	for repeat := range t.Repeats {
		var runs []*loadgen.Summary // the last one is of all tenants together
		for i := range all {
			fresh, err := cases() // each case's prompts start over
			if err != nil {
				return err
			}
			c := fresh[i]
			c.Plan.Seed += uint64(repeat)
			if c.Name == "" {
				c.Name = "plan"
			}
			res, err := t.run(ctx, t.repeated(c.Name, repeat), c.Plan, nil)
			if err != nil {
				return err
			}
			runs = append(runs, &res.Summary)
		}
		if t.Interference {
			last := len(runs) - 1
			t.Slowdowns = append(t.Slowdowns, report.Slowdowns(runs[last], runs[:last]))
		}
	}
	if t.Interference {
		return t.write(SlowdownsFile, t.Slowdowns)
	}
	return nil
}
