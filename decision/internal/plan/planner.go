// SPDX-License-Identifier: Apache-2.0

// Package plan arranges a fleet on its pools. It enumerates the choices of each workload (filter and score), drops
// those predicted to miss an objective, and looks for the cheapest arrangement of all together by simulated annealing
// over destroy-and-repair (Shaw 1998; Ropke and Pisinger 2006), with exact placement of MIG instances on each GPU.
// Package decision writes its answers for users.
package plan

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/sharing"
)

// PlanFleet arranges a fleet that is valid, with so many rounds of a search where there is one.
func PlanFleet(f *fleet.Fleet, opt Options, rounds int) (*Planner, error) {
	pl, err := NewPlan(f, opt, rounds)
	if err != nil {
		return nil, err
	}
	return pl, pl.Plan(f.Trust)
}

// NewPlan is a fleet before it is arranged.
func NewPlan(f *fleet.Fleet, opt Options, rounds int) (*Planner, error) {
	pl := &Planner{Opt: opt, estimates: map[estimateKey]*estimate{}, Seen: map[string]Prediction{}, rounds: rounds}
	for i := range f.Pools {
		p, err := score.CompilePool(&f.Pools[i], opt.Allow...)
		if err != nil {
			return nil, err
		}
		pl.Pools = append(pl.Pools, p)
	}
	pl.Workloads = compiled(f.Workloads)
	for _, cw := range pl.Workloads {
		pl.Wanted = append(pl.Wanted, cw.Workload().ReplicaCount())
	}
	slices.SortFunc(pl.Pools, func(a, b *score.CompiledPool) int { return cmp.Compare(a.Pool.Name, b.Pool.Name) })
	for _, cp := range pl.Pools {
		pl.sites = append(pl.sites, newSites(cp))
	}
	pl.on = pl.figuresOn(f)
	if opt.Profiles != nil {
		var err error
		if pl.Evidence, err = newEvidence(f, pl.Workloads, opt); err != nil {
			return nil, err
		}
	}
	return pl, nil
}

// compiled returns the workloads in the order by which ties between arrangements are broken, the first preferred: those
// that run today, the larger before the smaller, and by names where demands are about the same.
func compiled(workloads []fleet.Workload) (out []*score.CompiledWorkload) {
	memory, busy := map[float64]int{}, map[float64]int{}
	for i := range workloads {
		w := score.CompileWorkload(&workloads[i])
		memory[float64(w.Demand().Memory.Total)], busy[w.Demand().Busy] = 0, 0
		out = append(out, w)
	}
	rank(memory)
	rank(busy)
	without := map[bool]int{true: 1}
	slices.SortFunc(out, func(a, b *score.CompiledWorkload) int {
		v, w := a.Workload(), b.Workload()
		return cmp.Or(without[v.Today == nil]-without[w.Today == nil], cmp.Compare(w.GPUCount(), v.GPUCount()),
			memory[float64(b.Demand().Memory.Total)]-memory[float64(a.Demand().Memory.Total)],
			busy[b.Demand().Busy]-busy[a.Demand().Busy], cmp.Compare(w.ReplicaCount(), v.ReplicaCount()),
			a.Archetype.Rank-b.Archetype.Rank, cmp.Compare(v.Tenant, w.Tenant), cmp.Compare(v.Name, w.Name))
	})
	return out
}

// rank numbers figures from the smallest, and gives those one number that lie within 4.2% of the next smaller: of equal
// workloads, figures that are 2% off either way must not decide which one gets the last GPU.
func rank(figures map[float64]int) {
	n, last := 0, 0.0
	for _, v := range slices.Sorted(maps.Keys(figures)) {
		if v > last*1.042 {
			n++
		}
		figures[v], last = n, v
	}
}

// Plan finds the choices of each workload and arranges the fleet. Where replicas are left without a place, GPUs of the
// pools that they could use are shared more closely, step by step, if that places more.
func (pl *Planner) Plan(trust fleet.Trust) error {
	pl.Prepare()
	pl.Among, pl.Trust = trust, classify(pl.Workloads, trust)
	pl.Least = slices.Repeat([]float64{KeepsRate}, len(pl.Pools))
	if err := pl.attempt(); err != nil {
		return err
	}
	steps, rounds := closer, pl.rounds
	if n := len(pl.Workloads); n > closerUpTo { // it takes as long again
		return pl.Opt.Err()
	} else if n > closelyUpTo {
		steps, rounds = closerOfMany, (rounds+1)/2
	}
	most, closest, err := pl.placementOf(pl.Placed), pl, error(nil)
	places := func(least float64) bool { // as many as most, with more slowdown
		next := *pl
		next.rounds = rounds
		if next.Least = pl.crowded(least); err != nil || slices.Equal(next.Least, pl.Least) {
			return false
		}
		err = next.attempt()
		is := next.placementOf(next.Placed)
		if is.compare(&most) < 0 {
			return false
		}
		most, closest = is, &next
		return true
	}
	if was := most; places(steps[len(steps)-1]) && most.compare(&was) > 0 {
		sort.Search(len(steps)-1, func(k int) bool { return places(steps[k]) })
		*pl = *closest
	}
	if err != nil {
		return err
	}
	return pl.Opt.Err()
}

// The rates that are tried in pools for which replicas wait, and those in fleets of more than closelyUpTo workloads; in
// fleets of more than closerUpTo none is.
const closelyUpTo, closerUpTo = 40, 200

var closer, closerOfMany = []float64{0.72, 0.65, 0.58, 0.5, 0.42, 0.35, 0.28, 0.2, 0.1, 0.02}, []float64{0.4, 0.02}

// attempt gives each workload the pools and mechanisms with which the fleet costs least, by the rates that its pools
// keep.
func (pl *Planner) attempt() error {
	pl.evaluate()
	for w := range pl.Choices {
		pl.Choices[w] = pl.weigh(w)
	}
	if err := pl.improve(pl.order()); err != nil {
		return err
	}
	for _, key := range pl.GroupKeys() {
		if !traits.Of(key.Mechanism).Sliced && key.Mechanism != sharing.MechanismExclusive {
			pl.level(key)
		}
	}
	return nil
}

// crowded returns the rates that pools keep where those for which replicas wait keep less.
func (pl *Planner) crowded(least float64) []float64 {
	out := slices.Clone(pl.Least)
	for w, n := range pl.Wanted {
		if pl.Placed[w] >= n {
			continue
		}
		for i := range pl.Choices[w] {
			out[pl.Choices[w][i].Pool] = least
		}
		for key, why := range pl.Banned[w] {
			if why.Code == codes.Slowdown {
				out[key.Pool] = least
			}
		}
	}
	return out
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
