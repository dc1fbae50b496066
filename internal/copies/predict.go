// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
)

// Estimate is the predicted rate and latency of copies.
type Estimate struct {
	Copies int `json:"copies"`
	// Ratio is the rate of all copies together over that of one isolated copy, with its 90% interval.
	Ratio profile.Interval `json:"ratio"`
	// Latency is the latency of a request over that of one isolated copy; zero where requests queue without end.
	Latency profile.Interval `json:"latency,omitzero"`
	// Pays is the probability that the ratio is at least paysAt.
	Pays float64 `json:"pays"`
	// Bound limits the rate: gpu, bandwidth, host, memory or load.
	Bound string `json:"bound"`
	// Measured is set where the GPU busy is this server's; otherwise it is the middle of others.
	Measured bool `json:"measured"`
}

// paysAt is the ratio from which a copy is worth its memory and its operation.
const paysAt = 1.15

// error90 is the half-width of the 90% interval on the logarithm of the ratio: the error on sources that were left out.
const error90 = 0.356

// Predict estimates the rate and latency of copies of a server. Its error names every problem of the input.
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
