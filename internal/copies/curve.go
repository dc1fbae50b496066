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
