// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"

	"github.com/cotenant/cotenant/decision/internal/plan"
)

// Decide answers for the whole fleet. The fleet is validated first; its error names every problem. A workload that
// fits nowhere is not an error: it gets mechanism none and all its reasons. The result depends on the fleet's
// content only, not on its order. When ctx ends it returns its error.
func Decide(ctx context.Context, f *Fleet, opt Options) (*Result, error) {
	f, chosen, err := ResolveReplicas(ctx, f, opt)
	if err != nil {
		return nil, err
	}
	r, err := decideStated(ctx, f, opt)
	if err == nil {
		r.Replicas = chosen
	}
	return r, err
}

// decideStated decides a fleet without replicas: auto.
func decideStated(ctx context.Context, f *Fleet, opt Options) (*Result, error) {
	if err := opt.Prepare(ctx, f); err != nil {
		return nil, err
	}
	n := plan.Rounds
	if opt.Running {
		n = 1
	}
	pl, err := plan.PlanFleet(f, opt, n)
	if err != nil {
		return nil, err
	}
	return (&answers{Planner: pl, fleet: f}).result()
}

// placed counts replicas.
func (r *Result) placed() (placed, unplaced int) {
	for i := range r.Decisions {
		placed, unplaced = placed+r.Decisions[i].Placed, unplaced+r.Decisions[i].Unplaced
	}
	return placed, unplaced
}
