package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/colocation"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/sharing"
)

const measureUsage = `Measures workloads alone and side by side on one GPU, and predicts the latter first.

  cotenant measure                            on a simulated GPU, some 70 s
  cotenant measure -fleet FLEET               a decision, on simulated GPUs, some 40 s
  cotenant measure -print-plan                a plan to start from
  cotenant measure -real -plan FILE -out DIR

Each load of the plan is run alone, and with -real for some seconds beside a neighbour
that spins, which counts the time slices of its step; then a prediction of the runs
side by side is written down, then those are made: under time-slicing, under MPS (a
daemon of its own), and under MPS with percentages and memory limits, which is as near
to MIG as processes come without being isolated. It never changes compute mode,
clocks, persistence, MIG or compute policy.

With -fleet a fleet file is decided, and the GPUs that the decision fills are simulated
likewise, under what was recommended and what was not.

DIR keeps every run, the predictions as they were before (DIR/MODE/predictions.json),
DIR/rows.json in the co-location format, DIR/predictor.json calibrated on this run, and
DIR/report.json. An interrupt keeps the runs until then.
`

type measureConfig struct {
	machine
	real, json, printPlan, noTelemetry        bool
	fleet, profiles, plan, dir, predictorFile string

	opts    colocation.Options
	seconds float64
	// with -fleet
	mechanisms []sharing.Mechanism // empty are those of the decision, and the usual ones
	seed       uint64
}

func runMeasure(ctx context.Context, args []string, std stdio) error {
	c, err := parseMeasure(args, std)
	switch {
	case err != nil:
		return err
	case c.printPlan:
		_, err := std.out.Write(colocation.PlanTemplate())
		return err
	}
	c.opts.Progress = func(line string) { fmt.Fprintln(std.err, line) }
	if c.predictorFile != "" {
		if c.opts.Predictor, err = predict.LoadPredictor(c.predictorFile); err != nil {
			return badInput(err)
		}
	}
	if c.fleet != "" {
		err = c.measureFleet(ctx, std)
	} else {
		err = c.measurePlan(ctx, std)
	}
	if err != nil && ctx.Err() != nil {
		return exitWith(exitInterrupted, err)
	}
	return err
}

func parseMeasure(args []string, std stdio) (*measureConfig, error) {
	c := &measureConfig{}
	fl := flagSet("measure")
	fl.BoolVar(&c.real, "real", false, "measure this machine's GPU, a simulated one otherwise")
	fl.StringVar(&c.fleet, "fleet", "", "fleet `FILE` to decide and simulate, - for standard input")
	fl.StringVar(&c.profiles, "profiles", "", "with -fleet: `FILE` of workloads measured alone, to decide with")
	fl.Func("mechanisms", "with -fleet: comma-separated `LIST` to run (default: exclusive, time-slicing, mps, mig "+
		"and those recommended)", c.parseMechanisms)
	fl.Uint64Var(&c.seed, "seed", 1, "with -fleet: of arrivals, prompts and kernel lengths")
	fl.StringVar(&c.plan, "plan", "", "plan `FILE`, YAML (default: the built-in one for the simulation)")
	fl.StringVar(&c.opts.Dir, "out", "", "new folder for the results (default: measure-TIME)")
	fl.StringVar(&c.dir, "dir", "", "working folder of the servers' commands (default: this one)")
	fl.Float64Var(&c.seconds, "seconds", 0, "length of each run (default: the plan's; 7 with -fleet)")
	fl.StringVar(&c.predictorFile, "predictor", "", "predictor `FILE` to predict with; with -fleet to decide with")
	fl.Func("price", "`PRICE` of a GPU hour, \"2.90 USD\": adds the cost of a million tokens", func(s string) (err error) {
		c.opts.Price, err = cost.ParsePrice(s)
		return err
	})
	fl.BoolVar(&c.json, "json", false, "print the report as JSON")
	fl.BoolVar(&c.printPlan, "print-plan", false, "print a plan for -real and exit")
	fl.BoolVar(&c.noTelemetry, "no-telemetry", false, "measure without NVML: the predictions are then wider")
	fl.DurationVar(&c.opts.Silent, "silent", colocation.DefaultSilent,
		"with -real: give a server up that answers nothing for so long, not even a request for one token")
	fl.DurationVar(&c.opts.Spinner, "spinner", 4*time.Second,
		"with -real: run each load so long beside a spinning neighbour, to count the time slices of its step; 0 = do not")
	c.flags(fl)
	if err := parse(fl, args, measureUsage, 0, std); err != nil {
		return nil, err
	}
	return c, badInput(c.check(fl))
}

// check names everything that is wrong with the flags.
func (c *measureConfig) check(fl *flag.FlagSet) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.real && c.plan == "" && !c.printPlan && c.fleet == "" {
		bad("-plan: -real needs a plan of the servers to measure (-print-plan prints one to start from)")
	}
	if c.opts.Silent < time.Second {
		bad("-silent: must be 1s or more, is %v", c.opts.Silent)
	}
	if s := c.opts.Spinner; s < 0 || s > 0 && s < time.Second || s > 10*time.Minute {
		bad("-spinner: must be 0, or lie between 1s and 10m, is %v", s)
	}
	others, why := []string{"profiles", "mechanisms", "seed"}, "is for -fleet only (add -fleet)"
	if c.fleet != "" {
		others = []string{"price", "real", "plan", "print-plan", "dir", "no-telemetry", "nvml", "control", "silent",
			"spinner"}
		why = "does not go with -fleet, which is simulated (leave one of them out)"
		if c.seconds == 0 {
			c.seconds = colocation.DefaultFleetSeconds
		}
		if !(c.seconds >= 1 && c.seconds <= 600) {
			bad("-seconds: must lie between 1 and 600, is %v", c.seconds)
		}
	}
	fl.Visit(func(f *flag.Flag) {
		if slices.Contains(others, f.Name) {
			bad("-%s: %s", f.Name, why)
		}
	})
	return errors.Join(errs...)
}

// parseMechanisms reads a comma-separated list.
func (c *measureConfig) parseMechanisms(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		m, err := sharing.ParseMechanism(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		if m == sharing.MechanismNone {
			return errors.New("none cannot be run")
		}
		if !slices.Contains(c.mechanisms, m) {
			c.mechanisms = append(c.mechanisms, m)
		}
	}
	return nil
}

// newFolder makes the folder for the results, or takes an empty one.
func (c *measureConfig) newFolder() error {
	if c.opts.Dir == "" {
		c.opts.Dir = "measure-" + time.Now().UTC().Format("20060102T150405Z")
	}
	if err := os.MkdirAll(c.opts.Dir, 0o755); err != nil {
		return badInput(fmt.Errorf("-out: %w", err))
	}
	entries, err := os.ReadDir(c.opts.Dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("-out: %s is not empty; name a new folder", c.opts.Dir)
	}
	return badInput(err)
}

// measurePlan measures a plan and prints the report.
func (c *measureConfig) measurePlan(ctx context.Context, std stdio) error {
	text, name := colocation.SimulatedPlan(), "built-in plan"
	if c.plan != "" {
		var err error
		if text, err = os.ReadFile(c.plan); err != nil {
			return badInput(fmt.Errorf("-plan: %w", err))
		}
		name = c.plan
	}
	plan, err := colocation.ParsePlan(text, colocation.PlanOptions{Real: c.real, Seconds: c.seconds})
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", name, err))
	}
	if err := c.newFolder(); err != nil {
		return err
	}
	var site colocation.Site = colocation.NewSimulation(plan)
	closeSite := func() error { return nil }
	if c.real {
		if site, closeSite, err = c.openMachine(ctx, plan); err != nil {
			return refuseReal(err)
		}
	}
	rep, err := colocation.Measure(ctx, plan, site, c.opts)
	err = errors.Join(err, closeSite())
	if rep == nil {
		return err
	}
	if c.json {
		return errors.Join(err, printJSON(std.out, rep))
	}
	err = errors.Join(err, rep.WriteText(std.out))
	if rep.Calibrated != "" {
		fmt.Fprintf(std.out, "\nThe next run predicts with what this one measured by -predictor %s\n",
			filepath.Join(c.opts.Dir, rep.Calibrated))
	}
	return err
}

// openMachine opens the machine's GPU with what -no-telemetry leaves of NVML.
func (c *measureConfig) openMachine(ctx context.Context, plan *colocation.Plan) (colocation.Site, func() error, error) {
	opts := colocation.MachineOptions{Dir: c.dir, Program: c.program(), Beside: besideSpinner}
	closeSource := func() error { return nil }
	if !c.noTelemetry {
		source, err := c.open()
		if err != nil {
			return nil, nil, fmt.Errorf("%w\n-no-telemetry measures without it", err)
		}
		opts.Source, closeSource = source, source.Close
	}
	m, err := colocation.NewMachine(ctx, plan, opts)
	if err != nil {
		return nil, nil, errors.Join(err, closeSource())
	}
	return m, closeSource, nil
}

// besideSpinner runs something while a process of the probe spins on the GPU.
func besideSpinner(ctx context.Context, device int, uuid string, run func(context.Context) error) error {
	s, err := cudaprobe.Open(ctx, cudaprobe.Options{Device: device, UUID: uuid})
	if err != nil {
		return err
	}
	return errors.Join(s.BesideSpinner(ctx, run), s.Close())
}

// measureFleet decides a fleet, simulates the GPUs that the decision fills, and prints
// the decision and the report.
func (c *measureConfig) measureFleet(ctx context.Context, std stdio) error {
	opts := decision.Options{Predictor: c.opts.Predictor}
	var fleet *decision.Fleet
	var err error
	if c.fleet == "-" {
		fleet, err = decision.ReadFleet(std.in)
	} else {
		opts.Input = c.fleet
		fleet, err = decision.LoadFleet(c.fleet)
	}
	if err == nil && c.profiles != "" {
		opts.Profiles, err = predict.LoadProfiles(c.profiles)
	}
	if err != nil {
		return badInput(err)
	}
	result, err := decision.Decide(fleet, opts)
	if err != nil {
		return badInput(err)
	}
	if err := c.newFolder(); err != nil {
		return err
	}
	if !c.json {
		if err := result.WriteText(std.out, decision.TextOptions{}); err != nil {
			return err
		}
	}
	rep, err := colocation.SimulateFleet(ctx, fleet, result, colocation.FleetOptions{
		Options: c.opts, Profiles: opts.Profiles, Seed: c.seed, Seconds: c.seconds, Mechanisms: c.mechanisms})
	switch {
	case rep == nil:
		return err
	case !c.json:
		return errors.Join(err, rep.WriteText(std.out))
	}
	return errors.Join(err, printJSON(std.out, struct {
		*decision.Result
		Simulated *colocation.Report `json:"simulated"`
	}{result, rep}))
}
