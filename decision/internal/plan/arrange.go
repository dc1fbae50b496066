package plan

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

// open says whether a choice may still be taken.
func (pl *Planner) open(w int, c *Choice) bool {
	_, banned := pl.Banned[w][c.GroupKey]
	return !banned
}

// arrange gives each workload the pool and mechanism with which the fleet costs
// least, a few workloads at a time, those with the fewest ways out first.
func (pl *Planner) arrange() error {
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
		if few < len(order) {
			pl.unused = 1 // those that come later may use it
		}
		for at := 0; at < len(order); at += few {
			to := min(at+few, len(order))
			pl.coming = order[to:]
			if err := pl.settle(order[at:to]); err != nil {
				return err
			}
		}
		pl.unused = 0
		if pl.exact() || len(order) == 1 || len(order) <= scarceTogether && len(pl.lacking()) == 0 {
			pl.Search = SearchAll
		} else if len(order) <= improvedUpTo {
			pl.Search = SearchBestFound
			if err := pl.improve(); err != nil {
				return err
			}
		}
		if !pl.banLonely() {
			break
		}
	}
	for _, key := range pl.GroupKeys() {
		pl.level(key)
		if g := pl.Groups[key]; gate.TraitsOf(g.Mechanism).Sliced {
			if err := g.repackSlices(); err != nil {
				return fmt.Errorf("decision: pool %q: %w", g.Pool.Pool.Name, err)
			}
		}
	}
	return pl.migrate()
}

// clear forgets where workloads stand.
func (pl *Planner) clear() {
	pl.Chosen = make([]*Choice, len(pl.Workloads))
	pl.Placed = make([]int, len(pl.Workloads))
	pl.Full = make([]map[GroupKey]int, len(pl.Workloads))
	pl.Groups = map[GroupKey]*Group{}
}

// exact says whether settle compares every way to place all workloads.
func (pl *Planner) exact() bool {
	points := 1
	for _, cw := range pl.Workloads {
		if points *= cw.Workload().ReplicaCount() + 1; points > mostPoints {
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

// lonelyWorth weighs that a workload meets nobody yet where GPUs are shared: against it, unless workloads that come
// later may join it.
func (pl *Planner) lonelyWorth(w int, key GroupKey) float64 {
	for _, other := range pl.coming {
		c := pl.Choice(other, key)
		if c != nil && pl.open(other, c) && (gate.TraitsOf(key.Mechanism).Sliced || pl.Trust.trusts(w, other)) {
			return lonelyCosts
		}
	}
	return -lonelyCosts
}

// turnsCost keeps servers with latency objectives from taking turns where another
// mechanism costs the same: a turn lasts milliseconds.
const turnsCost = 1e4

// waits says whether somebody waits for a workload's answers.
func (pl *Planner) waits(w int) bool {
	cw := pl.Workloads[w]
	return cw.Archetype.LatencyBound && cw.Workload().SLO != (profile.SLO{})
}

// lonely says whether a workload shares none of the group's GPUs.
func (g *Group) lonely(w int) bool {
	return !slices.ContainsFunc(g.Sliced, func(s sliced) bool { return len(s.Members) > 1 && has(s.Members, w) }) &&
		!slices.ContainsFunc(g.Bins, func(b bin) bool { return b.n > 1 && has(b.Members, w) })
}
