// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

func runCost(_ context.Context, fl *call, std stdio) error {
	var html string
	page.Report(fl.FlagSet, &html, "write the calculator of tenants")
	gpu := moneyFlag(fl.FlagSet, "gpu-price", "2.24 USD", "`price` of a GPU node for an hour")
	cpu := moneyFlag(fl.FlagSet, "cpu-price", "0.08 USD", "`price` of a CPU node for an hour")
	before := fl.Int("before", 2, "`number` of GPU nodes without sharing")
	after := fl.Int("after", 1, "`number` of GPU nodes with sharing")
	cpuNodes := fl.Int("cpu-nodes", 2, "`number` of CPU nodes next to the shared GPU nodes")
	invest := moneyFlag(fl.FlagSet, "invest", "0.00 USD", "one-time `amount` that the change costs; adds the payback date")
	from := fl.String("from", "", "`DATE` of the change, e.g. 2026-03-01 (default: today)")
	if err := fl.parse(0, std); err != nil {
		return err
	}
	if html != "" {
		p, err := pages.Cost()
		return errors.Join(err, page.WriteHTML(html, p.Write))
	}
	dedicated := cost.Composition{{Name: "GPU node", Count: *before, PricePerHour: *gpu}}
	shared := cost.Composition{{Name: "GPU node", Count: *after, PricePerHour: *gpu},
		{Name: "CPU node", Count: *cpuNodes, PricePerHour: *cpu, Auxiliary: true}}
	rows := [][]string{{"  CPU nodes counted", "before/month", "after/month", "saved/year", "saving"}}
	for _, counting := range cost.Countings() {
		s, err := cost.CompareCompositions(dedicated, shared, counting)
		if err != nil {
			return badInput(err)
		}
		rows = append(rows, []string{"  " + string(counting), s.Before.String(), s.After.String(), s.Annual.String(),
			s.Fraction.RoundPercent(1).String()})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d GPU nodes at %s an hour become %d and %d CPU nodes at %s\n\n%s", *before, gpu, *after,
		*cpuNodes, cpu, page.Table(rows))
	if invest.Sign() != 0 {
		line, err := payback(dedicated, shared, *invest, *from)
		if err != nil {
			return badInput(err)
		}
		text.WriteString(line)
	}
	if fl.NFlag() == 0 {
		sources := sharing.Citations{IDs: []sharing.SourceID{"myitbasics-eks-sharing"}}
		text.WriteString("  myitbasics-eks-sharing printed ~46%: it charges the CPU nodes to the shared side alone.\n\n")
		_ = sources.WriteText(&text)
	}
	return printText(std.out, page.Fold(text.String()))
}

// moneyFlag adds a flag of an amount; its default must be one.
func moneyFlag(fs *flag.FlagSet, name, value, usage string) *cost.Money {
	m, _ := cost.ParseMoney(value) // the golden files show every default
	fs.TextVar(&m, name, m, usage)
	return &m
}

// payback returns the time in which the saving, like for like, pays for an investment.
func payback(dedicated, shared cost.Composition, invest cost.Money, from string) (string, error) {
	start := time.Now().UTC()
	var err error
	if from != "" {
		if start, err = time.Parse(time.DateOnly, from); err != nil {
			return "", fmt.Errorf("-from: %q is no date (write e.g. 2026-03-01)", from)
		}
	}
	s, err := cost.CompareCompositions(dedicated, shared, cost.CountingAuxiliaryOnBoth)
	if err != nil {
		return "", err
	}
	at, err := cost.Payback(invest, s.Monthly, start)
	if errors.Is(err, cost.ErrNoBreakEven) {
		return "\n  payback: never: the change saves nothing\n", nil
	}
	return fmt.Sprintf("\n  payback: %s by %s, at %s a month (CPU nodes on both sides)\n", invest,
		at.Format(time.DateOnly), s.Monthly), err
}
