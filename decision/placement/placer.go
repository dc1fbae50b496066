package placement

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/splitmix"
)

// Placer places requests one after another, in two stages: an index over what is left of the nodes picks 64, and the
// policy scores these. They are those that it scores best for a request much like this one, of a round share and round
// CPU; the first such request costs a score of every node that may take it, worked out on all processors. Under BestFit
// and Spread, which rank nodes by what is left, half of them are the first by rank and half spread over the others.
// Where none of them takes the request, all others are searched, so a request is refused only when no node takes it.
// Scores are kept by what enters them: the node's state and what of the request counts there. It is not safe for
// concurrent use; it gives the same offers whatever it saw before.
type Placer struct {
	scorer     *Scorer
	index      index
	first, all []int32
	seed       maphash.Seed
	kept       []kept
	answers    map[uint64]answer
}

// kept is a node's score for a request, by a hash of both; -Inf where it does not fit. Two states with one 64-bit hash
// would be taken for one, which we accept.
type kept struct {
	hash  uint64
	score float64
}

// answer is the best offer for requests of one shape while no node changes.
type answer struct {
	Offer
	fits    bool
	version int
}

// maxKept and maxAnswers bound what a Placer keeps: beyond them a score takes the place of another, and answers start
// afresh.
const (
	maxKept    = 1 << 15
	maxAnswers = 1 << 11
)

// NewPlacer returns a placer by a scorer.
func NewPlacer(s *Scorer) *Placer {
	return &Placer{scorer: s, index: index{order: rankerOf(s.Policy)}, seed: maphash.MakeSeed(),
		kept: make([]kept, maxKept), answers: map[uint64]answer{}}
}

// Best returns the offer with the highest score; equal ones go to the node
// that comes first. ok is false when no node fits; [Scorer.Explain] gives the reasons.
func (p *Placer) Best(c *layout.Cluster, r *Request) (best Offer, ok bool) {
	p.index.follow(c)
	k := p.key(r)
	if last, known := p.answers[k.beside]; known && last.version == p.index.version {
		return last.Offer, last.fits
	}
	w := wantOf(r)
	best, ok = p.best(c, &w, &k, p.predict(c, r))
	if len(p.answers) >= maxAnswers {
		clear(p.answers)
	}
	p.answers[k.beside] = answer{best, ok, p.index.version}
	return best, ok
}

func (p *Placer) best(c *layout.Cluster, w *want, k *key, o *predicted) (best Offer, ok bool) {
	first, all := p.candidates(w, nil, o)
	at, top := int32(-1), 0.0
	look := func(nodes []int32) {
		for _, i := range nodes {
			score, fits := p.score(c.At(int(i)), w.Request, k)
			if fits && (at < 0 || score > top+tie || score > top-tie && i < at) {
				at, top = i, score
			}
		}
	}
	if look(first); at < 0 {
		look(all)
	}
	if at < 0 {
		return Offer{}, false
	}
	return p.scorer.score(c.At(int(at)), w.Request, false)
}

// key has hashes of what of a request enters a score: beside tenants whom it may
// share with in any case, and beside others.
type key struct{ among, beside uint64 }

func (p *Placer) key(r *Request) key {
	sh := r.shape()
	if p.scorer.Forecaster == nil && sh.tenant != "" {
		sh.workload = ""
	}
	k := key{beside: maphash.Comparable(p.seed, sh)}
	if sh.tenant, sh.trusts = "", ""; p.scorer.Forecaster == nil {
		sh.workload = ""
	}
	k.among = maphash.Comparable(p.seed, sh)
	return k
}

func (p *Placer) score(n *layout.Node, r *Request, k *key) (float64, bool) {
	h := k.beside
	if tenant, one := n.Tenant(); len(n.Assignments) == 0 || one && tenant == r.workload().Tenant && tenant != "" {
		h = k.among
	}
	h = splitmix.Finish(h ^ n.Version()*splitmix.Gamma)
	last := &p.kept[h%maxKept]
	if last.hash == h && h != 0 {
		return last.score, !math.IsInf(last.score, -1)
	}
	o, fits := p.scorer.score(n, r, false)
	if !fits {
		o.Score = math.Inf(-1)
	}
	*last = kept{h, o.Score}
	return o.Score, fits
}

// Place assigns the best offer under the request's name. The error is an *UnplacedError when no node takes the
// request, an ErrInvalid, or an ErrConflict where the name is taken; the layout is then nil.
func (p *Placer) Place(c *layout.Cluster, r *Request) (*layout.Cluster, Placement, error) {
	if err := r.Validate(); err != nil {
		return nil, Placement{}, err
	}
	o, ok := p.Best(c, r)
	if !ok {
		return nil, Placement{}, p.scorer.Unplaced(c, r)
	}
	return p.scorer.Assign(c, r, o)
}

// UnplacedError holds the reasons why no node takes a request. It is an ErrNoFit.
type UnplacedError struct {
	Request string
	Nodes   int
	// Reasons counts the nodes by reason, ordered by count and then code.
	Reasons []ReasonCount
}

// ReasonCount is a number of nodes that have one reason, with an example.
type ReasonCount struct {
	Code    gate.Code    `json:"code"`
	Verdict gate.Verdict `json:"verdict"`
	Nodes   int          `json:"nodes"`
	Example string       `json:"example"` // what the first of the nodes says
}

// Error counts the nodes by reason: "0 of 3 nodes take job-7: 2 gpu-share (...)".
func (e *UnplacedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: 0 of %d nodes take %s", ErrNoFit, e.Nodes, e.Request)
	for i, r := range e.Reasons {
		sep := ": "
		if i > 0 {
			sep = "; "
		}
		fmt.Fprintf(&b, "%s%d %v (%s)", sep, r.Nodes, r.Code, r.Example)
	}
	return b.String()
}

// Is reports whether target is ErrNoFit.
func (e *UnplacedError) Is(target error) bool { return target == ErrNoFit }

// Unplaced counts by reason why no node takes a request, by filtering every node. It returns nil where one does.
func (s *Scorer) Unplaced(c *layout.Cluster, r *Request) *UnplacedError {
	e := &UnplacedError{Request: r.Name, Nodes: c.Count()}
	for n := range c.Nodes() {
		f := s.Filter(n, r)
		if f.Verdict == gate.VerdictPass {
			return nil
		}
		at := slices.IndexFunc(e.Reasons, func(c ReasonCount) bool { return c.Code == f.Code && c.Verdict == f.Verdict })
		if at < 0 {
			at = len(e.Reasons)
			e.Reasons = append(e.Reasons, ReasonCount{Code: f.Code, Verdict: f.Verdict, Example: f.String()})
		}
		e.Reasons[at].Nodes++
	}
	slices.SortStableFunc(e.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.Code, b.Code))
	})
	return e
}
