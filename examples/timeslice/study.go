// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/cotenant/cotenant/timeslice"
)

// keepsUp is the number of unfinished requests that shows no queue: one in work and one that just came.
const keepsUp = 2

// explore simulates each tenant alone, then the first two, three, ... together. An error comes with the results so far.
func explore(ctx context.Context, sim timeslice.Simulation) (alone, together []*timeslice.Result, err error) {
	tenants := sim.Tenants
	for k := range 2 * len(tenants) {
		i := k % len(tenants)
		if sim.Tenants = tenants[i : i+1]; k >= len(tenants) {
			sim.Tenants = tenants[:i+1]
		}
		res, err := timeslice.Simulate(ctx, sim)
		switch {
		case err != nil:
			return alone, together, err
		case k < len(tenants):
			alone = append(alone, res)
		default:
			together = append(together, res)
		}
	}
	return alone, together, nil
}

// slowdown is the mean of shared over that of alone, when both are there.
func slowdown(shared, alone *timeslice.Latency) (float64, bool) {
	x, ok := shared.Mean()
	y, ok2 := alone.Mean()
	if !ok || !ok2 || y == 0 {
		return 0, false
	}
	return float64(x) / float64(y), true
}

// closedForm returns the mean step of each tenant by the closed form of tenants that are always busy, nil for others.
func closedForm(sched timeslice.Scheduler, tenants []timeslice.Tenant) []time.Duration {
	var steps []time.Duration
	for _, t := range tenants {
		idle := t.Think.Mean + t.Pause.Mean/time.Duration(max(1, t.Steps))
		if len(tenants) < 2 || idle <= 0 || idle > sched.Quantum/2 || t.RatePerSecond > 0 {
			return nil
		}
		steps = append(steps, t.Step.Mean)
	}
	cycles, err := sched.RoundRobin(steps)
	if err != nil {
		return nil
	}
	for i, c := range cycles {
		steps[i] = c.Cycle - tenants[i].Think.Mean - tenants[i].Pause.Mean/time.Duration(max(1, tenants[i].Steps))
	}
	return steps
}
