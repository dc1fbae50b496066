package placement

import "github.com/cotenant/cotenant/decision/gate"

// Placer places requests one after another: it filters and scores every node and
// reserves the best. It keeps the scores of nodes that have not changed since
// it last saw a request of the same shape (or only that they did not fit, where
// the policy is not by shape), so it is faster than scoring afresh and needs
// memory for it: about 80 bytes a node and shape. It is not safe for
// concurrent use; its results are the same as without keeping.
type Placer struct {
	scorer *Scorer
	scores bool // are kept, not only what does not fit
	kept   map[shape][]kept
}

type kept struct {
	node *node // nil: nothing kept
	c    Offer
	fits bool
}

// maxShapes bounds what a Placer keeps; beyond it, it starts afresh.
const maxShapes = 4096

// NewPlacer returns a placer. p may be nil, see NewScorer.
func NewPlacer(policy Policy, p Forecaster) *Placer {
	return &Placer{scorer: NewScorer(policy, p), scores: policy.ByShape(), kept: map[shape][]kept{}}
}

// Best returns the offer with the highest score; equal ones go to the node
// that stands first. ok is false when no node fits; Snapshot.Unplaced says why.
func (p *Placer) Best(s *Snapshot, r *Request) (best Offer, ok bool) {
	keep := p.of(r, s.Len())
	bounded, _ := p.scorer.policy.(bounded)
	for i := range s.Len() {
		if ok && bounded != nil && bounded.atMost(r, i) <= best.Score {
			continue
		}
		c, fits := p.score(s, i, r, keep)
		if fits && (!ok || c.Score > best.Score+tie) {
			best, ok = c, true
		}
	}
	return best, ok
}

// bounded is a policy that knows, without looking at a node, what an option on it
// can't score more than: nodes that can't win need not be filtered.
type bounded interface {
	atMost(r *Request, node int) float64
}

// of returns what is kept of the nodes for requests like r.
func (p *Placer) of(r *Request, nodes int) []kept {
	sh := r.shape()
	k := p.kept[sh]
	if len(k) != nodes {
		if len(p.kept) >= maxShapes {
			clear(p.kept)
		}
		k = make([]kept, nodes)
		p.kept[sh] = k
	}
	return k
}

func (p *Placer) score(s *Snapshot, i int, r *Request, keep []kept) (Offer, bool) {
	n := s.node(i)
	if keep[i].node == n && (p.scores || !keep[i].fits) {
		return keep[i].c, keep[i].fits
	}
	c, f := p.scorer.Score(s, i, r)
	fits := f.Verdict == gate.VerdictPass
	keep[i] = kept{n, c, fits}
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
