package placement

import (
	"math"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// Policy scores the ways to take a request. It must be safe for
// concurrent use and answer the same for the same option.
type Policy interface {
	// Name is short and stable: "best-fit".
	Name() string
	// Score scores an option; higher is better. Scores are compared between options for one request only, or for one
	// that stands for those much like it. The option must not be kept or changed.
	Score(o *Option) float64
	// ByShape reports whether requests that differ in nothing but their name
	// always score alike, so that a Placer may keep scores.
	ByShape() bool
}

// Option is a way for a node to take a request.
type Option struct {
	Request *Request
	Node    int // its index
	Before  *View
	After   *View
	GPUs    []uint8 // those taken; empty for a request without GPU
	Start   int     // of the MIG instance; -1 without
	// Slowdown is the worst that is predicted for the request or one of its neighbours.
	Slowdown Optional[float64]
	// LostMilli is the thousandths of a GPU's work that the tenants lose more than before. Those that nothing is
	// predicted for are taken to share evenly: n tenants are n times slower.
	LostMilli float64
	// Unpredicted counts the tenants, the request included, without a
	// prediction; 0 without a Slowdown when it would have no neighbours.
	Unpredicted int
}

// Offer is the best way for one node to take a request. It is valid for Reserve on the snapshot that it was scored
// on, and on later ones until something else took its place.
type Offer struct {
	Node  int
	Score float64
	// Slowdown is the worst that is predicted for the request or a neighbour of
	// it. Unpredicted counts those without a prediction.
	Slowdown    Optional[float64]
	Unpredicted int
	Start       int // of the MIG instance; -1 without
	gpus        [MaxGPUs]uint8
	n           int
}

// GPUs returns the indexes of the GPUs, ascending.
func (c Offer) GPUs() []int {
	out := make([]int, c.n)
	for i := range out {
		out[i] = int(c.gpus[i])
	}
	return out
}

// Scorer scores nodes for requests under one policy. It is safe for concurrent
// use, and scoring a node does not allocate.
type Scorer struct {
	policy    Policy
	predictor Forecaster
	scratch   sync.Pool // of *work
}

// work is the scratch space of scoring one node.
type work struct {
	option   Option
	after    View
	best     Offer
	bestFree float64

	takes [MaxGPUs]take
	order [MaxGPUs]uint8
	gpus  [MaxGPUs]uint8
	judge judge
	why   gate.Reason
}

// NewScorer returns a scorer. p may be nil: nothing is predicted, and requests
// with an objective are given no neighbours.
func NewScorer(policy Policy, p Forecaster) *Scorer {
	s := &Scorer{policy: policy, predictor: p}
	s.scratch.New = func() any { return &work{judge: judge{p: p}} }
	return s
}

// Policy returns the policy.
func (s *Scorer) Policy() Policy { return s.policy }

// Score filters node i and, where it passes, returns its best way to take the
// request. Equal scores go to the fullest GPU, then the lowest index and start.
func (s *Scorer) Score(snap *Snapshot, i int, r *Request) (Offer, gate.Reason) {
	if best, ok := s.score(snap.node(i), i, r); ok {
		return best, gate.Pass()
	}
	return Offer{}, snap.Fit(i, r, s.predictor)
}

// score is of n, which is node i; ok is false where it does not pass.
func (s *Scorer) score(n *node, i int, r *Request) (best Offer, ok bool) {
	if !n.fits(r, &gate.Reason{}) {
		return best, false
	}
	w := s.scratch.Get().(*work)
	defer s.scratch.Put(w)
	w.option = Option{Request: r, Node: i, Before: &n.view, After: &w.after}
	v := &n.view
	w.after.CPUMilli, w.after.Memory, w.after.Model, w.after.Len = v.CPUMilli-r.CPUMilli, v.Memory-r.Memory, v.Model, v.Len
	copy(w.after.GPUs[:v.Len], v.GPUs[:v.Len])
	w.best = Offer{Node: i, Score: math.Inf(-1), Start: -1, n: -1}
	switch {
	case r.GPUs == 0:
		s.try(w, 0, -1, 0)
	case r.GPUs == 1:
		s.one(n, w)
	default:
		s.several(n, w)
	}
	return w.best, w.best.n >= 0
}

// one tries every GPU for a request that needs one of them. GPUs in the same state are tried once, unless neighbours
// or chance tell them apart; Cotenant is asked for the fullest of those that differ in this only.
func (s *Scorer) one(n *node, w *work) {
	v := &n.view
	once := s.predictor == nil && !n.mixed && s.policy.ByShape()
	_, fullest := s.policy.(*Cotenant)
	m := 0
	for g := range v.GPUs[:v.Len] {
		w.takes[m] = take{}
		if n.fit(g, w.option.Request, &w.judge, &w.takes[m], &w.why) &&
			!(once && slices.ContainsFunc(w.order[:m], func(i uint8) bool { return v.GPUs[i] == v.GPUs[g] })) {
			w.order[m] = uint8(g)
			m++
		}
	}
	takes := w.takes
	for k, t := range takes[:m] {
		g := w.order[k]
		old := v.GPUs[g]
		if once && fullest && t.profile == nil && slices.ContainsFunc(w.order[:m], func(i uint8) bool {
			o := &v.GPUs[i]
			return o.Milli < old.Milli && o.Mechanism == old.Mechanism && o.Total == old.Total
		}) {
			continue
		}
		w.gpus[0], w.takes[0] = g, t
		if t.profile == nil {
			w.after.GPUs[g].apply(&t, -1)
			s.try(w, 1, -1, old.free())
			w.after.GPUs[g] = old
			continue
		}
		for _, pl := range t.profile.Placements {
			if _, ok := old.Slices.With(t.profile, pl.Start); ok {
				w.after.GPUs[g].apply(&t, pl.Start)
				s.try(w, 1, pl.Start, old.free())
				w.after.GPUs[g] = old
			}
		}
	}
}

// several takes the GPUs for a request that needs more than one: by what they
// run, those for whole tenants first, then the fullest, then the lowest.
func (s *Scorer) several(n *node, w *work) {
	v, r := &n.view, w.option.Request
	m := 0
	for g := range v.GPUs[:v.Len] {
		w.takes[m] = take{}
		if n.fit(g, r, &w.judge, &w.takes[m], &w.why) {
			w.order[m] = uint8(g)
			m++
		}
	}
	w.keepAlike(&m, r.GPUs)
	if m < r.GPUs {
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
	s.try(w, r.GPUs, -1, 0)
}

// keepAlike keeps, of m GPUs, those of one group that has at least want: the one
// that runs nothing but whole tenants, else the group of the lowest GPU.
func (w *work) keepAlike(m *int, want int) {
	pick := -1
	for i := range *m {
		t := w.takes[i]
		if alike(w.takes[:*m], t) >= want && (pick < 0 || t.mechanism == sharing.MechanismExclusive &&
			w.takes[pick].mechanism != sharing.MechanismExclusive) {
			pick = i
		}
	}
	if pick < 0 {
		*m = 0
		return
	}
	group, n := w.takes[pick], 0
	for i := range *m {
		if t := w.takes[i]; t.mechanism == group.mechanism && t.milli == group.milli {
			w.takes[n], w.order[n] = t, w.order[i]
			n++
		}
	}
	*m = n
}

// try scores the option in w, which takes GPUs that have so much free, and keeps it where it is better than the best.
func (s *Scorer) try(w *work, gpus, start int, free float64) {
	o := &w.option
	o.GPUs, o.Start, o.Slowdown, o.LostMilli, o.Unpredicted = w.gpus[:gpus], start, Optional[float64]{}, 0, 0
	for _, t := range w.takes[:gpus] {
		if t.slowdown > o.Slowdown.Or(0) {
			o.Slowdown = Some(t.slowdown)
		}
		o.LostMilli += t.lost
		o.Unpredicted += int(t.unknown)
	}
	score := s.policy.Score(o)
	if w.best.n >= 0 && !(score > w.best.Score+tie || score > w.best.Score-tie && free < w.bestFree) {
		return
	}
	w.bestFree = free
	w.best = Offer{Node: w.best.Node, Score: score, Slowdown: o.Slowdown, Unpredicted: o.Unpredicted, Start: start,
		n: gpus}
	copy(w.best.gpus[:], w.gpus[:gpus])
}

// tie is the difference up to which scores are equal: what adding the same numbers in another order may make of them.
const tie = 1e-9
