// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"math"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Curve holds the estimates for increasing numbers of copies under one mechanism.
type Curve struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Points    []Estimate        `json:"points"` // for 1, 2, ... copies; numbers without room are left out
	Best      int               `json:"best"`   // best number of copies; 1 if no second one pays
	// Ends is the reason why the curve ends before the requested copies: "memory" if no more fit.
	Ends string `json:"ends,omitempty"`
	// Narrow names the measurement that narrows the intervals most.
	Narrow string `json:"narrow"`
}

// NewCurve predicts 1 to most copies in a setting; q.Copies is ignored. Under MIG without SlicePart each number of
// copies runs on the largest equal instances. Best is the largest number of copies of which each adds at least 0.15 of
// one copy's rate while the latency meets objective (0 = none). A server with only a rate is an error.
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

// Estimate is the predicted rate and latency of a number of copies.
type Estimate struct {
	Copies int `json:"copies"`
	// Ratio is the rate of all copies together over that of one isolated copy, with its 90% interval.
	Ratio profile.Interval `json:"ratio"`
	// Latency is the latency of a request over that of one isolated copy; zero if requests queue without bound.
	Latency profile.Interval `json:"latency,omitzero"`
	// Pays is the probability that Ratio is at least 1.15.
	Pays float64 `json:"pays"`
	// Bound limits the rate: gpu, bandwidth, host, memory or load.
	Bound string `json:"bound"`
	// Measured is set if the estimate uses this server's GPU utilization; otherwise a typical one of other servers.
	Measured bool `json:"measured"`
}

// paysAt is the ratio from which a copy is worth its memory and its operation.
const paysAt = 1.15

// error90 is the half-width of the 90% interval on the logarithm of the ratio: the error on sources that were left out.
const error90 = 0.356

// Predict estimates the rate and latency of copies of a server. The error names every problem of the input.
func Predict(s Server, q Setting) (Estimate, error) {
	var l problem.List
	s.problems(&q, &l)
	if err := l.Err(); err != nil {
		return Estimate{}, err
	}
	return published.estimate(&s, &q, error90), nil
}

// estimate is the law's with an interval of a half-width on the logarithm.
func (l *law) estimate(s *Server, q *Setting, half float64) Estimate {
	e := Estimate{Copies: q.Copies, Measured: l.demand(s).measured}
	n, latency := float64(q.Copies), 1.0
	var r float64
	if q.Load == LoadOpen {
		r, latency, e.Bound = l.open(s, q)
	} else {
		r, e.Bound = l.ratio(s, q)
		if latency = n / r; q.Load == LoadDivided {
			latency = 1 / r
		}
	}
	w := math.Exp(half)
	if isolated(q) {
		w = 1
	}
	e.Ratio = profile.Interval{Value: r, Low: r / w, High: min(r*w, max(n, r))}
	e.Latency = profile.Interval{Value: latency, Low: latency / w, High: latency * w}
	if w == 1 {
		return e
	}
	e.Pays = math.Erfc(math.Log(paysAt/r)/(half/1.645)/math.Sqrt2) / 2
	return e
}
