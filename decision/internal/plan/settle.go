package plan

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
func (pl *Planner) settle(ws []int) error {
	counts := make([][]int, len(ws))
	for i, w := range ws {
		counts[i] = []int{0, pl.Workloads[w].Workload().ReplicaCount()}
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
		pl.take(g, pl.most(g, all))
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
func (pl *Planner) steps(ws []int) [][]int {
	limit := mostPointsLater
	if len(ws) == len(pl.Workloads) {
		limit = mostPoints
	}
	counts := make([][]int, len(ws))
	points := 1
	for i, w := range ws {
		for n := range pl.Workloads[w].Workload().ReplicaCount() + 1 {
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

// most is the way that places most replicas, those of higher priorities first; among equals the cheapest, then the one
// with most workloads whole, then the one that slows replicas least, then the one that scores best.
func (pl *Planner) most(g *grid, all []*spread) *spread {
	var best *spread
	placed, whole := placement{}, 0
	for point := len(all) - 1; point >= 0; point-- {
		s := all[point]
		if s == nil {
			continue
		}
		n, entire := placement{}, 0
		for i, w := range g.ws {
			n[pl.Workloads[w].Workload().Precedence()] += int32(g.at(point, i))
			if g.digit(point, i) == len(g.counts[i])-1 {
				entire++
			}
		}
		if best == nil || cmp.Or(n.compare(&placed), compareCosts(best.cost, s.cost), cmp.Compare(entire, whole),
			cmp.Compare(best.slow, s.slow), cmp.Compare(s.score, best.score)) > 0 {
			best, placed, whole = s, n, entire
		}
	}
	return best
}

// inPart places more replicas of a workload than have their place, on the choice that takes most of them, at the
// least cost among equals; and keeps how many GPUs all would take.
func (pl *Planner) inPart(w int) error {
	replicas := pl.Workloads[w].Workload().ReplicaCount()
	if pl.Placed[w] == replicas {
		return nil
	}
	restore := pl.lift(w)
	var best *Choice
	var bestPack *Group
	most, least := pl.Placed[w], 0.0
	for i := range pl.Choices[w] {
		c := &pl.Choices[w][i]
		if !pl.open(w, c) {
			continue
		}
		base := pl.Groups[c.GroupKey]
		s, others, now := &pl.sites[c.Pool], pl.loadBut(c.Pool, c.GroupKey), load{}
		with := func(g *Group) load { one := pl.loadOf(c.GroupKey, g); return others.plus(&one) }
		now = with(base)
		full, err := pl.pack(c.GroupKey, base, []Member{{w, replicas}})
		if err != nil {
			return err
		}
		pk, n := full, replicas
		if all := with(full); !s.fits(&all) {
			if pl.Full[w] == nil {
				pl.Full[w] = map[GroupKey]int{}
			}
			nodes, _ := s.count(&all)
			pl.Full[w][c.GroupKey] = nodes * s.each
			low := max(most, 1) - 1
			n = replicas - 1 - sort.Search(replicas-1-low, func(fewer int) bool {
				tried, err := pl.pack(c.GroupKey, base, []Member{{w, replicas - 1 - fewer}})
				if err != nil {
					return false
				}
				l := with(tried)
				fits := s.fits(&l)
				if fits {
					pk = tried
				}
				return fits
			})
			if l := with(pk); n == 0 || n < most || !s.fits(&l) {
				continue
			}
		}
		t := pl.tariff(c.Pool)
		l := with(pk)
		added := t.of(&l) - t.of(&now)
		if best == nil && n > most || best != nil && (n > most || n == most && cheaper(added, least)) {
			best, bestPack, most, least = c, pk, n, added
		}
	}
	if best == nil {
		restore()
		return nil
	}
	pl.Chosen[w], pl.Placed[w] = best, most
	pl.Groups[best.GroupKey] = bestPack
	return nil
}

// lift takes a workload from the GPUs where it stands, until it is put back.
func (pl *Planner) lift(w int) (restore func()) {
	c := pl.Chosen[w]
	if c == nil {
		return func() {}
	}
	key := c.GroupKey
	g := pl.Groups[key]
	if less := pl.without(g, w); less.GPUs() > 0 {
		pl.Groups[key] = less
	} else {
		delete(pl.Groups, key)
	}
	return func() { pl.Groups[key] = g }
}

// without is a group without a workload.
func (pl *Planner) without(g *Group, w int) *Group {
	less := &Group{Pool: g.Pool, Mechanism: g.Mechanism}
	is := func(m Member) bool { return m.Workload == w }
	for _, m := range g.Wholes {
		if !is(m) {
			less.Wholes = append(less.Wholes, m)
			less.Whole += m.Replicas * pl.Workloads[m.Workload].Workload().GPUCount()
		}
	}
	for _, b := range cloneBins(g.Bins) {
		for _, m := range b.Members {
			if is(m) {
				b.n -= m.Replicas
				b.memory -= pl.MemoryOf(w, g.Mechanism) * sharing.Bytes(m.Replicas)
			}
		}
		if b.Members = slices.DeleteFunc(b.Members, is); b.n > 0 {
			less.Bins = append(less.Bins, b)
		}
	}
	for _, s := range g.Sliced {
		left := sliced{Layout: s.Layout}
		left.Layout.Instances = nil
		for k, in := range s.Layout.Instances {
			if !is(s.Members[k]) {
				left.Layout.Instances = append(left.Layout.Instances, in)
				left.Members = append(left.Members, s.Members[k])
			}
		}
		if len(left.Members) > 0 {
			less.Sliced = append(less.Sliced, left)
		}
	}
	return less
}
