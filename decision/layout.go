// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/score"
)

// layout assigns the plan to nodes, prices them, and lists unused capacity.
func (pl *answers) layout(r *Result) error {
	var problems []layout.Problem
	if r.Layout, problems = pl.Layout(); len(problems) > 0 {
		return fmt.Errorf("decision: %w", layout.Err(problems))
	}
	prices := Prices(pl.Pools)
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

// Prices are those of pools, for the price of a layout; of one that has none, how many GPUs are reserved.
func Prices(pools []*score.CompiledPool) layout.Prices {
	out := layout.Prices{}
	for _, cp := range pools {
		p := layout.Price{PerGPU: cp.Price, SpotPerGPU: cp.Spot.PricePerGPUHour, Reserved: cp.Reserved.Count,
			ReservedPerGPU: cp.Reserved.PricePerGPUHour}
		if node, stated := cp.Pool.NodePricePerHour.Get(); stated {
			p.PerNode = node
		}
		out[cp.Pool.Name] = p
	}
	return out
}
