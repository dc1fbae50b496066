// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// Packing distributes a demand over GPUs.
type Packing struct {
	GPUs       int           `json:"gpus"`        // GPUs that get instances
	LowerBound int64         `json:"lower_bound"` // proven: no packing needs fewer GPUs
	Optimal    bool          `json:"optimal"`     // this packing is proven to need the fewest GPUs
	Groups     []PackedGroup `json:"groups"`      // the distinct layouts, in a fixed order
}

// PackedGroup is a layout and the number of GPUs that get it.
type PackedGroup struct {
	Layout Layout `json:"layout"` // of each GPU
	GPUs   int    `json:"gpus"`   // number of GPUs that get this layout
}

// WriteText prints the number of GPUs and a bar for each distinct layout.
func (p Packing) WriteText(w io.Writer) error {
	text := fmt.Sprintf("%s (lower bound %d, optimal %t)\n", plaintext.Count(p.GPUs, "GPU"), p.LowerBound, p.Optimal)
	for _, g := range p.Groups {
		text += fmt.Sprintf("%6d x %s\n", g.GPUs, g.Layout.bar())
	}
	_, err := io.WriteString(w, text)
	return err
}

// Layouts returns the layout of every GPU that gets instances, group by group.
// Layouts of one group share their instances.
func (p Packing) Layouts() []Layout {
	out := make([]Layout, 0, p.GPUs)
	for _, g := range p.Groups {
		for range g.GPUs {
			out = append(out, g.Layout)
		}
	}
	return out
}

// packRelaxations bounds the linear programs that are solved for a packing. One or two are enough for almost every
// demand; where they run out, Packing.Optimal is false.
const packRelaxations = 2000

// Pack packs a demand on as few GPUs of the model as possible. It is the cutting-stock problem (Gilmore and Gomory
// 1961) with the possible layouts as patterns, solved exactly by linear relaxation and branch and bound (Land and Doig
// 1960); the proven lower bound is reported with the answer.
//
// The error is an ErrInvalid that names every problem of the input, ErrPlacementsUnknown, or ErrInfeasible where no GPU
// can hold a profile.
func (m *Model) Pack(demand []Count) (Packing, error) {
	if err := m.needGrid(); err != nil {
		return Packing{}, err
	}
	counts, err := m.resolve("demand", demand)
	if err != nil {
		return Packing{}, err
	}
	pk := newPacker(m, counts)
	if pk.problem.demand == (itemCounts{}) {
		return Packing{Optimal: true}, nil
	}
	pk.addColumns()
	sol := pk.problem.solve(packRelaxations)
	if sol.times == nil {
		return Packing{}, fmt.Errorf("%w: no layout of %s holds one of the profiles", ErrInfeasible, m.Key)
	}
	return pk.packing(sol)
}

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
