// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
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
func (pl *Planner) ban(w int, c *Choice, why gate.Reason) {
	if pl.Banned[w] == nil {
		pl.Banned[w] = map[GroupKey]gate.Reason{}
	}
	pl.Banned[w][c.GroupKey] = why
}

// open reports whether a choice may still be taken.
func (pl *Planner) open(w int, c *Choice) bool {
	_, banned := pl.Banned[w][c.GroupKey]
	return !banned
}

// arrange gives each workload the pool and mechanism with which the fleet costs least: of few workloads by comparing
// all divisions, of many by a search.
func (pl *Planner) arrange() error {
	order := pl.order()
	pl.clear()
	all, err := pl.compareAll(order)
	if !all && err == nil {
		err = pl.improve(order)
	}
	if err != nil {
		return err
	}
	if err := pl.spill(); err != nil {
		return err
	}
	for _, key := range pl.GroupKeys() {
		pl.level(key)
		if g := pl.Groups[key]; gate.TraitsOf(g.Mechanism).Sliced {
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
	pl.Full = make([]map[GroupKey]int, len(pl.Workloads))
	pl.Groups = map[GroupKey]*Group{}
}

// few reports whether every number of replicas of all workloads can be compared in every place.
func (pl *Planner) few() bool {
	points, pairs := 1, 1
	for _, n := range pl.Wanted {
		points, pairs = points*(n+1), pairs*(n+1)*(n+2)/2
		if points > mostPoints || pairs > mostPairs {
			return false
		}
	}
	return true
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
			cmp.Compare(pl.Workloads[b].Demand().Memory.Total, pl.Workloads[a].Demand().Memory.Total), cmp.Compare(a, b))
	})
	return order
}

// lonelyCosts keeps workloads that meet nobody from a mechanism that shares, where a GPU of their own costs the same.
const lonelyCosts = 1e6

// turnsCost keeps servers with latency objectives from taking turns where another
// mechanism costs the same: a turn lasts milliseconds.
const turnsCost = 1e4

// waits reports whether a workload has a latency objective and a kind that is bound by latency.
func (pl *Planner) waits(w int) bool {
	cw := pl.Workloads[w]
	return cw.Archetype.LatencyBound && cw.Workload().SLO != (profile.SLO{})
}

// lonely reports whether a workload shares none of the group's GPUs.
func (g *Group) lonely(w int) bool {
	return !slices.ContainsFunc(g.Sliced, func(s sliced) bool { return len(s.Members) > 1 && has(s.Members, w) }) &&
		!slices.ContainsFunc(g.Bins, func(b bin) bool { return b.n > 1 && has(b.Members, w) })
}
