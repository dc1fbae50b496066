// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/objective"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// Forecaster predicts the slowdown and the latencies of tenants that share one GPU; [NewModels] makes one. It must be
// deterministic and safe for concurrent use.
type Forecaster interface {
	// Predict appends to out a read-only prediction of each tenant of a group, co-located on one GPU of a model
	// (layout.GPU.Name) under a mechanism, in the order of the group; nil if unknown. It is called with MethodSimulated if
	// the closed form leaves an objective open: to save time, an implementation may then return nil predictions. The group
	// must not be retained.
	Predict(out []*predict.Prediction, gpu string, m sharing.Mechanism, group []string,
		method predict.Method) []*predict.Prediction
}

// asker asks the GPUs of one node for one request.
type asker struct {
	neighbours neighbours
	target     *filter.Target
	open       bool // everybody trusts the request
	chosen     bool // the node's delivery chooses the GPU
	asked      admission
	admitted   filter.Reason // the answer to asked
}

// admission is a question to the filter, whose answer is the same on all GPUs of a kind.
type admission struct {
	target *filter.Target
	demand *filter.Demand
	slot   filter.Slot
}

// neighbours asks a forecaster, if there is one, without allocating anew each time.
type neighbours struct {
	p             Forecaster
	names         []string
	on            []*layout.Assignment
	before, after []*predict.Prediction
	simulated     []*predict.Prediction
}

// second evaluates a workload, tenant i of a group, by its prediction p, and where that leaves a limit open by the
// simulation, where that is known.
func (j *neighbours) second(w *layout.Workload, p *predict.Prediction, gpu string, m sharing.Mechanism, group []string,
	i int) filter.Reason {
	why := evaluate(w, p)
	if why.Verdict == filter.VerdictUnknown && known(p) {
		j.simulated = j.p.Predict(j.simulated[:0], gpu, m, group, predict.MethodSimulated)
		if p = j.simulated[i]; known(p) {
			why = evaluate(w, p)
		}
	}
	return why
}

// ask predicts for the tenants of a GPU, without and with another workload, which comes last.
func (j *neighbours) ask(n *layout.Node, gpu int, w *layout.Workload, m sharing.Mechanism) {
	j.on, j.names = j.on[:0], j.names[:0]
	for a := range n.On(gpu) {
		j.on = append(j.on, a)
		j.names = append(j.names, a.Workload.Name)
	}
	model := n.Devices[gpu].GPU.Name
	j.before = j.before[:0]
	if len(j.on) > 1 { // one has lost nothing
		j.before = j.p.Predict(j.before, model, m, j.names, predict.MethodClosedForm)
	}
	j.names = append(j.names, w.Name)
	j.after = j.p.Predict(j.after[:0], model, m, j.names, predict.MethodClosedForm)
}

// predict evaluates the objectives of r and of its neighbours on a GPU, and sets the predictions in t.
func (a *asker) predict(n *layout.Node, gpu int, r *Request, t *take, why *filter.Reason) bool {
	if !traits.Of(t.mechanism).Trusting {
		return true
	}
	d, j := &n.Devices[gpu], &a.neighbours
	tenants := d.Free().Tenants + 1
	if j.p == nil {
		t.unknown = tenants
		limited := func(q layout.Assignment) bool {
			return int(q.Device) == gpu && q.Workload.Objective != layout.Objective{}
		}
		if (r.workload().Objective != layout.Objective{}) || n.Free().Limited && slices.ContainsFunc(n.Assignments, limited) {
			return refuse(why, codes.SlowdownUnknown)
		}
		return true
	}
	j.ask(n, gpu, r.workload(), t.mechanism)
	worst := filter.Pass()
	for i, p := range j.after {
		w, milli := j.workload(i, r), t.milli+t.busy
		if i < len(j.on) {
			milli = int32(max(j.on[i].Compute, j.on[i].Busy))
		}
		x, before := float64(tenants), 1.0 // they share a busy GPU evenly
		if known(p) {
			x = p.Slowdown.Value
			t.slowdown = max(t.slowdown, x)
		} else {
			t.unknown++
		}
		if i < len(j.on) && tenants > 2 {
			if before = float64(tenants - 1); known(j.before[i]) {
				before = j.before[i].Slowdown.Value
			}
		}
		t.lost += lost(milli, x) - lost(milli, before)
		if f := evaluate(w, p); f.Verdict.Severity() > worst.Verdict.Severity() {
			if worst = f; f.Verdict == filter.VerdictReject {
				break
			}
		}
	}
	if worst.Verdict == filter.VerdictUnknown { // only now: a simulation is dear, and one reject is enough
		worst = filter.Pass()
		for i, p := range j.after {
			f := j.second(j.workload(i, r), p, d.GPU.Name, t.mechanism, j.names, i)
			if f.Verdict.Severity() > worst.Verdict.Severity() {
				worst = f
			}
		}
	}
	*why = worst
	return worst.Verdict == filter.VerdictPass
}

// workload returns the workload of the i-th tenant of the question; the last is r's.
func (j *neighbours) workload(i int, r *Request) *layout.Workload {
	if i < len(j.on) {
		return j.on[i].Workload
	}
	return r.workload()
}

// Worst evaluates a workload with a replica that may share one GPU of a model with any of others, up to the number of
// slots: for deliveries that choose among GPUs under m themselves. All must trust each other, and each objective is
// checked against the neighbours that, one by one, harm it most. An isolating mechanism passes.
func (s *Scorer) Worst(model string, m sharing.Mechanism, slots int, w *layout.Workload,
	others []*layout.Workload) filter.Reason {
	why := filter.Pass()
	if !traits.Of(m).Trusting || slots < 2 || len(others) == 0 {
		return why
	}
	if slices.ContainsFunc(others, func(o *layout.Workload) bool { return !o.Trust(w) }) {
		refuse(&why, codes.Trust)
		return why
	}
	all := append([]*layout.Workload{w}, others...)
	for i, v := range all {
		if v.Objective == (layout.Objective{}) {
			continue
		}
		if s.Forecaster == nil {
			refuse(&why, codes.SlowdownUnknown)
			return why
		}
		harm := func(q *layout.Workload) float64 {
			if p := s.closedForm(model, m, v.Name, q.Name); known(p) {
				return p.Slowdown.Value
			}
			return math.Inf(1)
		}
		next := slices.Delete(slices.Clone(all), i, i+1)
		slices.SortStableFunc(next, func(a, b *layout.Workload) int { return cmp.Compare(harm(b), harm(a)) })
		group := []string{v.Name}
		for _, q := range next[:min(slots-1, len(next))] {
			group = append(group, q.Name)
		}
		j := neighbours{p: s.Forecaster}
		f := j.second(v, s.closedForm(model, m, group...), model, m, group, 0)
		if f.Verdict.Severity() > why.Verdict.Severity() {
			why = f
		}
	}
	return why
}

// closedForm is the prediction of the first of a group.
func (s *Scorer) closedForm(gpu string, m sharing.Mechanism, group ...string) *predict.Prediction {
	return s.Forecaster.Predict(nil, gpu, m, group, predict.MethodClosedForm)[0]
}

// lost is the thousandths of work that a tenant loses that is x times slower.
func lost(milli int32, x float64) float64 { return float64(milli) * (1 - 1/max(1, x)) }

func known(p *predict.Prediction) bool { return p != nil && p.Slowdown.Value > 0 }

// evaluate compares a prediction with a workload's objectives.
func evaluate(w *layout.Workload, p *predict.Prediction) filter.Reason {
	return objective.Against(&w.Objective, p)
}

// refuse gives a reason without numbers; it is always false.
func refuse(why *filter.Reason, c filter.Code) bool {
	v := filter.VerdictReject
	switch c {
	case codes.SlowdownUnknown:
		v = filter.VerdictUnknown
	case codes.NoMechanism, codes.MIGMode, codes.NotMIG:
		v = filter.VerdictFixable
	}
	*why = filter.Reason{Verdict: v, Code: c}
	return false
}
