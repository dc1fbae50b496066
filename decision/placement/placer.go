// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
)

// Placer places requests one after another, in two stages: an index over the free capacity of the nodes selects the 64
// with the best scores for a similar request, and the policy scores these exactly. If none of them takes the request,
// all others are searched: it is refused only if no node takes it. If more than 2,000 nodes may take a request of a new
// shape, about 256 evenly spaced ones are scored, and as many more for each further request (like kube-scheduler's
// percentageOfNodesToScore): offers then depend on earlier calls. A Placer is not safe for concurrent use.
type Placer struct {
	scorer     *Scorer
	index      index
	first, all []int32
	samples    int // taken so far: each begins one node later
	answers    map[shape]answer
}

// answer is the best offer for requests of one shape while no node changes.
type answer struct {
	Offer
	fits    bool
	version int
}

// maxAnswers bounds the answers that a Placer keeps; beyond it they start afresh.
const maxAnswers = 1 << 11

// NewPlacer returns a placer that uses a scorer.
func NewPlacer(s *Scorer) *Placer {
	return &Placer{scorer: s, answers: map[shape]answer{}}
}

// Best returns the offer with the highest score; ties go to the first node. ok is false if no node fits;
// [Scorer.Explain] gives the reasons.
func (p *Placer) Best(c *layout.Cluster, r *Request) (best Offer, ok bool) {
	p.index.follow(c)
	of := r.shape()
	if last, known := p.answers[of]; known && last.version == p.index.version {
		return last.Offer, last.fits
	}
	w := wantOf(r)
	best, ok = p.best(c, &w, p.predict(c, r))
	if len(p.answers) >= maxAnswers {
		clear(p.answers)
	}
	p.answers[of] = answer{best, ok, p.index.version}
	return best, ok
}

func (p *Placer) best(c *layout.Cluster, w *want, o *predicted) (best Offer, ok bool) {
	first, all := p.candidates(w, nil, o)
	for _, nodes := range [][]int32{first, all} {
		for _, i := range nodes {
			if math.IsInf(float64(o.of(i).scores[i]), -1) {
				continue // it does not take less either
			}
			if offer, fits := p.scorer.score(c.At(int(i)), w.Request, false); fits && (!ok || offer.Score > best.Score+tie) {
				best, ok = offer, true
			}
		}
		if ok {
			return best, true
		}
	}
	return Offer{}, false
}

// Place assigns the best offer under the request's name. The error is an *UnplacedError when no node takes the request,
// an ErrInvalid, or a layout.ErrConflict if the name is taken; the layout is then nil.
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

// UnplacedError holds the reasons why no node takes a request; test for it with errors.As.
type UnplacedError struct {
	Request string
	Nodes   int
	// Reasons counts the nodes by reason, ordered by count and then code.
	Reasons []ReasonCount
}

// ReasonCount is the number of nodes with one reason, with an example.
type ReasonCount struct {
	Code    filter.Code    `json:"code"`
	Verdict filter.Verdict `json:"verdict"`
	Nodes   int            `json:"nodes"`
	Example string         `json:"example"` // the reason of the first of these nodes
}

// Error counts the nodes by reason: "0 of 3 nodes take job-7: 2 gpu-share (...)".
func (e *UnplacedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "placement: no node fits: 0 of %d nodes take %s", e.Nodes, e.Request)
	for i, r := range e.Reasons {
		sep := ": "
		if i > 0 {
			sep = "; "
		}
		fmt.Fprintf(&b, "%s%d %v (%s)", sep, r.Nodes, r.Code, r.Example)
	}
	return b.String()
}

// Unplaced filters every node and counts those that refuse a request, by reason. It returns nil if one takes it.
func (s *Scorer) Unplaced(c *layout.Cluster, r *Request) *UnplacedError {
	e := &UnplacedError{Request: r.Name, Nodes: c.Count()}
	for n := range c.Nodes() {
		f := s.Filter(n, r)
		if f.Verdict == filter.VerdictPass {
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
