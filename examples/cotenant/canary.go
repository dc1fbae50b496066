package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

//go:embed usage/canary.txt
var canaryUsage string

//go:embed canary.yaml
var canaryExample string

func runCanary(ctx context.Context, args []string, std stdio) error {
	fl := flagSet("canary")
	plan := fl.String("plan", "", "plan `FILE`, YAML; read again at every look, so that an owner can withdraw")
	printPlan := fl.Bool("print-plan", false, "print a plan to start from and exit")
	real := fl.Bool("real", false, "carry the plan out")
	audit := fl.String("audit", "", "log `FILE`, with its state beside it (default: the plan's, with .log)")
	kill := fl.String("kill", "", "while this `FILE` exists, nothing is done")
	listen := fl.String("listen", "", "`ADDRESS` that answers pass, fail or wait: / for Argo Rollouts, /gate for Flagger")
	again := fl.Bool("again", false, "begin anew where the newcomer was promoted or taken back already")
	acknowledge := fl.Bool("acknowledge", false, "you have looked: act although log and state disagree")
	seed := fl.Uint64("seed", 1, "of the simulated day")
	asJSON := fl.Bool("json", false, "print JSON")
	if err := parse(fl, args, canaryUsage, 0, std); err != nil {
		return err
	}
	if *printPlan {
		return printText(std.out, canaryExample)
	}
	var probs []error
	if !*real {
		probs = refuse(fl, "is for -real only (add -real)", "audit", "kill", "listen", "again", "acknowledge")
	}
	if *plan == "" {
		return badInput(errors.Join(append(probs, errors.New("-plan: give a FILE; -print-plan prints one to start from"))...))
	}
	p, err := canary.LoadPlan(*plan)
	if err = errors.Join(append(probs, err)...); err != nil {
		return badInput(err)
	}
	show := func(v fmt.Stringer, err error) error {
		return errors.Join(err, answer(std.out, *asJSON, v, v.String()))
	}
	if !*real {
		day, err := canary.PlayDay(ctx, p, *seed)
		return show(day, err)
	}
	log, err := guard.OpenLog(cmp.Or(*audit, *plan+".log"), *acknowledge)
	if err != nil {
		return badInput(fmt.Errorf("-audit: %w", err))
	}
	defer log.Close()
	var reader telemetry.Reader
	if driver, err := telemetrynvml.Open(telemetrynvml.Options{LoadOnly: true}); err == nil {
		defer driver.Close()
		reader = driver
	} else {
		fmt.Fprintln(std.err, "the device is not watched:", err)
	}
	var latest atomic.Pointer[canary.Result]
	latest.Store(&canary.Result{})
	if *listen != "" {
		stop, err := canary.Listen(*listen, func() canary.Result { return *latest.Load() })
		if err != nil {
			return badInput(fmt.Errorf("-listen: %w", err))
		}
		defer stop()
	}
	result, err := canary.Run(ctx, p, &guard.Actor{Apply: true, Kill: *kill, Log: log}, canary.NewMachine(p, reader),
		canary.RunOptions{
			Again: *again, Reload: func() (canary.Plan, error) { return canary.LoadPlan(*plan) },
			Told: func(r canary.Result) error {
				if before := latest.Swap(&r); before.Verdict != r.Verdict && !r.Done {
					fmt.Fprint(std.err, page.Fold(r.String()))
				}
				return nil
			},
		})
	latest.Store(&result)
	if errors.Is(err, canary.ErrWithheld) {
		return exitWith(exitNo, err)
	} else if err != nil {
		return err
	}
	code := map[canary.Verdict]int{canary.TakeBack: exitNo, canary.CannotTell: exitInvalid}[result.Verdict]
	if err := show(result, nil); err != nil || code == exitDone {
		return err
	}
	return &exitError{Code: code}
}
