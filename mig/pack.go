package mig

import (
	"cmp"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// PackOptions tune Pack. The zero value is the documented default.
type PackOptions struct {
	// Limit is the number of GPUs that there are; 0 means as many as are needed.
	Limit int
	// SearchNodes bounds the exact search; 0 means 200,000, which bounds the time to about a second. Where it runs out,
	// Packing.Optimal is false.
	SearchNodes int
}

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

// Pack packs a demand on as few GPUs of the model as possible; see PackWith.
func (m *Model) Pack(demand []Count) (Packing, error) { return m.PackWith(demand, PackOptions{}) }

// PackWith packs a demand on as few GPUs of the model as possible. It is the cutting-stock problem (Gilmore and Gomory
// 1961) with the possible layouts as patterns, solved exactly by linear relaxation and branch and bound (Land and Doig
// 1960); the proven lower bound is reported beside the answer.
//
// The error is an ErrInvalid that names every problem of the input (an ErrUnknownProfile where the model lacks a
// profile), ErrPlacementsUnknown, ErrInfeasible where the limit is too small, or none of these where the search
// ended before it found a packing or a proof that there is none.
func (m *Model) PackWith(demand []Count, opts PackOptions) (Packing, error) {
	if err := m.needGrid(); err != nil {
		return Packing{}, err
	}
	var list problems
	list.If(opts.SearchNodes < 0, "SearchNodes", "use 0 for the default", "%d is negative", opts.SearchNodes)
	list.If(opts.Limit < 0, "Limit", "use 0 for as many GPUs as are needed", "%d is negative", opts.Limit)
	pk := packer{model: m}
	pk.readDemand(demand, &list)
	if err := list.err(); err != nil {
		return Packing{}, err
	}
	if pk.problem.demand == (itemCounts{}) {
		return Packing{Optimal: true}, nil
	}
	pk.addColumns()
	pk.problem.budget = cmp.Or(opts.SearchNodes, 200_000)
	if pk.problem.limit = int64(opts.Limit); opts.Limit == 0 {
		pk.problem.limit = -1
	}
	sol, ok := pk.problem.solve()
	if sol.undecided {
		return Packing{}, fmt.Errorf("mig: no packing was found, and none was ruled out, in %d search nodes; raise "+
			"SearchNodes or Limit", pk.problem.budget)
	}
	if !ok {
		return Packing{}, fmt.Errorf("%w: the demand does not fit %s; raise the limit or lower the demand",
			ErrInfeasible, plaintext.Count(opts.Limit, "GPU"))
	}
	return pk.packing(sol)
}
