// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// weigh predicts the effects of each choice of a workload, drops those that miss an objective or do not fit with
// headroom, and orders the rest by the cost of a replica.
func (pl *Planner) weigh(w int) (kept []Choice) {
	sure := false
	for i := 0; i < len(pl.Choices[w]) && pl.Opt.Err() == nil; i++ {
		if c := pl.Choices[w][i]; pl.consider(w, &c) {
			kept = append(kept, c)
			sure = sure || c.Answer == sharing.AnswerYes
		}
	}
	if sure {
		kept = slices.DeleteFunc(kept, func(c Choice) bool {
			unsure := c.Answer != sharing.AnswerYes && pl.complete(w, c.Pool, c.Mechanism)
			if unsure {
				pl.missed(w, &c, pl.Predict(Site{GroupKey: c.GroupKey}, []Member{{w, 1}}))
			}
			return unsure
		})
	} else if pl.Workloads[w].Workload().Job != nil {
		// Those that finish first: the last that would be sure if it had more time.
		takes := func(c Choice) float64 { return pl.EstimateOf(w, c.Pool, c.Mechanism).Demand.Takes.High }
		least := math.Inf(1)
		for i := range kept {
			least = min(least, takes(kept[i]))
		}
		kept = slices.DeleteFunc(kept, func(c Choice) bool { return takes(c) > least })
	}
	pl.toFinish(w, kept)
	slices.SortFunc(kept, func(a, b Choice) int {
		return cmp.Or(cmp.Compare(a.Unit+a.Longer, b.Unit+b.Longer), compareChoices(a, b))
	})
	return kept
}

// consider fills in the predictions of a choice, and reports whether it can be taken.
func (pl *Planner) consider(w int, c *Choice) bool {
	cw, cp := pl.Workloads[w], pl.Pools[c.Pool]
	if m := cw.Workload().Model; m != nil && m.Weights == "bf16" &&
		m.Weights.Converted(cp.Target().GPU()) == sharing.AnswerYes {
		pl.Banned[w][c.GroupKey] = filter.Reason{Code: codes.Precision, Verdict: filter.VerdictReject}
		return false
	}
	price := pl.Counts(pl.Rate(w, cp))
	known := pl.complete(w, c.Pool, c.Mechanism)
	accept := func(p Prediction) bool {
		return p.rate >= pl.Least[c.Pool] && (p.Answer == sharing.AnswerYes || !known && p.Answer == sharing.AnswerUnknown &&
			p.likely)
	}
	if traits.Of(c.Mechanism).Sliced {
		return pl.considerSlices(w, c, price, accept)
	}
	need, usable := pl.MemoryOf(w, c.Mechanism), pl.Usable(c.Pool, c.Mechanism)
	if c.Mechanism == sharing.MechanismExclusive {
		usable = sharing.Bytes(float64(cp.Memory) * (1 - pl.Opt.Driver))
		need = cw.Demand().Memory.Within(usable)
	}
	if cp.Memory > 0 && need > usable {
		pl.Banned[w][c.GroupKey] = filter.Reason{Code: codes.GPUMemory, Verdict: filter.VerdictReject,
			Need: int64(need), Have: int64(usable)}
		return false
	}
	p := pl.Predict(Site{GroupKey: c.GroupKey}, []Member{{w, 1}})
	if c.Mechanism == sharing.MechanismExclusive {
		c.Unit, c.Answer, c.Fits = price*float64(cw.Workload().GPUCount()), p.Answer, 1
		ok := p.Answer == sharing.AnswerYes || p.Answer == sharing.AnswerUnknown && p.likely
		if !ok {
			pl.missed(w, c, p)
		}
		return ok
	}
	if !accept(p) {
		pl.missed(w, c, p)
		return false
	}
	c.Answer = p.Answer
	c.Tenants = pl.slots(w, c)
	if s := &pl.sites[c.Pool]; s.class[c.Mechanism] == classLimited {
		if c.Tenants = min(c.Tenants, s.slots(c.Mechanism, need)); c.Tenants < 2 {
			pl.Banned[w][c.GroupKey] = filter.Reason{Code: codes.GPUMemory, Verdict: filter.VerdictReject, Need: int64(need),
				Have: int64(layout.RulesOf(s.deliveryOf(c.Mechanism)).Limit(c.Mechanism, s.gpu, 2))}
			return false
		}
	}
	// Where replicas are fewer than would fit, others may fill the GPU.
	c.Fits = max(1, pl.room(&bin{limit: c.Tenants}, w, c, min(c.Tenants, mostAlike)))
	c.Unit = price / float64(c.Fits)
	return true
}

// considerSlices is consider of the slices of a GPU: the smallest that accept takes, at a price of the whole GPU.
func (pl *Planner) considerSlices(w int, c *Choice, price float64, accept func(Prediction) bool) bool {
	inside := traits.PerInstance(c.Mechanism)
	need := pl.MemoryOf(w, c.Mechanism) * sharing.Bytes(inside)
	var last Prediction
	var smaller *filter.MIGSlice
	all := pl.Pools[c.Pool].Target().Slices()
	for i := range all {
		s := &all[i]
		if s.Memory == 0 || s.Memory < need || s.PerGPU == 0 {
			continue
		}
		last = pl.Predict(Site{c.GroupKey, s}, []Member{{w, inside}})
		if accept(last) {
			c.Slice, c.Tenants = s, s.PerGPU*inside
			c.Fits = c.Tenants
			c.Unit = price / float64(s.PerGPU*inside)
			c.Answer, c.Smaller, c.grade = last.Answer, smaller, last.grade
			return true
		}
		smaller = s
	}
	if c.Smaller = smaller; len(last.Outcomes) == 0 && len(all) > 0 { // all are too small with its context
		pl.Banned[w][c.GroupKey] = filter.Reason{Code: codes.MemorySlice, Verdict: filter.VerdictReject, Need: int64(need),
			Profile: all[len(all)-1].Profile}
	}
	pl.missed(w, c, last)
	return false
}

// missed keeps why a choice was dropped: the objective that is missed by most.
func (pl *Planner) missed(w int, c *Choice, p Prediction) {
	if len(p.Outcomes) > 0 {
		pl.Banned[w][c.GroupKey] = pl.reasonOf(w, c, p)
	}
}

// room counts the replicas of w, at most limit, that can join the members of b: by memory with headroom, trust, and the
// objectives of all.
func (pl *Planner) room(b *bin, w int, c *Choice, limit int) int {
	p, mechanism := c.Pool, c.Mechanism
	n := min(limit, min(c.Tenants, b.limit)-b.n, mostTogether-b.n)
	if need := pl.MemoryOf(w, mechanism); need > 0 && pl.Pools[p].Memory > 0 {
		n = min(n, int((pl.Usable(p, mechanism)-b.memory)/need))
	}
	// A KV cache of unknown size may take the memory that a neighbour needs.
	if pl.Workloads[w].Demand().Memory.KVPrior && !pl.Measured(w, p, mechanism) {
		n = min(n, 1-b.n)
	}
	if n <= 0 {
		return 0
	}
	for _, m := range b.Members {
		if m.Workload == w {
			continue
		}
		if traits.Of(mechanism).Trusting && !pl.Trust.trusts(m.Workload, w) {
			return 0
		}
		x, y := pl.Workloads[m.Workload].Workload().UID, pl.Workloads[w].Workload().UID
		if traits.Of(mechanism).Clients && pl.Pools[p].Pool.MPSProtocol != 3 && !x.IsZero() && !y.IsZero() && x != y {
			return 0 // an MPS server runs for one user
		}
		// What was assumed of one workload must not decide about another.
		if !pl.complete(w, p, mechanism) || !pl.complete(m.Workload, p, mechanism) {
			return 0
		}
	}
	for n > 0 && !pl.videoFits(b, w, n) {
		n--
	}
	fits := func(k int) bool {
		r := pl.Predict(Site{GroupKey: c.GroupKey}, joined(slices.Clone(b.Members), w, k))
		return r.rate >= pl.Least[p] && (r.Answer == sharing.AnswerYes ||
			r.Answer == sharing.AnswerUnknown && r.likely && !pl.complete(w, p, mechanism))
	}
	low, high := 0, n // fits(low) holds, fits(k) fails for k > high
	for step := 1; low < high; {
		k := min(low+step, high)
		if fits(k) {
			low = k
			step *= 2
			continue
		}
		high = k - 1
		step = max(1, (high-low+1)/2)
	}
	return low
}

// videoFits reports whether with n more replicas of w the use of each video engine stays below nine tenths.
func (pl *Planner) videoFits(b *bin, w, n int) bool {
	dec, enc := 0.0, 0.0
	add := func(w, n int) {
		if v := pl.Workloads[w].Workload().Video; v != nil {
			dec += v.NVDECBusy.Or(0) * float64(n)
			enc += v.NVENCBusy.Or(0) * float64(n)
		}
	}
	for _, m := range b.Members {
		add(m.Workload, m.Replicas)
	}
	add(w, n)
	return max(dec, enc) <= 0.9 || len(b.Members) == 0 && n == 1
}

// evaluate collects the choices of each workload, best first.
func (pl *Planner) evaluate() {
	pl.Choices, pl.Banned = make([][]Choice, len(pl.Workloads)), make([]map[GroupKey]filter.Reason, len(pl.Workloads))
	var c score.Scored
	for w, cw := range pl.Workloads {
		pl.Banned[w] = map[GroupKey]filter.Reason{}
		for p, cp := range pl.Pools {
			near := pl.Neighbours(w, p)
			for _, m := range sharing.Mechanisms() {
				if score.Evaluate(cw, cp, near, m, &c); c.Verdict == filter.VerdictPass {
					pl.Choices[w] = append(pl.Choices[w], Choice{GroupKey: GroupKey{p, c.Mechanism}, Slice: c.Slice(),
						Tenants: c.Tenants, Score: c.Score})
				}
			}
		}
		slices.SortFunc(pl.Choices[w], compareChoices)
	}
}

func compareChoices(a, b Choice) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.Pool, b.Pool))
}

// Refused finds a workload's objective for which another without a place may not share GPUs that are held, with the
// choice, the reason and the notes of the prediction; c is nil where there is none.
func (pl *Planner) Refused(w int) (c *Choice, of int, why filter.Reason, notes []string) {
	for i := range pl.Choices[w] {
		if c = &pl.Choices[w][i]; !traits.Of(c.Mechanism).Contends {
			continue
		}
		all := pl.Groups[GroupKey{c.Pool, sharing.MechanismExclusive}]
		if !traits.Of(c.Mechanism).Sliced {
			all = append(slices.Clone(pl.Groups[c.GroupKey]), all...)
		}
		for k := range all {
			members := joined(slices.Clone(all[k].Members), w, 1)
			memory, apart := sharing.Bytes(0), false
			for _, m := range members {
				memory += pl.MemoryOf(m.Workload, c.Mechanism) * sharing.Bytes(m.Replicas)
				apart = apart || pl.Choice(m.Workload, c.GroupKey) == nil || !pl.Trust.trusts(m.Workload, w)
			}
			if apart || memory > pl.Usable(c.Pool, c.Mechanism) {
				continue
			}
			for k, o := range pl.Predict(Site{GroupKey: c.GroupKey}, members).Outcomes {
				of = members[k].Workload
				if o.Kept(&pl.EstimateOf(of, c.Pool, c.Mechanism).Demand) != sharing.AnswerYes {
					if o.Predicted != nil {
						notes = o.Predicted.Notes
					}
					return c, of, pl.reasonOf(of, c, Prediction{Outcomes: []predict.Estimate{o}}), notes
				}
			}
		}
	}
	return nil, 0, why, nil
}
