package main

import (
	"math"
	"slices"
)

// seen is what a tenant saw: its P99s in seconds (+Inf where it could not keep
// up, 0 where it has no limit).
type seen struct {
	p99       [3]float64
	rate      float64 // part of its rate alone, of work that no requests drive
	saturated bool
}

// keepsRate is the part of its rate alone that work without objectives must
// keep: with less, sharing only puts it off.
const keepsRate = 0.8

// missed says whether an objective was missed: a limit, or a load that could
// not be served.
func (t *tenant) missed(s seen) bool {
	if s.saturated || t.rate == 0 && s.rate < keepsRate {
		return true
	}
	for k, limit := range t.slo {
		if limit > 0 && s.p99[k] > limit {
			return true
		}
	}
	return false
}

func (r *runner) seen() seen {
	s := seen{saturated: r.stuck}
	if r.rate == 0 {
		mean := (r.took + r.service) / float64(r.done+1)
		s.rate = (r.service + r.think) / (mean + r.think)
	}
	for k, v := range r.samples {
		if len(v) == 0 {
			continue
		}
		if r.stuck {
			s.p99[k] = math.Inf(1)
			continue
		}
		s.p99[k] = p99(v[len(v)/20:]) // the start is not the steady state
	}
	return s
}

// p99 is the P99 by nearest rank: the smallest of the values that the last
// hundredth holds.
func p99(v []float64) float64 {
	rank := min(len(v), int(math.Ceil(0.99*float64(len(v)))))
	top := make([]float64, 0, 64) // ascending
	most := len(v) - rank + 1
	for _, x := range v {
		if len(top) == most && x <= top[0] {
			continue
		}
		at, _ := slices.BinarySearch(top, x)
		if len(top) == most {
			copy(top, top[1:at])
			top[at-1] = x
			continue
		}
		top = slices.Insert(top, at, x)
	}
	return top[0]
}
