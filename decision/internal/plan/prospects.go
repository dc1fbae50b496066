package plan

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/sharing"
)

// DefaultConfidence is the probability with which a decision keeps objectives, unless Options say otherwise. Of what is
// near its limit one in twenty may miss it, so that of all workloads, most of which are not, fewer than one in a
// hundred does: tools/research/judge/REPORT-2026-11.md has the figures, and what less or more confidence costs.
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

// Site is a place where tenants meet: a GPU of a pool, or a slice of one.
type Site struct {
	GroupKey
	Slice *gate.MIGSlice
}

// Prospects holds the figures that members see together at a site, and whether all keep their objectives.
type Prospects struct {
	Answer    sharing.Answer
	likely    bool // all of them do in the median
	Tenants   int
	Simulated bool
	Outcomes  []prospect.Prospect
	Predicted []predict.Prediction // from profiles, of a replica of each member; else none
}

// ProspectsOf computes what members see together; the answers are kept.
func (pl *Planner) ProspectsOf(s Site, members []Member) Prospects {
	key := binary.AppendUvarint(make([]byte, 0, 8+8*len(members)), uint64(pl.alike[s.Pool]))
	key = append(key, byte(physics(s.Mechanism)))
	key = strconv.AppendBool(key, slices.ContainsFunc(members, func(m Member) bool {
		return pl.Measured(m.Workload, s.Pool, s.Mechanism)
	}))
	if s.Slice != nil {
		key = append(key, s.Slice.Profile.Name...)
	}
	sorted := slices.Clone(members)
	SortMembers(sorted)
	key = append(key, 0) // ends the name
	for _, m := range sorted {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(m.Workload)), uint64(m.Replicas))
	}
	if r, ok := pl.Seen[string(key)]; ok {
		return r
	}
	r := pl.compute(s, sorted)
	pl.Seen[string(key)] = r
	return r
}

func (pl *Planner) compute(s Site, members []Member) Prospects {
	if pl.Opt.Err() != nil {
		return Prospects{} // Plan returns the error
	}
	share := costs.Share{Mechanism: physics(s.Mechanism), SMs: 1, Bandwidth: 1}
	if s.Slice != nil {
		share.SMs, share.Bandwidth = s.Slice.Shares()
		if gate.TraitsOf(s.Mechanism).Contends {
			share.Mechanism = sharing.MechanismMPS
		}
	}
	var tenants []prospect.Tenant
	var first []int
	measured := true
	for _, m := range members {
		first = append(first, len(tenants))
		measured = measured && pl.Measured(m.Workload, s.Pool, s.Mechanism)
		d := pl.OutlookOf(m.Workload, s.Pool, s.Mechanism).Demand
		d.Workload = m.Workload
		tenants = append(tenants, slices.Repeat([]prospect.Tenant{d}, m.Replicas)...)
	}
	machine := costs.MachineOf(pl.Pools[s.Pool].Ground().GPU())
	if measured {
		if all, preds, ok := pl.foresee(s, members, tenants); ok {
			r := pl.answerOf(members, tenants, first, all)
			r.Simulated = all[0].Simulated
			for _, k := range first {
				r.Predicted = append(r.Predicted, preds[k])
			}
			return r
		}
	}
	all := prospect.Prospects(machine, share, tenants, pl.Opt.Confidence, nil)
	r := pl.answerOf(members, tenants, first, all)
	if len(tenants) > 0 && pl.simulated < mostSimulated && close(share, r.Answer, tenants, all) {
		pl.simulated++
		prospect.Simulate(machine, share, tenants, pl.Opt.Confidence, all)
		r = pl.answerOf(members, tenants, first, all)
		r.Simulated = true
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
func (pl *Planner) answerOf(members []Member, tenants []prospect.Tenant, first []int,
	all []prospect.Prospect) Prospects {
	r := Prospects{Answer: sharing.AnswerYes, likely: true, Tenants: len(tenants)}
	for k, m := range members {
		o := all[first[k]]
		for i := range m.Replicas { // played, replicas see different things
			o.Worsen(&all[first[k]+i])
		}
		r.likely = r.likely && o.Likely(&tenants[first[k]])
		r.Outcomes = append(r.Outcomes, o)
		if kept := o.Kept(&tenants[first[k]]); kept == sharing.AnswerNo || r.Answer == sharing.AnswerYes {
			r.Answer = kept
		}
	}
	return r
}

// MemoryOf returns what a replica takes of a GPU or slice, context and all: of one of its own, what is stated of it.
func (pl *Planner) MemoryOf(w int, m sharing.Mechanism) sharing.Bytes {
	cw := pl.Workloads[w]
	need := cw.Demand().Memory.Under(m)
	if cw.Demand().Memory.Context == 0 && !gate.TraitsOf(m).Limited && m != sharing.MechanismExclusive {
		need += gate.ContextMemory * sharing.Bytes(cw.Demand().Processes)
	}
	return need
}

// Usable is the memory of a pool's GPU that tenants may fill under a mechanism.
func (pl *Planner) Usable(p int, m sharing.Mechanism) sharing.Bytes {
	total := float64(pl.Pools[p].Memory) * (1 - pl.Opt.Headroom.Driver)
	if !gate.TraitsOf(m).Holds {
		total /= 1 + pl.Opt.Headroom.Fragmentation
	}
	return sharing.Bytes(total)
}

// reasonOf says which figure of workload w is furthest beyond its limit.
func (pl *Planner) reasonOf(w int, c *Choice, p Prospects) gate.Reason {
	o := &p.Outcomes[0]
	d := &pl.OutlookOf(w, c.Pool, c.Mechanism).Demand
	why, worst := gate.Reason{Code: gate.CodeSlowdownUnknown, Verdict: gate.VerdictReject}, 0.0
	for k, limit := range d.Limits {
		if limit > 0 && o.Known[k] && o.P99[k].High/limit > worst {
			worst = o.P99[k].High / limit
			why = gate.Missed(k, o.P99[k].Value, o.P99[k].Low, o.P99[k].High, limit)
			if o.Floor[k] > limit {
				why = gate.Impossible(k, o.Floor[k], limit)
				if c.Smaller != nil {
					why.Profile = c.Smaller.Profile
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

// Worst returns the prospects of workload w on the GPU where they are worst, alone in its outcomes.
func (pl *Planner) Worst(w int, c *Choice) Prospects {
	g := pl.Groups[c.GroupKey]
	worst := Prospects{Answer: sharing.AnswerYes}
	take := func(p Prospects, at int) {
		if len(p.Outcomes) == 0 {
			return
		}
		d := &pl.OutlookOf(w, c.Pool, c.Mechanism).Demand
		o := p.Outcomes[at]
		answer := o.Kept(d)
		if len(worst.Outcomes) == 0 || strain(d, &o) > strain(d, &worst.Outcomes[0]) {
			worst = Prospects{Answer: answer, Outcomes: []prospect.Prospect{o}, Simulated: p.Simulated, Tenants: p.Tenants}
			if p.Predicted != nil {
				worst.Predicted = p.Predicted[at : at+1]
			}
		}
	}
	switch {
	case c.Mechanism == sharing.MechanismExclusive:
		take(pl.ProspectsOf(Site{GroupKey: c.GroupKey}, []Member{{w, 1}}), 0)
	case gate.TraitsOf(c.Mechanism).Sliced:
		take(pl.ProspectsOf(Site{c.GroupKey, c.Slice}, []Member{{w, gate.PerInstance(c.Mechanism)}}), 0)
	default:
		for i := range g.Bins {
			members := slices.Clone(g.Bins[i].Members)
			SortMembers(members)
			if at := slices.IndexFunc(members, func(m Member) bool { return m.Workload == w }); at >= 0 {
				take(pl.ProspectsOf(Site{GroupKey: c.GroupKey}, members), at)
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

// Standings are the answers of a site's members; unknown says that nothing is known of the site.
func (pl *Planner) Standings(at Site, members []Member, unknown bool) []sharing.Answer {
	out := slices.Repeat([]sharing.Answer{sharing.AnswerUnknown}, len(members))
	var memory sharing.Bytes
	for _, m := range members {
		d := pl.Workloads[m.Workload].Demand()
		memory += d.Memory.Total * sharing.Bytes(m.Replicas)
		unknown = unknown || d.Memory.Unknown || !pl.complete(m.Workload, at.Pool, at.Mechanism)
	}
	total := pl.Pools[at.Pool].Memory
	if at.Slice != nil {
		total, _ = at.Slice.Memory()
	}
	if total > 0 && memory > total {
		return slices.Repeat([]sharing.Answer{sharing.AnswerNo}, len(members))
	}
	if unknown {
		return out
	}
	p := pl.ProspectsOf(at, members)
	for k := range p.Outcomes {
		out[k] = p.Outcomes[k].Kept(&pl.OutlookOf(members[k].Workload, at.Pool, at.Mechanism).Demand)
	}
	return out
}
