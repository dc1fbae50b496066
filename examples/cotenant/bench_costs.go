// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
	"github.com/cotenant/cotenant/loadgen/study"
)

// show prints a study's tables, or its runs as JSON, with their costs, and writes the page of -report. Nothing is
// printed where the page fails.
func (c *benchConfig) show(w io.Writer, o *study.Outcome) error {
	hourly := func(scenario string) (cost.Money, error) {
		if c.Demo {
			return c.price.Mul(int64(study.DemoGPUs(scenario)))
		}
		return c.price, nil
	}
	runs, err := costsOf(o.Results, hourly)
	if err != nil {
		return err
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
	_, err = w.Write(b.Bytes())
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

// costsOf divides the hourly price of each scenario's GPUs among the tenants of its runs; runs of scenarios without a
// price have none, nor have invalid ones.
func costsOf(results []*loadgen.Result, hourly func(scenario string) (cost.Money, error)) (runs []runCosts, err error) {
	for _, r := range results {
		run := runCosts{Summary: &r.Summary}
		price, err := hourly(r.Summary.Scenario)
		if err == nil && price.Sign() > 0 && r.Summary.ClientHealth.Valid {
			run.Costs, err = tokenCosts(&r.Summary, price)
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// tokenCosts divides an hourly price of all GPUs among a run's tenants, in equal parts.
func tokenCosts(s *loadgen.Summary, hourly cost.Money) (out []tenantCosts, err error) {
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if !(t.DurationS > 0) {
			continue
		}
		rates := cost.TokenRates{Input: float64(t.PromptTokens) / t.DurationS, Output: t.OutputTokensPerS}
		if t.Goodput != nil {
			rates.Good = t.Goodput.OutputTokensPerS.Or(0)
		}
		c, err := cost.PerMillionTokens(hourly, len(s.Tenants), rates)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		out = append(out, tenantCosts{t.Name, c})
	}
	return out, nil
}

// costTable tabulates the costs of every run's tenants.
func costTable(runs []runCosts) string {
	rows := [][]string{{"scenario", "load", "tenant", "input", "output", "good"}}
	for _, r := range runs {
		for _, c := range r.Costs {
			rows = append(rows, append([]string{r.Scenario, report.LevelOf(r.Summary).Text, c.Tenant}, c.Texts()...))
		}
	}
	return "\nWhat a million tokens cost, the GPUs' price in equal parts among the tenants (good: output of\n" +
		"requests that kept their SLO)\n" + page.Table(rows)
}
