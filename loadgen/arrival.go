package loadgen

import (
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
	// Arrivals yields the intended starts as offsets from the run's start, in
	// non-decreasing order. It may be endless.
	Arrivals(rng *rand.Rand) iter.Seq[time.Duration]
	// String describes the schedule for the run's configuration.
	String() string
}

// Constant is a schedule of evenly spaced arrivals, the first at offset 0.
type Constant struct {
	PerS float64 // arrivals per second
}

// Arrivals yields k/PerS for k = 0, 1, ...; rounding never accumulates.
func (c Constant) Arrivals(rng *rand.Rand) iter.Seq[time.Duration] {
	return arrive(rng, evenly, []Segment{{FromPerS: c.PerS, ToPerS: c.PerS}})
}

// String returns e.g. "constant 15/s".
func (c Constant) String() string { return fmt.Sprintf("constant %v/s", c.PerS) }

func (Constant) endless() bool { return true }

func (c Constant) check() error { return checkRate("per_s", c.PerS) }

// Poisson is a schedule with exponential gaps.
type Poisson struct {
	PerS float64 // mean arrivals per second
}

// Arrivals yields the process from its first gap on.
func (p Poisson) Arrivals(rng *rand.Rand) iter.Seq[time.Duration] {
	return arrive(rng, (*rand.Rand).ExpFloat64, []Segment{{FromPerS: p.PerS, ToPerS: p.PerS}})
}

// String returns e.g. "poisson 15/s".
func (p Poisson) String() string { return fmt.Sprintf("poisson %v/s", p.PerS) }

func (Poisson) endless() bool { return true }

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
	return arrive(rng, gammaGaps(g.Burstiness), []Segment{{FromPerS: g.PerS, ToPerS: g.PerS}})
}

// String returns e.g. "gamma 15/s burstiness 0.5".
func (g Gamma) String() string { return fmt.Sprintf("gamma %v/s burstiness %v", g.PerS, g.Burstiness) }

func (Gamma) endless() bool { return true }

func (g Gamma) check() error {
	return errors.Join(checkRate("per_s", g.PerS), checkRate("burstiness", g.Burstiness))
}

// Segment is a stretch of a Varying. Its rate runs linearly from FromPerS to
// ToPerS: equal rates are a step, different ones a ramp.
type Segment struct {
	FromPerS, ToPerS float64
	Duration         time.Duration
}

// Varying is a schedule whose rate changes: steps and ramps, one segment after
// another. It ends with the last segment.
type Varying struct {
	Segments []Segment
	// Burstiness is as in Gamma; 0 means evenly spaced arrivals, 1 Poisson.
	Burstiness float64
}

// Arrivals yields a unit-rate process mapped through the profile's cumulative rate.
func (p Varying) Arrivals(rng *rand.Rand) iter.Seq[time.Duration] {
	gap := evenly
	switch p.Burstiness {
	case 0:
	case 1:
		gap = (*rand.Rand).ExpFloat64
	default:
		gap = gammaGaps(p.Burstiness)
	}
	return arrive(rng, gap, p.Segments)
}

// String lists the segments.
func (p Varying) String() string {
	s := fmt.Sprintf("profile burstiness %v:", p.Burstiness)
	for _, g := range p.Segments {
		s += fmt.Sprintf(" %v..%v/s for %v", g.FromPerS, g.ToPerS, g.Duration)
	}
	return s
}

func (p Varying) check() error {
	var l problem.List
	if len(p.Segments) == 0 {
		l.Addf("segments", "add at least one", "none")
	}
	if p.Burstiness < 0 || math.IsNaN(p.Burstiness) || math.IsInf(p.Burstiness, 0) {
		l.Addf("burstiness", "use 0 (even), 1 (Poisson) or another finite value above 0", "%v", p.Burstiness)
	}
	for i, s := range p.Segments {
		path := fmt.Sprintf("segments[%d]", i)
		for _, r := range []float64{s.FromPerS, s.ToPerS} {
			if !(r >= 0) || math.IsInf(r, 0) {
				l.Addf(path, "use finite rates of 0 or more", "rate %v", r)
			}
		}
		if s.Duration <= 0 {
			l.Addf(path+".duration", "use a duration above 0", "%v", s.Duration)
		}
	}
	return l.Err()
}

// Timestamps is a schedule that replays the arrival times of a trace.
type Timestamps struct {
	// Offsets are the arrivals, in non-decreasing order, on the trace's own clock.
	Offsets []time.Duration
	// From and To cut out the slice [From, To), which starts at offset 0; To 0 means the trace's end.
	From, To time.Duration
	// Speed divides the times: 2 replays twice as fast; 0 means 1.
	Speed float64
}

// Arrivals yields the slice's times. rng is not used.
func (t Timestamps) Arrivals(*rand.Rand) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for _, at := range t.Offsets {
			if at < t.From {
				continue
			}
			if t.To != 0 && at >= t.To {
				return
			}
			at -= t.From
			if t.Speed != 0 {
				at = time.Duration(float64(at) / t.Speed)
			}
			if !yield(at) {
				return
			}
		}
	}
}

// String returns e.g. "trace of 12031 arrivals at speed 1, from 0s to its end".
func (t Timestamps) String() string {
	speed, end := t.Speed, "its end"
	if speed == 0 {
		speed = 1
	}
	if t.To != 0 {
		end = t.To.String()
	}
	return fmt.Sprintf("trace of %d arrivals at speed %v, from %v to %s", len(t.Offsets), speed, t.From, end)
}

func (t Timestamps) check() error {
	var l problem.List
	if t.Speed < 0 || math.IsNaN(t.Speed) || math.IsInf(t.Speed, 0) {
		l.Addf("speed", "use a finite factor above 0, or 0 for 1", "%v", t.Speed)
	}
	if t.From < 0 || t.To != 0 && t.To <= t.From {
		l.Addf("from", "use 0 <= from < to", "slice from %v to %v", t.From, t.To)
	}
	for i := 1; i < len(t.Offsets); i++ {
		if t.Offsets[i] < t.Offsets[i-1] {
			l.Addf(fmt.Sprintf("offsets[%d]", i), "sort the trace by time", "%v is before its predecessor's %v", t.Offsets[i],
				t.Offsets[i-1])
			break
		}
	}
	if n := len(t.Offsets); n == 0 {
		l.Addf("offsets", "give at least one arrival", "none")
	} else if t.Offsets[n-1] < t.From {
		l.Addf("from", "start the slice before the last arrival", "the trace ends at %v", t.Offsets[n-1])
	}
	return l.Err()
}

func checkRate(path string, v float64) error {
	if v > 0 && !math.IsInf(v, 0) {
		return nil
	}
	return &problem.Problem{Path: path, Message: fmt.Sprintf("%v", v), Remedy: "use a finite value above 0"}
}

// evenly marks the process without randomness: arrive counts instead of summing.
var evenly func(*rand.Rand) float64

// arrive yields the unit-rate process given by its gaps, mapped through the
// segments' cumulative rate. A last segment without a duration never ends.
func arrive(rng *rand.Rand, gap func(*rand.Rand) float64, segments []Segment) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		var u, before, start float64 // unit time; unit time and seconds at the segment's start
		k := 0
		if gap != nil {
			u = gap(rng)
		}
		for _, s := range segments {
			d := s.Duration.Seconds()
			area := (s.FromPerS + s.ToPerS) / 2 * d
			for d == 0 || u-before < area {
				at := start + s.when(u-before)
				if !(at < float64(math.MaxInt64)/1e9) || !yield(time.Duration(math.Round(at*1e9))) {
					return
				}
				if k++; gap == nil {
					u = float64(k)
				} else {
					u += gap(rng)
				}
			}
			before, start = before+area, start+d
		}
	}
}

// when is the time in seconds at which the segment's cumulative rate reaches u.
func (s Segment) when(u float64) float64 {
	if u == 0 {
		return 0
	}
	slope := 0.0
	if s.Duration > 0 {
		slope = (s.ToPerS - s.FromPerS) / s.Duration.Seconds()
	}
	if slope == 0 {
		return u / s.FromPerS
	}
	// The stable root of slope/2 t² + from t = u.
	return 2 * u / (s.FromPerS + math.Sqrt(max(0, s.FromPerS*s.FromPerS+2*slope*u)))
}

// gammaGaps draws gaps of mean 1.
func gammaGaps(shape float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 { return distuv.Gamma{Alpha: shape, Beta: shape, Src: rng}.Rand() }
}
