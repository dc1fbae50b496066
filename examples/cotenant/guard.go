// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

//go:embed guard.yaml
var guardExample string

// guardConfig holds the flags of the command.
type guardConfig struct {
	real, json, printConfig bool
	path, audit, apply      string
	span, window, cooldown  time.Duration
	slow, budget            int
	seed                    uint64
}

func guardFlags(fl *call, std stdio) (*guardConfig, error) {
	c := &guardConfig{}
	fl.BoolVar(&c.real, "real", false, "watch this machine's GPUs through NVML")
	fl.StringVar(&c.path, "config", "", "`FILE` that names the tenants; needed with -real")
	fl.DurationVar(&c.span, "duration", 0, "time to watch (default: until Ctrl-C)")
	fl.DurationVar(&c.window, "window", 2*time.Second, "length of one observation of the real node")
	fl.StringVar(&c.apply, "apply", "", "`PROGRAM` that carries out a proposal, its standard input, as JSON; without it "+
		"everything is only proposed")
	fl.BoolVar(&c.printConfig, "print-config", false, "print a configuration to start from and exit")
	fl.StringVar(&c.audit, "audit", "", "append every proposal and action to this `FILE`, as JSON lines")
	fl.IntVar(&c.slow, "slow", 3, "consecutive windows above the expected latency that raise an alarm")
	fl.IntVar(&c.budget, "budget", 100, "actions in an hour at most")
	fl.DurationVar(&c.cooldown, "cooldown", 0, "time between two actions on a GPU (default: 30 windows)")
	fl.Uint64Var(&c.seed, "seed", 1, "of the simulated node")
	fl.BoolVar(&c.json, "json", false, "print a line of JSON for each proposal")
	if err := fl.parse(0, std); err != nil {
		return nil, err
	}
	var probs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			probs = append(probs, fmt.Errorf(format, args...))
		}
	}
	bad(c.real && c.path == "", "-real: no file names the tenants (add -config FILE)")
	if !c.real {
		probs = append(probs, refuse(fl.FlagSet, "is for -real only (add -real)",
			"config", "apply", "audit", "duration", "window")...)
	}
	bad(c.apply != "" && c.audit == "", "-apply: every action is recorded (add -audit FILE)")
	bad(c.window < 500*time.Millisecond || c.window > 10*time.Minute, "-window: %v (use 500ms to 10m)", c.window)
	bad(c.span < 0 || c.cooldown < 0, "-duration and -cooldown must not be negative")
	bad(c.slow < 1 || c.slow > 30, "-slow: %d (use 1 to 30)", c.slow)
	bad(c.budget < 0, "-budget: %d (use 0 or more)", c.budget)
	return c, badInput(errors.Join(probs...))
}

// rules returns the thresholds that the flags leave.
func (c *guardConfig) rules(window time.Duration) guard.Rules {
	r := guard.DefaultRules(window)
	r.Slow, r.Budget, r.Cooldown = c.slow, c.budget, cmp.Or(c.cooldown, r.Cooldown)
	return r
}

func runGuard(ctx context.Context, fl *call, std stdio) error {
	c, err := guardFlags(fl, std)
	switch {
	case err != nil:
		return err
	case c.printConfig:
		return printText(std.out, guardExample)
	case c.real:
		return c.watch(ctx, std)
	}
	return c.simulate(ctx, std)
}

// simulate watches the simulated node through a day, and carries out the proposals there.
func (c *guardConfig) simulate(ctx context.Context, std stdio) error {
	n, err := newNode(c.seed)
	if err != nil {
		return err
	}
	g, err := guard.New(c.rules(time.Minute), n.config)
	if err != nil {
		return err
	}
	for at := time.Minute; at <= 24*time.Hour && ctx.Err() == nil; at += time.Minute {
		list := g.Step(n.observe(ctx, at))
		for i := range list {
			if n.carry(&list[i]) {
				g.Done(&list[i])
			}
		}
		if err := c.show(std, list); err != nil {
			return err
		}
	}
	if !c.json {
		err = printText(std.out, "\nAll figures are simulated. With -real this machine's GPUs are watched.\n")
	}
	return errors.Join(err, ctx.Err())
}

// show prints proposals.
func (c *guardConfig) show(std stdio, list []guard.Proposal) (err error) {
	enc := json.NewEncoder(std.out)
	for i := 0; i < len(list) && err == nil; i++ {
		if c.json {
			err = enc.Encode(list[i])
		} else {
			err = printText(std.out, page.Fold(proposalText(&list[i])))
		}
	}
	return err
}

// proposalText writes a proposal as a paragraph: time, action, tenant, evidence and expected effect.
func proposalText(p *guard.Proposal) string {
	at := p.At.Round(time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d  GPU %d: %s %s",
		int(at.Hours()), int(at.Minutes())%60, int(at.Seconds())%60, p.GPU, p.Action, p.Target)
	if p.Percent > 0 {
		text += fmt.Sprintf(" to %.0f%% of the threads", p.Percent)
	}
	if p.To != nil {
		text += fmt.Sprintf(" to GPU %d", *p.To)
	}
	if p.Owner != "" {
		text += " (" + p.Owner + ")"
	}
	text += "\n"
	for _, e := range p.Evidence {
		text += "  because   " + e + "\n"
	}
	text += "  effect    " + p.Effect + "\n"
	if p.Withheld != "" {
		text += "  withheld  " + p.Withheld + "\n"
	}
	return text
}

// carryOut runs the program of -apply with a proposal. It is killed when ctx ends; its children may go on.
func (c *guardConfig) carryOut(ctx context.Context, p *guard.Proposal) error {
	in, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.apply)
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(in), time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.200s", c.apply, err, page.Show(strings.TrimSpace(string(out))))
	}
	return nil
}

// watch guards this machine's GPUs.
func (c *guardConfig) watch(ctx context.Context, std stdio) error {
	s, err := guard.LoadConfig(c.path)
	if err != nil {
		return badInput(err)
	}
	a, mode := &guard.Actor{}, "dry run (-apply acts)"
	if c.apply != "" {
		a.Do, mode = c.carryOut, "acting"
	}
	if c.audit != "" {
		if a.Log, err = guard.OpenLog(c.audit); err != nil {
			return badInput(fmt.Errorf("-audit: %w", err))
		}
		defer a.Log.Close()
	}
	driver, err := telemetrynvml.Open(telemetrynvml.Options{LoadOnly: true})
	if err != nil {
		return refuseReal(err)
	}
	defer driver.Close()
	whole := ctx
	if c.span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.span)
		defer cancel()
	}
	fmt.Fprintf(std.err, "watching tenants: %d; GPUs: %d; %s\n", len(s.Tenants), len(s.GPUs), mode)
	windows, proposals := 0, 0
	report := func(_ guard.Observation, list []guard.Proposal) error {
		windows, proposals = windows+1, proposals+len(list)
		return c.show(std, list)
	}
	err = guard.Run(ctx, driver, c.rules(c.window), s, a, report)
	if errors.Is(err, guard.ErrNoGPU) {
		return badInput(err)
	}
	fmt.Fprintf(std.err, "windows of %v: %d; proposals: %d\n", c.window, windows, proposals)
	if err == nil && c.span > 0 {
		err = whole.Err() // without -duration, Ctrl-C is how it ends
	}
	return err
}
