// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/cotenant/cotenant/sharing"
)

// All divisions of a fleet are compared up to these numbers of points, each with a number of replicas of each workload,
// and of pairs of points of which one contains the other.
const (
	mostPoints = 4096
	mostPairs  = 1 << 20
)

// compareAll compares all ways to divide the workloads of a small fleet among pools and mechanisms, with any number of
// replicas in each place, and takes the one that places most replicas at the least cost. It reports whether the fleet
// is small enough.
func (pl *Planner) compareAll(ws []int) (bool, error) {
	if !pl.few() {
		return false, nil
	}
	g := pl.newGrid(ws)
	all, err := pl.divide(g)
	if err != nil {
		return false, err
	}
	pl.take(g, pl.most(g, all))
	pl.Search = SearchAll
	return true, nil
}

// most is the way that places most replicas, those of higher priorities first; among equals the cheapest, then the one
// with most workloads whole, then the better one.
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
			if g.at(point, i) == g.most[i] {
				entire++
			}
		}
		if best != nil {
			c := cmp.Or(n.compare(&placed), compareCosts(best.cost, s.cost), cmp.Compare(entire, whole))
			if c < 0 || c == 0 && !s.better(best.worth) {
				continue
			}
		}
		best, placed, whole = s, n, entire
	}
	return best
}

// inPart places more replicas of a workload than have their place, on the choice that takes most of them, at the
// least cost among equals; and keeps how many GPUs all would take.
func (pl *Planner) inPart(w int) error {
	replicas := pl.Wanted[w]
	if pl.Placed[w] == replicas {
		return nil
	}
	before := maps.Clone(pl.Groups)
	pl.lift(w)
	var best *Choice
	var bestPack *Group
	var worthIt worth
	most := pl.Placed[w]
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
		v := worth{cost: t.of(&l) - t.of(&now) + c.Longer*float64(n)}
		_, grade := pl.slowed(c.GroupKey, base)
		v.slow, v.score = pl.seconds(c.GroupKey, pk, []Member{{w, n}})
		v.slow -= grade
		if n > most || best != nil && n == most && v.better(worthIt) {
			best, bestPack, most, worthIt = c, pk, n, v
		}
	}
	if best == nil {
		pl.Groups = before
		return nil
	}
	pl.Chosen[w], pl.Placed[w] = best, most
	pl.Groups[best.GroupKey] = bestPack
	return nil
}

// lift takes a workload from its GPUs.
func (pl *Planner) lift(w int) {
	if c := pl.Chosen[w]; c != nil {
		less := pl.without(pl.Groups[c.GroupKey], w)
		if pl.Groups[c.GroupKey] = less; less.GPUs() == 0 {
			delete(pl.Groups, c.GroupKey)
		}
	}
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
