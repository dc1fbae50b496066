// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/internal/study"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

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
			name := []string{r.Scenario, report.LevelOf(r.Summary).Text, c.Tenant}
			rows = append(rows, append(name, costTexts(c.TokenCosts)...))
		}
	}
	return "\nWhat a million tokens cost, the GPUs' price in equal parts among the tenants (good: output of\n" +
		"requests that kept their SLO)\n" + page.Table(rows)
}

// costTexts are the costs of input, output and good tokens: rounded to three decimals, "-" where one is missing.
func costTexts(c cost.TokenCosts) []string {
	var out []string
	for _, o := range []cost.Optional[cost.Money]{c.Input, c.Output, c.Good} {
		if m, ok := o.Get(); ok {
			out = append(out, m.Round(3).String())
		} else {
			out = append(out, "-")
		}
	}
	return out
}
