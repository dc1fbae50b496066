// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/objective"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/sharing"
)

// physics is the law by which a mechanism's tenants get along.
func physics(m sharing.Mechanism) sharing.Mechanism {
	t := traits.Of(m)
	switch {
	case t.Sliced && !t.Contends:
		return sharing.MechanismMIG
	case !t.Contends:
		return sharing.MechanismExclusive
	case t.TimeSlices:
		return sharing.MechanismTimeSlicing
	}
	return sharing.MechanismMPS
}

// Predict predicts the figures of members, in the order of their workloads, that share a site; the answers are cached.
func (pl *Planner) Predict(s Site, members []Member) Prediction {
	key := binary.AppendUvarint(make([]byte, 0, 8+8*len(members)), uint64(pl.alike[s.Pool]))
	key = append(key, byte(physics(s.Mechanism)))
	key = strconv.AppendBool(key, slices.ContainsFunc(members, func(m Member) bool {
		return pl.Measured(m.Workload, s.Pool, s.Mechanism)
	}))
	if s.Slice != nil {
		key = append(key, s.Slice.Profile.Name...)
	}
	key = append(key, 0) // ends the name
	for _, m := range members {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(m.Workload)), uint64(m.Replicas))
	}
	if r, ok := pl.Seen[string(key)]; ok {
		return r
	}
	r := pl.compute(s, members, -1)
	pl.Seen[string(key)] = r
	return r
}

// compute predicts members' figures. Lengths of the requests to workload uneven, where their spread is not stated,
// spread a standard deviation farther than the prior of traces; -1 = none.
func (pl *Planner) compute(s Site, members []Member, uneven int) Prediction {
	if pl.Opt.Err() != nil {
		return Prediction{} // Plan returns the error
	}
	share := predict.Share{Mechanism: physics(s.Mechanism), SMs: 1, Bandwidth: 1}
	if s.Slice != nil {
		share.SMs, share.Bandwidth = s.Slice.Shares()
	}
	var tenants []predict.Tenant
	var first []int
	for _, m := range members {
		first = append(first, len(tenants))
		d := pl.EstimateOf(m.Workload, s.Pool, s.Mechanism).Demand
		if m.Workload == uneven && d.Serving != nil {
			v := *d.Serving
			v.LengthSigma = cmp.Or(v.LengthSigma, costs.Priors[costs.LengthSigma].Shifted(1))
			d.Serving = &v
		}
		tenants = append(tenants, slices.Repeat([]predict.Tenant{d}, m.Replicas)...)
	}
	var by *predict.Evaluator
	if pl.Evidence != nil {
		by = pl.Evidence.evaluator
	}
	machine := predict.MachineOf(pl.Pools[s.Pool].Target().GPU())
	all := by.Evaluate(machine, share, tenants, pl.Opt.Confidence)
	r := Prediction{Answer: sharing.AnswerYes, likely: true, Tenants: len(tenants), rate: 1}
	for k, m := range members {
		o := all[first[k]]
		d := &tenants[first[k]]
		if !d.Serves() {
			r.rate = min(r.rate, o.Rate.Low)
		}
		if s.Mechanism != sharing.MechanismExclusive {
			by := pl.slower(d, &o, s.Pool, m.Workload)
			// The grade of a replica is 1 where it keeps KeepsRate, and larger in equal steps where it is slower: smaller
			// differences do not decide between mechanisms.
			if r.slow += float64(m.Replicas) * by; !pl.Opt.Running {
				r.grade += m.Replicas * max(1, int(math.Ceil(by/(1/KeepsRate-1))))
			}
		}
		r.likely = r.likely && o.Likely(d)
		r.Outcomes = append(r.Outcomes, o)
		if kept := o.Kept(d); kept == sharing.AnswerNo || r.Answer == sharing.AnswerYes {
			r.Answer = kept
		}
	}
	return r
}

// slower returns the added time of a tenant over isolation on a GPU of the pool, 1 = as long again: of a server by its
// limited latencies or, without limits, by its busy share.
func (pl *Planner) slower(d *predict.Tenant, o *predict.Estimate, pool, w int) float64 {
	if !d.Serves() {
		return 1/o.Rate.Value - 1
	}
	isolated := pl.Predict(Site{GroupKey: GroupKey{Pool: pool, Mechanism: sharing.MechanismExclusive}},
		[]Member{{w, 1}}).Outcomes
	if len(isolated) == 0 {
		return 0
	}
	ratio := 0.0
	for k, limit := range d.Limits {
		if was := isolated[0].P99[k].Value; limit > 0 && was > 0 {
			ratio = max(ratio, o.P99[k].Value/was)
		}
	}
	if ratio == 0 && isolated[0].Busy.Value > 0 {
		ratio = o.Busy.Value / isolated[0].Busy.Value
	}
	return max(0, min(ratio, slowest)-1)
}

// slowest bounds the ratio of a server that does not keep up.
const slowest = 10

// reasonOf returns a reason that names the figure of workload w which is furthest beyond its limit.
func (pl *Planner) reasonOf(w int, c *Choice, p Prediction) filter.Reason {
	o := &p.Outcomes[0]
	d := &pl.EstimateOf(w, c.Pool, c.Mechanism).Demand
	why, worst := filter.Reason{Code: codes.SlowdownUnknown, Verdict: filter.VerdictReject}, 0.0
	missed := func(k int) filter.Reason {
		r := objective.Missed(k, o.P99[k], d.Limits[k])
		if slo := &pl.Workloads[w].Workload().SLO; k == predict.LatencyTPOT && slo.TPOTP99.IsZero() {
			r.Metric = profile.MetricTPOTP50 // the only limit on the time of a token
		}
		return r
	}
	for k, limit := range d.Limits {
		if limit > 0 && o.P99[k].High/limit > worst {
			worst = o.P99[k].High / limit
			why = missed(k)
			if o.Floor[k] > limit {
				why = objective.Impossible(k, o.Floor[k], limit)
				if c.Smaller != nil {
					why.Profile = c.Smaller.Profile
				}
			}
		}
	}
	for k, limit := range d.Limits { // a limit that the median misses comes before a figure without a bound
		if v := o.P99[k]; limit > 0 && v.Value > limit && !math.IsInf(v.Value, 1) && math.IsInf(v.High, 1) {
			return missed(k)
		}
	}
	if end := o.Finish(d); d.Deadline > 0 && end.High > d.Deadline {
		return objective.Late(end, d.Deadline)
	}
	switch {
	case !d.Serves() && o.Rate.Low < pl.Least[c.Pool] && o.Rate.Low > 0:
		why = objective.Slowed(o.Rate, pl.Least[c.Pool])
	case d.Limits == [predict.LatencyCount]float64{} || o.Busy.High >= 1 && worst <= 1 || math.IsInf(worst, 1):
		why = objective.Overloaded(o.Busy.Value)
	}
	return why
}

// Worst returns the prediction of workload w on the GPU where they are worst, with its own outcome only, and the choice
// that led there. With uneven, lengths of its requests that are not stated spread a standard deviation farther than the
// prior of traces.
func (pl *Planner) Worst(w int, uneven bool) (worst Prediction, at *Choice) {
	worst, at = Prediction{Answer: sharing.AnswerYes}, pl.Chosen(w)
	most := 0.0
	look := func(c *Choice, slice *filter.MIGSlice, members []Member) {
		k := slices.IndexFunc(members, func(m Member) bool { return m.Workload == w })
		p := pl.Predict(Site{c.GroupKey, slice}, members)
		if uneven {
			p = pl.compute(Site{c.GroupKey, slice}, members, w)
		}
		if len(p.Outcomes) == 0 {
			return
		}
		d, o := &pl.EstimateOf(w, c.Pool, c.Mechanism).Demand, p.Outcomes[k]
		if s := strain(d, &o); len(worst.Outcomes) == 0 || s > most {
			worst, at, most = Prediction{Answer: o.Kept(d), Outcomes: []predict.Estimate{o}, Tenants: p.Tenants}, c, s
		}
	}
	for _, place := range pl.Places[w] {
		c := place.Choice
		switch {
		case c.Mechanism == sharing.MechanismExclusive:
			look(c, nil, []Member{{w, 1}})
		case traits.Of(c.Mechanism).Sliced:
			look(c, c.Slice, []Member{{w, traits.PerInstance(c.Mechanism)}})
		default:
			for _, g := range pl.Groups[c.GroupKey] {
				if has(g.Members, w) {
					look(c, nil, g.Members)
				}
			}
		}
	}
	return worst, at
}

// strain relates an outcome to a demand's limits: 1 = at one.
func strain(d *predict.Tenant, o *predict.Estimate) float64 {
	s := o.Busy.High
	if !d.Serves() {
		s = KeepsRate / max(1e-9, o.Rate.Low)
	}
	if d.Deadline > 0 {
		s = max(s, o.Finish(d).High/d.Deadline)
	}
	for k, limit := range d.Limits {
		if limit > 0 {
			s = max(s, o.P99[k].High/limit)
		}
	}
	return s
}

// AnswersAt are the answers of a site's members; unknown says that nothing is known of the site.
func (pl *Planner) AnswersAt(at Site, members []Member, unknown bool) []sharing.Answer {
	out := slices.Repeat([]sharing.Answer{sharing.AnswerUnknown}, len(members))
	var memory sharing.Bytes
	for _, m := range members {
		d := pl.Workloads[m.Workload].Demand()
		memory += d.Memory.Total * sharing.Bytes(m.Replicas)
		unknown = unknown || d.Memory.Unknown || !pl.complete(m.Workload, at.Pool, at.Mechanism)
	}
	total := pl.Pools[at.Pool].Memory
	if at.Slice != nil {
		total = at.Slice.Memory
	}
	if total > 0 && memory > total {
		return slices.Repeat([]sharing.Answer{sharing.AnswerNo}, len(members))
	}
	if unknown {
		return out
	}
	p := pl.Predict(at, members)
	for k := range p.Outcomes {
		out[k] = p.Outcomes[k].Kept(&pl.EstimateOf(members[k].Workload, at.Pool, at.Mechanism).Demand)
	}
	return out
}
