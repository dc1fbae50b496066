// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"
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
