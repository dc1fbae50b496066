// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/colocation"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

type measureConfig struct {
	machine
	real, json, printPlan, noTelemetry bool
	plan, dir, predictorFile, html     string

	opts    colocation.Options
	seconds float64
	copies  []int
}

func runMeasure(ctx context.Context, fl *call, std stdio) error {
	c, err := parseMeasure(fl, std)
	if err != nil {
		return err
	}
	if c.printPlan {
		text, _ := colocation.BuiltinPlan("two-models")
		return printText(std.out, string(text))
	}
	c.opts.Progress = func(line string) { fmt.Fprintln(std.err, line) }
	rep, err := c.measure(ctx, std)
	if rep != nil {
		err = errors.Join(err, page.WriteHTML(c.html, rep.WriteHTML))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return exitWith(exitInterrupted, err)
	case err == nil:
		return notValid(rep)
	}
	return err
}

// notValid refuses a complete measurement that holds more than the servers' figures.
func notValid(rep *colocation.Report) error {
	if len(rep.Invalid) == 0 {
		return nil
	}
	return exitWith(exitInvalid, fmt.Errorf("not valid: the load client influenced the figures of %s; measure again when "+
		"this machine is otherwise idle", strings.Join(rep.Invalid, ", ")))
}

func parseMeasure(fl *call, std stdio) (*measureConfig, error) {
	c := &measureConfig{}
	fl.BoolVar(&c.real, "real", false, "measure this machine's GPU instead of a simulated one")
	fl.StringVar(&c.plan, "plan", "simulated", "plan `FILE`, YAML, or a built-in one: simulated, mixed, two-models, vllm")
	fl.StringVar(&c.opts.Dir, "out", "", "new folder for the results (default: measure-TIME)")
	fl.StringVar(&c.dir, "dir", "", "working folder of the servers' commands (default: this one)")
	fl.Float64Var(&c.seconds, "seconds", 0, "length of each run (default: the plan's)")
	fl.Func("copies", "`NUMBERS` of copies of the plan's first server to co-locate, 1,2,4, instead of its cases;\n"+
		"{copy} in its command and url is the copy's number", func(text string) error {
		for word := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil {
				return err
			}
			c.copies = append(c.copies, n)
		}
		return nil
	})
	fl.StringVar(&c.predictorFile, "predictor", "", "predictor `FILE` to predict with")
	fl.BoolVar(&c.json, "json", false, "print the report as JSON")
	fl.BoolVar(&c.printPlan, "print-plan", false, "print a plan for -real and exit")
	fl.BoolVar(&c.noTelemetry, "no-telemetry", false, "measure without NVML; prediction intervals become wider")
	fl.DurationVar(&c.opts.Spinner, "spinner", 4*time.Second, "with -real: run each load this long next to a "+
		"spinning neighbour, to count the time slices of its step, and under MPS next to stress kernels; 0 turns it off")
	page.Report(fl.FlagSet, &c.html, "write a page with the outcome and the predictions,")
	c.flags(fl.FlagSet)
	if err := fl.parse(0, std); err != nil {
		return nil, err
	}
	return c, badInput(c.check())
}

// check names everything that is wrong with the flags.
func (c *measureConfig) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.real && c.plan == "simulated" && !c.printPlan {
		bad("-plan: -real needs a plan of the servers to measure (-print-plan prints one to start from)")
	}
	if s := c.opts.Spinner; s < 0 || s > 0 && s < time.Second || s > 10*time.Minute {
		bad("-spinner: must be 0, or lie between 1s and 10m, is %v", s)
	}
	return errors.Join(errs...)
}

// measure measures a plan and prints the report.
func (c *measureConfig) measure(ctx context.Context, std stdio) (*colocation.Report, error) {
	text, builtin := colocation.BuiltinPlan(c.plan)
	if !builtin {
		var err error
		if text, err = page.Read(c.plan, std.in); err != nil {
			return nil, badInput(fmt.Errorf("-plan: %w", err))
		}
	}
	plan, err := colocation.ParsePlan(text, colocation.PlanOptions{Real: c.real, Seconds: c.seconds, Copies: c.copies})
	if err != nil {
		return nil, badInput(fmt.Errorf("plan %s: %w", c.plan, err))
	}
	if c.predictorFile != "" {
		if c.opts.Predictor, err = predict.LoadPredictor(c.predictorFile); err != nil {
			return nil, badInput(err)
		}
	}
	if c.opts.Dir, err = colocation.NewFolder(c.opts.Dir); err != nil {
		return nil, badInput(fmt.Errorf("-out: %w", err))
	}
	var site colocation.Site = colocation.NewSimulation(plan)
	closeSite := func() error { return nil }
	if c.real {
		if site, closeSite, err = c.openMachine(ctx, plan); err != nil {
			return nil, refuseReal(err)
		}
	}
	rep, err := colocation.Measure(ctx, plan, site, c.opts)
	err = errors.Join(err, closeSite())
	switch {
	case rep == nil:
		return nil, err
	case c.json:
		return rep, errors.Join(err, page.JSON(std.out, rep))
	}
	err = errors.Join(err, rep.WriteText(std.out))
	if rep.Calibrated != "" {
		fmt.Fprintf(std.out, "\nTo predict the next run from these measurements, add -predictor %s\n",
			filepath.Join(c.opts.Dir, rep.Calibrated))
	}
	return rep, err
}

// openMachine opens the machine's GPU, without NVML where -no-telemetry is set.
func (c *measureConfig) openMachine(ctx context.Context, plan *colocation.Plan) (colocation.Site, func() error, error) {
	opts := colocation.MachineOptions{Dir: c.dir, Program: &mps.Program{Path: c.control}}
	opts.Probe = func(ctx context.Context, uuid, pipe string) (colocation.Prober, error) {
		return cudaprobe.Open(ctx, cudaprobe.Options{Device: plan.Device, UUID: uuid, Program: opts.Program, Pipe: pipe})
	}
	closeSource := func() error { return nil }
	if !c.noTelemetry {
		source, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: c.nvml})
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
