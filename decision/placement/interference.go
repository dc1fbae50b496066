package placement

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision"
)

// Interference adds to a policy the work that the tenants of a GPU are predicted
// to lose by a new neighbour: a tenant of m thousandths that runs x times slower
// loses m*(1-1/x). Both are thousandths of a GPU, so they add up. Where nothing
// is predicted, nothing is added: give requests an objective to be strict.
type Interference struct {
	Base Policy // nil = Spread
}

// Name is that of the base with "+interference".
func (p Interference) Name() string { return p.base().Name() + "+interference" }

// ByShape is the base's.
func (p Interference) ByShape() bool { return p.base().ByShape() }

// Score is the base's less the thousandths that are lost.
func (p Interference) Score(o *Option) float64 { return p.base().Score(o) - o.LostMilli }

func (p Interference) base() Policy {
	if p.Base == nil {
		return Spread{}
	}
	return p.Base
}

// predict judges the objectives of r and of its neighbours on a GPU, and sets
// what is predicted in t.
func (n *node) predict(gpu int, r *Request, t *take, p Predictor) Fit {
	if separates(t.mechanism) {
		return pass()
	}
	if p == nil {
		if r.MaxSlowdown > 0 || slices.ContainsFunc(n.placed, func(q *Placement) bool {
			return q.Request.MaxSlowdown > 0 && slices.Contains(q.GPUs, gpu)
		}) {
			return reject(CodeSlowdownUnknown, 0, 0)
		}
		return pass()
	}
	var on []*Placement
	for _, q := range n.placed {
		if slices.Contains(q.GPUs, gpu) {
			on = append(on, q)
		}
	}
	names := make([]string, 0, len(on)+1)
	judge := func(q *Request, milli int, others []*Placement, with bool) Fit {
		names = names[:0]
		for _, o := range others {
			if o.Request != q {
				names = append(names, o.Request.Workload)
			}
		}
		before := lost(p, q, milli, t, names)
		if with {
			names = append(names, r.Workload)
		}
		x, known := p.Slowdown(q.Workload, t.mechanism, names)
		if !known || math.IsNaN(x) {
			if q.MaxSlowdown > 0 {
				return reject(CodeSlowdownUnknown, 0, 0)
			}
			return pass()
		}
		if q.MaxSlowdown > 0 && x > q.MaxSlowdown {
			return reject(CodeSlowdown, int64(1000*q.MaxSlowdown), int64(1000*x))
		}
		t.slowdown = max(t.slowdown, x)
		if !with {
			before = 0
		}
		t.lost += float64(milli)*(1-1/max(1, x)) - before
		return pass()
	}
	if f := judge(r, int(t.milli), on, false); f.Verdict != decision.Pass {
		return f
	}
	for _, q := range on {
		if f := judge(q.Request, q.Milli, on, true); f.Verdict != decision.Pass {
			return f
		}
	}
	return pass()
}

// lost is the work that a tenant loses beside some neighbours, 0 where that is
// not known.
func lost(p Predictor, q *Request, milli int, t *take, neighbours []string) float64 {
	if len(neighbours) == 0 {
		return 0
	}
	x, known := p.Slowdown(q.Workload, t.mechanism, neighbours)
	if !known || math.IsNaN(x) {
		return 0
	}
	return float64(milli) * (1 - 1/max(1, x))
}
