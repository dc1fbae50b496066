package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
)

// Batch is the plan for a number of waiting requests.
type Batch struct {
	// Placements has one element for each request, in their order; nil for those that are not placed.
	Placements []*Placement
	Snapshot   *Snapshot // with all of them reserved
	// Order says which order won: "arrival", "largest" or "scarcest".
	Order string
	// Milli is the thousandths of GPUs that are placed, MIG instances by their
	// units; InArrival counts those of placing them one by one.
	Milli, InArrival float64
}

// PlaceBatch looks ahead over waiting requests: it places all of them in three orders (as they came; the largest
// first; those first that fewest nodes have left enough for) and returns the plan that places most of the GPUs,
// then most requests. Arrival order wins ties, so that nobody is passed without need. The error is an ErrInvalid
// that names every problem; a request that fits nowhere is no error, see Snapshot.Unplaced. For each request 32 nodes
// are scored, half of them by best fit and half spread over the others.
func (p *Placer) PlaceBatch(s *Snapshot, requests []*Request) (Batch, error) {
	var l problem.List
	for i, r := range requests {
		path := fmt.Sprintf("Requests[%d]", i)
		if r == nil {
			l.Addf(path, "", "no request")
			continue
		}
		r.check(path, &l)
	}
	if err := l.Err(); err != nil {
		return Batch{}, invalid(err)
	}
	arrival := make([]int, len(requests))
	for i := range arrival {
		arrival[i] = i
	}
	largest := slices.Clone(arrival)
	slices.SortStableFunc(largest, func(a, b int) int { return cmp.Or(compareSize(requests[b], requests[a]), a-b) })
	p.index.follow(s)
	takers := make([]int, len(requests))
	for i, r := range requests {
		w := wantOf(r)
		_, all := p.candidates(&w, nil, nil, narrow)
		takers[i] = len(all)
	}
	scarcest := slices.Clone(largest)
	slices.SortStableFunc(scarcest, func(a, b int) int { return cmp.Compare(takers[a], takers[b]) })
	var best Batch
	bestPlaced := -1
	inArrival := 0.0
	for _, o := range []struct {
		name  string
		order []int
	}{{"arrival", arrival}, {"largest", largest}, {"scarcest", scarcest}} {
		b, placed, err := p.inOrder(s, requests, o.order)
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

// compareSize orders requests by what they ask of GPUs, then of the node.
func compareSize(a, b *Request) int {
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

func (p *Placer) inOrder(s *Snapshot, requests []*Request, order []int) (Batch, int, error) {
	b := Batch{Placements: make([]*Placement, len(requests)), Snapshot: s}
	placed := 0
	for _, i := range order {
		p.index.follow(b.Snapshot)
		w, k := wantOf(requests[i]), p.key(requests[i])
		c, ok := p.best(b.Snapshot, &w, &k, nil, narrow)
		if !ok {
			continue
		}
		next, pl, err := b.Snapshot.Reserve(requests[i], c)
		if err != nil {
			return Batch{}, 0, err
		}
		b.Snapshot, b.Placements[i] = next, pl
		b.Milli += pl.milli()
		placed++
	}
	return b, placed, nil
}

// milli is the thousandths of GPUs that a placement has.
func (p *Placement) milli() float64 {
	if p.Profile != nil {
		return 1000 * float64(p.Profile.PlacementUnits) / float64(p.Profile.Model().Units)
	}
	return float64(p.Milli * len(p.GPUs))
}
