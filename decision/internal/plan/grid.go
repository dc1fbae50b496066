package plan

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// grid spans the divisions of a few workloads that are compared: for each some numbers of replicas to place,
// ascending from 0. A point of it is one number for each; two points with disjoint supports add up to one.
type grid struct {
	ws     []int
	counts [][]int
	stride []int
	size   int
	lane   []int  // by workload: the first bit of its digit in a word
	tops   uint64 // the bits above the digits
	every  bool   // every number of replicas is among the counts, and they are few: exact packing is worth its time
}

// newGrid spans all or none of the replicas of workloads, or every number of them.
func (pl *Planner) newGrid(ws []int, every bool) *grid {
	g := &grid{ws: ws, size: 1, every: every}
	at := 0
	for _, w := range ws {
		counts := []int{0, pl.Wanted[w]}
		for n := 1; every && n < pl.Wanted[w]; n++ {
			counts = slices.Insert(counts, n, n)
		}
		g.counts = append(g.counts, counts)
		g.stride, g.lane = append(g.stride, g.size), append(g.lane, at)
		g.size *= len(counts)
		at += bits.Len(uint(len(counts)-1)) + 1
		g.tops |= 1 << (at - 1)
	}
	return g
}

// at counts a point's replicas of the grid's workload i.
func (g *grid) at(point, i int) int { return g.counts[i][g.digit(point, i)] }

func (g *grid) digit(point, i int) int { return point / g.stride[i] % len(g.counts[i]) }

// support is the set of workloads of which a point has replicas.
func (g *grid) support(point int) (set int) {
	for i := range g.ws {
		if g.digit(point, i) > 0 {
			set |= 1 << i
		}
	}
	return set
}

// part is a point without the workloads that are not in the set.
func (g *grid) part(point, set int) int {
	out := 0
	for i := range g.ws {
		if set>>i&1 == 1 {
			out += g.digit(point, i) * g.stride[i]
		}
	}
	return out
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

// packing holds what a point's replicas add to a pool under one mechanism.
type packing struct {
	group *Group
	load  load
	slow  int // grade
	score float64
	more  float64 // added cost of its work, which is slower there
}

// way is a way to place a point's replicas in a pool.
type way struct {
	worth
	load    load // of the whole pool
	key     GroupKey
	point   int // what is packed under the key
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

// worth orders divisions: the cheaper one, then the one that slows replicas less, then the one that scores better.
type worth struct {
	cost  float64
	slow  int
	score float64
}

func (a worth) better(b worth) bool {
	if c := cmp.Or(compareCosts(a.cost, b.cost), cmp.Compare(a.slow, b.slow)); c != 0 {
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

// divide finds for each point of a grid the cheapest way to divide its replicas among pools and mechanisms, the
// replicas of a workload together, beside what stands already; nil where there is no room.
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
			set := g.support(point)
			for sub := set; sub > 0; sub = (sub - 1) & set {
				here := g.part(point, sub)
				in, rest := best[here], all[point-here]
				if in == nil || rest == nil {
					continue
				}
				v := worth{rest.cost + in.cost, rest.slow + in.slow, rest.score + in.score}
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
		n := 0
		for k := range pl.Choices[w] {
			c := &pl.Choices[w][k]
			if !pl.open(w, c) || !g.every && n >= mostCompared && c.Mechanism != sharing.MechanismExclusive {
				continue
			}
			n++
			if key := c.GroupKey; !slices.Contains(out[c.Pool], key) {
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
	now := pl.load(p)
	t := pl.tariff(p)
	paid := t.of(&now)
	ways := make([][]*way, g.size)
	ways[0] = []*way{{load: now}}
	for _, key := range keys {
		packings, err := pl.packings(g, key)
		if err != nil {
			return nil, err
		}
		base := pl.loadOf(key, pl.Groups[key])
		// From the largest point down: those without this mechanism are still there.
		for point := g.size - 1; point > 0; point-- {
			set := g.support(point)
			for sub := set; sub > 0; sub = (sub - 1) & set {
				here := g.part(point, sub)
				pk := packings[here]
				if pk == nil {
					continue
				}
				for _, before := range ways[point-here] {
					l := before.load.minus(&base)
					if l = l.plus(&pk.load); !t.sites.fits(&l) {
						continue
					}
					more := before.more + pk.more
					w := worth{t.of(&l) - paid + more, before.slow + pk.slow, before.score + pk.score}
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

// overfull says that the instances of a point have more slices than the whole pool.
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
	base := pl.Groups[key]
	_, grade := pl.slowed(key, base)
	var exact *binned
	if t := gate.TraitsOf(key.Mechanism); g.every && key.Mechanism != sharing.MechanismExclusive && !t.Sliced &&
		(base == nil || len(base.Bins) == 0) {
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
		} else if group, err = pl.pack(key, base, g.members(point)); err != nil {
			return nil, err
		}
		one := &packing{group: group, load: pl.loadOf(key, group)}
		one.slow, one.score = pl.seconds(key, group, g.members(point))
		one.slow -= grade
		for _, m := range g.members(point) {
			one.more += pl.Choice(m.Workload, key).Longer * float64(m.Replicas)
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

// take places what a spread says.
func (pl *Planner) take(g *grid, s *spread) {
	for ; s.in != nil; s = s.before {
		for v := s.in; v.packing != nil; v = v.before {
			who := g.members(v.point)
			taken := v.packing.group
			// The GPUs are as few; this spreads them more evenly.
			if even, err := pl.pack(v.key, pl.Groups[v.key], who); g.every && err == nil && pl.noMore(v.key, even, taken) {
				taken = even
			}
			pl.Groups[v.key] = taken
			for _, m := range who {
				pl.Chosen[m.Workload] = pl.Choice(m.Workload, v.key)
				pl.Placed[m.Workload] = m.Replicas
			}
		}
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
	var together []int // points that fit
	lanes := make([]uint64, g.size)
	for point := 1; point < g.size; point++ {
		lanes[point] = g.lanes(point)
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
		if fits[point] {
			together = append(together, point)
		}
		b.fewest[point] = math.MaxInt
		for k := len(together) - 1; k >= 0; k-- {
			here := together[k]
			if ((lanes[point]|g.tops)-lanes[here])&g.tops != g.tops {
				continue
			}
			if n := b.fewest[point-here] + 1; n < b.fewest[point] {
				b.fewest[point], b.last[point] = n, here
			}
		}
	}
	return b
}

// lanes has a point's digits in one word, a bit free above each: so that one
// subtraction tells whether a point has no more of any workload than another.
func (g *grid) lanes(point int) (word uint64) {
	for i := range g.ws {
		word |= uint64(g.digit(point, i)) << g.lane[i]
	}
	return word
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
