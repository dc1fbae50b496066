// SPDX-License-Identifier: Apache-2.0

// Package score filters and scores one workload against one pool: every mechanism passes the gates of decision/gate
// and is weighed on criteria; their raw, normalised and weighted parts are kept with the score. Nothing allocates,
// for schedulers.
//
// Experimental: its API may change.
package score

import (
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Scored is one candidate: a mechanism for a workload on a pool, as the gates and the criteria judge it.
type Scored struct {
	gate.Report
	// Score is 0 to 100, for every candidate that is not rejected.
	Score float64
	// Raw, Normalised and Weighted are the parts of the score by Criterion; Weighted sums to Score/100.
	Raw, Normalised, Weighted [fleet.CriterionCount]float64
}

// Profile returns the name of the candidate's MIG profile, or "".
func (s *Scored) Profile() string {
	if slice := s.Slice(); slice != nil {
		return slice.Profile.Name
	}
	return ""
}

// Evaluation holds every mechanism's candidate for one workload on one pool, in the order of sharing.Mechanisms.
type Evaluation struct {
	Candidates [sharing.MechanismCount - 1]Scored

	computed bool // it has objectives, which the gates only estimate
}

// Best returns the candidate that Decide would choose for the workload alone on empty
// GPUs of the pool, where the gates tell: the only one that none rejects, if it has no
// objective that has to be computed. Else it is nil, and only Decide can tell.
func (e *Evaluation) Best() *Scored {
	var only *Scored
	for i := range e.Candidates {
		switch c := &e.Candidates[i]; {
		case c.Verdict == gate.VerdictReject:
		case only != nil || c.Verdict != gate.VerdictPass || e.computed:
			return nil
		default:
			only = c
		}
	}
	return only
}

// Foremost returns the passing candidate with the highest score, or nil. Of equal scores
// the first mechanism wins.
func (e *Evaluation) Foremost() *Scored {
	var best *Scored
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Verdict == gate.VerdictPass && (best == nil || c.Score > best.Score) {
			best = c
		}
	}
	return best
}

// Evaluate filters and scores one workload against one pool into ev, which it overwrites. It does not allocate and
// is safe for concurrent use with different evs.
func Evaluate(w *CompiledWorkload, p *CompiledPool, nb gate.Neighbours, ev *Evaluation) {
	ev.computed = w.workload.SLO != (profile.SLO{})
	for i := range ev.Candidates {
		EvaluateMechanism(w, p, nb, sharing.Mechanism(i+1), &ev.Candidates[i])
	}
}

// EvaluateMechanism is Evaluate of one mechanism, into c, which it overwrites.
func EvaluateMechanism(w *CompiledWorkload, p *CompiledPool, nb gate.Neighbours, m sharing.Mechanism, c *Scored) {
	p.ground.Check(&w.demand, m, nb, &c.Report)
	c.Score = 0
	if c.Verdict == gate.VerdictReject {
		clear(c.Raw[:])
		clear(c.Normalised[:])
		clear(c.Weighted[:])
		return
	}
	score(w, p, c)
}

// score fills the parts of the score; see anchors.
func score(w *CompiledWorkload, p *CompiledPool, c *Scored) {
	t := TraitOf(c.Mechanism)
	c.Raw[fleet.CriterionIsolation] = p.isolationMu[c.Mechanism]
	c.Raw[fleet.CriterionLatency] = c.Slowdown.Value
	if s := c.Slice(); s != nil {
		c.Raw[fleet.CriterionLatency] *= s.Slowdown(&w.demand)
	}
	c.Raw[fleet.CriterionThroughput] = t.Aggregate
	c.Raw[fleet.CriterionCost] = 1 / float64(c.Tenants)
	c.Raw[fleet.CriterionComplexity] = t.Complexity
	c.Raw[fleet.CriterionDensity] = float64(c.Tenants)
	total := 0.0
	for i := range fleet.CriterionCount {
		a := anchors[i]
		c.Normalised[i] = min(1, max(0, (c.Raw[i]-a.zero)/(a.one-a.zero))) // values beyond the anchors are cut off
		c.Weighted[i] = c.Normalised[i] * w.Weights[i]
		total += c.Weighted[i]
	}
	c.Score = 100 * total
}

// anchors are the raw values that count 0 and 1. They are fixed, so that a
// score means the same whatever the other candidates are.
var anchors = [fleet.CriterionCount]struct{ zero, one float64 }{
	fleet.CriterionIsolation:  {0, 1},
	fleet.CriterionLatency:    {4, 1},
	fleet.CriterionThroughput: {0.5, 2},
	fleet.CriterionCost:       {1, 1.0 / 7},
	fleet.CriterionComplexity: {4, 0},
	fleet.CriterionDensity:    {1, 7},
}
