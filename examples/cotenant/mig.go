// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/mignvml"
	"github.com/cotenant/cotenant/mig/migtest"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// migCall holds the flags of one word after cotenant mig, and its streams.
type migCall struct {
	*call
	std    stdio
	models []*mig.Model // those that -gpu names
	json   *bool
}

// migWords are the words after cotenant mig; prepare registers the flags of one and returns its function, to be run
// after parsing.
var migWords = []struct {
	name, args, usage string
	prepare           func(*migCall) func(context.Context) error
}{
	{"check", "[-gpu NAME] FILE", "does a mig-parted configuration fit?", migCheck},
	{"pack", "-gpu NAME -demand COUNTS", "on how few GPUs does a demand fit?", migPack},
	{"plan", "-gpu NAME -want COUNTS", "what has to change? (-have: what is there)", migChange(false)},
	{"apply", "-gpu NAME -want COUNTS", "change it (simulated GPU, or -real)", migChange(true)},
}

func runMig(ctx context.Context, fl *call, std stdio) error {
	text := "Plans MIG partitions of GPUs, and applies them.\n\n"
	for _, w := range migWords {
		usage := fmt.Sprintf("  cotenant mig %-9s %-25s %s\n", w.name, w.args, w.usage)
		if text += usage; len(fl.args) == 0 || fl.args[0] != w.name {
			continue
		}
		fl = newCall("mig "+w.name, fl.args[1:])
		fl.usage = usage
		c := &migCall{fl, std, nil, fl.Bool("json", false, "print JSON")}
		fl.Func("gpu", "`GPU`, such as A100-SXM4-80GB (cotenant mig -h lists them)", c.lookup)
		run := w.prepare(c)
		if err := fl.parse(strings.Count(w.args, "FILE"), std); err != nil {
			return err
		}
		err := run(ctx)
		is := func(target error) bool { return errors.Is(err, target) }
		switch {
		case is(mig.ErrInfeasible), is(mig.ErrBusy):
			if *c.json {
				_ = page.JSON(std.out, map[string]string{"reason": err.Error()})
			}
			return exitWith(exitNo, err)
		case is(mig.ErrInvalid), is(sharing.ErrUnknownGPU), is(mig.ErrAmbiguousGPU), is(mig.ErrPlacementsUnknown):
			return badInput(err)
		}
		return err
	}
	text += "\nCOUNTS are like 1g.10gb=40,3g.40gb=12 (=1 may be left out), layouts like\n" +
		"3g.40gb@4,1g.10gb@0!busy. FILE may be - and may hold Kubernetes manifests.\n\nGPUs:\n\n"
	for _, m := range mig.Models() {
		text += fmt.Sprintf("  %-36s %s\n", m.Key, strings.Join(m.Products, ", "))
	}
	fl.usage = page.Fold(text)
	if err := fl.parse(anyNumber, std); err != nil {
		return err
	}
	return badInput(errors.New("use check, pack, plan or apply (see cotenant mig -h)"))
}

// lookup reads -gpu: one GPU, or several separated by commas.
func (c *migCall) lookup(names string) error {
	for name := range strings.SplitSeq(names, ",") {
		m, err := mig.Lookup(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		c.models = append(c.models, m)
	}
	return nil
}

// model returns the one GPU of words that work on one.
func (c *migCall) model() (*mig.Model, error) {
	if len(c.models) != 1 {
		return nil, badInput(errors.New("name one GPU, for example -gpu A100-SXM4-80GB (cotenant mig -h lists them)"))
	}
	return c.models[0], nil
}

func migCheck(c *migCall) func(context.Context) error {
	return func(context.Context) error {
		data, err := page.Read(c.Arg(0), c.std.in)
		if err != nil {
			return badInput(err)
		}
		findings, err := parted.CheckFile(data, c.models...)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Arg(0), err)
		}
		text := fmt.Sprintf("%-20s  %-16s  %-8s  %s\n", "LABEL[ENTRY]", "GPU", "FEASIBLE", "PLACEMENTS OR REASON")
		for _, f := range findings {
			text += f.String() + "\n"
			if f.Feasible == sharing.AnswerNo {
				err = &exitError{Code: exitNo}
			}
		}
		return errors.Join(answer(c.std.out, *c.json, findings, text), err)
	}
}

func migPack(c *migCall) func(context.Context) error {
	text := c.String("demand", "", "`COUNTS` such as 1g.10gb=40,3g.40gb=12")
	return func(context.Context) error {
		m, err := c.model()
		if err != nil {
			return err
		}
		demand, err := mig.ParseCounts(*text)
		switch {
		case err != nil:
			return fmt.Errorf("-demand: %w", err)
		case len(demand) == 0:
			return badInput(errors.New("say what is wanted, for example -demand 1g.10gb=40,3g.40gb=12"))
		}
		p, err := m.Pack(demand)
		if err != nil {
			return err
		}
		return benchPrint(c.std.out, *c.json, p)
	}
}

// open returns the real or the simulated GPU; done closes it.
func (c *migCall) open(ctx context.Context, real bool, have, device string) (mig.Device, func() error, error) {
	done := func() error { return nil }
	switch {
	case real && (c.models != nil || have != ""):
		return nil, done, badInput(errors.New("-gpu and -have describe a simulated GPU: leave them out with -real"))
	case real:
		driver, err := mignvml.Open()
		if err != nil {
			return nil, done, refuseReal(err)
		}
		gpu, err := driver.Device(ctx, device)
		return gpu, driver.Close, err
	case device != "":
		return nil, done, badInput(errors.New("-device names a real GPU: add -real"))
	}
	m, err := c.model()
	if err != nil {
		return nil, done, err
	}
	layout, err := m.ParseLayout(have)
	if err != nil {
		return nil, done, fmt.Errorf("-have: %w", err)
	}
	gpu, err := migtest.New(m, migtest.Options{Layout: layout})
	return gpu, done, err
}

// migChange plans a change and prints the plan, or applies it.
func migChange(apply bool) func(*migCall) func(context.Context) error {
	return func(c *migCall) func(context.Context) error {
		have := c.String("have", "", "`LAYOUT` that is there, such as 3g.40gb@0,1g.10gb@4!busy (not with -real)")
		text := c.String("want", "", "`COUNTS` that are wanted, or none")
		device := c.String("device", "", "`UUID`, PCI bus id or index of the real GPU; the first one where it is left out")
		real := c.Bool("real", false, "use a real GPU through NVML")
		var opts mig.DiffOptions
		c.BoolVar(&opts.AllowBusy, "allow-busy", false,
			"destroy instances in use, as few as possible; a driver still refuses while clients run")
		dryRun := new(bool)
		if apply {
			dryRun = c.Bool("dry-run", false, "change nothing")
		}
		return func(ctx context.Context) (err error) {
			want, err := mig.ParseCounts(strings.TrimPrefix(*text, "none"))
			switch {
			case err != nil:
				return fmt.Errorf("-want: %w", err)
			case *text == "":
				return badInput(errors.New("say what is wanted: -want 2g.20gb=2,3g.40gb, or -want none to empty the GPU"))
			}
			gpu, done, err := c.open(ctx, *real, *have, *device)
			defer func() { err = errors.Join(err, done()) }()
			if err != nil {
				return err
			}
			p, err := mig.PlanChange(ctx, gpu, want, opts)
			if err != nil {
				return err
			}
			if apply {
				return c.apply(ctx, gpu, p, *dryRun)
			}
			return benchPrint(c.std.out, *c.json, p)
		}
	}
}

// apply prints each step as it ends, or the journal. Ctrl-C stops between steps and reverts the finished ones.
func (c *migCall) apply(ctx context.Context, gpu mig.Device, p mig.ChangePlan, dryRun bool) error {
	enc, verb := json.NewEncoder(c.std.out), "holds"
	if dryRun {
		verb = "would hold"
	}
	report, err := mig.Apply(ctx, gpu, p, mig.ApplyOptions{DryRun: dryRun, Journal: func(e mig.JournalEntry) error {
		switch {
		case *c.json:
			return enc.Encode(e)
		case e.Status == "started":
			return nil
		}
		return printText(c.std.out, page.Fold(e.String()+"\n"))
	}})
	if err != nil || *c.json {
		return err
	}
	return printText(c.std.out, fmt.Sprintf("%s %s [%s]\n", report.Device, verb, report.After))
}
