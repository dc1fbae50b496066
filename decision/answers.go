// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
)

// answers turns a plan into texts and figures.
type answers struct {
	*plan.Planner
	fleet   *Fleet
	costs   []*layout.PoolCost // by pool
	byPlace [][]workloadShare  // by workload and place
}

// workloadShare is a workload's part of its pools' GPUs, or of those of one of its places.
type workloadShare struct {
	micros  int64 // of its GPUs' price for an hour
	dearest int64 // of one of its GPUs
	fullest int   // tenants on the fullest of its GPUs
}

// round rounds a figure for the result.
func round(f float64, decimals int) float64 {
	p := math.Pow10(decimals)
	return math.Round(f*p) / p
}

// profileOf is the MIG profile of a choice, "" where there is none.
func profileOf(c *plan.Choice) string {
	if c.Slice == nil {
		return ""
	}
	return c.Slice.Profile.Name
}

// layout assigns the plan to nodes, prices them, and lists unused capacity.
func (pl *answers) layout(r *Result) error {
	var problems []layout.Problem
	if r.Layout, problems = pl.Layout(); len(problems) > 0 {
		return fmt.Errorf("decision: %w", layout.Err(problems))
	}
	prices := score.Prices(pl.Pools)
	all, err := r.Layout.Cost(prices)
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	for _, cp := range pl.Pools {
		at := slices.IndexFunc(all.Pools, func(p layout.PoolCost) bool { return p.Pool == cp.Pool.Name })
		pl.costs = append(pl.costs, &all.Pools[at])
	}
	if r.Findings, err = r.Layout.Findings(prices); err != nil {
		err = fmt.Errorf("decision: %w", err)
	}
	return err
}
