// SPDX-License-Identifier: Apache-2.0

// Command judge holds decisions to simulated worlds: it decides random fleets and plays the outcome in worlds that
// the decision does not see, beside the rules of thumb that people follow. Everything it prints is simulated.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/tools/research/internal/cli"
	"github.com/cotenant/cotenant/tools/research/judge"
)

const usage = `usage: judge [flags]

Decides random fleets and plays what comes of it in simulated worlds,
beside the rules that people follow. All figures are simulated.

exit: 0 done; 2 bad input; 5 failed; 130 interrupted (what was played is printed)

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	debug.SetGCPercent(800) // a play allocates much and keeps little
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, "judge", stderr, func() error { return play(ctx, args, stdout, stderr) })
}

func play(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o judge.Options
	fs := cli.FlagSet("judge")
	fs.IntVar(&o.Fleets, "fleets", 50, "how many random fleets to decide and play")
	fs.IntVar(&o.Worlds, "worlds", 4, "in how many worlds to play each fleet")
	fs.Uint64Var(&o.Seed, "seed", 1, "seed of fleets and worlds; the same seed gives the same output")
	fs.Float64Var(&o.Confidence, "confidence", decision.DefaultConfidence,
		"how sure a decision must be that objectives are kept, 0.5 to 0.999")
	fs.StringVar(&o.Distort, "distort", "", "worlds that are not as published: "+strings.Join(judge.Distortions(), ", "))
	asJSON := fs.Bool("json", false, "print JSON")
	verbose := fs.Bool("v", false, "name each workload that missed, and each fleet that cost more than it had to")
	err := cli.Parse(fs, args, usage, stdout)
	if err != nil {
		return err
	}
	if o.Fleets < 1 || o.Fleets > 1_000_000 {
		err = errors.Join(err, fmt.Errorf("-fleets: %d is out of range; use 1 to 1000000", o.Fleets))
	}
	if o.Worlds < 1 || o.Worlds > 1000 {
		err = errors.Join(err, fmt.Errorf("-worlds: %d is out of range; use 1 to 1000", o.Worlds))
	}
	if !(o.Confidence >= 0.5 && o.Confidence <= 0.999) {
		err = errors.Join(err, fmt.Errorf("-confidence: %v is out of range; use 0.5 to 0.999", o.Confidence))
	}
	if o.Distort != "" && !slices.Contains(judge.Distortions(), o.Distort) {
		err = errors.Join(err, fmt.Errorf("-distort: unknown %q; use one of %s", o.Distort,
			strings.Join(judge.Distortions(), ", ")))
	}
	if fs.NArg() > 0 {
		err = errors.Join(err, fmt.Errorf("unexpected argument %q; judge takes flags only", fs.Arg(0)))
	}
	if err != nil {
		return cli.BadInput(err)
	}
	if *verbose {
		o.Log = stderr
	}
	told := time.Now()
	o.Progress = func(played int) {
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			fmt.Fprintf(stderr, "%d of %d fleets\n", played, o.Fleets)
		}
	}
	rep, err := judge.Run(ctx, o)
	switch {
	case err != nil:
	case *asJSON:
		err = cli.JSON(stdout, rep)
	default:
		err = rep.WriteText(stdout)
	}
	if err == nil && rep.Fleets < o.Fleets {
		err = cli.Cut(fmt.Errorf("interrupted after %d of %d fleets; what was played is printed",
			rep.Fleets, o.Fleets))
	}
	return err
}
