// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
)

// Group places all requests or none, in the given order or the largest first, whichever works. The error is an
// *UnplacedError of a request that does not fit together with the others, or an ErrInvalid with every problem; the
// layout is then nil.
func (p *Placer) Group(c *layout.Cluster, requests []*Request) (*layout.Cluster, []Placement, error) {
	if err := checkAll(c, requests); err != nil {
		return nil, nil, err
	}
	order := make([]int, len(requests))
	for i := range order {
		order[i] = i
	}
	next, each, err := p.together(c, requests, order)
	if err != nil { // in the order of arrival one finds no place
		slices.SortStableFunc(order, func(a, b int) int { return compareNeeds(requests[b], requests[a]) })
		next, each, err = p.together(c, requests, order)
	}
	return next, each, err
}

// together places requests in an order; where one finds no place the error gives the reason.
func (p *Placer) together(c *layout.Cluster, requests []*Request, order []int) (*layout.Cluster, []Placement, error) {
	each := make([]Placement, len(requests))
	for _, i := range order {
		var err error
		if c, each[i], err = p.Place(c, requests[i]); err != nil {
			return nil, nil, err
		}
	}
	return c, each, nil
}

// checkAll checks requests that are to be placed together.
func checkAll(c *layout.Cluster, requests []*Request) error {
	var l problem.List
	names := map[string]int{}
	for i, r := range requests {
		path := fmt.Sprintf("Requests[%d]", i)
		if r == nil {
			l.Addf(path, "", "no request")
			continue
		}
		r.check(path, &l)
		if first, twice := names[r.Name]; twice {
			l.Addf(path+".Name", "a name is a key of the layout", "%q is the name of Requests[%d] as well", r.Name, first)
		}
		names[r.Name] = i
		l.If(r.Name == "", path+".Name", "a name is a key of the layout", "is empty")
		l.If(c.Find(r.Name) != nil, path+".Name", "a name is a key of the layout", "%q is placed already", r.Name)
	}
	return invalid(l.Err())
}

// compareNeeds orders requests by their needs of GPUs, then of the host.
func compareNeeds(a, b *Request) int {
	return cmp.Or(cmp.Compare(a.GPUs*max(a.Milli, 1), b.GPUs*max(b.Milli, 1)), cmp.Compare(a.GPUMemory, b.GPUMemory),
		cmp.Compare(sliceSize(a.Profile), sliceSize(b.Profile)), cmp.Compare(a.CPUMilli, b.CPUMilli),
		cmp.Compare(a.Memory, b.Memory))
}

// sliceSize orders MIG profiles of one GPU by their name's slices and memory.
func sliceSize(profile string) int {
	n, err := mig.ParseName(profile)
	if err != nil {
		return 0
	}
	return 10_000*n.Slices + n.GB
}
