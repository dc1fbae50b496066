// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
)

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
