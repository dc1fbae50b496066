// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Fleets are searched by destroy and repair: some workloads leave their places, those of a few GPUs or any few,
// and return in another order. A worse arrangement is accepted with a probability that falls over time (simulated
// annealing). The result is the best one found, which need not be optimal.
const (
	improvedUpTo  = 2000 // workloads
	Rounds        = 8
	enough        = 3      // rounds from nothing that found nothing better
	triesOf       = 100    // of a replica in a round, of mostPlaces replicas of a workload
	mostTries     = 20_000 // of a round
	mostEvaluated = 20_000 // evaluations of a GPU with a workload to join it
	mostVisited   = 100e6  // GPUs visited at, in a round
	leaving       = 12     // workloads at a time, at most
	// A worse arrangement is accepted with a probability that falls with its loss, in GPUs, and from a round's first
	// try to its last.
	replicaWorth        = 2 // GPUs
	firstHeat, lastHeat = 0.2, 0.02
)

// improve arranges workloads one after another, looks for a better arrangement than that, and takes it.
func (pl *Planner) improve(order []int) error {
	s := pl.newSearch()
	at, err := s.filled(order)
	if len(order) <= improvedUpTo && at.replicas != s.total && err == nil { // the smallest first
		slices.SortStableFunc(order, func(v, w int) int {
			return cmp.Or(cmp.Compare(pl.Workloads[w].Workload().Precedence(), pl.Workloads[v].Workload().Precedence()),
				cmp.Compare(s.each(v), s.each(w)))
		})
		var other *arranged
		if other, err = s.filled(order); other.compare(at) > 0 {
			at = other
		}
	}
	best, other, agreed := &arranged{}, &arranged{}, 0
	best.copyFrom(at)
	for k := 0; err == nil && k < pl.rounds && len(order) <= improvedUpTo; k++ {
		from := best
		s.fill = -1
		if k%2 == 1 { // from nothing, to leave a local optimum
			for w := range at.stakes {
				s.remove(at, w)
			}
			s.weigh(at)
			other.copyFrom(at)
			from, s.fill = other, k/2%len(pl.Pools)
		}
		err = s.round(at, from)
		if from == other {
			same := other.compare(best)
			if same > 0 || same == 0 && other.seconds(best) > 0 {
				best.copyFrom(other)
			}
			if same == 0 {
				agreed++
			}
			if agreed == enough { // all ways lead to the same
				break
			}
		}
		at.copyFrom(best)
	}
	if err != nil {
		return err
	}
	full, err := s.full(best)
	if err == nil {
		err = s.take(best)
	}
	pl.Full = full
	return err
}

func (pl *Planner) newSearch() *search {
	s := &search{pl: pl, fill: -1, sites: map[GroupKey]*shared{}}
	s.rng = rand.New(rand.NewPCG(1, 2)) // same input, same answer
	for p, cp := range pl.Pools {
		t := pl.pricing(p)
		s.costs = append(s.costs, t)
		t.unused = 1
		s.parts = append(s.parts, t)
		s.whole = s.whole || cp.Pool.GPUsPerNode.Or(1) > 1
		s.scale = max(s.scale, pl.Counts(cp.Price))
	}
	s.scale, s.guide = cmp.Or(s.scale, 1), s.costs
	for w := range pl.Workloads {
		s.total[pl.Workloads[w].Workload().Precedence()] += int32(pl.Wanted[w])
		var ways []wayIn
		for k := range pl.Choices[w] {
			c := &pl.Choices[w][k]
			if _, banned := pl.Banned[w][c.GroupKey]; banned {
				continue
			}
			way := wayIn{c: c}
			if c.Mechanism != sharing.MechanismExclusive {
				key := c.GroupKey
				if s.sites[key] == nil {
					s.sites[key] = s.newShared(key)
				}
				way.site = s.sites[key]
				domain := pl.domain(&pl.sites[c.Pool], c.Mechanism, []Member{{w, 1}})
				way.site.domain = cmp.Or(way.site.domain, domain)
				way.site.apart = way.site.apart || way.site.domain != domain && pl.sites[c.Pool].each > 1
				way.site.spans = way.site.spans || way.site.apart
			}
			ways = append(ways, way)
		}
		s.ways = append(s.ways, ways)
		if len(ways) > 0 {
			s.tries = min(mostTries, s.tries+triesOf*min(pl.Wanted[w], mostPlaces))
		}
	}
	return s
}

// filled places workloads in an order, each where it costs least.
func (s *search) filled(order []int) (*arranged, error) {
	a := &arranged{stakes: make([][mostPlaces]stake, len(s.ways)), placed: make([]int, len(s.ways)),
		gpus: make([][]*filling, len(s.sites)), loads: make([]load, len(s.pl.Pools)), parts: make([]load, len(s.sites))}
	s.guide = s.parts // later workloads may fill a node
	err := s.enter(a, order, false)
	s.guide = s.costs
	s.weigh(a)
	s.second(a)
	return a, err
}

// weigh works out how many replicas are placed, and the cost.
func (s *search) weigh(a *arranged) {
	a.replicas, a.cost, a.guided = s.pl.placementOf(a.placed), 0, 0
	for p := range s.costs {
		a.cost += s.costs[p].of(&a.loads[p])
		a.guided += s.guide[p].of(&a.loads[p])
	}
	for w := range a.stakes {
		for _, st := range a.stakes[w][:a.used(w)] {
			more := s.ways[w][st.way].c.Longer * float64(st.n)
			a.cost, a.guided = a.cost+more, a.guided+more
		}
	}
}

// second computes the tie-breakers.
func (s *search) second(a *arranged) {
	a.whole, a.places, a.slow, a.score = 0, 0, 0, 0
	for _, gpus := range a.gpus {
		for _, f := range gpus {
			if a.slow += f.slow; f.site.sliced { // instances of a workload are kept together
				a.score -= float64(len(f.Members))
			}
		}
	}
	for w, n := range a.placed {
		if n == s.pl.Wanted[w] {
			a.whole++
		}
		for _, st := range a.stakes[w][:a.used(w)] {
			v := s.ways[w][st.way]
			a.places++
			a.score += v.c.Score * float64(st.n)
			if v.site != nil && !slices.ContainsFunc(a.gpus[v.site.index], func(f *filling) bool {
				return f.n > 1 && has(f.Members, w)
			}) {
				a.score -= isolatedCosts
			}
			if cw := s.pl.Workloads[w]; traits.Of(v.c.Mechanism).TimeSlices && cw.Archetype.LatencyBound &&
				cw.Workload().SLO != (profile.SLO{}) {
				a.score -= timeSlicingCost
			}
		}
	}
}

// round searches from a, and keeps the best that it finds. Its first half fills one pool, where fill names one: several
// workloads may cost less together in a pool that is dearer for each of them. Otherwise, where nodes are bought whole,
// it counts each GPU by itself: by whole nodes nothing is gained before the last workload leaves a node.
func (s *search) round(at, best *arranged) error {
	now := &s.now
	s.visited = 0
	if s.whole && s.fill < 0 {
		s.guide = s.parts
		s.weigh(at)
	}
	for try := range s.tries {
		if err := s.pl.Opt.Err(); err != nil {
			return err
		}
		if s.evaluated > mostEvaluated || s.visited > mostVisited {
			return nil
		}
		s.short = best.replicas != s.total
		now.copyFrom(at)
		if err := s.enter(now, s.leave(now), true); err != nil {
			return err
		}
		s.weigh(now)
		if c := now.compare(best); c >= 0 {
			s.second(now)
			if c > 0 || now.seconds(best) > 0 {
				best.copyFrom(now)
			}
		}
		spent := max(float64(try)/float64(s.tries), float64(s.visited)/mostVisited)
		heat := firstHeat * math.Pow(lastHeat/firstHeat, spent)
		worse := (now.guided-at.guided)/s.scale + replicaWorth*(at.replicas.worth()-now.replicas.worth())
		if worse <= 0 || s.rng.Float64() < math.Exp(-worse/heat) {
			*at, *now = *now, *at
		}
		if max(spent, float64(s.evaluated)/mostEvaluated) >= 0.5 && (s.fill >= 0 || &s.guide[0] != &s.costs[0]) {
			s.guide, s.fill = s.costs, -1
			at.copyFrom(best)
			s.weigh(at)
		}
	}
	return nil
}

// take puts workloads where they are arranged.
func (s *search) take(a *arranged) error {
	pl := s.pl
	pl.Placed, pl.Places, pl.Groups = a.placed, make([][]Place, len(a.placed)), map[GroupKey][]GPU{}
	for w := range a.stakes {
		stakes := a.stakes[w][:a.used(w)]
		slices.SortFunc(stakes, func(x, y stake) int { return cmp.Or(int(y.n-x.n), int(x.way-y.way)) })
		for _, st := range stakes {
			c := s.ways[w][st.way].c
			pl.Places[w] = append(pl.Places[w], Place{c, int(st.n)})
			for range st.n {
				if c.Mechanism != sharing.MechanismExclusive {
					break
				}
				one := pl.newGPU(c.GroupKey, []Member{{w, 1}}, pl.Workloads[w].Workload().GPUCount())
				pl.Groups[c.GroupKey] = append(pl.Groups[c.GroupKey], one)
			}
		}
	}
	for key, h := range s.sites {
		left := map[int]int{}
		for w, places := range pl.Places {
			for _, p := range places {
				if p.GroupKey == key {
					left[w] = p.Replicas
				}
			}
		}
		for _, f := range a.gpus[h.index] {
			one := f.GPU
			if h.sliced {
				var err error
				if one, err = s.laid(f, left); err != nil {
					return err
				}
			}
			pl.Groups[key] = append(pl.Groups[key], one)
		}
	}
	return nil
}

// isolatedCosts keeps workloads without neighbours from a mechanism that shares, where whole GPUs cost the same.
const isolatedCosts = 1e6

// timeSlicingCost keeps servers with latency objectives from time-slicing where another
// mechanism costs the same: a time slice lasts milliseconds.
const timeSlicingCost = 1e4
