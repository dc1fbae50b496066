package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Forecaster predicts what the tenants of one GPU do to each other; [Models] is one. It must answer the same for
// the same question and be safe for concurrent use.
type Forecaster interface {
	// Predict appends to out what each tenant of a group sees beside the others on one GPU of a model (as nodes
	// name it) under a mechanism, in the order of the group and read-only; nil for what is not known. The group
	// must not be kept.
	Predict(out []*predict.Prediction, gpu string, m sharing.Mechanism, group []string) []*predict.Prediction
}

// Interference adds to a policy the work that the tenants of a GPU are predicted to lose by a new neighbour: a
// tenant of m thousandths that runs x times slower loses m*(1-1/x). Both are thousandths of a GPU, so they add up.
// What is not known is not taken for nothing: n tenants that nothing is predicted for are taken to be n times
// slower, as under even sharing of a busy GPU, and counted in Offer.Unpredicted.
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

// judge asks a forecaster, if there is one, without allocating anew each time.
type judge struct {
	p             Forecaster
	names         []string
	on            []*Placement
	before, after []*predict.Prediction
}

// ask predicts for those that are on a GPU of a node, without r and with it, which comes last.
func (j *judge) ask(n *node, gpu int, r *Request, m sharing.Mechanism) {
	j.on, j.names = j.on[:0], j.names[:0]
	for _, q := range n.placed {
		if slices.Contains(q.GPUs, gpu) {
			j.on = append(j.on, q)
			j.names = append(j.names, q.Request.Workload)
		}
	}
	j.before = j.before[:0]
	if len(j.on) > 1 { // one has lost nothing
		j.before = j.p.Predict(j.before, n.view.Model, m, j.names)
	}
	j.names = append(j.names, r.Workload)
	j.after = j.p.Predict(j.after[:0], n.view.Model, m, j.names)
}

// predict judges the objectives of r and of its neighbours on a GPU, and sets what is predicted in t.
func (n *node) predict(gpu int, r *Request, t *take, j *judge, why *gate.Reason) bool {
	if !gate.TraitsOf(t.mechanism).Trusting {
		return true
	}
	g := &n.view.GPUs[gpu]
	tenants := g.Tenants + 1
	if j == nil || j.p == nil {
		used := 1000 - g.Milli
		t.unknown = tenants
		t.lost = lost(int(t.milli), evenly(tenants)) + lost(int(used), evenly(tenants)) - lost(int(used), evenly(tenants-1))
		if r.objective() || slices.ContainsFunc(n.placed, func(q *Placement) bool {
			return q.Request.objective() && slices.Contains(q.GPUs, gpu)
		}) {
			return refuse(why, gate.CodeSlowdownUnknown)
		}
		return true
	}
	j.ask(n, gpu, r, t.mechanism)
	worst := gate.Pass()
	for i, p := range j.after {
		q, milli := r, int(t.milli)
		if i < len(j.on) {
			q, milli = j.on[i].Request, j.on[i].Milli
		}
		x, before := evenly(tenants), 1.0
		if known(p) {
			x = p.Slowdown.Value
			t.slowdown = max(t.slowdown, x)
		} else {
			t.unknown++
		}
		if i < len(j.on) && tenants > 2 {
			if before = evenly(tenants - 1); known(j.before[i]) {
				before = j.before[i].Slowdown.Value
			}
		}
		t.lost += lost(milli, x) - lost(milli, before)
		if f := q.judge(p); f.Verdict.Severity() > worst.Verdict.Severity() {
			if worst = f; f.Verdict == gate.VerdictReject {
				break
			}
		}
	}
	*why = worst
	return worst.Verdict == gate.VerdictPass
}

// Worst judges a request where it may come to stand on one GPU of a model beside any of others, up to so many
// seats: whoever hands out GPUs that run m picks one, whatever was decided. All must trust each other, and each
// objective is held against the neighbours that, one by one, harm it most. A mechanism that isolates passes.
func (s *Scorer) Worst(model string, m sharing.Mechanism, seats int, r *Request, others []Running) gate.Reason {
	why := gate.Pass()
	if !gate.TraitsOf(m).Trusting || seats < 2 || len(others) == 0 {
		return why
	}
	if slices.ContainsFunc(others, func(q Running) bool { return !trusts(q.Request, r) }) {
		refuse(&why, gate.CodeTrust)
		return why
	}
	if !r.objective() && !slices.ContainsFunc(others, func(q Running) bool { return q.Request.objective() }) {
		return why
	}
	all := []*Request{r}
	for i := range others {
		all = append(all, others[i].Request)
	}
	for i, v := range all {
		if !v.objective() {
			continue
		}
		if s.predictor == nil {
			refuse(&why, gate.CodeSlowdownUnknown)
			return why
		}
		type neighbour struct {
			name string
			harm float64
		}
		var beside []neighbour
		for j, q := range all {
			if p := s.predictor.Predict(nil, model, m, []string{v.Workload, q.Workload})[0]; j == i {
				continue
			} else if known(p) {
				beside = append(beside, neighbour{q.Workload, p.Slowdown.Value})
			} else {
				beside = append(beside, neighbour{q.Workload, math.Inf(1)})
			}
		}
		slices.SortStableFunc(beside, func(a, b neighbour) int { return cmp.Compare(b.harm, a.harm) })
		group := []string{v.Workload}
		for _, n := range beside[:min(seats-1, len(beside))] {
			group = append(group, n.name)
		}
		if f := v.judge(s.predictor.Predict(nil, model, m, group)[0]); f.Verdict.Severity() > why.Verdict.Severity() {
			why = f
		}
	}
	return why
}

// evenly is the slowdown of tenants that share a busy GPU evenly.
func evenly(tenants int32) float64 { return float64(tenants) }

// lost is the thousandths of work that a tenant loses that is x times slower.
func lost(milli int, x float64) float64 { return float64(milli) * (1 - 1/max(1, x)) }

func known(p *predict.Prediction) bool { return p != nil && p.Slowdown.Value > 0 }

// objective reports whether the request states what neighbours may do to it.
func (r *Request) objective() bool { return r.MaxSlowdown > 0 || r.SLO != profile.SLO{} }

// judge holds a prediction against the request's objectives.
func (r *Request) judge(p *predict.Prediction) gate.Reason {
	return gate.Objectives(&r.SLO, r.MaxSlowdown, p)
}
