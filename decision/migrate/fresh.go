// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"slices"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// fresh configures empty nodes of a pool for replicas that need devices of one mode, and returns those without one.
func (s *search) fresh(pool string, m sharing.Mechanism, left []want) []want {
	left = slices.Clone(left)
	slices.SortStableFunc(left, func(a, b want) int { return cmp.Compare(each(b.w), each(a.w)) })
	var gpus []mig.Layout
	if m == sharing.MechanismMIG {
		gpus = packed(layout.GPUOf(s.pools[pool].Pool.GPU).MIG, left)
	}
	for len(left) > 0 {
		n := s.spare(pool)
		if n == nil {
			return left
		}
		was, next := s.layout, s.configured(n, m, &gpus)
		s.layout, _ = s.layout.WithNode(next)
		placed := false
		for i := range left {
			if k := min(s.free(s.layout.Node(n.Name), left[i].w, left[i].kind), len(left[i].keys)); k > 0 &&
				s.put(n.Name, left[i].w, left[i].kind, left[i].keys[:k]) {
				left[i].keys, placed = left[i].keys[k:], true
			}
		}
		if !placed {
			s.layout = was
			return left
		}
		left = slices.DeleteFunc(left, func(w want) bool { return len(w.keys) == 0 })
		s.open = map[opening][]string{}
	}
	return nil
}

// packed are the MIG instances that are wanted, on the fewest GPUs.
func packed(model *mig.Model, of []want) (gpus []mig.Layout) {
	if model == nil {
		return nil
	}
	counts := map[string]int{}
	for _, w := range of {
		counts[w.kind.profile] += len(w.keys) * each(w.w)
	}
	var list []mig.Count
	for _, p := range sortedKeys(counts) {
		list = append(list, mig.Count{Profile: p, N: counts[p]})
	}
	found, err := model.Pack(list)
	if err != nil {
		return nil
	}
	for _, g := range found.Groups {
		gpus = append(gpus, slices.Repeat([]mig.Layout{g.Layout}, g.GPUs)...)
	}
	return gpus
}

// spare is an empty node of a pool that may be configured anew: one that is empty today before others. nil: none is.
func (s *search) spare(pool string) (best *layout.Node) {
	today := func(n *layout.Node) int { return len(s.cluster.layout.Node(n.Name).Assignments) }
	for n := range s.layout.Nodes() {
		if n.Pool == pool && !n.Used() && n.Closed == "" && !s.fixed[n.Name] && !onCards(n) &&
			(best == nil || cmp.Or(cmp.Compare(today(n), today(best)), cmp.Compare(n.Name, best.Name)) < 0) {
			best = n
		}
	}
	return best
}

// configured is a node that hands out its GPUs by a mode, as MIG instances those of the first of the layouts.
func (s *search) configured(n *layout.Node, m sharing.Mechanism, gpus *[]mig.Layout) layout.Node {
	next, rules := *n, layout.RulesOf(n.Delivery)
	next.Devices = slices.Clone(n.Devices)
	for i := range next.Devices {
		d := &next.Devices[i]
		d.Instances, d.Dynamic = nil, false
		switch {
		case m != sharing.MechanismMIG:
			rules.Configure(d, m, max(2, s.slots[n.Pool][m]))
		case len(*gpus) == 0:
			rules.Configure(d, sharing.MechanismExclusive, 1)
		default:
			rules.Configure(d, m, 0)
			for _, in := range (*gpus)[0].Instances {
				d.Instances = append(d.Instances, layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
			}
			*gpus = (*gpus)[1:]
		}
	}
	return next
}
