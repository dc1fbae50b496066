package main

import (
	"math"
	"math/rand/v2"

	"github.com/cotenant/cotenant/sharing"
)

// way is how the tenants of a GPU share it.
type way struct {
	mechanism sharing.Mechanism
	slices    []slice // MIG: by tenant
}

const (
	requestsPlayed = 700
	longestPlay    = 3600.0  // seconds
	mostPlayed     = 400_000 // events
	mostWaiting    = 400
	lengthSigma    = 0.6 // of the logarithm of a request's lengths: coefficients of variation 0.65 (out) and 1 (in) in the Azure 2023 conversation trace
)

// play runs the tenants of one GPU event by event and tells what each saw. It ends
// early when the tenants that can't keep up settle it.
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

// ready puts the tenants in the world's runners, and says how many seconds they
// are played.
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
	return rs, min(max(horizon, 60), longestPlay)
}

// crowd is how tenants slow each other down.
type crowd struct {
	mechanism sharing.Mechanism
	overhead  float64 // what taking turns costs
	alone     bool    // nobody does
}

// change works out everybody's pace when somebody's work has changed.
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

// allStuck says that nobody with requests keeps up any more.
func allStuck(rs []runner) bool {
	for i := range rs {
		if r := &rs[i]; r.rate > 0 && !r.stuck {
			return false
		}
	}
	return oneStuck(rs)
}

// oneStuck says that somebody does not keep up.
func oneStuck(rs []runner) bool {
	for i := range rs {
		if rs[i].stuck {
			return true
		}
	}
	return false
}
