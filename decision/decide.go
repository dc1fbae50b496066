package decision

import (
	"context"

	"github.com/cotenant/cotenant/decision/internal/plan"
)

// Decide answers for the whole fleet. The fleet is validated first; its error names every problem. A workload that
// fits nowhere is not an error: it gets mechanism none and all its reasons. The result depends on the fleet's
// content only, not on its order. When ctx ends it returns its error.
func Decide(ctx context.Context, f *Fleet, opt Options) (*Result, error) {
	if err := opt.Prepare(ctx, f); err != nil {
		return nil, err
	}
	n := plan.Rounds
	if opt.Brief {
		n = 1
	}
	pl, err := plan.PlanFleet(f, opt, n)
	if err != nil {
		return nil, err
	}
	said := &answers{Planner: pl}
	r, err := said.result()
	if err != nil {
		return nil, err
	}
	if opt.Brief || len(f.Workloads) > relaxedUpTo || len(pl.Seen) > relaxedSeen {
		return r, nil
	}
	if r, err = r.assure(f, opt); err != nil {
		return nil, err
	}
	if err := said.installing(f, r); err != nil {
		return nil, err
	}
	return r, r.relax(f, opt)
}
