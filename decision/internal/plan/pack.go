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
	var who []Member
	for _, g := range pl.Groups[key] {
		for _, m := range g.Members {
			who = joined(who, m.Workload, m.Replicas)
		}
	}
	better := func(n int, than func(gpus, now []GPU) bool) bool {
		now := pl.Groups[key]
		weight, _ := pl.weight(key.Pool)
		pl.Groups[key] = pl.even(key, who, n)
		if gpus := pl.Groups[key]; gpus != nil && than(gpus, now) {
			if other, fits := pl.weight(key.Pool); fits && !cheaper(weight, other) {
				return true
			}
		}
		pl.Groups[key] = now
		return false
	}
	n := len(pl.Groups[key])
	better(n, func(gpus, now []GPU) bool { return busiest(gpus) > 1 && busiest(gpus) < busiest(now) })
	used, _ := pl.Used(key.Pool)
	for more := pl.Charged(key.Pool).GPUs() - used; more > 0 && !pl.Opt.Running; more /= 2 {
		if better(n+more, func(gpus, now []GPU) bool { return pl.slowed(gpus) < pl.slowed(now)-1e-9 }) {
			return
		}
	}
}

// weight is the price of a pool's nodes in use, and whether it has so many.
func (pl *Planner) weight(p int) (price float64, fits bool) {
	gpus, _ := pl.Used(p)
	nodes, spot := pl.nodesUsed(p)
	t := pl.pricing(p)
	return t.weight(gpus, nodes, spot), gpus <= t.Pool.Count && nodes <= t.sites.most
}

// slowed sums how much longer the replicas on GPUs without slices take than isolated.
func (pl *Planner) slowed(gpus []GPU) (sum float64) {
	for i := range gpus {
		if gpus[i].n > 1 {
			sum += pl.Predict(Site{GroupKey: gpus[i].GroupKey}, gpus[i].Members).slow
		}
	}
	return sum
}

// even spreads workloads over n GPUs as evenly as it goes, those with most replicas first, or returns nil where that
// misses an objective or leaves a GPU empty.
func (pl *Planner) even(key GroupKey, who []Member, n int) (out []GPU) {
	bins, now := make([]bin, n), pl.Groups[key]
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
				apart := i < len(now) && !pl.Trust.trusts(now[i].Members[0].Workload, m.Workload)
				if !apart && (at < 0 || load[i] < load[at]-1e-12) {
					at = i
				}
			}
			if at < 0 || pl.room(&bins[at], m.Workload, c, 1) < 1 {
				at = slices.IndexFunc(bins, func(b bin) bool { return pl.room(&b, m.Workload, c, 1) > 0 })
				if at < 0 {
					return nil
				}
			}
			pl.put(&bins[at], m.Workload, c, 1)
			load[at] += c.Unit
		}
	}
	for _, b := range bins {
		if b.n == 0 {
			return nil
		}
		out = append(out, pl.newGPU(key, b.Members, 1))
	}
	return out
}

// put adds replicas of a workload to the tenants of a GPU without slices.
func (pl *Planner) put(b *bin, w int, c *Choice, n int) {
	b.limit = min(b.limit, c.Tenants)
	b.n += n
	b.memory += pl.MemoryOf(w, c.Mechanism) * sharing.Bytes(n)
	b.Members = joined(b.Members, w, n)
}

// repackSlices packs a group's instances on as few GPUs as possible: by mig.Pack, with the instances of each profile
// handed out in the order of their workloads.
func (pl *Planner) repackSlices(key GroupKey) error {
	type piece struct {
		profile string
		member  Member
	}
	var pieces []piece
	for _, g := range pl.Groups[key] {
		for k, in := range g.Layout.Instances {
			pieces = append(pieces, piece{in.Profile.Name, g.Members[k]})
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
	packing, err := pl.model(key.Pool).Pack(demand)
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	layouts := packing.Layouts()
	if len(layouts) == len(pl.Groups[key]) {
		return nil
	}
	pl.Groups[key] = nil
	for _, layout := range layouts {
		pl.Groups[key] = append(pl.Groups[key], pl.handOut(key, layout, waiting))
	}
	return nil
}

// handOut gives the instances of a layout to the members that wait for their profile.
func (pl *Planner) handOut(key GroupKey, l mig.Layout, waiting map[string][]Member) GPU {
	var members []Member
	for _, in := range l.Instances {
		queue := waiting[in.Profile.Name]
		members, waiting[in.Profile.Name] = append(members, queue[0]), queue[1:]
	}
	g := pl.newGPU(key, members, 1)
	g.Layout = l
	return g
}
