// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"fmt"
	"io"
)

// Packing spreads a demand over GPUs.
type Packing struct {
	GPUs       int           `json:"gpus"`        // GPUs that get instances
	LowerBound int64         `json:"lower_bound"` // proven: no packing takes fewer
	Optimal    bool          `json:"optimal"`     // no packing takes fewer than this one
	Groups     []PackedGroup `json:"groups"`      // the distinct layouts, in a fixed order
}

// PackedGroup is a layout that some GPUs get.
type PackedGroup struct {
	Layout Layout `json:"layout"` // of each GPU
	GPUs   int    `json:"gpus"`   // number of GPUs that get this layout
}

// WriteText prints the number of GPUs and a bar for each distinct layout.
func (p Packing) WriteText(w io.Writer) error {
	text := fmt.Sprintf("%d GPUs (lower bound %d, optimal %t)\n", p.GPUs, p.LowerBound, p.Optimal)
	for _, g := range p.Groups {
		text += fmt.Sprintf("%6d x %s\n", g.GPUs, g.Layout.Bar())
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
