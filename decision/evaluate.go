package decision

import (
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Scored is one candidate: a mechanism for a workload on a pool, as the gates and the criteria judge it.
type Scored struct {
	gate.Report
	// Score is 0 to 100 and stands for every candidate that is not rejected.
	Score float64
	// Raw, Normalised and Weighted are the parts of the score by Criterion; Weighted sums to Score/100.
	Raw, Normalised, Weighted [CriterionCount]float64
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

// foremost returns the passing candidate with the highest score, or nil. Equal scores
// go to the mechanism that stands first.
func (e *Evaluation) foremost() *Scored {
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
		evaluate(w, p, nb, sharing.Mechanism(i+1), &ev.Candidates[i])
	}
}

func evaluate(w *CompiledWorkload, p *CompiledPool, nb gate.Neighbours, m sharing.Mechanism, c *Scored) {
	p.ground.Check(&w.demand, m, nb, &c.Report)
	c.Score = 0
	if c.Verdict == gate.VerdictReject {
		c.Raw, c.Normalised, c.Weighted = [CriterionCount]float64{}, [CriterionCount]float64{}, [CriterionCount]float64{}
		return
	}
	score(w, p, c)
}

// score fills the parts of the score; see anchors.
func score(w *CompiledWorkload, p *CompiledPool, c *Scored) {
	t := traitOf(c.Mechanism)
	c.Raw[CriterionIsolation] = p.isolationMu[c.Mechanism]
	c.Raw[CriterionLatency] = c.Slowdown.Value
	if s := c.Slice(); s != nil {
		c.Raw[CriterionLatency] *= s.Slowdown(&w.demand)
	}
	c.Raw[CriterionThroughput] = t.aggregate
	c.Raw[CriterionCost] = 1 / float64(c.Tenants)
	c.Raw[CriterionComplexity] = t.complexity
	c.Raw[CriterionDensity] = float64(c.Tenants)
	total := 0.0
	for i := range CriterionCount {
		c.Normalised[i] = normalise(Criterion(i), c.Raw[i])
		c.Weighted[i] = c.Normalised[i] * w.weights[i]
		total += c.Weighted[i]
	}
	c.Score = 100 * total
}

// anchors are the raw values that count 0 and 1. They are fixed, so that a
// score means the same whatever the other candidates are.
var anchors = [CriterionCount]struct{ zero, one float64 }{
	CriterionIsolation:  {0, 1},
	CriterionLatency:    {4, 1},
	CriterionThroughput: {0.5, 2},
	CriterionCost:       {1, 1.0 / 7},
	CriterionComplexity: {4, 0},
	CriterionDensity:    {1, 7},
}

// normalise places a raw value between the criterion's anchors; values beyond them are cut off.
func normalise(c Criterion, raw float64) float64 {
	a := anchors[c]
	n := (raw - a.zero) / (a.one - a.zero)
	return min(1, max(0, n))
}
