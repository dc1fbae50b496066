package decision

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// DefaultConfidence is the probability with which a decision keeps objectives, unless Options say otherwise. Of what is
// near its limit one in twenty may miss it, so that of all workloads, most of which are not, fewer than one in a
// hundred does: judge/REPORT-2026-11.md has the figures, and what less or more confidence costs.
const DefaultConfidence = 0.97

// Headroom is memory that a layout leaves free beside what its tenants need.
type Headroom struct {
	// Driver is the part of a GPU's memory that no process can allocate, 0 to 1:
	// 2.5 percent lie between the nominal and the visible memory of boards.
	Driver float64
	// Fragmentation is the part of what is used that allocators lose where no
	// hardware or enforced limit holds a process, 0 to 1.
	Fragmentation float64
}

// DefaultHeadroom stays free unless Options say otherwise.
var DefaultHeadroom = Headroom{Driver: 0.025, Fragmentation: 0.08}

// outlook holds what is known of a workload on a pool's GPU before neighbours come.
type outlook struct {
	demand  prospect.Tenant
	tokens  prospect.Bounds // of the TPOT P99 alone, where only the size tells it
	size    string          // the same in words
	assumes []Assumption
}

// Assumption is something that an answer takes for granted because the input does not say.
type Assumption struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Basis tells what it was computed from, where it was.
	Basis sharing.Basis `json:"basis,omitzero"`
}

// priorBusy stands for a busy share that neither the workload nor its kind states.
const priorBusy = 0.4

// assumedAlone is the part of an objective that a latency is assumed to take alone where nobody measured it.
const assumedAlone = 0.5

type outlookKey struct {
	workload, pool int
	measured       bool
}

// outlookOf returns what workload w asks of a GPU of pool p under a mechanism.
func (pl *planner) outlookOf(w, p int, m sharing.Mechanism) *outlook {
	key := outlookKey{w, pl.alike[p], pl.measured(w, p, m)}
	if o := pl.outlooks[key]; o != nil {
		return o
	}
	o := pl.makeOutlook(w, p, key.measured)
	pl.outlooks[key] = o
	return o
}

func (pl *planner) makeOutlook(w, p int, measured bool) *outlook {
	cw := pl.workloads[w]
	wl := cw.workload
	o := &outlook{}
	if cw.demand.Memory.Unknown {
		o.assume(wl.Name+" fits the memory of a whole GPU", "neither memory nor model is stated")
	}
	d := &o.demand
	d.Limits, d.Alone = seconds(wl.SLO), seconds(wl.Solo)
	d.Online = wl.Kind == KindOnlineInference
	d.Decodes = wl.decodes() || pl.named(w)
	d.Least = pl.leastOf(w)
	if measured && pl.evidence.gpus[w] == nil {
		on := problem.A(pl.pools[p].ground.GPU().Name)
		o.assumes = append(o.assumes, Assumption{Basis: sharing.BasisSimulated, Why: "measure it on a real one",
			What: fmt.Sprintf("%s runs on %s as on the simulated GPU of its profile", wl.Name, on)})
	}
	m := costs.MachineOf(pl.pools[p].ground.GPU())
	if pl.serves(wl) && m.Bandwidth > 0 && m.FLOPs > 0 {
		d.Serving = servingOf(wl)
		return o
	}
	if wl.Load != nil && wl.GPUBusy.IsZero() && !measured {
		why := "the load is stated without a model and lengths, or the GPU's bandwidth is not known; state gpu_busy"
		if wl.gpus() > 1 {
			why = "servers on several GPUs are not computed; state gpu_busy"
		}
		o.assume(wl.Name+": how busy its load keeps a GPU", why)
	}
	d.Busy = wl.PeakBusy.Or(cw.demand.Busy)
	if busy, ok := pl.busyMeasured(w); ok && (measured || wl.GPUBusy.IsZero()) {
		d.Busy = busy
	} else if wl.GPUBusy.IsZero() && cw.arch.BusyPrior.IsZero() && wl.Load == nil && !measured {
		o.assume(fmt.Sprintf("%s keeps a GPU %.0f%% busy", wl.Name, 100*d.Busy),
			"neither gpu_busy nor a load with a model is stated")
	}
	for k, limit := range d.Limits {
		if limit == 0 || d.Alone[k] > 0 {
			continue
		}
		if measured {
			d.Alone[k] = prospect.P99s(pl.evidence.solos[w].Uncontended())[k]
			continue
		}
		if pl.carryOver(o, w, p, k) {
			continue
		}
		if k == costs.LatencyTPOT && o.bySize(wl, m) {
			continue
		}
		d.Alone[k] = assumedAlone * limit
		o.assume(fmt.Sprintf("%s P99 of %s alone is half of its limit", costs.LatencyName(k), wl.Name),
			"solo is not stated, and the load does not tell")
	}
	return o
}

// seconds are the latencies of an SLO in the order of an outcome; 0 = none. A P99 that
// keeps the limit of a median is enough for the median.
func seconds(s profile.SLO) (out [costs.LatencyCount]float64) {
	for k, m := range [...]profile.Metric{profile.MetricTTFTP99, profile.MetricTPOTP99, profile.MetricE2EP99} {
		if limit, ok := s.At(m).Get(); ok {
			out[k] = time.Duration(limit).Seconds()
		}
	}
	if limit, ok := s.TPOTP50.Get(); ok && (out[costs.LatencyTPOT] == 0 || limit.Seconds() < out[costs.LatencyTPOT]) {
		out[costs.LatencyTPOT] = limit.Seconds()
	}
	return out
}

func (o *outlook) assume(what, why string) {
	o.assumes = append(o.assumes, Assumption{What: what, Why: why})
}

// serves says whether a workload is a model server whose load and model give its latencies.
func (pl *planner) serves(w *Workload) bool {
	return w.Model != nil && w.Load != nil && !w.Load.InputTokens.IsZero() && !w.Load.OutputTokens.IsZero() && w.GPUs <= 1
}

func servingOf(w *Workload) *prospect.Serving {
	m, l := w.Model, w.Load
	kv, known := m.KVPerToken()
	if !known {
		kv = priorKVPerToken(m.Parameters)
	}
	return &prospect.Serving{PerS: l.PeakPerS() / float64(w.replicas()), Input: float64(l.InputTokens.Or(0)),
		Output:  float64(l.OutputTokens.Or(0)),
		Weights: m.weightBytes(m.active()), Parameters: float64(m.active()), KVPerToken: float64(kv), Layers: m.depth()}
}

// complete says whether nothing had to be assumed of a workload on a pool. A
// simulated GPU is taken for the real one, for every neighbour alike.
func (pl *planner) complete(w, p int, m sharing.Mechanism) bool {
	return !slices.ContainsFunc(pl.outlookOf(w, p, m).assumes, func(a Assumption) bool {
		return a.Basis != sharing.BasisSimulated
	})
}

// physics is the law by which a mechanism's tenants get along.
func physics(m sharing.Mechanism) sharing.Mechanism {
	t := gate.TraitsOf(m)
	switch {
	case t.Sliced && !t.Contends:
		return sharing.MechanismMIG
	case !t.Contends:
		return sharing.MechanismExclusive
	case t.Turns:
		return sharing.MechanismTimeSlicing
	}
	return sharing.MechanismMPS
}

// site is a place where tenants meet: a GPU of a pool, or a slice of one.
type site struct {
	groupKey
	slice *gate.MIGSlice
}

// prospects holds the figures that members see together at a site, and whether all keep their objectives.
type prospects struct {
	answer    sharing.Answer
	likely    bool // all of them do in the median
	tenants   int
	simulated bool
	outcomes  []prospect.Prospect
	predicted []predict.Prediction // from profiles, of a replica of each member; else none
}

// prospectsOf computes what members see together; the answers are kept.
func (pl *planner) prospectsOf(s site, members []member) prospects {
	key := make([]byte, 0, 8+8*len(members))
	key = fmt.Appendf(key, "%d %d", pl.alike[s.pool], physics(s.mechanism))
	for _, m := range members {
		if pl.measured(m.workload, s.pool, s.mechanism) {
			key = append(key, " as measured"...)
			break
		}
	}
	if s.slice != nil {
		key = append(key, s.slice.Profile.Name...)
	}
	sorted := members
	if !slices.IsSortedFunc(members, func(a, b member) int { return a.workload - b.workload }) {
		sorted = slices.Clone(members)
		sortMembers(sorted)
	}
	for _, m := range sorted {
		key = fmt.Appendf(key, " %d:%d", m.workload, m.replicas)
	}
	if r, ok := pl.seen[string(key)]; ok {
		return r
	}
	r := pl.compute(s, sorted)
	pl.seen[string(key)] = r
	return r
}

func (pl *planner) compute(s site, members []member) prospects {
	if pl.opt.err() != nil {
		return prospects{} // planFleet returns the error
	}
	share := costs.Share{Mechanism: physics(s.mechanism), SMs: 1, Bandwidth: 1}
	if s.slice != nil {
		share.SMs, share.Bandwidth = s.slice.Shares()
		if gate.TraitsOf(s.mechanism).Contends {
			share.Mechanism = sharing.MechanismMPS
		}
	}
	var tenants []prospect.Tenant
	var first []int
	measured := true
	for _, m := range members {
		first = append(first, len(tenants))
		measured = measured && pl.measured(m.workload, s.pool, s.mechanism)
		d := pl.outlookOf(m.workload, s.pool, s.mechanism).demand
		d.Workload = m.workload
		for range m.replicas {
			tenants = append(tenants, d)
		}
	}
	machine := costs.MachineOf(pl.pools[s.pool].ground.GPU())
	if measured {
		if all, preds, ok := pl.foresee(s, members, tenants); ok {
			r := pl.answerOf(members, tenants, first, all)
			r.simulated = all[0].Simulated
			for _, k := range first {
				r.predicted = append(r.predicted, preds[k])
			}
			return r
		}
	}
	all := prospect.Prospects(machine, share, tenants, pl.opt.Confidence, nil)
	r := pl.answerOf(members, tenants, first, all)
	if len(tenants) > 0 && pl.simulated < mostSimulated && close(share, r.answer, tenants, all) {
		pl.simulated++
		prospect.Simulate(machine, share, tenants, pl.opt.Confidence, all)
		r = pl.answerOf(members, tenants, first, all)
		r.simulated = true
	}
	return r
}

// mostSimulated bounds the arrangements of a GPU that are simulated in deciding a fleet; closed forms judge the others.
const mostSimulated = 300

// withinReach and overReach are how far below and above the closed forms' figures a simulation's may lie for it to be
// worth its time; aloneReach is withinReach of a lone tenant, whose simulation costs less.
const (
	withinReach = 0.75
	aloneReach  = 0.5
	overReach   = 1.1
)

// close says whether a simulation may answer otherwise than the closed forms did.
func close(share costs.Share, answer sharing.Answer, tenants []prospect.Tenant, all []prospect.Prospect) bool {
	switch answer {
	case sharing.AnswerUnknown:
		reach := withinReach
		if len(tenants) == 1 {
			reach = aloneReach
		}
		return keptAt(reach, reach, tenants, all)
	case sharing.AnswerYes:
		if len(tenants) == 1 && share.SMs == 1 && tenants[0].Serving == nil {
			return false // it is as it was measured
		}
		return !keptAt(overReach, 1, tenants, all)
	}
	return false
}

// keptAt says whether every tenant keeps its objectives if latencies and delays are multiples of what was found.
func keptAt(latency, delay float64, tenants []prospect.Tenant, all []prospect.Prospect) bool {
	for i := range all {
		o := all[i]
		for k := range o.P99 {
			o.P99[k].High *= latency
		}
		o.Rate.Low /= delay
		if o.Kept(&tenants[i]) != sharing.AnswerYes {
			return false
		}
	}
	return true
}

// answerOf sums up what members see, the first tenant of each at first.
func (pl *planner) answerOf(members []member, tenants []prospect.Tenant, first []int,
	all []prospect.Prospect) prospects {
	r := prospects{answer: sharing.AnswerYes, likely: true, tenants: len(tenants)}
	for k, m := range members {
		o := all[first[k]]
		for i := range m.replicas { // played, replicas see different things
			o.Worsen(&all[first[k]+i])
		}
		r.likely = r.likely && o.Likely(&tenants[first[k]])
		r.outcomes = append(r.outcomes, o)
		switch o.Kept(&tenants[first[k]]) {
		case sharing.AnswerNo:
			r.answer = sharing.AnswerNo
		case sharing.AnswerUnknown:
			if r.answer == sharing.AnswerYes {
				r.answer = sharing.AnswerUnknown
			}
		}
	}
	return r
}

// memoryOf returns what a replica takes of a GPU or slice, context and all.
func (pl *planner) memoryOf(w int, m sharing.Mechanism) sharing.Bytes {
	cw := pl.workloads[w]
	need := cw.demand.Memory.Under(m)
	if cw.demand.Memory.Context == 0 && !gate.TraitsOf(m).Limited {
		need += gate.ContextMemory * sharing.Bytes(cw.demand.Processes)
	}
	return need
}

// usable is the memory of a pool's GPU that tenants may fill under a mechanism.
func (pl *planner) usable(p int, m sharing.Mechanism) sharing.Bytes {
	total := float64(pl.pools[p].memory) * (1 - pl.opt.Headroom.Driver)
	if !gate.TraitsOf(m).Holds {
		total /= 1 + pl.opt.Headroom.Fragmentation
	}
	return sharing.Bytes(total)
}

// reasonOf says which figure of workload w is furthest beyond its limit.
func (pl *planner) reasonOf(w int, c *choice, p prospects) gate.Reason {
	o := &p.outcomes[0]
	d := &pl.outlookOf(w, c.pool, c.mechanism).demand
	why, worst := gate.Reason{Code: gate.CodeSlowdownUnknown, Verdict: gate.VerdictReject}, 0.0
	for k, limit := range d.Limits {
		if limit > 0 && o.Known[k] && o.P99[k].High/limit > worst {
			worst = o.P99[k].High / limit
			why = gate.Missed(k, o.P99[k].Value, o.P99[k].Low, o.P99[k].High, limit)
			if o.Floor[k] > limit {
				why = gate.Impossible(k, o.Floor[k], limit)
				if c.smaller != nil {
					why.Profile = c.smaller.Profile
				}
			}
		}
	}
	switch {
	case o.Rate.Low < prospect.KeepsRate && o.Rate.Low > 0:
		why = gate.Slowed(o.Rate.Value, o.Rate.Low, o.Rate.High, prospect.KeepsRate)
	case d.Limits == [costs.LatencyCount]float64{} || o.Busy.High >= 1 && worst <= 1 || math.IsInf(worst, 1):
		why = gate.Overloaded(o.Busy.Value, o.Busy.High)
	}
	return why
}

// worst returns the prospects of workload w on the GPU where they are worst, alone in its outcomes.
func (pl *planner) worst(w int, c *choice) prospects {
	g := pl.groups[c.groupKey]
	worst := prospects{answer: sharing.AnswerYes}
	take := func(p prospects, at int) {
		if len(p.outcomes) == 0 {
			return
		}
		d := &pl.outlookOf(w, c.pool, c.mechanism).demand
		o := p.outcomes[at]
		answer := o.Kept(d)
		if len(worst.outcomes) == 0 || strain(d, &o) > strain(d, &worst.outcomes[0]) {
			worst = prospects{answer: answer, outcomes: []prospect.Prospect{o}, simulated: p.simulated, tenants: p.tenants}
			if p.predicted != nil {
				worst.predicted = p.predicted[at : at+1]
			}
		}
	}
	switch {
	case c.mechanism == sharing.MechanismExclusive:
		take(pl.prospectsOf(site{groupKey: c.groupKey}, []member{{w, 1}}), 0)
	case gate.TraitsOf(c.mechanism).Sliced:
		take(pl.prospectsOf(site{c.groupKey, c.slice}, []member{{w, gate.PerInstance(c.mechanism)}}), 0)
	default:
		for i := range g.bins {
			at := -1
			var members []member
			members = append(members, g.bins[i].members...)
			sortMembers(members)
			for k, m := range members {
				if m.workload == w {
					at = k
				}
			}
			if at >= 0 {
				take(pl.prospectsOf(site{groupKey: c.groupKey}, members), at)
			}
		}
	}
	return worst
}

// strain relates an outcome to a demand's limits: 1 = at one.
func strain(d *prospect.Tenant, o *prospect.Prospect) float64 {
	s := o.Busy.High
	if !d.Online && d.Serving == nil && d.Limits == [costs.LatencyCount]float64{} {
		s = prospect.KeepsRate / max(1e-9, o.Rate.Low)
	}
	for k, limit := range d.Limits {
		if limit > 0 {
			s = max(s, o.P99[k].High/limit)
		}
	}
	return s
}

// standings are the answers of a site's members; unknown says that nothing is known of the site.
func (pl *planner) standings(at site, members []member, unknown bool) []sharing.Answer {
	out := slices.Repeat([]sharing.Answer{sharing.AnswerUnknown}, len(members))
	var memory sharing.Bytes
	for _, m := range members {
		d := &pl.workloads[m.workload].demand
		memory += d.Memory.Total * sharing.Bytes(m.replicas)
		unknown = unknown || d.Memory.Unknown || !pl.complete(m.workload, at.pool, at.mechanism)
	}
	total := pl.pools[at.pool].memory
	if at.slice != nil {
		total, _ = at.slice.Memory()
	}
	if total > 0 && memory > total {
		return slices.Repeat([]sharing.Answer{sharing.AnswerNo}, len(members))
	}
	if unknown {
		return out
	}
	p := pl.prospectsOf(at, members)
	for k := range p.outcomes {
		out[k] = p.outcomes[k].Kept(&pl.outlookOf(members[k].workload, at.pool, at.mechanism).demand)
	}
	return out
}
