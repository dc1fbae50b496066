// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"slices"
)

// packer turns a demand into a covering problem and its solution back into layouts.
type packer struct {
	model   *Model
	items   []*Profile // in the demand, largest first
	problem coverProblem
}

// newPacker makes the items: one for each profile of the demand.
func newPacker(m *Model, demand [maxProfiles]int) *packer {
	pk := &packer{model: m}
	for _, p := range m.Profiles {
		if demand[p.index] > 0 {
			pk.items = append(pk.items, p)
		}
	}
	slices.SortFunc(pk.items, func(p, q *Profile) int {
		return cmp.Or(cmp.Compare(q.PlacementUnits, p.PlacementUnits), cmp.Compare(q.ComputeSlices, p.ComputeSlices),
			cmp.Compare(p.Name, q.Name))
	})
	pk.problem.items = len(pk.items)
	for i, p := range pk.items {
		pk.problem.demand[i] = int32(demand[p.index])
	}
	return pk
}

// multiset counts instances of each profile.
type multiset = [maxProfiles]uint8

// multisets returns the distinct counts that a GPU can hold, nothing excepted, in a fixed order.
func (m *Model) multisets() []multiset {
	seen := map[multiset]bool{}
	var out []multiset
	m.walk(&state{}, 0, everyProfile, nil, func(s *state, placed []int) bool {
		if n := s.count; len(placed) > 0 && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
		return true
	})
	return out
}

// addColumns adds a column for each maximal choice of the demanded profiles.
func (pk *packer) addColumns() {
	index := map[itemCounts]bool{}
	var takes []itemCounts
	for _, n := range pk.model.grid.multisets() {
		var take itemCounts
		left := n
		for i, p := range pk.items {
			take[i] = int32(n[p.index])
			left[p.index] = 0
		}
		if left == (multiset{}) {
			index[take] = true
			takes = append(takes, take)
		}
	}
	for _, take := range takes {
		maximal := true
		for i := range pk.items {
			grown := take
			grown[i]++
			maximal = maximal && !index[grown]
		}
		if maximal {
			pk.problem.columns = append(pk.problem.columns, take)
		}
	}
}

// packing turns a solution into layouts.
func (pk *packer) packing(sol coverSolution) (Packing, error) {
	var out Packing
	groups := map[string]int{} // index in out.Groups, by the layout's text
	err := pk.problem.uses(sol, func(take itemCounts, times int64) error {
		var n [maxProfiles]int
		for i, p := range pk.items {
			n[p.index] = int(take[i])
		}
		slots, ok := pk.model.search(state{}, n)
		if !ok {
			return pk.model.explain(n, Layout{})
		}
		l := pk.model.layoutOf(slots)
		g, ok := groups[l.String()]
		if !ok {
			g = len(out.Groups)
			groups[l.String()], out.Groups = g, append(out.Groups, PackedGroup{Layout: l})
		}
		out.Groups[g].GPUs += int(times)
		out.GPUs += int(times)
		return nil
	})
	if err != nil {
		return Packing{}, err
	}
	out.LowerBound, out.Optimal = sol.bound, int64(out.GPUs) == sol.bound
	return out, nil
}
