package mig

import (
	"cmp"
	"fmt"
	"io"
)

// Bin is a kind of GPU to pack on.
type Bin struct {
	Model *Model
	Have  Layout // the instances that every such GPU holds already and keeps
	Limit int    // the number of such GPUs; 0 means as many as are needed
	Cost  int64  // the weight of using one, in any unit; 0 means 1
	Owned bool   // using one costs nothing, as for a GPU that is in use anyway because of what it holds
}

// PackOptions tune Pack. The zero value is the documented default.
type PackOptions struct {
	// SearchNodes bounds the exact search; 0 means 200,000, which bounds the time to about a second even with many
	// kinds of bins. Where it runs out, Packing.Optimal is false.
	SearchNodes int
}

// Packing spreads a demand over GPUs.
type Packing struct {
	GPUs       int           `json:"gpus"`        // GPUs that get instances
	Cost       int64         `json:"cost"`        // their cost; the number of GPUs where every bin costs 1
	LowerBound int64         `json:"lower_bound"` // proven: no packing costs less
	Optimal    bool          `json:"optimal"`     // no packing costs less than this one
	Groups     []PackedGroup `json:"groups"`      // the distinct layouts, in a fixed order
}

// PackedGroup is a layout that some GPUs of one bin get.
type PackedGroup struct {
	Bin    int    `json:"bin"`    // index in the bins that were given
	Layout Layout `json:"layout"` // of each GPU: the bin's instances and the new ones
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

// Pack packs a demand on as few GPUs of the model as possible; see Pack.
func (m *Model) Pack(demand []Count) (Packing, error) {
	return Pack(demand, []Bin{{Model: m}}, PackOptions{})
}

// Pack spreads a demand over GPUs at the lowest cost: with the defaults, on as few GPUs as possible. It is the
// cutting-stock problem (Gilmore and Gomory 1961) with the possible layouts as patterns, solved exactly by linear
// relaxation and branch and bound (Land and Doig 1960); the proven lower bound is reported beside the answer. A
// profile name means every profile that a bin's GPU calls by it.
//
// The error is an ErrInvalid that names every problem of the input (an ErrUnknownProfile where no bin has a
// profile), ErrPlacementsUnknown, ErrInfeasible where the limits are too small, or none of these where the search
// ended before it found a packing or a proof that there is none.
func Pack(demand []Count, bins []Bin, opts PackOptions) (Packing, error) {
	pk, err := newPacker(demand, bins)
	if err != nil {
		return Packing{}, err
	}
	if pk.problem.demand == (itemCounts{}) {
		return Packing{Optimal: true}, nil
	}
	pk.problem.budget = cmp.Or(opts.SearchNodes, 200_000)
	if opts.SearchNodes < 0 {
		return Packing{}, invalid(fmt.Errorf("SearchNodes: %d is negative", opts.SearchNodes))
	}
	sol, ok := pk.problem.solve()
	if sol.undecided {
		return Packing{}, fmt.Errorf("mig: no packing was found, and none was ruled out, in %d search nodes; raise "+
			"SearchNodes or the limits", pk.problem.budget)
	}
	if !ok {
		return Packing{}, fmt.Errorf("%w: the demand does not fit the GPUs that there are; raise the limits or lower the "+
			"demand", ErrInfeasible)
	}
	return pk.packing(sol)
}
