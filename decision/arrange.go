package decision

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// Up to scarceTogether workloads are arranged together, and more where they have few replicas (mostPoints); others
// a few at a time: all ways to divide those among pools and mechanisms are compared, beside what stands already.
const (
	fewWorkloads = 3 // together, in fleets up to
	fewUpTo      = 40
	pairsUpTo    = 200
	mostCompared = 14 // choices of a workload that are compared, cheapest first
	mostAlike    = 64
	mostTogether = 64 // tenants of a GPU without slices
)

// choice is workload w's choice of a group, or nil.
func (pl *planner) choice(w int, key groupKey) *choice {
	for i := range pl.choices[w] {
		if c := &pl.choices[w][i]; c.pool == key.pool && c.mechanism == key.mechanism {
			return c
		}
	}
	return nil
}

// ban rules a choice out.
func (pl *planner) ban(w int, c *choice, why gate.Reason) {
	if pl.banned[w] == nil {
		pl.banned[w] = map[groupKey]gate.Reason{}
	}
	pl.banned[w][c.groupKey] = why
}

// open says whether a choice may still be taken.
func (pl *planner) open(w int, c *choice) bool {
	_, banned := pl.banned[w][c.groupKey]
	return !banned
}

// arrange gives each workload the pool and mechanism with which the fleet costs
// least, a few workloads at a time, those with the fewest ways out first.
func (pl *planner) arrange() error {
	order := pl.order()
	few := 1
	switch n := len(order); {
	case n <= scarceTogether || pl.exact():
		few = n
	case n <= fewUpTo:
		few = fewWorkloads
	case n <= pairsUpTo:
		few = 2
	}
	for {
		pl.clear()
		for at := 0; at < len(order); at += few {
			to := min(at+few, len(order))
			pl.coming = order[to:]
			if err := pl.settle(order[at:to]); err != nil {
				return err
			}
		}
		if pl.exact() || len(order) == 1 || len(order) <= scarceTogether && len(pl.lacking()) == 0 {
			pl.search = SearchAll
		} else if len(order) <= improvedUpTo {
			pl.search = SearchBestFound
			if err := pl.improve(); err != nil {
				return err
			}
		}
		if !pl.banLonely() {
			break
		}
	}
	for _, key := range pl.groupKeys() {
		pl.level(key)
		if g := pl.groups[key]; gate.TraitsOf(g.mechanism).Sliced {
			if err := g.repackSlices(); err != nil {
				return fmt.Errorf("decision: pool %q: %w", g.pool.pool.Name, err)
			}
		}
	}
	return pl.migrate()
}

// clear forgets where workloads stand.
func (pl *planner) clear() {
	pl.chosen = make([]*choice, len(pl.workloads))
	pl.placed = make([]int, len(pl.workloads))
	pl.full = make([]map[groupKey]int, len(pl.workloads))
	pl.groups = map[groupKey]*group{}
}

// exact says whether settle compares every way to place all workloads.
func (pl *planner) exact() bool {
	points := 1
	for _, cw := range pl.workloads {
		if points *= cw.workload.replicas() + 1; points > mostPoints {
			return false
		}
	}
	return true
}

func (pl *planner) order() []int {
	order := make([]int, len(pl.workloads))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(pl.choices[a]), len(pl.choices[b])),
			cmp.Compare(pl.workloads[b].workload.gpus(), pl.workloads[a].workload.gpus()),
			cmp.Compare(pl.workloads[b].demand.Memory.Total, pl.workloads[a].demand.Memory.Total), cmp.Compare(a, b))
	})
	return order
}

// lonelyCosts keeps workloads that meet nobody from a mechanism that shares,
// where a GPU of their own costs the same.
const lonelyCosts = 1e6

// lonelyWorth weighs that a workload meets nobody yet where GPUs are shared: against it, unless workloads that come
// later may join it.
func (pl *planner) lonelyWorth(w int, key groupKey) float64 {
	for _, other := range pl.coming {
		c := pl.choice(other, key)
		if c != nil && pl.open(other, c) && (gate.TraitsOf(key.mechanism).Sliced || pl.trust.trusts(w, other)) {
			return lonelyCosts
		}
	}
	return -lonelyCosts
}

// turnsCost keeps servers with latency objectives from taking turns where another
// mechanism costs the same: a turn lasts milliseconds.
const turnsCost = 1e4

// waits says whether somebody waits for a workload's answers.
func (pl *planner) waits(w int) bool {
	cw := pl.workloads[w]
	return cw.arch.LatencyBound && cw.workload.SLO != (profile.SLO{})
}

// lonely says whether a workload shares none of the group's GPUs.
func (g *group) lonely(w int) bool {
	return !slices.ContainsFunc(g.sliced, func(s sliced) bool { return len(s.members) > 1 && has(s.members, w) }) &&
		!slices.ContainsFunc(g.bins, func(b bin) bool { return b.n > 1 && has(b.members, w) })
}
