// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

const (
	mostAlike    = 64
	mostTogether = 64 // tenants of a GPU without slices
)

// Choice is workload w's choice of a group, or nil.
func (pl *Planner) Choice(w int, key GroupKey) *Choice {
	for i := range pl.Choices[w] {
		if c := &pl.Choices[w][i]; c.Pool == key.Pool && c.Mechanism == key.Mechanism {
			return c
		}
	}
	return nil
}

// ban rules a choice out.
func (pl *Planner) ban(w int, c *Choice, why filter.Reason) {
	if pl.Banned[w] == nil {
		pl.Banned[w] = map[GroupKey]filter.Reason{}
	}
	pl.Banned[w][c.GroupKey] = why
}

// open reports whether a choice may still be taken.
func (pl *Planner) open(w int, c *Choice) bool {
	_, banned := pl.Banned[w][c.GroupKey]
	return !banned
}

// arrange gives each workload the pools and mechanisms with which the fleet costs least, by a search.
func (pl *Planner) arrange() error {
	pl.clear()
	if err := pl.improve(pl.order()); err != nil {
		return err
	}
	for _, key := range pl.GroupKeys() {
		pl.level(key)
		if g := pl.Groups[key]; traits.Of(g.Mechanism).Sliced {
			if err := g.repackSlices(); err != nil {
				return fmt.Errorf("decision: pool %q: %w", g.Pool.Pool.Name, err)
			}
		}
	}
	return nil
}

// clear removes all workloads from their places.
func (pl *Planner) clear() {
	pl.unite()
	pl.Chosen = make([]*Choice, len(pl.Workloads))
	pl.Placed = make([]int, len(pl.Workloads))
	pl.Groups = map[GroupKey]*Group{}
}

func (pl *Planner) order() []int {
	order := make([]int, len(pl.Workloads))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(pl.Workloads[b].Workload().Precedence(), pl.Workloads[a].Workload().Precedence()),
			cmp.Compare(len(pl.Choices[a]), len(pl.Choices[b])),
			cmp.Compare(pl.Workloads[b].Workload().GPUCount(), pl.Workloads[a].Workload().GPUCount()),
			cmp.Compare(a, b))
	})
	return order
}

// isolatedCosts keeps workloads without neighbours from a mechanism that shares, where whole GPUs cost the same.
const isolatedCosts = 1e6

// timeSlicingCost keeps servers with latency objectives from time-slicing where another
// mechanism costs the same: a time slice lasts milliseconds.
const timeSlicingCost = 1e4

// waits reports whether a workload has a latency objective and a kind that is bound by latency.
func (pl *Planner) waits(w int) bool {
	cw := pl.Workloads[w]
	return cw.Archetype.LatencyBound && cw.Workload().SLO != (profile.SLO{})
}
