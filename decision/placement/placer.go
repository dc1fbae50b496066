package placement

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/splitmix"
	"github.com/cotenant/cotenant/mig"
)

// Placer places requests one after another, in two stages: an index over what is left of the nodes picks 64, and the
// policy scores these. They are those that it scores best for a request much like this one, of a round share and
// round CPU; the first such request costs a score of every node that may take it. Under BestFit, Spread and Random,
// which rank nodes by what is left or by chance, half of them are the first by rank and half spread over the others.
// Where none of them takes the request, all others are searched, so a request is refused only when no node takes it.
// Scores are kept by what enters them: the node's state and what of the request counts there. For 10,000 nodes a
// Placer needs at most 25 MB. It is not safe for concurrent use; it gives the same offers whatever it saw before.
type Placer struct {
	// Exact has every node scored that may take a request: the best offer there is, in time that grows with the nodes.
	Exact bool

	scorer     *Scorer
	index      index
	first, all []int32
	seed       maphash.Seed
	kept       map[uint64]kept
	answers    map[uint64]answer
}

type kept struct {
	c    Offer
	fits bool
}

// answer is the best offer for requests of one shape while no node changes.
type answer struct {
	kept
	version int
}

// maxKept and maxAnswers bound what a Placer keeps; beyond them, it starts afresh.
const (
	maxKept    = 1 << 16
	maxAnswers = 1 << 12
)

// NewPlacer returns a placer. p may be nil, see NewScorer.
func NewPlacer(policy Policy, p Forecaster) *Placer {
	return &Placer{scorer: NewScorer(policy, p), index: index{order: rankerOf(policy)},
		seed: maphash.MakeSeed(), kept: map[uint64]kept{},
		answers: map[uint64]answer{}}
}

// Best returns the offer with the highest score; equal ones go to the node
// that stands first. ok is false when no node fits; Snapshot.Unplaced says why.
func (p *Placer) Best(s *Snapshot, r *Request) (best Offer, ok bool) {
	p.index.follow(s)
	w := wantOf(r)
	k := p.key(r)
	if last, known := p.answers[k.beside]; known && last.version == p.index.version {
		return last.c, last.fits
	}
	best, ok = p.best(s, &w, &k, p.foresee(s, r), stage)
	if p.scorer.policy.ByShape() && !p.Exact {
		if len(p.answers) >= maxAnswers {
			clear(p.answers)
		}
		p.answers[k.beside] = answer{kept{best, ok}, p.index.version}
	}
	return best, ok
}

func (p *Placer) best(s *Snapshot, w *want, k *key, o *foreseen, n int) (best Offer, ok bool) {
	first, all := p.candidates(w, nil, o, n)
	look := func(nodes []int32) {
		for _, i := range nodes {
			c, fits := p.score(s, int(i), w.Request, k)
			if fits && (!ok || c.Score > best.Score+tie || c.Score > best.Score-tie && c.Node < best.Node) {
				best, ok = c, true
			}
		}
	}
	if look(first); !ok || p.Exact {
		look(all)
	}
	return best, ok
}

// key has hashes of what of a request enters a score: beside tenants whom it may
// share with in any case, and beside others.
type key struct{ among, beside uint64 }

func (p *Placer) key(r *Request) key {
	sh := r.shape()
	if p.scorer.predictor == nil {
		sh.workload = ""
	}
	k := key{beside: maphash.Comparable(p.seed, sh)}
	sh.tenant, sh.trusts = "", ""
	k.among = maphash.Comparable(p.seed, sh)
	return k
}

func (p *Placer) score(s *Snapshot, i int, r *Request, k *key) (Offer, bool) {
	n := s.node(i)
	h := k.beside
	if !n.mixed && (len(n.placed) == 0 || n.tenant == r.Tenant) {
		h = k.among
	}
	// Two states with one 64-bit hash would be taken for one, which we accept.
	h = splitmix.Finish(h ^ n.id*splitmix.Gamma)
	if last, ok := p.kept[h]; ok {
		return last.c, last.fits
	}
	c, f := p.scorer.Score(s, i, r)
	fits := f.Verdict == gate.VerdictPass
	if p.scorer.policy.ByShape() {
		if len(p.kept) >= maxKept {
			clear(p.kept)
		}
		p.kept[h] = kept{c, fits}
	}
	return c, fits
}

// Place reserves the best offer. The error is an *UnplacedError when no node
// takes the request, or an ErrInvalid; the snapshot is then nil.
func (p *Placer) Place(s *Snapshot, r *Request) (*Snapshot, *Placement, error) {
	if err := r.Validate(); err != nil {
		return nil, nil, err
	}
	c, ok := p.Best(s, r)
	if !ok {
		return nil, nil, s.Unplaced(r, p.scorer.predictor)
	}
	return s.Reserve(r, c)
}

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
