package decision

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// member is a number of replicas of one workload on one GPU.
type member struct {
	workload int // index into the sorted workloads
	replicas int
}

// has says whether a workload is among members.
func has(members []member, w int) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.workload == w })
}

func sortMembers(ms []member) {
	slices.SortFunc(ms, func(a, b member) int { return a.workload - b.workload })
}

// bin is one GPU that several replicas share without slices.
type bin struct {
	members []member
	n       int
	memory  sharing.Bytes
	limit   int // the fewest tenants that any member was judged with
}

// group is the GPUs of one pool that run one mechanism.
type group struct {
	pool      *CompiledPool
	mechanism sharing.Mechanism
	whole     int      // exclusive: GPUs
	wholes    []member // exclusive: who has them
	bins      []bin    // sharing without slices
	sliced    []sliced // MIG: one a GPU
	bound     int      // MIG: proven lower bound of GPUs
}

// sliced is one GPU cut into MIG instances.
type sliced struct {
	layout  mig.Layout
	members []member // in the order of the layout's instances where replicas are 1
}

// gpus counts the group's GPUs; of nil none.
func (g *group) gpus() int {
	if g == nil {
		return 0
	}
	return g.whole + len(g.bins) + len(g.sliced)
}

// packed is a group with some workloads more.
type packed struct {
	group *group
	gpus  int // all told
	err   error
}

// pack puts workloads, each with its number of replicas, into a group beside what it holds, without changing it.
func (pl *planner) pack(key groupKey, base *group, who []member) packed {
	g := &group{pool: pl.pools[key.pool], mechanism: key.mechanism}
	if base != nil {
		*g = *base
		g.wholes, g.sliced = slices.Clone(base.wholes), slices.Clone(base.sliced)
	}
	switch t := gate.TraitsOf(key.mechanism); {
	case key.mechanism == sharing.MechanismExclusive:
		for _, m := range who {
			g.whole += m.replicas * pl.workloads[m.workload].workload.gpus()
			g.wholes = append(g.wholes, m)
		}
	case t.Sliced:
		for _, m := range who {
			if _, err := g.cut(m.workload, pl.choice(m.workload, key), m.replicas, true); err != nil {
				return packed{err: err}
			}
		}
		if len(g.sliced) <= 64 && len(g.sliced) > g.leastSliced() {
			if gpus, _, err := g.exact(g.pieces()); err != nil {
				return packed{err: err}
			} else if len(gpus) < len(g.sliced) {
				g.sliced = gpus
			}
		}
	default:
		if base != nil {
			g.bins = cloneBins(base.bins)
		}
		for _, part := range pl.friends(who) {
			before := g.bins
			var best []bin
			for _, order := range pl.orders(key, part) {
				g.bins = cloneBins(before)
				for _, m := range order {
					pl.fill(g, key, m.workload, m.replicas)
				}
				if best == nil || len(g.bins) < len(best) {
					best = g.bins
				}
			}
			for n := len(best) - len(before) - 1; n > 0 && len(part) > 1; n-- {
				even := pl.even(g, key, part, n)
				if even == nil {
					break
				}
				best = append(cloneBins(before), even...)
			}
			g.bins = best
		}
	}
	return packed{group: g, gpus: g.gpus()}
}

// friends divides workloads into sets that may meet.
func (pl *planner) friends(who []member) [][]member {
	var out [][]member
	seen := make([]bool, len(who))
	for i := range who {
		if seen[i] {
			continue
		}
		seen[i] = true
		set := []member{who[i]}
		for k := 0; k < len(set); k++ {
			for j := range who {
				if !seen[j] && pl.trust.trusts(set[k].workload, who[j].workload) {
					seen[j] = true
					set = append(set, who[j])
				}
			}
		}
		out = append(out, set)
	}
	return out
}

// level spreads the tenants of a group without slices over as many GPUs more
// evenly, where all keep their objectives so and no more GPUs must be bought.
func (pl *planner) level(key groupKey) {
	g := pl.groups[key]
	if len(g.bins) < 2 {
		return
	}
	var who []member
	for i := range g.bins {
		for _, m := range g.bins[i].members {
			if at := slices.IndexFunc(who, func(o member) bool { return o.workload == m.workload }); at >= 0 {
				who[at].replicas += m.replicas
			} else {
				who = append(who, m)
			}
		}
	}
	sortMembers(who)
	even := &group{pool: g.pool, mechanism: g.mechanism}
	for _, part := range pl.friends(who) {
		n := 0
		for i := range g.bins {
			if slices.ContainsFunc(part, func(m member) bool { return m.workload == g.bins[i].members[0].workload }) {
				n++
			}
		}
		bins := pl.even(g, key, part, n)
		if bins == nil {
			return
		}
		even.bins = append(even.bins, bins...)
	}
	if even.busiest() < g.busiest() && even.busiest() > 1 && pl.spotGPUs(even) >= pl.spotGPUs(g) {
		pl.groups[key] = even
	}
}

// even spreads workloads over n bins as evenly as it goes, those with most
// replicas first, or returns nil where that misses an objective.
func (pl *planner) even(g *group, key groupKey, who []member, n int) []bin {
	bins := make([]bin, n)
	for i := range bins {
		bins[i].limit = math.MaxInt
	}
	order := slices.Clone(who)
	slices.SortStableFunc(order, func(a, b member) int {
		return cmp.Or(cmp.Compare(pl.choice(b.workload, key).unit, pl.choice(a.workload, key).unit),
			cmp.Compare(a.workload, b.workload))
	})
	load := make([]float64, n)
	for _, m := range order {
		c := pl.choice(m.workload, key)
		for range m.replicas {
			at := -1
			for i := range bins {
				if at < 0 || load[i] < load[at]-1e-12 {
					at = i
				}
			}
			if pl.room(g, key.pool, &bins[at], m.workload, c, 1) < 1 {
				at = slices.IndexFunc(bins, func(b bin) bool { return pl.room(g, key.pool, &b, m.workload, c, 1) > 0 })
				if at < 0 {
					return nil
				}
			}
			pl.put(g, &bins[at], m.workload, c, 1)
			load[at] += c.unit
		}
	}
	return bins
}

// orders are the orders in which workloads are put into bins: largest first, smallest first, and by turns.
func (pl *planner) orders(key groupKey, who []member) [][]member {
	size := func(m member) float64 { return pl.choice(m.workload, key).unit }
	down := slices.Clone(who)
	slices.SortStableFunc(down, func(a, b member) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.workload, b.workload))
	})
	if len(who) < 2 {
		return [][]member{down}
	}
	up := slices.Clone(down)
	slices.Reverse(up)
	var turns []member
	left := slices.Clone(down)
	for again := true; again && len(turns) < 256; {
		again = false
		for i := range left {
			if left[i].replicas > 0 {
				left[i].replicas--
				turns = append(turns, member{left[i].workload, 1})
				again = true
			}
		}
	}
	for _, m := range left {
		if m.replicas > 0 {
			turns = append(turns, m)
		}
	}
	return [][]member{down, up, turns}
}

func cloneBins(bins []bin) []bin {
	out := slices.Clone(bins)
	for i := range out {
		out[i].members = slices.Clone(out[i].members)
	}
	return out
}

// fill puts replicas into the group's bins in order, then into new ones.
func (pl *planner) fill(g *group, key groupKey, w, replicas int) {
	c := pl.choice(w, key)
	for i := range g.bins {
		if replicas == 0 {
			return
		}
		if n := pl.room(g, key.pool, &g.bins[i], w, c, replicas); n > 0 {
			pl.put(g, &g.bins[i], w, c, n)
			replicas -= n
		}
	}
	each := 0
	for replicas > 0 {
		b := bin{limit: c.tenants}
		if each == 0 {
			each = max(1, pl.room(g, key.pool, &b, w, c, replicas))
		}
		n := min(each, replicas)
		pl.put(g, &b, w, c, n)
		g.bins = append(g.bins, b)
		replicas -= n
	}
}

func (pl *planner) put(g *group, b *bin, w int, c *choice, n int) {
	b.limit = min(b.limit, c.tenants)
	b.n += n
	b.memory += pl.memoryOf(w, g.mechanism) * sharing.Bytes(n)
	for i := range b.members {
		if b.members[i].workload == w {
			b.members[i].replicas += n
			return
		}
	}
	b.members = append(b.members, member{w, n})
}
