// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// Larger fleets are searched by destroy and repair: some workloads leave their places, those of a few GPUs or any few,
// and return in another order. A worse arrangement is accepted with a probability that falls over time (simulated
// annealing). The result is the best one found, which need not be optimal.
const (
	improvedUpTo = 2000 // workloads
	Rounds       = 6
	enough       = 2      // rounds from nothing that found nothing better
	triesEach    = 20_000 // of a round
	triesAside   = 8_000  // of a search of one round, for comparisons with an answer
	mostJudged   = 20_000 // evaluations of a GPU with a workload to join it
	mostLooked   = 100e6  // GPUs looked at, in a round
	leaving      = 12     // workloads at a time, at most
	mostSplits   = 16_000 // tries to divide a workload afterwards, times the workloads
	// A worse arrangement is accepted with a probability that falls with its loss, in GPUs, and from a round's first
	// try to its last.
	replicaWorth        = 2 // GPUs
	firstHeat, lastHeat = 0.4, 0.02
)

// search looks for a better arrangement than the present one.
type search struct {
	pl     *Planner
	rng    *rand.Rand
	sites  map[GroupKey]*shared
	ways   [][]wayIn // by workload: where it could go
	bill   []tariff  // by pool
	parts  []tariff  // likewise, with each GPU by itself
	guide  []tariff  // one of the two, by which places are priced
	whole  []int     // pools that are bought in whole nodes
	judged int
	looked int
	moving // of a fit
	total  placement
	short  bool    // the best arrangement lacks room for some
	scale  float64 // weight of the dearest GPU

	gone    []bool // of leave, by workload
	leavers []int
	now     arranged // of round
}

// wayIn is a place that a workload could take.
type wayIn struct {
	c    *Choice
	site *shared // nil for GPUs of its own
}

// arranged holds the places of all workloads, with the figures by which arrangements are compared.
type arranged struct {
	way    []int // by workload: into its ways, -1 = nowhere
	placed []int // by workload: replicas
	gpus   []*filling
	loads  []load // by pool
	parts  []load // by site: of its pool's load

	replicas placement
	cost     float64 // by the bill
	guided   float64 // by the search's guide
	// Tie-breakers:
	whole int
	slow  int // grade
	score float64
}

func (a *arranged) copyFrom(b *arranged) {
	a.way, a.placed = append(a.way[:0], b.way...), append(a.placed[:0], b.placed...)
	a.gpus = append(a.gpus[:0], b.gpus...)
	a.loads, a.parts = append(a.loads[:0], b.loads...), append(a.parts[:0], b.parts...)
	a.replicas, a.cost, a.guided, a.whole, a.slow, a.score = b.replicas, b.cost, b.guided, b.whole, b.slow, b.score
}

// compare is positive where a is to be preferred: more replicas, then less money.
func (a *arranged) compare(b *arranged) int {
	return cmp.Or(a.replicas.compare(&b.replicas), compareCosts(b.cost, a.cost))
}

// improve arranges workloads one after another, looks for a better arrangement than that, and takes it.
func (pl *Planner) improve(order []int) error {
	pl.Search = SearchBestFound
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
		if k%2 == 1 { // from nothing, to leave a local optimum
			for w := range at.way {
				s.remove(at, w)
			}
			s.weigh(at)
			other.copyFrom(at)
			from = other
		}
		if err = s.round(at, from); err != nil {
			return err
		}
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
	return s.take(best)
}

func (pl *Planner) newSearch() *search {
	s := &search{pl: pl, rng: rand.New(rand.NewPCG(1, 2)), sites: map[GroupKey]*shared{}} // same input, same answer
	for p, cp := range pl.Pools {
		t := pl.tariff(p)
		s.bill = append(s.bill, t)
		t.unused = 1
		s.parts = append(s.parts, t)
		if cp.Pool.GPUsPerNode.Or(1) > 1 {
			s.whole = append(s.whole, p)
		}
		s.scale = max(s.scale, pl.Counts(cp.Price))
	}
	s.scale, s.guide = cmp.Or(s.scale, 1), s.bill
	for w := range pl.Workloads {
		s.total[pl.Workloads[w].Workload().Precedence()] += int32(pl.Wanted[w])
		var ways []wayIn
		for k := range pl.Choices[w] {
			c := &pl.Choices[w][k]
			if !pl.open(w, c) {
				continue
			}
			way := wayIn{c: c}
			if c.Mechanism != sharing.MechanismExclusive {
				key := c.GroupKey
				if s.sites[key] == nil {
					s.sites[key] = s.newShared(key)
				}
				way.site = s.sites[key]
			}
			ways = append(ways, way)
		}
		s.ways = append(s.ways, ways)
	}
	return s
}

// filled places workloads in an order, each where it costs least.
func (s *search) filled(order []int) (*arranged, error) {
	a := &arranged{way: slices.Repeat([]int{-1}, len(s.ways)), placed: make([]int, len(s.ways)),
		loads: make([]load, len(s.pl.Pools)), parts: make([]load, len(s.sites))}
	s.guide = s.parts // later workloads may fill a node
	err := s.enter(a, order, false)
	s.guide = s.bill
	s.weigh(a)
	s.second(a)
	return a, err
}

// weigh works out how many replicas are placed, and the cost.
func (s *search) weigh(a *arranged) {
	a.replicas, a.cost, a.guided = s.pl.placementOf(a.placed), 0, 0
	for p := range s.bill {
		a.cost += s.bill[p].of(&a.loads[p])
		a.guided += s.guide[p].of(&a.loads[p])
	}
	for w, k := range a.way {
		if k >= 0 {
			more := s.ways[w][k].c.Longer * float64(a.placed[w])
			a.cost, a.guided = a.cost+more, a.guided+more
		}
	}
}

// second computes the tie-breakers.
func (s *search) second(a *arranged) {
	a.whole, a.slow, a.score = 0, 0, 0
	for _, f := range a.gpus {
		a.slow += f.slow
	}
	for w, n := range a.placed {
		if n == s.pl.Wanted[w] {
			a.whole++
		}
		if a.way[w] < 0 {
			continue
		}
		v := s.ways[w][a.way[w]]
		a.score += v.c.Score * float64(n)
		if v.site != nil && s.alone(a, w) {
			a.score -= lonelyCosts
		}
		if gate.TraitsOf(v.c.Mechanism).Turns && s.pl.waits(w) {
			a.score -= turnsCost
		}
	}
}

// alone reports whether a workload shares none of its GPUs.
func (s *search) alone(a *arranged, w int) bool {
	return !slices.ContainsFunc(a.gpus, func(f *filling) bool {
		return f.tenants() > 1 && has(f.members, w)
	})
}

// round searches from a, and keeps the best that it finds. Where nodes are bought whole, its first half counts each GPU
// by itself: by the bill nothing is gained before the last workload leaves a node.
func (s *search) round(at, best *arranged) error {
	now := &s.now
	s.looked = 0
	tries := triesEach
	if s.pl.rounds == 1 {
		tries = triesAside
	}
	if len(s.whole) > 0 {
		s.guide = s.parts
		s.weigh(at)
	}
	for try := range tries {
		if err := s.pl.Opt.Err(); err != nil {
			return err
		}
		if s.judged > mostJudged || s.looked > mostLooked {
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
		spent := max(float64(try)/float64(tries), float64(s.looked)/mostLooked)
		heat := firstHeat * math.Pow(lastHeat/firstHeat, spent)
		worse := (now.guided-at.guided)/s.scale + replicaWorth*(at.replicas.worth()-now.replicas.worth())
		if worse <= 0 || s.rng.Float64() < math.Exp(-worse/heat) {
			*at, *now = *now, *at
		}
		if max(spent, float64(s.judged)/mostJudged) >= 0.5 && &s.guide[0] != &s.bill[0] {
			s.guide = s.bill
			at.copyFrom(best)
			s.weigh(at)
		}
	}
	return nil
}

// seconds compares the tie-breakers: positive where a is to be preferred to b.
func (a *arranged) seconds(b *arranged) int {
	byScore := 0
	if math.Abs(a.score-b.score) >= 1e-6 {
		byScore = cmp.Compare(a.score, b.score)
	}
	return cmp.Or(cmp.Compare(a.whole, b.whole), cmp.Compare(b.slow, a.slow), byScore)
}

// take puts workloads where they are arranged.
func (s *search) take(a *arranged) error {
	pl := s.pl
	pl.clear()
	group := func(c *Choice) *Group {
		key := c.GroupKey
		if pl.Groups[key] == nil {
			pl.Groups[key] = &Group{Pool: pl.Pools[c.Pool], Mechanism: c.Mechanism}
		}
		return pl.Groups[key]
	}
	for w, k := range a.way {
		if k < 0 {
			continue
		}
		v := s.ways[w][k]
		pl.Chosen[w], pl.Placed[w] = v.c, a.placed[w]
		if v.site == nil {
			g := group(v.c)
			g.Whole += a.placed[w] * pl.Workloads[w].Workload().GPUCount()
			g.Wholes = append(g.Wholes, Member{w, a.placed[w]})
		}
	}
	left := slices.Clone(a.placed)
	for _, f := range a.gpus {
		g := group(pl.Choice(f.members[0].Workload, f.site.key))
		if !f.site.sliced {
			g.Bins = append(g.Bins, cloneBins([]bin{f.bin})...)
			continue
		}
		one, err := s.laid(f, left)
		if err != nil {
			return err
		}
		g.Sliced = append(g.Sliced, one)
	}
	return nil
}
