// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// oracle searches for the cheapest arrangement of a scene among plans that pass ok.
type oracle struct {
	s      *scene
	ok     func(*plan) bool // expensive; asked once for each plan
	passed map[string]bool
	fits   map[fitKey]*mig.Profile
	bad    []plan // refuted, without slices
}

type fitKey struct{ workload, pool int }

func newOracle(s *scene, ok func(*plan) bool) *oracle {
	return &oracle{s: s, ok: ok, passed: map[string]bool{}, fits: map[fitKey]*mig.Profile{}}
}

func (o *oracle) keeps(p *plan) bool {
	k := p.key()
	v, known := o.passed[k]
	if !known {
		v = o.ok(p)
		o.passed[k] = v
	}
	return v
}

// profile is the smallest MIG profile on which a workload keeps its objectives, or nil.
func (o *oracle) profile(w, pool int) *mig.Profile {
	key := fitKey{w, pool}
	if p, known := o.fits[key]; known {
		return p
	}
	o.fits[key] = nil
	for _, p := range o.s.profiles[pool] {
		if pl := o.s.alone(w, pool, sharing.MechanismMIG, p.Name); o.keeps(&pl) {
			o.fits[key] = p
			break
		}
	}
	return o.fits[key]
}

// alone is a plan of one replica.
func (s *scene) alone(w, pool int, m sharing.Mechanism, profile string) plan {
	p := plan{pool: pool, mechanism: m, counts: make([]int, len(s.full.Workloads))}
	p.counts[w] = 1
	if profile != "" {
		p.profiles = make([]string, len(p.counts))
		p.profiles[w] = profile
	}
	return p
}

// feasible reports whether a workload's objectives are kept on a GPU of its own, of some pool.
func (o *oracle) feasible(w int) bool {
	for pool := range o.s.gpus {
		if p := o.s.alone(w, pool, sharing.MechanismExclusive, ""); o.keeps(&p) {
			return true
		}
	}
	return false
}

// Sizes up to which every arrangement is considered, and the most tenants on a GPU.
const (
	exhaustiveWorkloads = 4
	exhaustiveReplicas  = 12
	mostTogether        = 8
)

// exhaustive reports whether the search for these workloads is exact.
func (s *scene) exhaustive(in []bool) bool {
	n, replicas := 0, 0
	for i, yes := range in {
		if yes {
			n++
			replicas += s.full.Workloads[i].Replicas.Max
		}
	}
	return n <= exhaustiveWorkloads && replicas <= exhaustiveReplicas
}

// cheapest returns the cheapest arrangement of the workloads in the set, a set cover by cutting planes. A GPU's price
// does not depend on its tenants, so only the maximal sets of tenants that a GPU may bear are candidates; one is
// simulated when the cheapest cover uses it, and where that refutes it the sets with one tenant fewer take its place.
func (o *oracle) cheapest(in []bool) (arrangement, bool) {
	need := make([]int, len(in))
	for i, yes := range in {
		if yes {
			need[i] = o.s.full.Workloads[i].Replicas.Max
		}
	}
	var front []candidate
	for pool := range o.s.gpus {
		front = append(front, o.largest(pool, need)...)
	}
	for {
		used := cover(o.s, need, front)
		if used == nil {
			return nil, false
		}
		refuted := map[int]bool{}
		var best arrangement
		for _, k := range used {
			if p := o.bear(front[k]); p != nil {
				best = append(best, *p)
			} else {
				refuted[k] = true
			}
		}
		if len(refuted) == 0 {
			return best, true
		}
		front = o.shrink(front, refuted)
	}
}

// candidate is a set of tenants that a GPU of a pool may bear.
type candidate struct {
	pool   int
	counts []int
}

// ways orders the mechanisms as they are tried.
var ways = []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismMIG, sharing.MechanismMPS,
	sharing.MechanismTimeSlicing}

// quickly orders the same mechanisms by the time of checking them.
var quickly = []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismTimeSlicing, sharing.MechanismExclusive,
	sharing.MechanismMIG}

// plan returns the candidate under one mechanism, and false where that is impossible.
func (o *oracle) plan(c candidate, m sharing.Mechanism) (plan, bool) {
	p := plan{pool: c.pool, mechanism: m, counts: c.counts}
	n := p.replicas()
	if (m == sharing.MechanismExclusive) != (n == 1) && m != sharing.MechanismMIG {
		return p, false
	}
	if m == sharing.MechanismMIG {
		if len(o.s.profiles[c.pool]) == 0 {
			return p, false
		}
		p.profiles = make([]string, len(c.counts))
		for w, n := range c.counts {
			if n == 0 {
				continue
			}
			prof := o.profile(w, c.pool)
			if prof == nil {
				return p, false
			}
			p.profiles[w] = prof.Name
		}
	}
	return p, p.allowed(o.s) && o.room(&p)
}

// bear returns the first plan under which the candidate's tenants keep their objectives, nil if there is none.
func (o *oracle) bear(c candidate) *plan {
	for _, m := range ways {
		p, ok := o.plan(c, m)
		if !ok {
			continue
		}
		if m == sharing.MechanismMIG || !o.refutes(&p) && o.keeps(&p) {
			return &p
		}
		if m != sharing.MechanismMIG {
			o.bad = append(o.bad, p)
		}
	}
	return nil
}

// refutes reports whether a part of the plan is known to fail.
func (o *oracle) refutes(p *plan) bool {
	return slices.ContainsFunc(o.bad, func(b plan) bool {
		return b.pool == p.pool && b.mechanism == p.mechanism && holds(p.counts, b.counts)
	})
}

// holds reports whether a has at least what b has of everything: what b's tenants can't bear, a's can't.
func holds(a, b []int) bool {
	for i := range a {
		if a[i] < b[i] {
			return false
		}
	}
	return true
}

// largest lists the sets of tenants of a pool's GPU that memory, load and trust
// leave possible and that no other such set holds.
func (o *oracle) largest(pool int, need []int) []candidate {
	var all []candidate
	c := candidate{pool, make([]int, len(need))}
	var grow func(from, n int)
	grow = func(from, n int) {
		for w := from; w < len(need) && n < mostTogether; w++ {
			if c.counts[w] >= need[w] {
				continue
			}
			c.counts[w]++
			if slices.ContainsFunc(quickly, func(m sharing.Mechanism) bool { _, ok := o.plan(c, m); return ok }) {
				all = append(all, candidate{pool, slices.Clone(c.counts)})
				grow(w, n+1)
			}
			c.counts[w]--
		}
	}
	grow(0, 0)
	return maximal(nil, all)
}

// maximal adds to a front the candidates that no other of their pool includes.
func maximal(front, more []candidate) []candidate {
	slices.SortStableFunc(more, func(a, b candidate) int { return sum(b.counts) - sum(a.counts) })
	for _, c := range more {
		if !slices.ContainsFunc(front, func(f candidate) bool { return f.pool == c.pool && holds(f.counts, c.counts) }) {
			front = append(front, c)
		}
	}
	return front
}

func sum(v []int) int {
	n := 0
	for _, x := range v {
		n += x
	}
	return n
}

// shrink puts the sets with one tenant fewer in the place of those refuted.
func (o *oracle) shrink(front []candidate, refuted map[int]bool) []candidate {
	var keep, less []candidate
	for k, c := range front {
		if !refuted[k] {
			keep = append(keep, c)
			continue
		}
		for w := range c.counts {
			if c.counts[w] > 0 && sum(c.counts) > 1 {
				next := candidate{c.pool, slices.Clone(c.counts)}
				next.counts[w]--
				less = append(less, next)
			}
		}
	}
	return maximal(keep, less)
}

// room reports whether the plan could fit by the stated memory and load.
func (o *oracle) room(p *plan) bool {
	g := o.s.gpus[p.pool]
	if p.mechanism == sharing.MechanismMIG {
		return p.placeable(g)
	}
	memory, busy := 0.0, 0.0
	for i, n := range p.counts {
		w := &o.s.full.Workloads[i]
		memory += float64(n) * 0.9 * float64(w.MemoryNeed().Total)
		if own, stated := w.GPUBusy.Get(); stated {
			busy += float64(n) * 0.8 * own * min(1, timesOn(w, g, 0), timesOn(w, g, 1))
		}
	}
	return memory <= float64(g.Memory.Value) && (busy <= 1 || p.replicas() == 1)
}

// cover returns the candidates that serve the need at least cost, or nil: dynamic
// programming over what is left to place. A candidate may have more than that.
func cover(s *scene, need []int, front []candidate) []int {
	size := 1
	stride := make([]int, len(need))
	for i, n := range need {
		stride[i] = size
		size *= n + 1
	}
	costs, with, from := make([]float64, size), make([]int, size), make([]int, size)
	left := make([]int, len(need))
	more := make([][]float64, len(s.gpus))
	for pool := range more {
		for w := range need {
			more[pool] = append(more[pool], s.longer(w, pool))
		}
	}
	for at := 1; at < size; at++ {
		costs[at] = math.Inf(1)
		lead := -1
		for i := range need {
			left[i] = at / stride[i] % (need[i] + 1)
			if left[i] > 0 && lead < 0 {
				lead = i
			}
		}
		for k := range front {
			c := &front[k]
			if c.counts[lead] == 0 {
				continue
			}
			next, longer := at, 0.0
			for i, n := range c.counts {
				next -= min(n, left[i]) * stride[i]
				longer += float64(min(n, left[i])) * more[c.pool][i]
			}
			if v := s.prices[c.pool] + longer + costs[next]; v < costs[at] {
				costs[at], with[at], from[at] = v, k, next
			}
		}
	}
	if math.IsInf(costs[size-1], 1) {
		return nil
	}
	var out []int
	for at := size - 1; at > 0; at = from[at] {
		out = append(out, with[at])
	}
	return out
}
