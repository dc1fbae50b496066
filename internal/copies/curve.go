// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Curve holds the estimates of 1 to some copies under one mechanism.
type Curve struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Points    []Estimate        `json:"points"` // of 1 copy, 2, ...; copies without room are left out
	Best      int               `json:"best"`   // copies; 1 where no second one pays
	// Ends is the reason why the curve ends before the requested copies: "memory" where no more fit.
	Ends string `json:"ends,omitempty"`
	// Narrow names the one measurement that narrows the intervals most.
	Narrow string `json:"narrow"`
}

// NewCurve predicts 1 to most copies in a setting; q.Copies is ignored. Under MIG without SlicePart each number of
// copies runs on the largest equal instances. Best is the most copies of which each adds 0.15 of one copy's rate while
// the latency meets an objective; 0 is none. It refuses a server of which nothing is known but its rate.
func NewCurve(s Server, q Setting, most int, objective time.Duration) (Curve, error) {
	equal := q.Mechanism == sharing.MechanismMIG && q.SlicePart == 0
	if q.Copies = most; equal {
		q.SlicePart, q.Copies = 1.0/7, min(most, 7)
	}
	var l problem.List
	s.problems(&q, &l)
	l.If(!s.figured(), "", oneFigure, "nothing says how much of the GPU one copy leaves to a second")
	l.If(objective > 0 && s.Latency == 0, "latency", "give the latency of one copy",
		"is missing, so no objective can be held")
	l.If(q.GPUMemory > 0 && s.Memory > q.GPUMemory, "memory", "take a larger GPU", "one copy of %v does not fit in %v",
		s.Memory, q.GPUMemory)
	c := Curve{Mechanism: q.Mechanism, Best: 1, Narrow: s.narrow(&q)}
	if l.Len() > 0 {
		return c, l.Err()
	}
	for n := 1; n <= most; n++ {
		room := q.GPUMemory / sharing.Bytes(n)
		if equal && n <= 7 {
			room = q.GPUMemory * instanceEighths[7/n] / 8
		}
		if q.GPUMemory > 0 && s.Memory > room || equal && n > 7 {
			c.Ends = boundMemory
			break
		}
		if q.Copies = n; equal {
			q.SlicePart = float64(7/n) / 7
		}
		e := published.estimate(&s, &q, error90)
		c.Points = append(c.Points, e)
		keeps := e.Latency.Value > 0 && (objective == 0 || s.Latency.Seconds()*e.Latency.Value <= objective.Seconds())
		if n > 1 && c.Best == n-1 && keeps && e.Ratio.Value >= c.Points[n-2].Ratio.Value+paysAt-1 {
			c.Best = n
		}
	}
	return c, nil
}

// instanceEighths are the eighths of a GPU's memory that an instance of so many of its 7 compute slices has.
var instanceEighths = [8]sharing.Bytes{1: 1, 2: 2, 3: 4, 7: 8}

// figured reports whether any figure gives one copy's GPU busy.
func (s *Server) figured() bool {
	_, busy := s.Busy.Get()
	_, sm := s.SMActive.Get()
	_, bandwidth := s.Bandwidth.Get()
	return busy || sm || bandwidth || s.gpuShare() > 0 || s.HostTime > 0 && s.Latency > 0 ||
		s.SliceLatency > 0
}

// gpuShare is the part of the time that requests take the GPU, at their rate or one after another; 0 where unknown.
func (s *Server) gpuShare() float64 {
	if s.Rate == 0 && s.Latency > 0 {
		return s.GPUTime.Seconds() / s.Latency.Seconds()
	}
	return s.Rate * s.GPUTime.Seconds()
}

// narrow is the measurement of one copy, or of two, that the prediction misses most.
func (s *Server) narrow(q *Setting) string {
	_, busy := s.Busy.Get()
	_, sm := s.SMActive.Get()
	overlaps := q.Mechanism == sharing.MechanismMPS || q.Mechanism == sharing.MechanismInServer
	switch {
	case q.Mechanism == sharing.MechanismMIG && s.SliceLatency == 0:
		return "the latency of one copy on one MIG instance"
	case q.Load == LoadDivided && s.Decodes && s.Clients == 0:
		return "the requests in flight of one copy: they say what a smaller batch costs"
	case overlaps && !sm:
		return "SM activity of one copy under this load (DCGM_FI_PROF_SM_ACTIVE)"
	case !busy:
		return "GPU busy of one copy under this load (DCGM_FI_PROF_GR_ENGINE_ACTIVE, or nvidia-smi's utilization)"
	}
	return "two copies for a minute: cotenant measure -copies 1,2"
}
