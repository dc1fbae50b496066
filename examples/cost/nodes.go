package main

import (
	"flag"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
)

type nodesResult struct {
	GPUPrice cost.Money `json:"gpu_node_price_per_hour"`
	CPUPrice cost.Money `json:"cpu_node_price_per_hour"`
	Before   int        `json:"gpu_nodes_before"`
	After    int        `json:"gpu_nodes_after"`
	CPUNodes int        `json:"cpu_nodes_after"`
	Rows     []nodesRow `json:"by_counting"`
	Note     string     `json:"note,omitempty"`
	cited
}

type nodesRow struct {
	Counting cost.Counting `json:"counting"`
	cost.Saving
	Published string `json:"published,omitempty"`
}

func prepareNodes(fs *flag.FlagSet) func(io.Reader) (result, error) {
	gpu := moneyFlag(fs, "gpu-price", "2.24 USD", "`price` of a GPU node for an hour")
	cpu := moneyFlag(fs, "cpu-price", "0.08 USD", "`price` of a CPU node for an hour")
	before := fs.Int("before", 2, "`number` of GPU nodes without sharing")
	after := fs.Int("after", 1, "`number` of GPU nodes with sharing")
	cpuNodes := fs.Int("cpu-nodes", 2, "`number` of CPU nodes that stand beside the shared GPU nodes")
	return func(io.Reader) (result, error) {
		r := nodesResult{GPUPrice: *gpu, CPUPrice: *cpu, Before: *before, After: *after, CPUNodes: *cpuNodes}
		dedicated := cost.Composition{{Name: "GPU node", Count: *before, PricePerHour: *gpu}}
		shared := cost.Composition{{Name: "GPU node", Count: *after, PricePerHour: *gpu},
			{Name: "CPU node", Count: *cpuNodes, PricePerHour: *cpu, Auxiliary: true}}
		for _, counting := range cost.Countings() {
			s, err := cost.CompareCompositions(dedicated, shared, counting)
			if err != nil {
				return nil, err
			}
			row := nodesRow{Counting: counting, Saving: s}
			if !given(fs) && counting == cost.CountingAsGiven {
				row.Published = string(eksArticle) + ": $1,518.40, $18,220.80, ~46%"
			}
			r.Rows = append(r.Rows, row)
		}
		if !given(fs) {
			r.Sources.Add(eksArticle)
			r.Note = string(eksArticle) + " charges the CPU nodes to the shared side alone; like for like the saving is 48.3% " +
				"or 50%."
		}
		return r, nil
	}
}

func (r nodesResult) text(w io.Writer) {
	fmt.Fprintf(w, "NODES: %d GPU nodes at %s an hour become %d and %d CPU nodes at %s\n\n", r.Before, r.GPUPrice, r.After,
		r.CPUNodes, r.CPUPrice)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  CPU nodes counted\tbefore/month\tafter/month\tsaved/month\tsaved/year\tsaving\tprinted")
	for _, row := range r.Rows {
		printed := row.Published
		if printed == "" {
			printed = "-"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", map[cost.Counting]string{cost.CountingAsGiven: "after only",
			cost.CountingAuxiliaryOnBoth: "before and after", cost.CountingAuxiliaryOnNeither: "not at all"}[row.Counting],
			row.Before, row.After, row.Monthly, row.Annual, row.Fraction.RoundPercent(1), printed)
	}
	_ = t.Flush()
	if r.Note != "" {
		fmt.Fprintf(w, "  %s\n", r.Note)
	}
}
