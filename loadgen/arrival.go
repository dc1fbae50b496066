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

// Schedule is an open loop's arrival process: a pure function of the random source, so that the schedule depends only
// on the seed and not on the server.
type Schedule interface {
	// Arrivals yields the intended starts as offsets from the run's start, in non-decreasing order. It may be endless. An
	// invalid rate or burstiness, such as 0, yields none.
	Arrivals(rng *rand.Rand) iter.Seq[time.Duration]
}

// schedule is an arrival process of this package.
type schedule struct {
	text     string // for the run's configuration: "poisson 15/s"
	wrong    error  // the reason for which a plan refuses it
	endless  bool
	arrivals func(rng *rand.Rand) iter.Seq[time.Duration]
}

func (s *schedule) Arrivals(rng *rand.Rand) iter.Seq[time.Duration] { return s.arrivals(rng) }

func describe(s Schedule) string {
	if own, ok := s.(*schedule); ok {
		return own.text
	}
	return fmt.Sprint(s)
}

// Constant is the schedule of evenly spaced arrivals, perS each second, the first at offset 0. Rounding never
// accumulates.
func Constant(perS float64) Schedule {
	return process(fmt.Sprintf("constant %v/s", perS), perS, checkRate("per_s", perS),
		func(_ *rand.Rand, _ float64, k int) float64 { return float64(k) })
}

// Poisson is the schedule with exponential gaps and perS arrivals each second on average, from its first gap on.
func Poisson(perS float64) Schedule {
	return process(fmt.Sprintf("poisson %v/s", perS), perS, checkRate("per_s", perS),
		func(rng *rand.Rand, before float64, _ int) float64 { return before + rng.ExpFloat64() })
}

// Gamma is the schedule with Gamma-distributed gaps and perS arrivals each second on average. The burstiness is the
// shape of the distribution, as in vLLM: 1 is Poisson, less is burstier, more is smoother. The gaps' coefficient of
// variation is 1/sqrt(burstiness).
func Gamma(perS, burstiness float64) Schedule {
	return process(fmt.Sprintf("gamma %v/s burstiness %v", perS, burstiness), perS,
		errors.Join(checkRate("per_s", perS), checkRate("burstiness", burstiness)),
		func(rng *rand.Rand, before float64, _ int) float64 {
			return before + distuv.Gamma{Alpha: burstiness, Beta: burstiness, Src: rng}.Rand() // of mean 1
		})
}

// Timestamps is the schedule that replays the arrival times of a trace, in non-decreasing order on the trace's own
// clock. speed divides the times: 2 replays twice as fast; 0 means 1.
func Timestamps(offsets []time.Duration, speed float64) Schedule {
	var l problem.List
	l.If(speed < 0 || math.IsNaN(speed) || math.IsInf(speed, 0), "speed", "use a finite factor above 0, or 0 for 1", "%v",
		speed)
	for i := 1; i < len(offsets); i++ {
		if offsets[i] < offsets[i-1] {
			l.Addf(fmt.Sprintf("offsets[%d]", i), "sort the trace by time", "%v is before its predecessor's %v", offsets[i],
				offsets[i-1])
			break
		}
	}
	l.If(len(offsets) == 0, "offsets", "give at least one arrival", "none")
	text := fmt.Sprintf("trace of %d arrivals at speed %v", len(offsets), cmp.Or(speed, 1))
	return &schedule{text, l.Err(), false, func(*rand.Rand) iter.Seq[time.Duration] {
		return func(yield func(time.Duration) bool) {
			for _, at := range offsets {
				if speed != 0 {
					at = time.Duration(float64(at) / speed)
				}
				if !yield(at) {
					return
				}
			}
		}
	}}
}

func checkRate(path string, v float64) error {
	if v > 0 && !math.IsInf(v, 0) {
		return nil
	}
	return &problem.Problem{Path: path, Message: fmt.Sprintf("%v", v), Remedy: "use a finite value above 0"}
}

// process yields the times at which a process of rate 1 reaches its points, at another rate, where nothing is wrong
// with it. next gives a point from the one before it and the number of those so far.
func process(text string, perS float64, wrong error,
	next func(rng *rand.Rand, before float64, k int) float64) Schedule {
	return &schedule{text, wrong, true, func(rng *rand.Rand) iter.Seq[time.Duration] {
		return func(yield func(time.Duration) bool) {
			point := 0.0
			for k := 0; wrong == nil; k++ {
				point = next(rng, point, k)
				at := point / perS
				if !(at < float64(math.MaxInt64)/1e9) || !yield(time.Duration(math.Round(at*1e9))) {
					return
				}
			}
		}
	}}
}
