package main

import (
	"flag"

	"github.com/cotenant/cotenant/cost"
)

func nodes(fs *flag.FlagSet) func(*answer) error {
	gpu := moneyFlag(fs, "gpu-price", "2.24 USD", "`price` of a GPU node for an hour")
	cpu := moneyFlag(fs, "cpu-price", "0.08 USD", "`price` of a CPU node for an hour")
	before := fs.Int("before", 2, "`number` of GPU nodes without sharing")
	after := fs.Int("after", 1, "`number` of GPU nodes with sharing")
	cpuNodes := fs.Int("cpu-nodes", 2, "`number` of CPU nodes that stand beside the shared GPU nodes")
	return func(a *answer) error {
		dedicated := cost.Composition{{Name: "GPU node", Count: *before, PricePerHour: *gpu}}
		shared := cost.Composition{{Name: "GPU node", Count: *after, PricePerHour: *gpu},
			{Name: "CPU node", Count: *cpuNodes, PricePerHour: *cpu, Auxiliary: true}}
		rows := [][]string{{"CPU nodes counted", "before/month", "after/month", "saved/month", "saved/year", "saving"}}
		for _, counting := range cost.Countings() {
			s, err := cost.CompareCompositions(dedicated, shared, counting)
			if err != nil {
				return err
			}
			rows = append(rows, []string{counting.String(), s.Before.String(), s.After.String(), s.Monthly.String(),
				s.Annual.String(), s.Fraction.RoundPercent(1).String()})
		}
		a.printf("NODES: %d GPU nodes at %s an hour become %d and %d CPU nodes at %s\n\n", *before, gpu, *after, *cpuNodes,
			cpu)
		a.table(rows)
		if !given(fs) {
			a.sources.Add(eksArticle)
			a.printf("  %s printed $1,518.40, $18,220.80 and ~46%%: it charges the CPU nodes to the shared side "+
				"alone. Like for like the saving is 48.3%% or 50%%.\n", eksArticle)
		}
		return nil
	}
}
