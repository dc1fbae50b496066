package cost

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// Contention is the mean latency of one closed-loop workload alone on a GPU and beside its neighbours.
type Contention struct {
	Alone, Shared time.Duration // both above 0
}

// LatencyImpact returns Shared/Alone - 1, rounded half away from zero: 101.4778%
// for 0.609 s and 1.227 s, which the latency article prints cut off as 101.4.
func (c Contention) LatencyImpact() (PPM, error) {
	if err := c.validate(); err != nil {
		return 0, err
	}
	return ratio(int64(c.Shared-c.Alone), int64(c.Alone))
}

// ThroughputImpact returns Alone/Shared - 1, rounded half away from zero. In a closed loop it says nothing that
// LatencyImpact does not: a client that waits for each answer sends 1/latency.
func (c Contention) ThroughputImpact() (PPM, error) {
	if err := c.validate(); err != nil {
		return 0, err
	}
	return ratio(int64(c.Alone-c.Shared), int64(c.Shared))
}

func (c Contention) validate() error {
	var l problem.List
	l.If(c.Alone <= 0, "alone", "give a time above 0", "%v is no latency", c.Alone)
	l.If(c.Shared <= 0, "shared", "give a time above 0", "%v is no latency", c.Shared)
	return inputErr(&l)
}

// SystemLoss returns the part of a GPU's capacity that sharing itself lost: 1
// - work/makespan, where work is the time the jobs need alone, one after
// another. It is 1.9% for the latency article's pair of models, whose requests
// each seem to lose 36% to 50% and which end when timeslice.FinishTimes says.
// Below zero, sharing filled gaps that a lone job leaves.
func SystemLoss(work []time.Duration, makespan time.Duration) (PPM, error) {
	var l problem.List
	l.If(makespan <= 0, "makespan", "give a time above 0", "%v is no time", makespan)
	var sum time.Duration
	for i, w := range work {
		if w < 0 {
			l.Addf(fmt.Sprintf("work[%d]", i), "give 0 or more", "%v is below zero", w)
		} else if sum += w; sum < 0 {
			return 0, ErrOverflow
		}
	}
	if err := inputErr(&l); err != nil {
		return 0, err
	}
	return ratio(int64(makespan-sum), int64(makespan))
}
