// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// level spreads the tenants of a group without slices more evenly over as many GPUs, and over those that the pool pays
// for in any case, where all keep their objectives so.
func (pl *Planner) level(key GroupKey) {
	g := pl.Groups[key]
	var who []Member
	for i := range g.Bins {
		for _, m := range g.Bins[i].Members {
			who = joined(who, m.Workload, m.Replicas)
		}
	}
	SortMembers(who)
	over := func(gpus int) *Group {
		return &Group{Pool: g.Pool, Mechanism: g.Mechanism, Bins: pl.even(g, key, who, gpus)}
	}
	even := over(len(g.Bins))
	a, b := pl.loadOf(key, even), pl.loadOf(key, g)
	if n := even.busiest(); n > 1 && n < g.busiest() && a.spot >= b.spot && a.nodes <= b.nodes &&
		a.spotNodes >= b.spotNodes {
		g, pl.Groups[key] = even, even
	}
	now, others, t := pl.load(key.Pool), pl.loadBut(key.Pool, key), pl.pricing(key.Pool)
	for more := pl.Charged(key.Pool).GPUs() - int(now.gpus); more > 0 && len(who) > 0 && !pl.Opt.Running; more /= 2 {
		wider := over(len(g.Bins) + more)
		own := pl.loadOf(key, wider)
		l := others.plus(&own)
		if len(wider.Bins) > 0 && pl.slowed(key, wider) < pl.slowed(key, g)-1e-9 && t.sites.fits(&l) &&
			!cheaper(t.of(&now), t.of(&l)) {
			pl.Groups[key] = wider
			return
		}
	}
}

// slowed sums how much longer the replicas of a group without slices take than isolated.
func (pl *Planner) slowed(key GroupKey, g *Group) (sum float64) {
	for i := range g.Bins {
		if g.Bins[i].n > 1 {
			sum += pl.Predict(Site{GroupKey: key}, g.Bins[i].Members).slow
		}
	}
	return sum
}

// even spreads workloads over n bins as evenly as it goes, those with most
// replicas first, or returns nil where that misses an objective or leaves a bin empty.
func (pl *Planner) even(g *Group, key GroupKey, who []Member, n int) []bin {
	bins := make([]bin, n)
	for i := range bins {
		bins[i].limit = math.MaxInt
	}
	order := slices.Clone(who)
	slices.SortStableFunc(order, func(a, b Member) int {
		return cmp.Or(cmp.Compare(pl.Choice(b.Workload, key).Unit, pl.Choice(a.Workload, key).Unit),
			cmp.Compare(a.Workload, b.Workload))
	})
	load := make([]float64, n)
	for _, m := range order {
		c := pl.Choice(m.Workload, key)
		for range m.Replicas {
			at := -1
			for i := range bins {
				apart := i < len(g.Bins) && !pl.Trust.trusts(g.Bins[i].Members[0].Workload, m.Workload)
				if !apart && (at < 0 || load[i] < load[at]-1e-12) {
					at = i
				}
			}
			if at < 0 || pl.room(g, key.Pool, &bins[at], m.Workload, c, 1) < 1 {
				at = slices.IndexFunc(bins, func(b bin) bool { return pl.room(g, key.Pool, &b, m.Workload, c, 1) > 0 })
				if at < 0 {
					return nil
				}
			}
			pl.put(g, &bins[at], m.Workload, c, 1)
			load[at] += c.Unit
		}
	}
	if slices.ContainsFunc(bins, func(b bin) bool { return b.n == 0 }) {
		return nil
	}
	return bins
}

func (pl *Planner) put(g *Group, b *bin, w int, c *Choice, n int) {
	b.limit = min(b.limit, c.Tenants)
	b.n += n
	b.memory += pl.MemoryOf(w, g.Mechanism) * sharing.Bytes(n)
	b.Members = joined(b.Members, w, n)
}

// repackSlices packs the group's instances on as few GPUs as possible: by mig.Pack, with the instances of each profile
// handed out in the order of their workloads.
func (g *Group) repackSlices() error {
	type piece struct {
		profile string
		member  Member
	}
	var pieces []piece
	for i := range g.Sliced {
		for k, in := range g.Sliced[i].Layout.Instances {
			pieces = append(pieces, piece{in.Profile.Name, g.Sliced[i].Members[k]})
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.member.Workload, b.member.Workload) })
	waiting := map[string][]Member{}
	var demand []mig.Count
	for _, p := range pieces {
		if waiting[p.profile] == nil {
			demand = append(demand, mig.Count{Profile: p.profile})
		}
		waiting[p.profile] = append(waiting[p.profile], p.member)
	}
	for i := range demand {
		demand[i].N = len(waiting[demand[i].Profile])
	}
	packing, err := g.model().Pack(demand)
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	layouts := packing.Layouts()
	if len(layouts) == len(g.Sliced) {
		return nil
	}
	g.Sliced = nil
	for _, layout := range layouts {
		g.Sliced = append(g.Sliced, handOut(layout, waiting))
	}
	return nil
}

// handOut gives the instances of a layout to the members that wait for their profile.
func handOut(l mig.Layout, waiting map[string][]Member) sliced {
	s := sliced{Layout: l}
	for _, in := range l.Instances {
		queue := waiting[in.Profile.Name]
		s.Members, waiting[in.Profile.Name] = append(s.Members, queue[0]), queue[1:]
	}
	return s
}
