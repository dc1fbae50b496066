// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// grid spans the divisions of a few workloads that are compared: a point of it has a number of replicas of each.
type grid struct {
	ws     []int
	most   []int // replicas, by workload
	stride []int
	size   int
}

func (pl *Planner) newGrid(ws []int) *grid {
	g := &grid{ws: ws, size: 1}
	for _, w := range ws {
		g.most, g.stride = append(g.most, pl.Wanted[w]), append(g.stride, g.size)
		g.size *= pl.Wanted[w] + 1
	}
	return g
}

// at counts a point's replicas of the grid's workload i.
func (g *grid) at(point, i int) int { return point / g.stride[i] % (g.most[i] + 1) }

// support is the set of workloads of which a point has replicas.
func (g *grid) support(point int) (set int) {
	for i := range g.ws {
		if g.at(point, i) > 0 {
			set |= 1 << i
		}
	}
	return set
}

// upTo visits the points but 0 that have no more of any workload than a point, the largest first.
func (g *grid) upTo(point int) iter.Seq[int] {
	return func(yield func(int) bool) {
		var digits [64]int
		for i := range g.ws {
			digits[i] = g.at(point, i)
		}
		left := digits
		for sub := point; sub > 0 && yield(sub); {
			for i := range g.ws {
				if left[i] > 0 {
					left[i]--
					sub -= g.stride[i]
					break
				}
				left[i] = digits[i]
				sub += digits[i] * g.stride[i]
			}
		}
	}
}

// members are a point's workloads with their replicas.
func (g *grid) members(point int) []Member {
	out := make([]Member, 0, len(g.ws))
	for i, w := range g.ws {
		if n := g.at(point, i); n > 0 {
			out = append(out, Member{w, n})
		}
	}
	return out
}

// packing holds a point's replicas packed on GPUs of a pool under one mechanism.
type packing struct {
	worth // its cost is the added one of work that is slower there
	group *Group
	load  load
}

// way is a way to place a point's replicas in a pool.
type way struct {
	worth
	load    load // of the whole pool
	key     GroupKey
	point   int // replicas packed under the key
	packing *packing
	more    float64
	before  *way // where the others are
}

func cheaper(cost, than float64) bool { return cost < than-1e-9*max(1, math.Abs(than)) }

// compareCosts is negative where a is cheaper than b, and 0 where they differ by rounding at most.
func compareCosts(a, b float64) int {
	if cheaper(a, b) || cheaper(b, a) {
		return cmp.Compare(a, b)
	}
	return 0
}

// worth orders divisions: the cheaper one, then the one that splits fewer workloads, then the one that slows replicas
// less, then the one that scores better.
type worth struct {
	cost  float64
	parts int // of workloads, each in one pool under one mechanism
	slow  int // grade
	score float64
}

func (a worth) plus(b worth) worth {
	return worth{a.cost + b.cost, a.parts + b.parts, a.slow + b.slow, a.score + b.score}
}

func (a worth) better(b worth) bool {
	if c := cmp.Or(compareCosts(a.cost, b.cost), cmp.Compare(a.parts, b.parts), cmp.Compare(a.slow, b.slow)); c != 0 {
		return c < 0
	}
	return a.score > b.score+1e-9
}

// keep adds a way to those that are worth keeping: none that needs no more nodes is as good.
func keep(front []*way, v way, s *sites) []*way {
	for _, old := range front {
		if old.load.within(&v.load, s) && !v.better(old.worth) {
			return front
		}
	}
	out := make([]*way, 0, len(front)+1)
	for _, old := range front {
		if !v.load.within(&old.load, s) || old.better(v.worth) {
			out = append(out, old)
		}
	}
	return append(out, &v)
}

// spread is a way to place a point's replicas in some pools.
type spread struct {
	worth
	in     *way
	before *spread
}

// divide finds for each point of a grid the cheapest way to divide its replicas among pools and mechanisms; nil where
// there is no room.
func (pl *Planner) divide(g *grid) ([]*spread, error) {
	all := make([]*spread, g.size)
	all[0] = &spread{}
	for p, keys := range pl.offers(g) {
		if len(keys) == 0 {
			continue
		}
		ways, err := pl.within(g, p, keys)
		if err != nil {
			return nil, err
		}
		best := make([]*way, g.size)
		for point, front := range ways {
			for _, v := range front {
				if best[point] == nil || v.better(best[point].worth) {
					best[point] = v
				}
			}
		}
		for point := g.size - 1; point > 0; point-- {
			for here := range g.upTo(point) {
				in, rest := best[here], all[point-here]
				if in == nil || rest == nil {
					continue
				}
				v := in.plus(rest.worth)
				if old := all[point]; old == nil || v.better(old.worth) {
					all[point] = &spread{v, in, rest}
				}
			}
		}
	}
	return all, nil
}

// offers are by pool the mechanisms that any workload of a grid could take.
func (pl *Planner) offers(g *grid) [][]GroupKey {
	out := make([][]GroupKey, len(pl.Pools))
	for _, w := range g.ws {
		for k := range pl.Choices[w] {
			c := &pl.Choices[w][k]
			if key := c.GroupKey; pl.open(w, c) && !slices.Contains(out[c.Pool], key) {
				out[c.Pool] = append(out[c.Pool], key)
			}
		}
	}
	for _, keys := range out {
		slices.SortFunc(keys, func(a, b GroupKey) int { return int(a.Mechanism) - int(b.Mechanism) })
	}
	return out
}

// within finds the ways to place each point in one pool, one mechanism after another.
func (pl *Planner) within(g *grid, p int, keys []GroupKey) ([][]*way, error) {
	t := pl.tariff(p)
	ways := make([][]*way, g.size)
	ways[0] = []*way{{}}
	unused := t.of(&ways[0][0].load)
	for _, key := range keys {
		packings, err := pl.packings(g, key)
		if err != nil {
			return nil, err
		}
		// From the largest point down: those without this mechanism are still there.
		for point := g.size - 1; point > 0; point-- {
			for here := range g.upTo(point) {
				pk := packings[here]
				if pk == nil {
					continue
				}
				for _, before := range ways[point-here] {
					l := before.load.plus(&pk.load)
					if !t.sites.fits(&l) {
						continue
					}
					more := before.more + pk.cost
					w := pk.plus(before.worth)
					w.cost = t.of(&l) - unused + more
					ways[point] = keep(ways[point], way{w, l, key, here, pk, more, before}, t.sites)
				}
			}
		}
	}
	return ways, nil
}

// slowed sums how much longer the replicas of a group take than alone, and their grades.
func (pl *Planner) slowed(key GroupKey, g *Group) (slow float64, grade int) {
	if g == nil {
		return 0, 0
	}
	add := func(s Site, members []Member) {
		p := pl.ProspectsOf(s, members)
		slow, grade = slow+p.slow, grade+p.grade
	}
	for i := range g.Bins {
		if g.Bins[i].n > 1 {
			members := slices.Clone(g.Bins[i].Members)
			SortMembers(members)
			add(Site{GroupKey: key}, members)
		}
	}
	for i := range g.Sliced {
		for _, m := range g.Sliced[i].Members {
			add(Site{key, pl.Choice(m.Workload, key).Slice}, []Member{m})
		}
	}
	return slow, grade
}

// overfull reports that the instances of a point have more slices than the whole pool.
func (pl *Planner) overfull(g *grid, key GroupKey, point int) bool {
	if !gate.TraitsOf(key.Mechanism).Sliced {
		return false
	}
	pool, each, units := pl.Pools[key.Pool], gate.PerInstance(key.Mechanism), 0
	for _, m := range g.members(point) {
		units += (m.Replicas + each - 1) / each * pl.Choice(m.Workload, key).Slice.Profile.PlacementUnits
	}
	return units > pool.Pool.Count*pool.Ground().Model().Units
}

// packings packs every point of a grid under one mechanism, nil where a workload can't take it or the pool can't.
func (pl *Planner) packings(g *grid, key GroupKey) ([]*packing, error) {
	out := make([]*packing, g.size)
	can := 0
	for i, w := range g.ws {
		if c := pl.Choice(w, key); c != nil && pl.open(w, c) {
			can |= 1 << i
		}
	}
	var exact *binned
	if key.Mechanism != sharing.MechanismExclusive && !gate.TraitsOf(key.Mechanism).Sliced {
		exact = pl.binned(g, key, can)
	}
	var err error
	for point := 1; point < g.size; point++ {
		set := g.support(point)
		if set&^can != 0 || pl.overfull(g, key, point) {
			continue
		}
		var group *Group
		if exact != nil {
			group = exact.pack(point)
		} else if group, err = pl.pack(key, nil, g.members(point)); err != nil {
			return nil, err
		}
		one := &packing{group: group, load: pl.loadOf(key, group), worth: worth{parts: bits.OnesCount(uint(set))}}
		one.slow, one.score = pl.seconds(key, group, g.members(point))
		for _, m := range g.members(point) {
			one.cost += pl.Choice(m.Workload, key).Longer * float64(m.Replicas)
		}
		out[point] = one
	}
	return out, nil
}

// seconds returns the tie-breakers among packings of equal cost: the grade of a group, and the score of its members.
func (pl *Planner) seconds(key GroupKey, group *Group, of []Member) (grade int, score float64) {
	_, grade = pl.slowed(key, group)
	for _, m := range of {
		score += pl.Choice(m.Workload, key).Score * float64(m.Replicas)
		if key.Mechanism != sharing.MechanismExclusive && group.lonely(m.Workload) {
			score -= lonelyCosts
		}
		if gate.TraitsOf(key.Mechanism).Turns && pl.waits(m.Workload) {
			score -= turnsCost
		}
	}
	return grade, score
}

// take places replicas as a spread has them. Those of a workload that are not where most of them are become parts.
func (pl *Planner) take(g *grid, s *spread) {
	type piece struct {
		Member
		key GroupKey
	}
	var all []piece
	for ; s.in != nil; s = s.before {
		for v := s.in; v.packing != nil; v = v.before {
			who := g.members(v.point)
			pl.Groups[v.key] = v.packing.group
			for _, m := range who {
				all = append(all, piece{m, v.key})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b piece) int { return b.Replicas - a.Replicas })
	for _, p := range all {
		w := p.Workload
		if pl.Chosen[w] != nil {
			pl.Wanted[w] -= p.Replicas
			pl.append(w, p.Replicas)
			w = len(pl.Workloads) - 1
			pl.Groups[p.key].rename(p.Workload, w)
		}
		pl.Chosen[w], pl.Placed[w] = pl.Choice(w, p.key), p.Replicas
	}
}

// binned are the GPUs of one mechanism without slices that each point of a grid
// needs, exactly: from all sets of replicas that may meet on a GPU.
type binned struct {
	pl     *Planner
	g      *grid
	key    GroupKey
	fewest []int // by point
	last   []int // by point: the replicas on the GPU that was added
}

// binned finds them for the workloads that can take the mechanism.
func (pl *Planner) binned(g *grid, key GroupKey, can int) *binned {
	b := &binned{pl: pl, g: g, key: key, fewest: make([]int, g.size), last: make([]int, g.size)}
	own := &Group{Pool: pl.Pools[key.Pool], Mechanism: key.Mechanism}
	fits := make([]bool, g.size)
	for point := 1; point < g.size; point++ {
		set := g.support(point)
		if set&^can != 0 {
			continue
		}
		for i, w := range g.ws {
			if less := point - g.stride[i]; set>>i&1 == 1 && !fits[point] {
				if less > 0 && fits[less] {
					one := b.bin(less)
					fits[point] = pl.room(own, key.Pool, &one, w, pl.Choice(w, key), 1) > 0
				}
				fits[point] = fits[point] || less == 0
			}
		}
		b.fewest[point] = math.MaxInt
		for here := range g.upTo(point) {
			if n := b.fewest[point-here] + 1; fits[here] && n < b.fewest[point] {
				b.fewest[point], b.last[point] = n, here
			}
		}
	}
	return b
}

// bin is a GPU with a point's replicas.
func (b *binned) bin(point int) bin {
	one := bin{limit: math.MaxInt}
	shared := &Group{Pool: b.pl.Pools[b.key.Pool], Mechanism: b.key.Mechanism}
	for _, m := range b.g.members(point) {
		b.pl.put(shared, &one, m.Workload, b.pl.Choice(m.Workload, b.key), m.Replicas)
	}
	return one
}

// pack is a point on the fewest GPUs.
func (b *binned) pack(point int) *Group {
	out := &Group{Pool: b.pl.Pools[b.key.Pool], Mechanism: b.key.Mechanism}
	for left := point; left > 0; left -= b.last[left] {
		out.Bins = append(out.Bins, b.bin(b.last[left]))
	}
	return out
}
