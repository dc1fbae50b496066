package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// tenantCosts are what a million tokens cost a tenant.
type tenantCosts struct {
	Tenant string `json:"tenant"`
	cost.TokenCosts
}

// tokenCosts divides an hourly price of all GPUs among a run's tenants, in equal
// parts. Probes have none.
func tokenCosts(s *loadgen.Summary, hourly cost.Money) ([]tenantCosts, error) {
	sharers := 0
	for i := range s.Tenants {
		if !s.Tenants[i].Probe {
			sharers++
		}
	}
	var out []tenantCosts
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if t.Probe || !(t.DurationS > 0) {
			continue
		}
		rates := cost.TokenRates{Input: float64(t.PromptTokens) / t.DurationS, Output: t.OutputTokensPerS}
		if t.Goodput != nil {
			rates.Good = t.Goodput.OutputTokensPerS.Or(0)
		}
		c, err := cost.PerMillionTokens(hourly, sharers, rates)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		out = append(out, tenantCosts{t.Name, c})
	}
	return out, nil
}

// writeCosts shows the costs of every run's tenants, by the hourly price of each.
func writeCosts(w io.Writer, results []*loadgen.Result, hourly func(*loadgen.Summary) (cost.Money, error)) error {
	fmt.Fprint(w, "\nWhat a million tokens cost, the GPUs' price in equal parts among the tenants (good: output of\nrequests that kept their SLO)\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "scenario\tload\ttenant\tinput\toutput\tgood")
	for _, r := range results {
		price, err := hourly(&r.Summary)
		if err != nil {
			return err
		}
		costs, err := tokenCosts(&r.Summary, price)
		if err != nil {
			return err
		}
		for _, c := range costs {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.Summary.Scenario, report.LevelOf(&r.Summary).Text, c.Tenant, strings.Join(c.Texts(), "\t"))
		}
	}
	return tw.Flush()
}
