// SPDX-License-Identifier: Apache-2.0

// Package study runs load tests from users' plans: sweeps over loads and repeats, tenants isolated and co-located,
// searches for the highest rate that meets the SLOs, and a demonstration on simulated GPUs.
//
// A [File] is a user's plan in YAML or JSON: tenants, their requests and servers, with the files of prompts and traces
// that it names. [Run] executes it. Experimental: its API may change.
package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/report"
)

// Run executes the load test and blocks until every run has ended. An error comes with the outcome so far, which is nil
// if nothing was sent.
func Run(ctx context.Context, c Config) (*Outcome, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Device == nil && (len(c.Scenarios) > 0 || c.Demo || c.File.Embedded != "") {
		return nil, errors.New("study: Config.Device is missing for simulated servers: take one of package simgpu")
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

// target is the server or the simulation that one scenario's load goes to.
type target struct {
	scenario  string
	simulated *loadgentest.Simulation // nil: the tenant's own endpoint
}

// targets opens each of the scenarios in turn for do.
func (t *test) targets(do func(target) error) error {
	if len(t.Scenarios) == 0 {
		name := cmp.Or(t.File.Scenario, "endpoint")
		return do(target{scenario: name})
	}
	for _, name := range t.Scenarios {
		sim, err := t.open(hostingOf(name))
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
	plan, err := f.plan(to.simulated.Endpoints())
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
				if _, err := t.run(ctx, t.repeated(name, repeat), plan); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// plan runs the tenants together once for each repeat, or their interference study.
func (t *test) plan(ctx context.Context) (err error) {
	sim, err := t.embedTenants()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	cases := func() ([]loadgen.LoadPlan, error) {
		plan, err := t.File.plan(sim.Endpoints())
		if t.Interference {
			return loadgen.Study(plan), err
		}
		return []loadgen.LoadPlan{plan}, err
	}
	all, err := cases()
	if err != nil {
		return err
	}
	t.several = len(all)*t.Repeats > 1
	for repeat := range t.Repeats {
		for i := range all {
			fresh, err := cases() // each case's prompts start over
			if err != nil {
				return err
			}
			plan := fresh[i]
			plan.Seed += uint64(repeat)
			name := cmp.Or(strings.TrimPrefix(plan.Scenario, t.File.Scenario+"-"), "plan")
			if _, err := t.run(ctx, t.repeated(name, repeat), plan); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteText writes the outcome as text: the search, the table of the runs, the losses by co-location, and the details
// of a single run.
func (o *Outcome) WriteText(w io.Writer) error {
	if o.demo {
		writeDemo(w)
	}
	if o.Search != nil {
		if err := writeSearch(w, o.Search); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	err := report.ScenariosOf(o.Results).WriteText(w)
	if fmt.Fprintln(w); len(o.Results) == 1 {
		return errors.Join(err, report.WriteSummary(w, &o.Results[0].Summary))
	}
	return errors.Join(err, report.WriteInterference(w, o.Results))
}

// Verdict returns nil when requests succeeded, all runs are valid, the servers' token counts are plausible and none of
// the conditions of Config.FailIf holds. Otherwise the error wraps ErrNothingSucceeded, ErrInvalid or report.ErrGate,
// the first that applies. A search repeats invalid trials, so it is valid if one of its trials is.
func (o *Outcome) Verdict() error {
	all := loadgen.Counts{ByClass: map[loadgen.Class]int64{}, Examples: map[loadgen.Class]string{}}
	var spoiled, implausible []string
	for _, r := range o.Results {
		for c, n := range r.Summary.Counts.ByClass {
			all.ByClass[c] += n
			all.Examples[c] = cmp.Or(all.Examples[c], r.Summary.Counts.Examples[c])
		}
		if h := r.Summary.ClientHealth; !h.Valid {
			spoiled = append(spoiled, fmt.Sprintf("%s: %s", r.Summary.RunID, strings.Join(h.Reasons, "; ")))
		}
		for _, reason := range r.Summary.Implausible() {
			implausible = append(implausible, r.Summary.RunID+": "+reason)
		}
	}
	switch {
	case len(all.ByClass) == 0:
		return fmt.Errorf("%w (none was counted)", ErrNothingSucceeded)
	case all.ByClass[loadgen.ClassOK] == 0 && all.ByClass[loadgen.ClassClientLimit] == 0:
		return fmt.Errorf("%w (%s)", ErrNothingSucceeded, report.FailedByClass(&all))
	case len(spoiled) > 0 && (o.Search == nil || len(spoiled) == len(o.Results)):
		return fmt.Errorf("%w: by client health: %s", ErrInvalid, strings.Join(spoiled, "\n  "))
	case len(implausible) > 0:
		return fmt.Errorf("%w: by token counts: %s", ErrInvalid, strings.Join(implausible, "\n  "))
	}
	var missed []error
	for _, r := range o.Results {
		if len(o.failIf) > 0 {
			missed = append(missed, report.Gate(&r.Summary, o.failIf...))
		}
	}
	return errors.Join(missed...)
}
