// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/simgpu"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/report"
	"github.com/cotenant/cotenant/loadgen/study"
	"github.com/cotenant/cotenant/sharing"
)

// benchConfig holds the flags of a load test and of its output.
type benchConfig struct {
	*study.Config
	apply            func() error
	progress, asJSON bool
	report           string // a page
	price            cost.Money
}

func benchFlags(fl *flag.FlagSet) *benchConfig {
	c := &benchConfig{}
	c.Config, c.apply = study.BindFlags(fl)
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
	if err := errors.Join(c.apply(), c.Check()); err != nil {
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
	c.Health, c.Meta = benchHealth, map[string]any{"arguments": safeArguments(fl.args)}
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
	o, err := study.Run(ctx, *c.Config)
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

// safeArguments returns the arguments without the values of headers. Credentials in other places are the run's to
// remove.
func safeArguments(args []string) []string {
	safe := slices.Clone(args)
	for i, arg := range args {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "header=") || i > 0 && strings.TrimLeft(args[i-1], "-") == "header" {
			name, _, _ := strings.Cut(arg, ":")
			safe[i] = name + ": [redacted]"
		}
	}
	return safe
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

// runBenchWord runs the part of bench that a word after it names.
func runBenchWord(word string, args []string, std stdio) error {
	fl := newCall("bench "+word, args)
	switch word {
	case "table":
		return benchTable(fl, std)
	case "compare":
		return benchCompare(fl, std)
	}
	return badInput(fmt.Errorf("unknown word %q (known: table, compare)", word))
}

// benchRuns reads run directories.
func benchRuns(dirs []string) ([]*loadgen.Result, error) {
	if len(dirs) == 0 {
		return nil, badInput(errors.New("name at least one run directory"))
	}
	results, err := loadgen.LoadResults(dirs...)
	return results, badInput(err)
}

// benchPrint prints a table as text or JSON.
func benchPrint(w io.Writer, asJSON bool, table interface{ WriteText(io.Writer) error }) error {
	if !asJSON {
		return table.WriteText(w)
	}
	return page.JSON(w, table)
}

func benchTable(fl *call, std stdio) error {
	asJSON := fl.Bool("json", false, "JSON instead of text")
	var html string
	page.Report(fl.FlagSet, &html, "write a page with the table, the charts and every run")
	if err := fl.parse(anyNumber, std); err != nil {
		return err
	}
	results, err := benchRuns(fl.Args())
	if err == nil && html != "" {
		err = writeBenchPage(html, results)
	}
	if err != nil {
		return err
	}
	rows := report.ScenariosOf(results)
	if err := benchPrint(std.out, *asJSON, rows); err != nil || *asJSON {
		return err
	}
	fmt.Fprintln(std.out)
	return report.WriteIndex(std.out, results)
}

func benchCompare(fl *call, std stdio) error {
	// The flag package would swallow the "--" between the groups.
	split := slices.Index(fl.args, "--")
	var dirs [2][]string
	if split >= 0 {
		fl.args, dirs[1] = fl.args[:split], fl.args[split+1:]
	}
	figures := fl.String("figures", strings.Join(report.DefaultFigures(), ","), "comma-separated `list` of figures")
	var opts report.CompareOptions
	fl.StringVar(&opts.Tenant, "tenant", "", "compare this tenant instead of the totals")
	fl.Float64Var(&opts.Confidence, "confidence", 0.95, "confidence level of intervals and tests")
	fl.BoolVar(&opts.AllowInvalid, "allow-invalid", false, "accept invalid or incomplete runs, and mark them")
	asJSON := fl.Bool("json", false, "JSON instead of text")
	if err := fl.parse(anyNumber, std); err != nil {
		return err
	}
	if split < 0 {
		return badInput(errors.New("write -- between the two groups"))
	}
	opts.Figures, dirs[0] = strings.Split(*figures, ","), fl.Args()
	var groups [2][]loadgen.Summary
	for i := range dirs {
		results, err := benchRuns(dirs[i])
		if err != nil {
			return err
		}
		for _, r := range results {
			groups[i] = append(groups[i], r.Summary)
		}
	}
	c, err := report.CompareRuns(groups[0], groups[1], opts)
	if err != nil {
		return badInput(err)
	}
	return benchPrint(std.out, *asJSON, c)
}

// show prints a study's tables, or its runs as JSON, with their costs, and writes the page of -report. Nothing is
// printed where the page fails.
func (c *benchConfig) show(w io.Writer, o *study.Outcome) error {
	var runs []runCosts
	for _, r := range o.Results {
		run, err := c.costsOf(&r.Summary)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	if c.asJSON {
		return page.JSON(w, runs)
	}
	var b bytes.Buffer
	if err := o.WriteText(&b); err != nil {
		return err
	}
	if c.price.Sign() > 0 {
		b.WriteString(costTable(runs))
	}
	if c.Dir != "" {
		fmt.Fprintf(&b, "\nartifacts: %s\n", c.Dir)
	}
	if c.report != "" {
		if err := writeBenchPage(c.report, o.Results); err != nil {
			return err
		}
		fmt.Fprintf(&b, "report:    %s\n", c.report)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func writeBenchPage(path string, results []*loadgen.Result) error {
	var html bytes.Buffer
	return errors.Join(report.WriteHTML(&html, results), page.WriteFile(path, html.Bytes()))
}

// runCosts holds a run and the costs of its tenants.
type runCosts struct {
	*loadgen.Summary
	Costs []tenantCosts `json:"token_costs,omitempty"`
}

// tenantCosts holds the price of a million tokens of one tenant.
type tenantCosts struct {
	Tenant string `json:"tenant"`
	cost.TokenCosts
}

// costsOf divides the hourly price of a scenario's GPUs among the tenants of a run, in equal parts. Invalid runs have
// no costs.
func (c *benchConfig) costsOf(s *loadgen.Summary) (run runCosts, err error) {
	run.Summary = s
	price := c.price
	if c.Demo {
		price, err = price.Mul(int64(study.DemoGPUs(s.Scenario)))
	}
	if err != nil || price.Sign() <= 0 || !s.ClientHealth.Valid {
		return run, err
	}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if !(t.DurationS > 0) {
			continue
		}
		rates := cost.TokenRates{Input: float64(t.PromptTokens) / t.DurationS, Output: t.OutputTokensPerS}
		if t.Goodput != nil {
			rates.Good = t.Goodput.OutputTokensPerS.Or(0)
		}
		c, err := cost.PerMillionTokens(price, len(s.Tenants), rates)
		if err != nil {
			return run, fmt.Errorf("%s: %w", t.Name, err)
		}
		run.Costs = append(run.Costs, tenantCosts{t.Name, c})
	}
	return run, nil
}

// costTable tabulates the costs of every run's tenants.
func costTable(runs []runCosts) string {
	rows := [][]string{{"scenario", "load", "tenant", "input", "output", "good"}}
	for _, r := range runs {
		for _, c := range r.Costs {
			name := []string{r.Scenario, report.LoadText(r.Summary), c.Tenant}
			rows = append(rows, append(name, costTexts(c.TokenCosts)...))
		}
	}
	return "\nWhat a million tokens cost, the GPUs' price in equal parts among the tenants (good: output of\n" +
		"requests that kept their SLO)\n" + page.Table(rows)
}

// costTexts are the costs of input, output and good tokens: rounded to three decimals, "-" where one is missing.
func costTexts(c cost.TokenCosts) []string {
	var out []string
	for _, o := range []sharing.Optional[cost.Money]{c.Input, c.Output, c.Good} {
		if m, ok := o.Get(); ok {
			out = append(out, m.Round(3).String())
		} else {
			out = append(out, "-")
		}
	}
	return out
}
