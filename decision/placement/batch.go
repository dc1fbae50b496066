package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
)

// Batch is the plan for a number of waiting requests.
type Batch struct {
	// Placements has one element for each request, in their order; nil for those that are not placed.
	Placements []*Placement
	Cluster    *layout.Cluster // with all of them assigned
	// Order says which order won: "arrival", "largest" or "scarcest".
	Order string
	// Milli is the thousandths of GPUs that are placed, MIG instances by their
	// units; InArrival counts those of placing them one by one.
	Milli, InArrival float64
}

// PlaceBatch looks ahead over waiting requests: it places all of them in three orders (as they came; the largest
// first; those first that fewest nodes have left enough for) and returns the plan that places most of the GPUs,
// then most requests. Arrival order wins ties, so that nobody is passed without need. Requests of one Group are placed
// together, in the place of their first, or not at all. The error is an ErrInvalid that names every problem; a request
// that fits nowhere is no error, see [Scorer.Explain]. For each request 32 nodes are scored, half of them by best fit
// and half spread over the others.
func (p *Placer) PlaceBatch(c *layout.Cluster, requests []*Request) (Batch, error) {
	if err := checkAll(c, requests); err != nil {
		return Batch{}, err
	}
	p.index.follow(c)
	units := unitsOf(requests)
	takers := make([]int, len(requests))
	for i, r := range requests {
		w := wantOf(r)
		_, all := p.candidates(&w, nil, nil, narrow)
		takers[i] = len(all)
	}
	largest := slices.Clone(units)
	slices.SortStableFunc(largest, func(a, b []int) int { return compareUnits(requests, b, a) })
	scarcest := slices.Clone(largest)
	fewest := func(u []int) int {
		n := takers[u[0]]
		for _, i := range u {
			n = min(n, takers[i])
		}
		return n
	}
	slices.SortStableFunc(scarcest, func(a, b []int) int { return cmp.Compare(fewest(a), fewest(b)) })
	var best Batch
	bestPlaced := -1
	inArrival := 0.0
	for _, o := range []struct {
		name  string
		units [][]int
	}{{"arrival", units}, {"largest", largest}, {"scarcest", scarcest}} {
		b, placed, err := p.inOrder(c, requests, o.units)
		if err != nil {
			return Batch{}, err
		}
		if bestPlaced < 0 {
			inArrival = b.Milli
		}
		if bestPlaced < 0 || b.Milli > best.Milli+tie || b.Milli > best.Milli-tie && placed > bestPlaced {
			best, bestPlaced = b, placed
			best.Order = o.name
		}
	}
	best.InArrival = inArrival
	return best, nil
}

// checkAll checks requests that are to be placed beside each other.
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

// unitsOf are the requests that are placed together, in the order of their first.
func unitsOf(requests []*Request) (units [][]int) {
	groups := map[string]int{}
	for i, r := range requests {
		at, known := groups[r.Group]
		if r.Group == "" || !known {
			at = len(units)
			groups[r.Group] = at
			units = append(units, nil)
		}
		units[at] = append(units[at], i)
	}
	return units
}

// compareUnits orders requests, or groups of them, by what they ask of GPUs, then of the node.
func compareUnits(requests []*Request, a, b []int) int {
	sum := func(u []int) (milli int) {
		for _, i := range u {
			milli += requests[i].GPUs * max(requests[i].Milli, 1)
		}
		return milli
	}
	x, y := requests[a[0]], requests[b[0]]
	return cmp.Or(cmp.Compare(sum(a), sum(b)), cmp.Compare(x.GPUMemory, y.GPUMemory),
		cmp.Compare(sliceSize(x.Profile), sliceSize(y.Profile)), cmp.Compare(x.CPUMilli, y.CPUMilli),
		cmp.Compare(x.Memory, y.Memory))
}

// sliceSize orders MIG profiles of one GPU by their name's slices and memory.
func sliceSize(profile string) int {
	n, err := mig.ParseName(profile)
	if err != nil {
		return 0
	}
	return 10_000*n.Slices + n.GB
}

func (p *Placer) inOrder(c *layout.Cluster, requests []*Request, units [][]int) (Batch, int, error) {
	b := Batch{Placements: make([]*Placement, len(requests)), Cluster: c}
	placed := 0
	for _, u := range units {
		next, each, err := p.together(b.Cluster, requests, u)
		if err != nil {
			return Batch{}, 0, err
		}
		if each == nil {
			continue
		}
		b.Cluster = next
		for k, i := range u {
			b.Placements[i] = &each[k]
			b.Milli += each[k].milli()
		}
		placed += len(u)
	}
	return b, placed, nil
}

// together places some requests; nil where one of them finds no place.
func (p *Placer) together(c *layout.Cluster, requests []*Request, which []int) (*layout.Cluster, []Placement, error) {
	each := make([]Placement, len(which))
	for k, i := range which {
		p.index.follow(c)
		w, key := wantOf(requests[i]), p.key(requests[i])
		o, ok := p.best(c, &w, &key, nil, narrow)
		if !ok {
			return c, nil, nil
		}
		var err error
		if c, each[k], err = p.scorer.Assign(c, requests[i], o); err != nil {
			return c, nil, err
		}
	}
	return c, each, nil
}

// Group places requests all or none, as they come or the largest first, whichever works. The error is an
// *UnplacedError of a request that finds no place beside the others, or an ErrInvalid; the layout is then nil.
func (p *Placer) Group(c *layout.Cluster, requests []*Request) (*layout.Cluster, []Placement, error) {
	if err := checkAll(c, requests); err != nil {
		return nil, nil, err
	}
	arrival := make([]int, len(requests))
	for i := range arrival {
		arrival[i] = i
	}
	largest := slices.Clone(arrival)
	slices.SortStableFunc(largest, func(a, b int) int { return compareUnits(requests, []int{b}, []int{a}) })
	for _, order := range [][]int{arrival, largest} {
		next, each, err := p.together(c, requests, order)
		if err != nil {
			return nil, nil, err
		}
		if each == nil {
			continue
		}
		out := make([]Placement, len(requests))
		for k, i := range order {
			out[i] = each[k]
		}
		return next, out, nil
	}
	for _, i := range largest { // who finds no place beside the others
		o, ok := p.Best(c, requests[i])
		if !ok {
			return nil, nil, p.scorer.Unplaced(c, requests[i])
		}
		var err error
		if c, _, err = p.scorer.Assign(c, requests[i], o); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, &UnplacedError{Request: requests[largest[len(largest)-1]].Name, Nodes: c.Count()}
}
