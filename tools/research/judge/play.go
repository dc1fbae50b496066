// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// way is a mechanism by which the tenants of a GPU share it.
type way struct {
	mechanism sharing.Mechanism
	slices    []slice // MIG: by tenant
}

const (
	requestsPlayed = 700     // of the slowest tenant
	shortestPlay   = 60.0    // seconds
	longestPlay    = 3600.0  // seconds
	mostPlayed     = 400_000 // events
	mostWaiting    = 400     // requests, with more of which a tenant is saturated
)

// play simulates the tenants of one GPU event by event, as processor sharing weighted by their GPU work. It ends
// early when settled says that the saturated tenants decide the outcome.
func play(tenants []*tenant, how way, w *world, settled func([]runner) bool) []seen {
	rs, horizon := w.ready(tenants, how)
	c := crowd{overhead: w.fleet["turns_overhead"], mechanism: how.mechanism, alone: how.slices != nil || len(rs) == 1}
	for now, events := 0.0, 0; now < horizon && events < mostPlayed; events++ {
		at, who, arrives := math.Inf(1), -1, false
		for i := range rs {
			r := &rs[i]
			if r.next < at {
				at, who, arrives = r.next, i, true
			}
			if r.ends < at {
				at, who, arrives = r.ends, i, false
			}
		}
		if who < 0 {
			break
		}
		now = at
		r := &rs[who]
		if arrives {
			if !r.arrive(now) {
				if r.stuck && settled(rs) {
					break
				}
				continue
			}
		} else {
			r.finish(now)
		}
		weight := r.weight
		if r.begin(now); r.weight != weight {
			c.change(rs, now)
		}
		if r.stuck && settled(rs) {
			break
		}
	}
	out := make([]seen, len(rs))
	for i := range rs {
		out[i] = rs[i].seen()
	}
	return out
}

// ready puts the tenants in the world's runners, and returns for how many seconds to simulate them.
func (w *world) ready(tenants []*tenant, how way) (rs []runner, horizon float64) {
	for len(*w.stage) < len(tenants) {
		*w.stage = append(*w.stage, runner{})
	}
	rs = (*w.stage)[:len(tenants)]
	for i, t := range tenants {
		if w.fates[t.workload] == nil {
			w.fates[t.workload] = fateOf(rand.New(rand.NewPCG(w.seed, uint64(t.workload))), t)
		}
		var s *slice
		if how.slices != nil {
			s = &how.slices[i]
		}
		blocking := 1.0
		if how.mechanism == sharing.MechanismMPS {
			blocking = w.fleet["mps_blocking"] * t.sm
		}
		rs[i].ready(t, w.fates[t.workload], i, s, how.mechanism == sharing.MechanismMPS, blocking)
		if t.rate > 0 {
			horizon = max(horizon, requestsPlayed/t.rate)
		}
	}
	return rs, min(max(horizon, shortestPlay), longestPlay)
}

// crowd computes how far tenants slow each other down.
type crowd struct {
	mechanism sharing.Mechanism
	overhead  float64 // cost of taking turns, a fraction
	alone     bool    // no tenant has a neighbour on its part of the GPU
}

// change updates every tenant's pace after the work of one has changed.
func (c *crowd) change(rs []runner, now float64) {
	if c.alone {
		return
	}
	total := 0.0
	for i := range rs {
		total += rs[i].weight
	}
	for i := range rs {
		r := &rs[i]
		crowd := 1.0
		if others := total - r.weight; others > 0 {
			crowd += others
			if c.mechanism != sharing.MechanismMPS {
				crowd *= 1 + c.overhead
			}
		}
		r.retime(now, crowd)
	}
}

// allStuck reports whether every tenant with requests is saturated, and one is.
func allStuck(rs []runner) bool {
	return !slices.ContainsFunc(rs, func(r runner) bool { return r.rate > 0 && !r.stuck }) && oneStuck(rs)
}

// oneStuck reports whether a tenant is saturated.
func oneStuck(rs []runner) bool {
	return slices.ContainsFunc(rs, func(r runner) bool { return r.stuck })
}

// seen holds what a tenant saw: its P99s in seconds (+Inf where it could not keep up, 0 where it has no limit).
type seen struct {
	p99       [3]float64
	rate      float64 // fraction of its rate alone, of work that no requests drive
	saturated bool
}

// keepsRate is the fraction of its rate alone that work without objectives must
// keep: with less, sharing only puts it off.
const keepsRate = 0.8

func (r *runner) seen() seen {
	s := seen{saturated: r.stuck}
	if r.rate == 0 {
		mean := (r.took + r.service) / float64(r.done+1)
		s.rate = (r.service + r.think) / (mean + r.think)
	}
	for k, v := range r.samples {
		switch {
		case len(v) == 0:
		case r.stuck:
			s.p99[k] = math.Inf(1)
		default:
			v = v[len(v)/20:] // the start is not the steady state
			slices.Sort(v)
			s.p99[k] = stats.NearestRank(v, 0.99)
		}
	}
	return s
}

// miss says which objective was missed: a limit, a rate, or a load that could not be served; "" is none.
func (t *tenant) miss(s seen) string {
	if s.saturated {
		return "could not keep up with its load"
	}
	if t.rate == 0 && s.rate < keepsRate {
		return fmt.Sprintf("got %.0f%% of its rate alone", 100*s.rate)
	}
	for k, limit := range t.slo {
		if limit > 0 && s.p99[k] > limit {
			return fmt.Sprintf("%s %.1f ms > %.1f", metricNames[k], 1e3*s.p99[k], 1e3*limit)
		}
	}
	return ""
}
