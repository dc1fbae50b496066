// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/codes"
)

// KeepsRate is the part of its isolated rate that work without latency objectives keeps on a shared GPU. It is a
// preference: where replicas would wait for a place, GPUs are shared more closely.
const KeepsRate = 0.8

// The rates that are tried in pools for which replicas wait, and those in fleets of more than closelyUpTo workloads; in
// fleets of more than closerUpTo none is.
const closelyUpTo, closerUpTo = 40, 200

var closer, closerOfMany = []float64{0.72, 0.65, 0.58, 0.5, 0.42, 0.35, 0.28, 0.2, 0.1, 0.02}, []float64{0.4, 0.02}

// placement counts the replicas that have a place, by priority.
type placement [fleet.Priorities]int32

// compare is positive where p places more replicas of the highest priority in which they differ.
func (p *placement) compare(o *placement) int {
	for k := len(p) - 1; k >= 0; k-- {
		if c := cmp.Compare(p[k], o[k]); c != 0 {
			return c
		}
	}
	return 0
}

// worth is a number of replicas of which those of higher priorities count somewhat more.
func (p *placement) worth() (sum float64) {
	for k, n := range p {
		sum += float64(n) * (1 + float64(k)/fleet.Priorities)
	}
	return sum
}

// placementOf counts placed replicas, by workload, by their priorities.
func (pl *Planner) placementOf(placed []int) (p placement) {
	for w, n := range placed {
		p[pl.Workloads[w].Workload().Precedence()] += int32(n)
	}
	return p
}

// Plan finds the choices of each workload and arranges the fleet. Where replicas are left without a place, GPUs of the
// pools that they could use are shared more closely, step by step, if that places more.
func (pl *Planner) Plan(trust fleet.Trust) error {
	pl.Prepare()
	pl.Among, pl.Trust = trust, classify(pl.Workloads, trust)
	pl.Least = slices.Repeat([]float64{KeepsRate}, len(pl.Pools))
	if err := pl.attempt(); err != nil {
		return err
	}
	steps := closer
	if n := pl.Asked; n > closerUpTo { // it takes as long again
		return pl.Opt.Err()
	} else if n > closelyUpTo {
		steps = closerOfMany
	}
	most, closest, err := pl.placementOf(pl.Placed), pl, error(nil)
	places := func(least float64) bool { // as many as most, with more slowdown
		next := *pl
		if next.Least = pl.crowded(least); err != nil || slices.Equal(next.Least, pl.Least) {
			return false
		}
		err = next.attempt()
		is := next.placementOf(next.Placed)
		if is.compare(&most) < 0 {
			return false
		}
		most, closest = is, &next
		return true
	}
	if was := most; places(steps[len(steps)-1]) && most.compare(&was) > 0 {
		sort.Search(len(steps)-1, func(k int) bool { return places(steps[k]) })
		*pl = *closest
	}
	if err != nil {
		return err
	}
	return pl.Opt.Err()
}

// attempt arranges the fleet by the rates that its pools keep.
func (pl *Planner) attempt() error {
	pl.evaluate()
	pl.weigh()
	return pl.arrange()
}

// crowded returns the rates that pools keep where those for which replicas wait keep less.
func (pl *Planner) crowded(least float64) []float64 {
	out := slices.Clone(pl.Least)
	for w, n := range pl.Wanted {
		if pl.Placed[w] >= n {
			continue
		}
		for i := range pl.Choices[w] {
			out[pl.Choices[w][i].Pool] = least
		}
		for key, why := range pl.Banned[w] {
			if why.Code == codes.Slowdown {
				out[key.Pool] = least
			}
		}
	}
	return out
}
