package decision

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cotenant/cotenant/sharing"
)

// Where not all find room, more is compared than where they do.
const (
	scarceTogether  = 8    // workloads, in fleets up to
	mostPoints      = 4096 // numbers of replicas of a fleet's workloads
	mostPointsLater = 256  // of a few, beside others that have their place
)

// settle places a few workloads: over all ways to divide them among pools and mechanisms it takes the cheapest, the
// better score among equals. Where GPUs run short it places most replicas, of each workload any number, and of ways
// that place as many takes the cheapest.
//
// In a fleet of few workloads and replicas (mostPoints) every division is compared: what asks for more, or offers
// less, never finds more room. Beyond that numbers of replicas are compared in steps, and workloads a few at a
// time, which promises nothing; improve makes the best of it.
func (pl *planner) settle(ws []int) error {
	counts := make([][]int, len(ws))
	for i, w := range ws {
		counts[i] = []int{0, pl.workloads[w].workload.replicas()}
	}
	g := newGrid(ws, counts)
	all, err := pl.divide(g)
	if err != nil {
		return err
	}
	if s := all[g.size-1]; s != nil {
		pl.take(g, s)
		return nil
	}
	if len(ws) > 1 {
		g = newGrid(ws, pl.steps(ws))
		g.exact = g.every
		if all, err = pl.divide(g); err != nil {
			return err
		}
		pl.take(g, g.most(all))
	}
	for _, w := range ws {
		if err := pl.inPart(w); err != nil {
			return err
		}
	}
	return nil
}

// steps are the numbers of replicas of workloads that are compared: all of them
// where they are few, else every second, fourth and so on.
func (pl *planner) steps(ws []int) [][]int {
	limit := mostPointsLater
	if len(ws) == len(pl.workloads) {
		limit = mostPoints
	}
	counts := make([][]int, len(ws))
	points := 1
	for i, w := range ws {
		for n := range pl.workloads[w].workload.replicas() + 1 {
			counts[i] = append(counts[i], n)
		}
		points *= len(counts[i])
		for points > limit {
			at := 0
			for k := range i + 1 {
				if len(counts[k]) > len(counts[at]) {
					at = k
				}
			}
			points /= len(counts[at])
			counts[at] = halved(counts[at])
			points *= len(counts[at])
		}
	}
	return counts
}

// halved leaves every second number out, but not the last.
func halved(counts []int) []int {
	out := []int{}
	for i, n := range counts {
		if i%2 == 0 || i == len(counts)-1 {
			out = append(out, n)
		}
	}
	return out
}

// most is the way that places most replicas; among equals the cheapest, then the
// one with most workloads whole, then the one that scores best.
func (g *grid) most(all []*spread) *spread {
	var best *spread
	placed, whole := 0, 0
	for point := len(all) - 1; point >= 0; point-- {
		s := all[point]
		if s == nil {
			continue
		}
		n, entire := 0, 0
		for i := range g.ws {
			n += g.at(point, i)
			if g.digit(point, i) == len(g.counts[i])-1 {
				entire++
			}
		}
		if best == nil || cmp.Or(cmp.Compare(n, placed), compareCosts(best.cost, s.cost), cmp.Compare(entire, whole),
			cmp.Compare(s.score, best.score)) > 0 {
			best, placed, whole = s, n, entire
		}
	}
	return best
}

// inPart places more replicas of a workload than have their place, on the choice that takes most of them, at the
// least cost among equals; and keeps how many GPUs all would take.
func (pl *planner) inPart(w int) error {
	replicas := pl.workloads[w].workload.replicas()
	if pl.placed[w] == replicas {
		return nil
	}
	restore := pl.lift(w)
	var best *choice
	var bestPack packed
	most, least := pl.placed[w], 0.0
	for i := range pl.choices[w] {
		c := &pl.choices[w][i]
		if !pl.open(w, c) {
			continue
		}
		key := c.groupKey
		base := pl.groups[key]
		others := -base.gpus()
		for k, g := range pl.groups {
			if k.pool == c.pool {
				others += g.gpus()
			}
		}
		room := pl.pools[c.pool].pool.Count - others
		fit := func(n int) (packed, bool) {
			pk := pl.pack(key, base, []member{{w, n}})
			return pk, pk.err == nil && pk.gpus <= room
		}
		full, fits := fit(replicas)
		if full.err != nil {
			return full.err
		}
		pk, n := full, replicas
		if !fits {
			if pl.full[w] == nil {
				pl.full[w] = map[groupKey]int{}
			}
			pl.full[w][c.groupKey] = others + full.gpus
			low := max(most, 1) - 1
			n = replicas - 1 - sort.Search(replicas-1-low, func(fewer int) bool {
				tried, ok := fit(replicas - 1 - fewer)
				if ok {
					pk = tried
				}
				return ok
			})
			if n == 0 || n < most || pk.gpus > room {
				continue
			}
		}
		added := pl.added(c, base, pk.group)
		if best == nil && n > most || best != nil && (n > most || n == most && cheaper(added, least)) {
			best, bestPack, most, least = c, pk, n, added
		}
	}
	if best == nil {
		restore()
		return nil
	}
	pl.chosen[w], pl.placed[w] = best, most
	pl.groups[best.groupKey] = bestPack.group
	return nil
}

// added returns the cost of putting a group in the place of another of its pool.
func (pl *planner) added(c *choice, before, after *group) float64 {
	used, spot := pl.used(c.pool)
	now, spotNow := used+after.gpus()-before.gpus(), spot+pl.spotGPUs(after)-pl.spotGPUs(before)
	return pl.costOfGPUs(c.pool, now, spotNow) - pl.costOfGPUs(c.pool, used, spot)
}

// lift takes a workload from the GPUs where it stands, until it is put back.
func (pl *planner) lift(w int) (restore func()) {
	c := pl.chosen[w]
	if c == nil {
		return func() {}
	}
	key := c.groupKey
	g := pl.groups[key]
	if less := pl.without(g, w); less.gpus() > 0 {
		pl.groups[key] = less
	} else {
		delete(pl.groups, key)
	}
	return func() { pl.groups[key] = g }
}

// without is a group without a workload.
func (pl *planner) without(g *group, w int) *group {
	less := &group{pool: g.pool, mechanism: g.mechanism}
	is := func(m member) bool { return m.workload == w }
	for _, m := range g.wholes {
		if !is(m) {
			less.wholes = append(less.wholes, m)
			less.whole += m.replicas * pl.workloads[m.workload].workload.gpus()
		}
	}
	for _, b := range cloneBins(g.bins) {
		for _, m := range b.members {
			if is(m) {
				b.n -= m.replicas
				b.memory -= pl.memoryOf(w, g.mechanism) * sharing.Bytes(m.replicas)
			}
		}
		if b.members = slices.DeleteFunc(b.members, is); b.n > 0 {
			less.bins = append(less.bins, b)
		}
	}
	for _, s := range g.sliced {
		left := sliced{layout: s.layout}
		left.layout.Instances = nil
		for k, in := range s.layout.Instances {
			if !is(s.members[k]) {
				left.layout.Instances = append(left.layout.Instances, in)
				left.members = append(left.members, s.members[k])
			}
		}
		if len(left.members) > 0 {
			less.sliced = append(less.sliced, left)
		}
	}
	return less
}
