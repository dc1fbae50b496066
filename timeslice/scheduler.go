// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Scheduler models a driver's time-slicing on one GPU: round robin with a fixed quantum and a cost of switching. The
// zero value is not valid, since no quantum is right for every GPU.
type Scheduler struct {
	// Quantum is the time that a context keeps the GPU while another waits.
	Quantum time.Duration
	// Switch is the GPU's time lost to one change of context; it does not grow
	// with the number of tenants (measured with 2 and 4).
	Switch time.Duration
	// Basis and Source give the origin of the figures; Source is the id of a sharing.Source, or free text.
	Basis  sharing.Basis
	Source string
}

// H200 returns the scheduler measured on an H200 at the DEFAULT level with driver 580.159.04, with a spinning
// one-thread kernel in each of 2 and 4 processes: on-time p50 2,090.7 and 2,090.5 us, switch 152.8 and 153.0 us.
func H200() Scheduler {
	return Scheduler{2090600 * time.Nanosecond, 152900 * time.Nanosecond, sharing.BasisMeasured, "cotenant-h200-quantum"}
}

// longest bounds every duration of a model, so that sums of them cannot overflow.
const longest = 30 * 24 * time.Hour

func (s Scheduler) check(l *problem.List, path string) {
	l.If(s.Quantum <= 0 || s.Quantum > time.Hour, path+".quantum", "measure it, or start from 2ms",
		"must be positive and at most 1h, is %v", s.Quantum)
	l.If(s.Switch < 0 || s.Switch > time.Hour, path+".switch", "use 0 for the limit of processor sharing",
		"must lie between 0 and 1h, is %v", s.Switch)
}

// Slices is the number of time slices that a step of the given GPU time takes when others wait: at least 1. It is 0 for
// an invalid scheduler.
func (s Scheduler) Slices(step time.Duration) int {
	if s.Quantum <= 0 {
		return 0
	}
	return max(1, int((step+s.Quantum-1)/s.Quantum))
}

// NearBoundary reports whether a step lies within a tolerance (a fraction of the step) of a whole number of quanta,
// where a small error of the step's length changes its number of slices and so its latency by a round. other is the
// other possible number of slices.
func (s Scheduler) NearBoundary(step time.Duration, toleranceFraction float64) (other int, near bool) {
	n := s.Slices(step)
	d := time.Duration(float64(step) * toleranceFraction)
	if m := s.Slices(step + d); m != n {
		return m, true
	}
	if m := s.Slices(step - d); m != n {
		return m, true
	}
	return n, false
}

// Level is a time-slice level of the driver's compute policy by its number in nvidia-smi: 0 is the default, 1 short,
// 2 medium, 3 long. NVIDIA publishes no durations for them.
type Level uint8

// BoundaryTolerance is the distance from a whole number of quanta, as a fraction of a step, below which predictions are
// unstable: an error of a few percent in the step moves the result by up to 19% (cotenant-h200-colocation).
const BoundaryTolerance = 0.08
