// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/score"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Member is a number of replicas of one workload on one GPU.
type Member struct {
	Workload int // index into the sorted workloads
	Replicas int
}

// has reports whether a workload is among members.
func has(members []Member, w int) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.Workload == w })
}

// joined are members with n more replicas of a workload.
func joined(members []Member, w, n int) []Member {
	at := slices.IndexFunc(members, func(m Member) bool { return m.Workload == w })
	if at < 0 {
		return append(members, Member{w, n})
	}
	members[at].Replicas += n
	return members
}

// SortMembers puts members in the order of their workloads, in place.
func SortMembers(ms []Member) {
	slices.SortFunc(ms, func(a, b Member) int { return a.Workload - b.Workload })
}

// bin is one GPU that several replicas share without slices.
type bin struct {
	Members []Member
	n       int
	memory  sharing.Bytes
	limit   int // the fewest tenants that any member was judged with
}

// Group is the GPUs of one pool that run one mechanism.
type Group struct {
	Pool      *score.CompiledPool
	Mechanism sharing.Mechanism
	Whole     int      // exclusive: GPUs
	Wholes    []Member // exclusive: their replicas
	Bins      []bin    // sharing without slices
	Sliced    []sliced // MIG: one a GPU
}

// sliced is one GPU cut into MIG instances.
type sliced struct {
	Layout  mig.Layout
	Members []Member // in the order of the layout's instances where replicas are 1
}

// GPUs counts the group's GPUs; of nil none.
func (g *Group) GPUs() int {
	if g == nil {
		return 0
	}
	return g.Whole + len(g.Bins) + len(g.Sliced)
}

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
	if n := even.busiest(); n > 1 && n < g.busiest() && pl.noMore(key, even, g) {
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
