// SPDX-License-Identifier: Apache-2.0

// Package score filters one workload against one pool: every mechanism passes the checks of decision/filter, and those
// that pass are ranked for the case that they cost the same. Nothing allocates.
package score

import (
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/sharing"
)

// Scored is one candidate: a mechanism for a workload on a pool, with the verdict of the checks.
type Scored struct {
	filter.Report
	// Score orders candidates of equal cost, the higher the better: by the isolation that the mechanism gives on the pool,
	// then by how simple it is to run, or the other way around; see [Archetype.Simple]. It is 0 for a rejected candidate.
	Score float64
}

// Profile returns the name of the candidate's MIG profile, or "".
func (s *Scored) Profile() string {
	if slice := s.Slice(); slice != nil {
		return slice.Profile.Name
	}
	return ""
}

// Evaluate filters one workload against one pool by one mechanism into c, which it overwrites. It does not allocate and
// is safe for concurrent use with different cs.
func Evaluate(w *CompiledWorkload, p *CompiledPool, nb filter.Neighbours, m sharing.Mechanism, c *Scored) {
	p.target.Check(&w.demand, m, nb, &c.Report)
	c.Score = 0
	if c.Verdict == filter.VerdictReject {
		return
	}
	isolated, simple := p.isolation[m], 1-TraitOf(m).Complexity/4
	if c.Score = 100*isolated + simple; w.Archetype.Simple {
		c.Score = 100*simple + isolated
	}
}
