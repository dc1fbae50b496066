// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// loneClient runs the steps that were run without MPS as the only client of a daemon.
func (r *run) loneClient(ctx context.Context) error {
	if r.exchange == 0 || r.launches == 0 {
		return errors.New("the same steps were not measured without MPS")
	}
	short, err := r.steps(ctx, sharing.MechanismMPS, shortSteps(loneFor))
	if err != nil {
		return err
	}
	r.shortMPS = middle(short)
	steps, err := r.steps(ctx, sharing.MechanismMPS, exchangeSteps(loneFor))
	if err != nil {
		return err
	}
	r.measure(loneStepCost, "ms", steps, func(d time.Duration) float64 { return millis(d - r.exchange) },
		fmt.Sprintf("what MPS adds to a lone client's step of %d short kernels in one graph, between two small copies",
			shortKernels))
	steps, err = r.steps(ctx, sharing.MechanismMPS, launchSteps(loneFor))
	if err != nil {
		return err
	}
	r.measure(mpsLaunchCost, "us", steps, func(d time.Duration) float64 { return eachLaunch(d - r.launches) },
		"what MPS adds to each kernel that is launched by itself")
	return nil
}

// pair measures the effects of steps of short kernels and those of a neighbour on one another.
func (r *run) pair(task func(time.Duration) Task, short, other string) func(context.Context) error {
	return func(ctx context.Context) error {
		if r.shortMPS == 0 {
			return errors.New("a lone client of MPS was not measured")
		}
		alone, err := r.steps(ctx, sharing.MechanismMPS, task(loneFor))
		if err != nil {
			return err
		}
		// The neighbour begins before the short kernels and ends after them.
		victim := shortSteps(pairFor)
		victim.Delay = neighbourBefore
		readings, err := r.site.Run(ctx, sharing.MechanismMPS, victim, task(neighbourBefore+pairFor+neighbourAfter))
		if err != nil {
			return err
		}
		lone, theirs := middle(alone), readings[1].Steps
		first, last := int(neighbourBefore/lone)+1, len(theirs)-int(neighbourAfter/lone)-1
		if len(readings[0].Steps) < 5 || last-first < 5 {
			return fmt.Errorf("only %d steps of short kernels and %d of the neighbour's ended side by side",
				len(readings[0].Steps), max(0, last-first))
		}
		r.slower(short, readings[0].Steps, r.shortMPS, "steps of 256 short kernels, against alone under MPS")
		r.slower(other, theirs[first:last], lone, "the neighbour's steps in the same run, against alone under MPS")
		return nil
	}
}

// slower keeps how many times longer steps are than alone: their mean, since some
// may run unhindered and others wait for long.
func (r *run) slower(name string, steps []time.Duration, alone time.Duration, what string) {
	times := func(d time.Duration) float64 { return float64(d) / float64(alone) }
	r.measureAs(name, "times", times(mean(steps)), steps, times, what)
}

// readShared has one client read, and then two at once.
func (r *run) readShared(ctx context.Context) error {
	alone, err := r.site.Run(ctx, sharing.MechanismMPS, reads(loneFor))
	if err != nil {
		return err
	}
	r.measure(dramReadMPS, "GB/s", alone[0].Steps, rate(alone[0].Bytes), "a lone client of MPS that reads")
	readings, err := r.site.Run(ctx, sharing.MechanismMPS, reads(pairFor), reads(pairFor))
	if err != nil {
		return err
	}
	var together, low, high float64
	var points int
	for _, one := range readings {
		if len(one.Steps) < 5 {
			return fmt.Errorf("only %d steps ended", len(one.Steps))
		}
		s, in := slices.Sorted(slices.Values(one.Steps)), rate(one.Bytes)
		together, points = together+in(middle(s)), points+len(s)
		low, high = low+in(stats.NearestRank(s, .9)), high+in(stats.NearestRank(s, .1))
	}
	r.Measured = append(r.Measured, Measurement{dramReadShared, together, "GB/s", low, high, points,
		"two clients of MPS that read, together"})
	return nil
}
