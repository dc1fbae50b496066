package chart

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// RunCosts holds a run and the costs of its tenants.
type RunCosts struct {
	*loadgen.Summary
	Costs []TenantCosts `json:"token_costs,omitempty"`
}

// TenantCosts holds the price of a million tokens of one tenant.
type TenantCosts struct {
	Tenant string `json:"tenant"`
	cost.TokenCosts
}

// Costs are those of several runs.
type Costs []RunCosts

// CostsOf divides the hourly price of each scenario's GPUs among the tenants of its runs; runs of scenarios without a
// price have none.
func CostsOf(results []*loadgen.Result, hourly func(scenario string) (cost.Money, error)) (runs Costs, err error) {
	for _, r := range results {
		run := RunCosts{Summary: &r.Summary}
		price, err := hourly(r.Summary.Scenario)
		if err == nil && price.Sign() > 0 {
			run.Costs, err = tokenCosts(&r.Summary, price)
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// tokenCosts divides an hourly price of all GPUs among a run's tenants, in equal parts. Probes have none.
func tokenCosts(s *loadgen.Summary, hourly cost.Money) (out []TenantCosts, err error) {
	served := slices.DeleteFunc(slices.Clone(s.Tenants), func(t loadgen.TenantSummary) bool { return t.Probe })
	for i := range served {
		t := &served[i]
		if !(t.DurationS > 0) {
			continue
		}
		rates := cost.TokenRates{Input: float64(t.PromptTokens) / t.DurationS, Output: t.OutputTokensPerS}
		if t.Goodput != nil {
			rates.Good = t.Goodput.OutputTokensPerS.Or(0)
		}
		c, err := cost.PerMillionTokens(hourly, len(served), rates)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		out = append(out, TenantCosts{t.Name, c})
	}
	return out, nil
}

// WriteText writes the costs of every run's tenants.
func (runs Costs) WriteText(w io.Writer) error {
	fmt.Fprint(w, "\nWhat a million tokens cost, the GPUs' price in equal parts among the tenants (good: output of\n"+
		"requests that kept their SLO)\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "scenario\tload\ttenant\tinput\toutput\tgood")
	for _, r := range runs {
		for _, c := range r.Costs {
			load, kinds := report.LevelOf(r.Summary).Text, strings.Join(c.Texts(), "\t")
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.Scenario, load, c.Tenant, kinds)
		}
	}
	return tw.Flush()
}
