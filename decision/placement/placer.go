package placement

import (
	"hash/maphash"

	"github.com/cotenant/cotenant/decision/gate"
)

// Placer places requests one after another, in two stages: an index over what is left of the nodes picks 64, and the
// policy scores these. They are those that it scores best for a request much like this one, of a round share and
// round CPU; the first such request costs a score of every node that may take it. Under BestFit, Spread and Random,
// which rank nodes by what is left or by chance, half of them are the first by rank and half spread over the others.
// Where none of them takes the request, all others are searched, so a request is refused only when no node takes it.
// Scores are kept by what enters them: the node's state and what of the request counts there. For 10,000 nodes a
// Placer needs at most 25 MB. It is not safe for concurrent use; it gives the same offers whatever it saw before.
type Placer struct {
	// Exact has every node scored that may take a request: the best offer there
	// is, in time that grows with the nodes.
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
	h = mix64(h ^ n.id*0x9e3779b97f4a7c15)
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
