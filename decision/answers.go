// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"math"

	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
)

// answers turns a plan into texts and figures.
type answers struct {
	*plan.Planner
	fleet   *Fleet
	mixes   map[plan.GroupKey]*mix
	costs   []*layout.PoolCost // by pool
	byPlace [][]workloadShare  // by workload and place
}

// mix records the differences between the workloads of a group.
type mix struct {
	first   *score.CompiledWorkload
	uid     Optional[int]
	unequal bool // in kind or load
	uids    bool // several user ids
}

// round rounds a figure for the result.
func round(f float64, decimals int) float64 {
	p := math.Pow10(decimals)
	return math.Round(f*p) / p
}
