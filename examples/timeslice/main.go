// SPDX-License-Identifier: Apache-2.0

// Command timeslice shows what tenants of a time-sliced GPU do to each other: latency against the number of
// tenants, simulated and by the closed form of round robin, as a table. It needs no GPU.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

const usage = `timeslice simulates tenants that share a GPU by time-slicing.

  timeslice                                    four built-in tenants
  timeslice -f tenants.yaml                    your own
  timeslice -quantum 2.1ms -switch 150us       with what cotenant probe measured

A file of tenants, YAML or JSON, lists them in the order in which they join. The built-in one:

` + builtIn + `
step is the GPU time of one step, think the host's time after it, steps their
number in a request; requests come in a closed loop with a pause between them,
or at a rate. *_cv is standard deviation over mean (0 constant, 1 exponential).

Flags:
`

// builtIn holds two chat models that decode, a classifier that is asked 20 times
// a second, and a training job that never pauses.
const builtIn = `tenants:
  - {name: chat-1b, step: 1.7ms, think: 100us, steps: 64, pause: 8ms, pause_cv: 1}
  - {name: chat-8b, step: 6.5ms, think: 350us, steps: 64, pause: 15ms, pause_cv: 1}
  - {name: classifier, step: 900us, step_cv: 0.2, think: 50us, steps: 4, rate_per_second: 20}
  - {name: training, step: 120ms}
`

const maxTenants = 16 // for the table

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run returns 0 when done, 2 for bad input, 5 for what could not be written, 130 when interrupted.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return page.Run(ctx, "timeslice", stdout, stderr, func(stdout io.Writer) error {
		return simulate(ctx, args, stdin, stdout)
	})
}

func simulate(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	fs := page.FlagSet("timeslice")
	file := fs.String("f", "", "`file` of tenants; - is standard input")
	length := fs.Duration("for", time.Minute, "time to simulate")
	seed := fs.Uint64("seed", 1, "seed of the random draws")
	measured := timeslice.H200()
	quantum := fs.Duration("quantum", measured.Quantum, "`duration` of a turn")
	change := fs.Duration("switch", measured.Switch, "`duration` lost to a switch")
	if err := page.Parse(fs, args, usage, math.MaxInt, stdout); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return page.BadInput(fmt.Errorf("unknown argument %.60q; a file of tenants is given with -f", fs.Arg(0)))
	case *length <= 0:
		return page.BadInput(fmt.Errorf("-for: must be over 0, is %v", *length))
	}
	tenants, err := readTenants(*file, stdin)
	if err != nil {
		return page.BadInput(err)
	}
	sched := measured
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "quantum":
			sched.Quantum = *quantum
		case "switch":
			sched.Switch = *change
		default:
			return
		}
		sched.Basis, sched.Source = sharing.BasisPrior, "given on the command line"
	})
	sim := timeslice.Simulation{Scheduler: sched, Tenants: tenants, For: *length, Warmup: *length / 20, Seed: *seed}
	alone, together, err := explore(ctx, sim)
	if err != nil && ctx.Err() == nil {
		return page.BadInput(err)
	}
	if wrote := writeTable(stdout, sim, alone, together); wrote != nil || err == nil {
		return wrote
	}
	return page.ExitWith(page.ExitInterrupted, errors.New("interrupted; the table has the tenants simulated until then"))
}

func readTenants(path string, stdin io.Reader) (tenants []timeslice.Tenant, err error) {
	name, data := path, []byte(builtIn)
	switch path {
	case "":
	default:
		if path == "-" {
			name = "standard input"
		}
		data, err = page.Read(path, stdin)
	}
	if err == nil {
		tenants, err = timeslice.ParseTenants(data)
	}
	if err == nil && len(tenants) > maxTenants {
		err = fmt.Errorf("tenants: must be 1 to %d, are %d", maxTenants, len(tenants))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tenants, nil
}

func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

func show(d time.Duration, ok bool) string {
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2fms", ms(d))
}

func writeTable(out io.Writer, sim timeslice.Simulation, alone, together []*timeslice.Result) error {
	w := &bytes.Buffer{}
	fmt.Fprintf(w, "Simulated for %gs with seed %d: quantum %gms, switch %gms (%s: %s)\n\n", sim.For.Seconds(), sim.Seed,
		ms(sim.Scheduler.Quantum), ms(sim.Scheduler.Switch), sim.Scheduler.Basis, sim.Scheduler.Source)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TENANTS\tTENANT\tP50\tP99\tSLOWER\tSTEP\tROUND ROBIN\tGPU\tWAITS ON")
	switching := 0.0
	for i, res := range together {
		n := i + 1
		switching = float64(res.Totals.Switching) / float64(res.Totals.Simulated)
		steps := closedForm(sim.Scheduler, sim.Tenants[:n])
		for i, t := range res.Tenants {
			step, slow, waits := "-", "-", "-"
			if steps != nil {
				step = show(steps[i], true)
			}
			if x, ok := slowdown(t.Request, alone[i].Tenants[0].Request); ok {
				slow = fmt.Sprintf("%.2fx", x)
			}
			if who, share, ok := t.BlamedOn(); ok {
				waits = fmt.Sprintf("%s %.0f%%", res.Tenants[who].Name, 100*share)
			}
			if t.Unfinished > keepsUp {
				waits += fmt.Sprintf(", %d requests queue", t.Unfinished)
			}
			fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f%%\t%s\n", n, t.Name, show(t.Request.Quantile(0.5)),
				show(t.Request.Quantile(0.99)), slow, show(t.Step.Mean()), step,
				100*float64(t.GPU)/float64(res.Totals.Simulated), waits)
		}
	}
	_ = tw.Flush() // into a buffer
	if n := len(together); n > 1 {
		fmt.Fprintf(w, "\nWith all %d tenants %.1f%% of the GPU's time goes to switching.\n", n, 100*switching)
	}
	var sources sharing.Citations
	if sources.AddKnown(sim.Scheduler.Source); !sources.IsZero() {
		w.WriteByte('\n')
		_ = sources.WriteText(w) // into a buffer
	}
	_, err := w.WriteTo(out)
	return err
}
