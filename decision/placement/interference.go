package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
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

func (p Interference) base() Policy { return cmp.Or(p.Base, Policy(Spread{})) }

// judge asks a forecaster, if there is one, without allocating anew each time.
type judge struct {
	p             Forecaster
	names         []string
	on            []*Placement
	before, after []*predict.Prediction
	simulated     []*predict.Prediction
}

// simulator is a Forecaster that can also answer by the simulation, as decision does where the closed form leaves a
// limit open.
type simulator interface {
	simulate(out []*predict.Prediction, gpu string, m sharing.Mechanism, group []string) []*predict.Prediction
}

// settle judges a request, tenant i of a group, by its prediction p, and where that leaves a limit open by the
// simulation, if the forecaster has one.
func (j *judge) settle(q *Request, p *predict.Prediction, gpu string, m sharing.Mechanism, group []string,
	i int) gate.Reason {
	why := q.judge(p)
	if s, ok := j.p.(simulator); ok && why.Verdict == gate.VerdictUnknown && known(p) {
		j.simulated = s.simulate(j.simulated[:0], gpu, m, group)
		if p = j.simulated[i]; known(p) {
			why = q.judge(p)
		}
	}
	return why
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
		q, milli := j.request(i, r), int(t.milli)
		if i < len(j.on) {
			milli = j.on[i].Milli
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
	if worst.Verdict == gate.VerdictUnknown { // only now: a simulation is dear, and one reject is enough
		worst = gate.Pass()
		for i, p := range j.after {
			f := j.settle(j.request(i, r), p, n.view.Model, t.mechanism, j.names, i)
			if f.Verdict.Severity() > worst.Verdict.Severity() {
				worst = f
			}
		}
	}
	*why = worst
	return worst.Verdict == gate.VerdictPass
}

// request is that of the i-th who was asked for, the last of whom is r's.
func (j *judge) request(i int, r *Request) *Request {
	if i < len(j.on) {
		return j.on[i].Request
	}
	return r
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
		j := judge{p: s.predictor}
		f := j.settle(v, s.predictor.Predict(nil, model, m, group)[0], model, m, group, 0)
		if f.Verdict.Severity() > why.Verdict.Severity() {
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

// Calibrated holds the measurements of GPUs of one model.
type Calibrated struct {
	Model     string // as nodes name it: Node.Model
	Predictor predict.Predictor
	Profiles  *profile.Profiles // of workloads alone; read by NewModels only
}

// Models predicts what tenants of one GPU see beside each other, with decision's closed forms, for time-slicing and
// MPS; where these leave an objective open and refuse none, Fit, Score and Placer ask the simulation, as decision does.
// Everything else is not known: other mechanisms, GPU models that were not calibrated, groups with a workload that was
// not measured alone.
//
// A simulation takes 4 to 45 ms and is run once for a group, which may be once for each GPU that a node shares: nothing
// bounds the time of a first call but the number of different groups (the same workloads on another node of the same
// model are the same group). A scheduler with a deadline wraps a Models in a [Forecaster] of its own, which has Predict
// only: objectives that closed forms leave open are then unknown.
//
// Answers are kept (about 300 bytes a tenant of a group, at most 8,192 groups, closed forms and simulations counted
// each; beyond that all are forgotten), so that asking again does not allocate. It is safe for concurrent use.
type Models struct {
	workloads map[string]uint16 // its number
	names     []string
	gpus      map[string]*calibrated

	mu   sync.RWMutex
	kept map[groupKey][]predict.Prediction // by the order of the key; nil where there is none
}

type calibrated struct {
	number    uint8
	predictor predict.Predictor
	solos     []profile.Solo // by workload number
	measured  []bool         // likewise: there is a solo
}

const (
	maxTenantsPredicted = 48 // what MPS admits on one GPU
	maxGroupsKept       = 8192
)

// groupKey is a group whatever the order of its tenants: their numbers plus one, ascending.
type groupKey struct {
	gpu       uint8
	mechanism uint8
	method    predict.Method
	tenants   [maxTenantsPredicted]uint16
}

// NewModels returns the predictions for workloads by the names that requests use. A workload without a profile on a
// GPU model is no error: it is unknown there. The error is an ErrInvalid that names every problem.
func NewModels(workloads map[string]profile.ProfileRef, gpus ...Calibrated) (*Models, error) {
	var l problem.List
	m := &Models{workloads: map[string]uint16{}, names: slices.Sorted(maps.Keys(workloads)),
		gpus: map[string]*calibrated{}, kept: map[groupKey][]predict.Prediction{}}
	l.If(len(workloads) > 1<<16-2, "workloads", "", "%d are over the limit of %d", len(workloads), 1<<16-2)
	for i, name := range m.names {
		m.workloads[name] = uint16(i + 1)
		l.If(name == "", "workloads", "requests without a workload are never predicted", "a workload has no name")
	}
	for i, g := range gpus {
		path := fmt.Sprintf("gpus[%d]", i)
		switch {
		case g.Model == "":
			l.Addf(path+".Model", "name it as Node.Model does", "empty")
		case m.gpus[g.Model] != nil:
			l.Addf(path+".Model", "", "%q is calibrated twice", g.Model)
		case i > 255:
			l.Addf("gpus", "", "more than 256 GPU models")
		case g.Profiles == nil:
			l.Addf(path+".Profiles", "measure the workloads alone", "there are none")
		default:
			c := &calibrated{number: uint8(i), predictor: g.Predictor, solos: make([]profile.Solo, len(m.names)),
				measured: make([]bool, len(m.names))}
			for k, name := range m.names {
				solo, err := g.Profiles.Solo(workloads[name].Server, workloads[name].Load)
				c.solos[k], c.measured[k] = solo, err == nil
			}
			m.gpus[g.Model] = c
		}
	}
	if err := l.Err(); err != nil {
		return nil, invalid(err)
	}
	return m, nil
}

// Predict implements Forecaster.
func (m *Models) Predict(out []*predict.Prediction, gpu string, mechanism sharing.Mechanism,
	group []string) []*predict.Prediction {
	return m.predict(out, gpu, mechanism, group, predict.MethodClosedForm)
}

func (m *Models) simulate(out []*predict.Prediction, gpu string, mechanism sharing.Mechanism,
	group []string) []*predict.Prediction {
	return m.predict(out, gpu, mechanism, group, predict.MethodSimulated)
}

func (m *Models) predict(out []*predict.Prediction, gpu string, mechanism sharing.Mechanism, group []string,
	method predict.Method) []*predict.Prediction {
	key, ok := m.key(gpu, mechanism, group)
	key.method = method
	var a []predict.Prediction
	if ok {
		a = m.answer(gpu, mechanism, &key, len(group))
	}
	for _, name := range group {
		if a == nil {
			out = append(out, nil)
			continue
		}
		at, _ := slices.BinarySearch(key.tenants[:len(group)], m.workloads[name])
		out = append(out, &a[at])
	}
	return out
}

// key sorts a group; false when one of it can't be predicted.
func (m *Models) key(gpu string, mechanism sharing.Mechanism, group []string) (groupKey, bool) {
	c := m.gpus[gpu]
	if c == nil || len(group) == 0 || len(group) > maxTenantsPredicted {
		return groupKey{}, false
	}
	key := groupKey{gpu: c.number, mechanism: uint8(mechanism)}
	for i, name := range group {
		k, ok := m.workloads[name]
		if !ok || !c.measured[k-1] {
			return groupKey{}, false
		}
		at := i
		for ; at > 0 && key.tenants[at-1] > k; at-- {
			key.tenants[at] = key.tenants[at-1]
		}
		key.tenants[at] = k
	}
	return key, true
}

// answer predicts for a group, or remembers; nil where it cannot.
func (m *Models) answer(gpu string, mechanism sharing.Mechanism, key *groupKey, n int) []predict.Prediction {
	m.mu.RLock()
	a, ok := m.kept[*key]
	m.mu.RUnlock()
	if ok {
		return a
	}
	c := m.gpus[gpu]
	solos := make([]profile.Solo, n)
	for i, k := range key.tenants[:n] {
		solos[i] = c.solos[k-1]
	}
	a, err := c.predictor.Predict(mechanism, solos, key.method)
	if err != nil {
		a = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) >= maxGroupsKept {
		clear(m.kept)
	}
	m.kept[*key] = a
	return a
}
