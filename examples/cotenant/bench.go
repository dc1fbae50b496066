// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/simgpu"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/internal/study"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/report"
	"github.com/cotenant/cotenant/sharing"
)

// benchConfig holds the flags of a load test and of its output.
type benchConfig struct {
	*study.Flags
	progress, asJSON bool
	report           string // a page
	price            cost.Money
}

func benchFlags(fl *flag.FlagSet) *benchConfig {
	c := &benchConfig{Flags: study.BindFlags(fl)}
	fl.BoolVar(&c.progress, "progress", true, "live progress on stderr")
	page.Report(fl, &c.report, "write a page with the table, the charts and every run")
	fl.BoolVar(&c.asJSON, "json", false, "print the summaries as JSON instead of tables")
	fl.Func("price", "`PRICE` of an hour of the GPUs, e.g. \"2.90 USD\": adds the costs of a million tokens", c.setPrice)
	return c
}

func (c *benchConfig) setPrice(text string) (err error) {
	c.price, err = cost.ParsePrice(text)
	return err
}

// benchHealth holds the bounds of the client-health verdict. Tests replace it.
var benchHealth loadgen.HealthLimits

func runBench(ctx context.Context, fl *call, std stdio) (err error) {
	if args := fl.args; len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return runBenchWord(args[0], args[1:], std)
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400)) // a pause of the collector is one of the measurement
	}
	c := benchFlags(fl.FlagSet)
	if err := fl.parse(0, std); err != nil {
		return err
	}
	if len(fl.args) == 0 {
		c.Demo, c.Concurrency = true, []int{4, 16, 48}
		_ = c.setPrice("3.25 USD")
		c.Dir = time.Now().UTC().Format("cotenant-bench-20060102T150405Z")
		c.report = filepath.Join(c.Dir, "report.html")
		c.File.Duration, c.File.Tenants[0].Warmup = time.Second, 4
	}
	if err := errors.Join(c.Apply(), c.Check()); err != nil {
		return badInput(err)
	}
	if err := c.Resolve(study.FileOptions{Stdin: std.in}); err != nil {
		return badInput(err)
	}
	constants := predict.NewPredictor().Parameters
	c.Device = func(timeSliced bool) loadgentest.Device {
		if timeSliced {
			return simgpu.New(sharing.MechanismTimeSlicing, &constants)
		}
		return simgpu.New(sharing.MechanismMPS, &constants)
	}
	c.Health, c.Meta = benchHealth, map[string]any{"arguments": study.SafeArguments(fl.args)}
	c.Note = func(text string) { fmt.Fprintln(std.err, text) }
	if c.progress {
		var last loadgen.Progress
		c.Progress = func(run string, now loadgen.Progress) {
			if now.Elapsed < last.Elapsed {
				last = loadgen.Progress{} // of another run
			}
			fmt.Fprintln(std.err, run, progressLine(now, last))
			last = now
		}
	}
	o, err := study.Run(ctx, c.Config)
	if o == nil {
		return err
	}
	if shown := c.show(std.out, o); shown != nil {
		return errors.Join(err, shown)
	}
	if err == nil || errors.Is(err, loadgen.ErrNoRate) {
		err = errors.Join(err, o.Verdict())
	}
	switch {
	case errors.Is(err, study.ErrInvalid):
		return exitWith(exitInvalid, err)
	case errors.Is(err, study.ErrNothingSucceeded):
		return err
	case errors.Is(err, report.ErrGate), errors.Is(err, loadgen.ErrNoRate):
		return exitWith(exitNo, err)
	}
	return err
}

// progressLine formats the state of a run, with the rate of tokens, of requests that have ended, since an earlier one.
func progressLine(p, last loadgen.Progress) string {
	total := func(p loadgen.Progress) (sum loadgen.TenantProgress) {
		for _, t := range p.Tenants {
			sum.Sent, sum.OK, sum.Failed = sum.Sent+t.Sent, sum.OK+t.OK, sum.Failed+t.Failed
			sum.InFlight, sum.Tokens = sum.InFlight+t.InFlight, sum.Tokens+t.Tokens
		}
		return sum
	}
	now, rate := total(p), ""
	if d := p.Elapsed - last.Elapsed; d >= 100*time.Millisecond {
		rate = fmt.Sprintf(", %.0f tokens/s", float64(now.Tokens-total(last).Tokens)/d.Seconds())
	}
	return fmt.Sprintf("%5.1fs: sent %d, ok %d, failed %d, in flight %d%s",
		p.Elapsed.Seconds(), now.Sent, now.OK, now.Failed, now.InFlight, rate)
}
