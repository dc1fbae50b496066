// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Policy scores the ways to take a request. It must be safe for concurrent use and give equal scores to equal options,
// regardless of the request's name, so that a Placer may cache scores.
type Policy interface {
	// Name is short and stable: "best-fit".
	Name() string
	// Score scores an option; higher is better. Scores are only compared between options for one request, or for one that
	// represents similar ones. The scorer subtracts the work of GPUs beyond their capacity and the work that tenants are
	// predicted to lose, in thousandths of a GPU. The option must not be retained or changed.
	Score(o *Option) float64
}

// Option is a way for a node to take a request.
type Option struct {
	Request *Request
	Node    string
	Before  *View
	After   *View
	GPUs    []uint8 // indexes of its GPUs; empty for a request without GPU
	Start   int     // of the MIG instance; -1 without
}

// Offer is the best way for one node to take a request. It is valid on its layout, and on later ones until its place is
// taken, which [Scorer.Assign] checks. Offers are comparable.
type Offer struct {
	Node  string
	Score float64
	// Slowdown is the worst predicted slowdown of the request or a neighbour. Unpredicted counts the tenants without a
	// prediction, the request included. Without neighbours Slowdown is missing and Unpredicted 0.
	Slowdown    sharing.Optional[float64]
	Unpredicted int
	Mechanism   sharing.Mechanism // None without GPU
	Profile     *mig.Profile      // of MIG
	Start       int               // of the MIG instance; -1 without
	gpus        [MaxGPUs]uint8
	n           int8
}

// Scorer filters and scores nodes for requests under one policy. Its fields must not change after its first use; it is
// then safe for concurrent use, and scoring a node does not allocate.
type Scorer struct {
	Policy Policy
	// Forecaster predicts the slowdown of tenants by their neighbours. Scores are then lower by the work that the tenants
	// of a GPU lose to a new one: a tenant of m thousandths that runs x times slower loses m*(1-1/x); without a prediction
	// n tenants count as n times slower. nil = no predictions, and requests with an objective get no neighbours.
	Forecaster Forecaster
	// Targets are the filter's facts about pools' GPUs, by pool name, to check a Request with a Demand; nil = no such
	// checks.
	Targets map[string]*filter.Target

	scratch sync.Pool // of *work
}

// work is the scratch space of scoring one node.
type work struct {
	asker
	option   Option
	before   View
	after    View
	best     Offer
	bestFree float64

	takes [MaxGPUs]take
	order [MaxGPUs]uint8
	gpus  [MaxGPUs]uint8
	why   filter.Reason
}

// NewScorer returns a scorer with a policy. p may be nil, see [Scorer].
func NewScorer(policy Policy, p Forecaster) *Scorer { return &Scorer{Policy: policy, Forecaster: p} }

// work is the scratch space for a request and a node; open has everybody trust everybody.
func (s *Scorer) work(n *layout.Node, r *Request, open bool) *work {
	w, ok := s.scratch.Get().(*work)
	if !ok {
		w = &work{asker: asker{neighbours: neighbours{p: s.Forecaster}}}
	}
	w.chosen = layout.RulesOf(n.Delivery).AnyDevice
	if w.open, w.target, w.option.Request = open, nil, r; r.Demand != nil && len(s.Targets) > 0 {
		w.target = s.Targets[n.Pool]
	}
	return w
}

// Filter reports whether a node takes a request now, or else the reason of the GPU closest to a fit. Without a
// forecaster the answer is unknown for requests that have an objective, or would get a neighbour with one, and Filter
// does not allocate.
func (s *Scorer) Filter(n *layout.Node, r *Request) filter.Reason { return s.filter(n, r, false) }

// filter is Filter; open has everybody trust everybody.
func (s *Scorer) filter(n *layout.Node, r *Request, open bool) filter.Reason {
	var why, nearest filter.Reason
	if !fits(n, r, &why) {
		return why
	}
	if r.GPUs == 0 {
		return filter.Pass()
	}
	w := s.work(n, r, open)
	defer s.scratch.Put(w)
	if g, code := full(n, r); g >= 0 && !w.fit(n, g, r, &take{}, &why) && why.Code == code &&
		(w.target == nil || n.Devices[g].Mode != sharing.MechanismNone) {
		return why
	}
	if r.GPUs > 1 {
		_, why = w.choose(n)
		return why
	}
	for g := range n.Devices[:min(len(n.Devices), MaxGPUs)] {
		if w.fit(n, g, r, &take{}, &why) {
			return filter.Pass()
		}
		closer(&nearest, why)
	}
	if nearest.Code == codes.Fits {
		return filter.Reason{Verdict: filter.VerdictReject, Code: codes.GPUCount, Need: 1}
	}
	return nearest
}

// closer makes r the reason that came nearer to a fit.
func closer(r *filter.Reason, other filter.Reason) {
	unknown := other.Verdict == filter.VerdictUnknown && r.Verdict != other.Verdict
	if other.Code > r.Code || other.Code == r.Code && (unknown || r.Verdict == other.Verdict && other.Have > r.Have) {
		*r = other
	}
}

// Score filters a node and, if it passes, returns its best way to take the request. Ties go to the fullest GPU, then
// the lowest index and start.
func (s *Scorer) Score(n *layout.Node, r *Request) (Offer, filter.Reason) {
	if best, ok := s.score(n, r, false); ok {
		return best, filter.Pass()
	}
	return Offer{}, s.Filter(n, r)
}

// score is Score without a reason; open has everybody trust everybody.
func (s *Scorer) score(n *layout.Node, r *Request, open bool) (best Offer, ok bool) {
	w := s.work(n, r, open)
	defer s.scratch.Put(w)
	if g, _ := full(n, r); g >= 0 || !fits(n, r, &w.why) {
		return best, false
	}
	w.before.fill(n)
	w.option = Option{Request: r, Node: n.Name, Before: &w.before, After: &w.after}
	v := &w.before
	w.after.CPUMilli, w.after.Memory, w.after.Model, w.after.Len = v.CPUMilli-r.CPUMilli, v.Memory-r.Memory, v.Model, v.Len
	copy(w.after.GPUs[:v.Len], v.GPUs[:v.Len])
	w.best = Offer{Node: n.Name, Score: math.Inf(-1), Start: -1, n: -1}
	switch {
	case r.GPUs == 0:
		s.try(w, nil, nil, -1, 0)
	case r.GPUs == 1:
		s.one(n, w)
	default:
		s.several(n, w)
	}
	return w.best, w.best.n >= 0
}

// one tries every GPU for a request that needs one of them. GPUs in the same state are tried once, unless their
// neighbours differ; under NewCotenant's policy only the fullest of GPUs that differ in nothing else is tried.
func (s *Scorer) one(n *layout.Node, w *work) {
	v := &w.before
	one := !n.Free().Several
	once := s.Forecaster == nil && one
	_, fullest := s.Policy.(*lookAhead)
	m := 0
	among := func(is func(t *take, g *GPUView) bool) bool {
		for i, g := range w.order[:m] {
			if is(&w.takes[i], &v.GPUs[g]) {
				return true
			}
		}
		return false
	}
	for g := range v.GPUs[:v.Len] {
		t, own := &w.takes[m], &v.GPUs[g]
		*t = take{}
		if w.fit(n, g, w.option.Request, t, &w.why) && !(once && (t.profile == nil || n.Devices[g].Dynamic) &&
			among(func(o *take, at *GPUView) bool { return *at == *own && o.over == t.over })) {
			w.order[m] = uint8(g)
			m++
		}
	}
	for k := range w.takes[:m] {
		t, g := &w.takes[k], w.order[k]
		old := v.GPUs[g]
		if once && fullest && t.profile == nil && among(func(o *take, at *GPUView) bool {
			return at.Milli < old.Milli && at.Mechanism == old.Mechanism && at.Total == old.Total && o.over <= t.over
		}) {
			continue
		}
		takes, gpus := w.takes[k:k+1], w.order[k:k+1]
		if t.profile == nil {
			w.after.GPUs[g].apply(t, -1)
			s.try(w, takes, gpus, -1, old.free())
			w.after.GPUs[g] = old
			continue
		}
		for starts := n.Devices[g].Room(t.profile); starts != 0; starts &= starts - 1 {
			start := bits.TrailingZeros32(starts)
			w.after.GPUs[g].apply(t, start)
			s.try(w, takes, gpus, start, old.free())
			w.after.GPUs[g] = old
		}
	}
}

// choose picks the m candidates for a request that needs more than one GPU: alike in mechanism and tenants, those for
// whole tenants first; those that NVLink connects, or that are on one NUMA node, where enough of them are free.
func (w *work) choose(n *layout.Node) (m int, why filter.Reason) {
	r := w.option.Request
	var nearest filter.Reason
	for g := range n.Devices[:min(len(n.Devices), MaxGPUs)] {
		t := &w.takes[m]
		if *t = (take{}); !w.fit(n, g, r, t, &why) {
			closer(&nearest, why)
			continue
		}
		w.order[m] = uint8(g)
		m++
	}
	if m == 0 && nearest.Code != codes.Fits {
		return 0, nearest
	}
	if most := w.keepAlike(&m, r.GPUs); most < r.GPUs {
		lacks(&why, codes.GPUCount, int64(r.GPUs), int64(most))
		return 0, why
	}
	if linked := w.keepNear(&m, r.GPUs, func(g uint8) int8 { return n.Devices[g].Link }); linked < r.GPUs {
		if r.Linked {
			lacks(&why, codes.Link, int64(r.GPUs), int64(linked))
			return 0, why
		}
		w.keepNear(&m, r.GPUs, func(g uint8) int8 { return n.Devices[g].NUMA })
	}
	return m, filter.Pass()
}

// several takes the fullest, then the lowest, of the GPUs for a request that needs more than one.
func (s *Scorer) several(n *layout.Node, w *work) {
	v, r := &w.before, w.option.Request
	m, why := w.choose(n)
	if why.Verdict != filter.VerdictPass {
		return
	}
	for k := range r.GPUs { // a selection sort of the first few
		at := k
		for i := k + 1; i < m; i++ {
			a, b := v.GPUs[w.order[at]].free(), v.GPUs[w.order[i]].free()
			if b < a || b == a && w.order[i] < w.order[at] {
				at = i
			}
		}
		w.order[k], w.order[at] = w.order[at], w.order[k]
		w.takes[k], w.takes[at] = w.takes[at], w.takes[k]
		w.gpus[k] = w.order[k]
		w.after.GPUs[w.gpus[k]].apply(&w.takes[k], -1)
	}
	slices.Sort(w.gpus[:r.GPUs])
	s.try(w, w.takes[:r.GPUs], w.gpus[:r.GPUs], -1, 0)
}

// keep keeps, of m GPUs, those for which is holds.
func (w *work) keep(m *int, is func(i int) bool) {
	n := 0
	for i := range *m {
		if is(i) {
			w.takes[n], w.order[n] = w.takes[i], w.order[i]
			n++
		}
	}
	*m = n
}

// keepAlike keeps, of m GPUs, those of one group on which a request takes the same by the same mechanism and that has
// at least want: the one that runs nothing but whole tenants, else the group of the lowest GPU. It returns the size of
// the largest group.
func (w *work) keepAlike(m *int, want int) (most int) {
	pick := -1
	for i := range *m {
		t, count := &w.takes[i], 0
		for k := range *m {
			if w.takes[k].alike(t) {
				count++
			}
		}
		if most = max(most, count); count >= want && (pick < 0 || t.mechanism == sharing.MechanismExclusive &&
			w.takes[pick].mechanism != sharing.MechanismExclusive) {
			pick = i
		}
	}
	if pick >= 0 {
		group := w.takes[pick]
		w.keep(m, func(i int) bool { return w.takes[i].alike(&group) })
	}
	return most
}

// keepNear keeps those of the smallest group that has at least want, where there is one, and returns the size of the
// largest group.
func (w *work) keepNear(m *int, want int, group func(gpu uint8) int8) (most int) {
	pick, size := int8(0), MaxGPUs+1
	for i := range *m {
		g, count := group(w.order[i]), 0
		for k := range *m {
			if g != 0 && group(w.order[k]) == g {
				count++
			}
		}
		if most = max(most, count); count >= want && count < size {
			pick, size = g, count
		}
	}
	if pick != 0 {
		w.keep(m, func(i int) bool { return group(w.order[i]) == pick })
	}
	return most
}

// try scores the option in w, which takes so much of GPUs that have so much free, and keeps it where it is better than
// the best.
func (s *Scorer) try(w *work, takes []take, gpus []uint8, start int, free float64) {
	o := &w.option
	o.GPUs, o.Start = gpus, start
	over, lost, slowdown, unpredicted := 0.0, 0.0, 0.0, 0
	for i := range takes {
		t := &takes[i]
		over += float64(t.over)
		slowdown = max(slowdown, t.slowdown)
		lost += t.lost
		unpredicted += int(t.unknown)
	}
	score := s.Policy.Score(o) - lost - over
	best := &w.best
	if best.n >= 0 && !(score > best.Score+tie || score > best.Score-tie && free < w.bestFree) {
		return
	}
	w.bestFree = free
	best.Score, best.Slowdown, best.Unpredicted = score, sharing.Optional[float64]{}, unpredicted
	if slowdown > 0 {
		best.Slowdown = sharing.Some(slowdown)
	}
	best.Start, best.n = start, int8(len(gpus))
	best.Mechanism, best.Profile, best.gpus = sharing.MechanismNone, nil, [MaxGPUs]uint8{}
	if len(takes) > 0 {
		best.Mechanism, best.Profile = takes[0].mechanism, takes[0].profile
	}
	copy(best.gpus[:], gpus)
}

// tie is the difference up to which scores are equal: the rounding error of sums in another order.
const tie = 1e-9
