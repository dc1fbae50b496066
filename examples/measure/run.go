package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `Measures how workloads get on together on one GPU, and predicts it first.

  go run ./examples/measure                      on a simulated GPU, some 70 s
  go run ./examples/measure -input FLEET         a decision, on simulated GPUs, some 40 s
  go run ./examples/measure -print-plan          a plan to start from
  go run ./examples/measure -real -plan FILE -out DIR

Each load of the plan is run alone, then what they will see side by side is
predicted and written down, then they are run side by side; all of that under
time-slicing, under MPS (a daemon of its own, started and stopped), and under
MPS with percentages and memory limits, which is as near to MIG as processes
come without being isolated. It never changes compute mode, clocks,
persistence, MIG or compute policy.

With -input a fleet file is decided first, as examples/quickstart does. Then the
GPUs that the decision fills are simulated: each workload alone, the prediction,
and side by side under what was recommended and what was not. Expected stands
beside measured, and what contradicts the decision is said.

DIR keeps for every run what loadgen and telemetry saw, DIR/MODE/predictions.json
as it was before the runs side by side, DIR/rows.json in the form that
examples/predict reads, and DIR/report.json. Ctrl-C ends the run and keeps what
was measured.

Flags:
`

// app is the program with its doors to the world.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// site replaces the machine or simulation; nil = as the flags say.
	site func(*config, *plan) (site, func() error, error)
	now  func() time.Time // nil = time.Now

	// For tests of -input: all in simulated time, and the simulated GPU's quantum,
	// which the predictor does not know.
	simulatedTime bool
	quantum       time.Duration
}

type config struct {
	real, simulate  bool
	input, planFile string
	out             string
	profiles        string
	mechanisms      []sharing.Mechanism // empty = those of the decision, and the usual ones
	seed            uint64
	dir             string
	seconds         float64
	use             string
	json            bool
	printPlan       bool
	noTelemetry     bool
	nvml, control   string
	userStamps      bool // all in simulated time, for tests

	planText  []byte
	predictor *predict.Predictor
}

func (a *app) parse(args []string) (*config, *plan, error) {
	c := &config{}
	fl := flag.NewFlagSet("measure", flag.ContinueOnError)
	fl.SetOutput(io.Discard) // run reports the error, once
	fl.BoolVar(&c.real, "real", false, "measure this machine's GPU")
	fl.BoolVar(&c.simulate, "simulate", false, "measure embedded servers on a simulated GPU (the default)")
	fl.StringVar(&c.input, "input", "", "fleet `FILE` to decide and simulate, - for standard input")
	fl.StringVar(&c.profiles, "profiles", "", "with -input: `FILE` of workloads measured alone, as examples/quickstart takes it")
	fl.Func("mechanisms", "with -input: comma-separated `LIST` to run (default: exclusive, time-slicing, mps, mig and those recommended)", c.parseMechanisms)
	fl.Uint64Var(&c.seed, "seed", 1, "with -input: of arrivals, prompts and kernel lengths")
	fl.StringVar(&c.planFile, "plan", "", "plan, YAML (default: the built-in one for the simulation)")
	fl.StringVar(&c.out, "out", "", "new folder for the results (default: measure-TIME)")
	fl.StringVar(&c.dir, "dir", "", "working folder of the servers' commands (default: this one)")
	fl.Float64Var(&c.seconds, "seconds", 0, "length of each run (default: the plan's; 7 with -input)")
	fl.StringVar(&c.use, "use", "", "predictor to predict with, as examples/predict saves it; with -input to decide with")
	fl.BoolVar(&c.json, "json", false, "print the report as JSON")
	fl.BoolVar(&c.printPlan, "print-plan", false, "print a plan for -real and exit")
	fl.BoolVar(&c.noTelemetry, "no-telemetry", false, "measure without NVML: the predictions are then wider")
	fl.StringVar(&c.nvml, "nvml", "", "path of libnvidia-ml.so.1 (default: as the linker finds it)")
	fl.StringVar(&c.control, "control", "", "path of nvidia-cuda-mps-control (default: on PATH)")
	if err := fl.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(a.stdout, usage)
			fl.SetOutput(a.stdout)
			fl.PrintDefaults()
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("%w (see -h)", err)
	}
	var list problem.List
	if fl.NArg() > 0 {
		list.Addf("", "use flags only; see -h", "unexpected %q", fl.Args())
	}
	if c.real && c.simulate {
		list.Addf("", "use one of them", "-real and -simulate contradict each other")
	}
	if c.real && c.planFile == "" && !c.printPlan {
		list.Addf("-plan", "-print-plan prints one to start from", "-real needs a plan of the servers to measure")
	}
	c.checkInput(&list, fl)
	if err := list.Err(); err != nil || c.printPlan || c.input != "" {
		return c, nil, err
	}
	p, err := c.readPlan()
	if err != nil {
		return nil, nil, err
	}
	c.predictor, err = c.readPredictor(p.SimGPU)
	return c, p, err
}

func (c *config) readPlan() (p *plan, err error) {
	name := c.planFile
	if name == "" {
		name = "built-in plan"
		c.planText, err = fs.ReadFile(plans, "plans/simulated.yaml")
	} else {
		c.planText, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("-plan: %w", err)
	}
	p, err = parsePlan(c.planText, c.real, c.seconds)
	if err != nil {
		var list problem.List
		list.AddErr(name, err)
		return nil, list.Err()
	}
	return p, nil
}

// readPredictor returns the predictor of -use, else what this project measured
// on an H200, else the one for the simulated GPU.
func (c *config) readPredictor(sim *simulatedGPU) (*predict.Predictor, error) {
	if c.use != "" {
		b, err := os.ReadFile(c.use)
		if err != nil {
			return nil, fmt.Errorf("-use: %w", err)
		}
		p, err := predict.ParsePredictor(b)
		if err != nil {
			var list problem.List
			list.AddErr(c.use, err)
			return nil, list.Err()
		}
		return p, nil
	}
	p := predict.NewPredictor()
	if !c.real {
		if sim == nil {
			sim = &simulatedGPU{}
		}
		p = colocation.Predictor(time.Duration(sim.Quantum), time.Duration(sim.Switch))
	}
	return &p, nil
}

// run is the program; it returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	c, p, err := a.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return a.fail(err, exitUsage)
	case c.printPlan:
		b, err := fs.ReadFile(plans, "plans/two-models.yaml")
		if err == nil {
			_, err = a.stdout.Write(b)
		}
		if err != nil {
			return a.fail(err, exitFailed)
		}
		return exitOK
	}
	if a.now == nil {
		a.now = time.Now
	}
	if c.out == "" {
		c.out = "measure-" + a.now().UTC().Format("20060102T150405Z")
	}
	if c.input != "" {
		return a.runFleet(ctx, c)
	}
	if err := newFolder(c.out); err != nil {
		return a.fail(fmt.Errorf("-out: %w", err), exitUsage)
	}
	open := a.site
	if open == nil {
		open = openSite
	}
	s, closeSite, err := open(c, p)
	if err != nil {
		return a.fail(err, exitFailed)
	}
	f := &flow{config: c, plan: p, site: s, now: a.now, log: a.stderr}
	err = f.run(ctx)
	err = errors.Join(err, closeSite(), f.finish(err))
	if f.report != nil {
		err = errors.Join(err, f.print(a.stdout))
	}
	if err != nil {
		return a.fail(err, exitFailed)
	}
	return exitOK
}

// newFolder makes a folder that is not there, or takes an empty one.
func newFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty; name a new folder", dir)
	}
	return err
}

func (a *app) fail(err error, code int) int {
	fmt.Fprintln(a.stderr, "measure:", strings.ReplaceAll(err.Error(), "\n", "\nmeasure: "))
	return code
}

// openSite opens the machine or the simulation.
func openSite(c *config, p *plan) (site, func() error, error) {
	if c.real {
		return openMachine(c, p)
	}
	return &simulation{plan: p}, func() error { return nil }, nil
}
