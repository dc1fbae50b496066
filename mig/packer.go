// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/internal/problem"
)

// packer turns a demand into a covering problem and its solution back into layouts.
type packer struct {
	model   *Model
	items   []*Profile // in the demand, largest first
	cuts    []cutDemand
	problem coverProblem
}

// cutDemand asks for a number of GPU instances of a profile that are cut in one way.
type cutDemand struct {
	profile *Profile
	compute []int
	times   int
}

// readDemand makes the items: one for each profile of the demand.
func (pk *packer) readDemand(demand []Count, list *problem.List) {
	total, devices := tally(list, "demand", demand, pk.model.device)
	for _, p := range pk.model.Profiles {
		for _, cut := range packCompute(pk.model.CIRule, p.ComputeSlices, devices[p]) {
			cut.profile = p
			pk.cuts = append(pk.cuts, cut)
			total[p] += cut.times
		}
		if total[p] > 0 {
			pk.items = append(pk.items, p)
		}
	}
	slices.SortFunc(pk.items, func(p, q *Profile) int {
		return cmp.Or(cmp.Compare(q.PlacementUnits, p.PlacementUnits), cmp.Compare(q.ComputeSlices, p.ComputeSlices),
			cmp.Compare(p.Name, q.Name))
	})
	pk.problem.items = len(pk.items)
	for i, p := range pk.items {
		list.If(total[p] > MaxCount, "demand", fmt.Sprintf("use at most %d of a profile", MaxCount),
			"%d of %s", total[p], p.Name)
		pk.problem.demand[i] = int32(min(total[p], MaxCount))
	}
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
	a := assembler{packer: pk, groups: map[string]int{}}
	if err := pk.problem.uses(sol, a.emit); err != nil {
		return Packing{}, err
	}
	a.out.LowerBound, a.out.Optimal = sol.bound, int64(a.out.GPUs) == sol.bound
	return a.out, nil
}

// assembler builds a packing. It uses the packer's cuts up.
type assembler struct {
	*packer
	groups map[string]int
	out    Packing
}

// emit gives take to so many GPUs.
func (a *assembler) emit(take itemCounts, times int64) error {
	a.out.GPUs += int(times)
	for left := int(times); left > 0; {
		layout, same, err := a.layout(take, left)
		if err != nil {
			return err
		}
		key := fmt.Sprint(layout)
		g, ok := a.groups[key]
		if !ok {
			g = len(a.out.Groups)
			a.groups[key], a.out.Groups = g, append(a.out.Groups, PackedGroup{Layout: layout})
		}
		a.out.Groups[g].GPUs += same
		left -= same
	}
	return nil
}

// layout places take on a GPU and says how many of the next GPUs get
// the very same: one while instances are still to be cut, else all.
func (a *assembler) layout(take itemCounts, gpus int) (Layout, int, error) {
	var n [maxProfiles]int
	for i, p := range a.items {
		n[p.index] = int(take[i])
	}
	slots, ok := a.model.search(state{}, n)
	if !ok {
		return Layout{}, 0, a.model.explain(n, Layout{})
	}
	l := a.model.layoutOf(slots)
	for i := range l.Instances {
		cut := slices.IndexFunc(a.cuts, func(c cutDemand) bool { return c.times > 0 && c.profile == l.Instances[i].Profile })
		if cut >= 0 {
			a.cuts[cut].times--
			l.Instances[i].Compute = a.cuts[cut].compute
			gpus = 1
		}
	}
	return NewLayout(a.model, l.Instances...), gpus, nil
}
