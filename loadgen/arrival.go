// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/internal/problem"
)

// Schedule is an open loop's arrival process: a pure function of the random
// source, so that the same seed gives the same schedule whatever the server does.
type Schedule interface {
	// Arrivals yields the intended starts as offsets from the run's start, in non-decreasing order. It may be endless.
	// A rate or a burstiness that a plan refuses, such as 0, yields none.
	Arrivals(rng *rand.Rand) iter.Seq[time.Duration]
}

// describe writes a schedule for the run's configuration: "poisson 15/s".
func describe(s Schedule) string {
	if own, ok := s.(interface{ text() string }); ok {
		return own.text()
	}
	return fmt.Sprint(s)
}

// Constant is a schedule of evenly spaced arrivals, the first at offset 0.
type Constant struct {
	PerS float64 // arrivals per second
}

// Arrivals yields k/PerS for k = 0, 1, ...; rounding never accumulates.
func (c Constant) Arrivals(*rand.Rand) iter.Seq[time.Duration] {
	return arrive(c.check(), c.PerS, func(_ float64, k int) float64 { return float64(k) })
}

func (c Constant) text() string { return fmt.Sprintf("constant %v/s", c.PerS) }

func (c Constant) check() error { return checkRate("per_s", c.PerS) }

// Poisson is a schedule with exponential gaps.
type Poisson struct {
	PerS float64 // mean arrivals per second
}

// Arrivals yields the process from its first gap on.
func (p Poisson) Arrivals(rng *rand.Rand) iter.Seq[time.Duration] {
	return arrive(p.check(), p.PerS, func(before float64, _ int) float64 { return before + rng.ExpFloat64() })
}

func (p Poisson) text() string { return fmt.Sprintf("poisson %v/s", p.PerS) }

func (p Poisson) check() error { return checkRate("per_s", p.PerS) }

// Gamma is a schedule with Gamma-distributed gaps.
type Gamma struct {
	PerS float64 // mean arrivals per second
	// Burstiness is the shape of the distribution, as in vLLM: 1 is Poisson, less is burstier, more is smoother.
	// The gaps' coefficient of variation is 1/sqrt(Burstiness).
	Burstiness float64
}

// Arrivals yields the process from its first gap on.
func (g Gamma) Arrivals(rng *rand.Rand) iter.Seq[time.Duration] {
	gap := distuv.Gamma{Alpha: g.Burstiness, Beta: g.Burstiness, Src: rng} // of mean 1
	return arrive(g.check(), g.PerS, func(before float64, _ int) float64 { return before + gap.Rand() })
}

func (g Gamma) text() string { return fmt.Sprintf("gamma %v/s burstiness %v", g.PerS, g.Burstiness) }

func (g Gamma) check() error {
	return errors.Join(checkRate("per_s", g.PerS), checkRate("burstiness", g.Burstiness))
}

// Timestamps is a schedule that replays the arrival times of a trace.
type Timestamps struct {
	// Offsets are the arrivals, in non-decreasing order, on the trace's own clock.
	Offsets []time.Duration
	// Speed divides the times: 2 replays twice as fast; 0 means 1.
	Speed float64
}

// Arrivals yields the times. rng is not used.
func (t Timestamps) Arrivals(*rand.Rand) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for _, at := range t.Offsets {
			if t.Speed != 0 {
				at = time.Duration(float64(at) / t.Speed)
			}
			if !yield(at) {
				return
			}
		}
	}
}

func (t Timestamps) text() string {
	return fmt.Sprintf("trace of %d arrivals at speed %v", len(t.Offsets), cmp.Or(t.Speed, 1))
}

func (t Timestamps) check() error {
	var l problem.List
	l.If(t.Speed < 0 || math.IsNaN(t.Speed) || math.IsInf(t.Speed, 0), "speed",
		"use a finite factor above 0, or 0 for 1", "%v", t.Speed)
	for i := 1; i < len(t.Offsets); i++ {
		if t.Offsets[i] < t.Offsets[i-1] {
			l.Addf(fmt.Sprintf("offsets[%d]", i), "sort the trace by time", "%v is before its predecessor's %v", t.Offsets[i],
				t.Offsets[i-1])
			break
		}
	}
	l.If(len(t.Offsets) == 0, "offsets", "give at least one arrival", "none")
	return l.Err()
}

func checkRate(path string, v float64) error {
	if v > 0 && !math.IsInf(v, 0) {
		return nil
	}
	return &problem.Problem{Path: path, Message: fmt.Sprintf("%v", v), Remedy: "use a finite value above 0"}
}

// arrive yields the times at which a process of rate 1 reaches its points, at another rate, where nothing is wrong with
// it. next gives a point from the one before it and the number of those so far.
func arrive(wrong error, perS float64, next func(before float64, k int) float64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		point := 0.0
		for k := 0; wrong == nil; k++ {
			point = next(point, k)
			at := point / perS
			if !(at < float64(math.MaxInt64)/1e9) || !yield(time.Duration(math.Round(at*1e9))) {
				return
			}
		}
	}
}
