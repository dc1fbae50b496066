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

// decideStated decides a fleet whose numbers of replicas are stated.
func decideStated(ctx context.Context, f *Fleet, opt Options) (*Result, error) {
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
	r, err := (&answers{Planner: pl, fleet: f}).result()
	if err != nil || opt.Brief || len(f.Workloads) > assuredUpTo || len(pl.Seen) > assuredSeen {
		return r, err
	}
	return r.assure(f, opt)
}

// More confidence is tried in fleets up to assuredUpTo workloads that took little to arrange.
const (
	assuredUpTo = 16
	assuredSeen = 600 // arrangements of a GPU
)

// assure answers with more confidence than was asked for where that places more
// replicas: what is surer to be kept is kept at less confidence too.
func (r *Result) assure(f *Fleet, opt Options) (*Result, error) {
	for _, confidence := range [...]float64{0.8, 0.9, 0.95, 0.97, 0.99} {
		placed, unplaced := r.placed()
		if unplaced == 0 {
			break
		}
		if confidence <= opt.Confidence {
			continue
		}
		surer, err := decideAt(f, opt, confidence)
		if err != nil {
			return nil, err
		}
		if n, _ := surer.placed(); n > placed {
			r = surer
		}
	}
	return r, nil
}

// decideAt decides a fleet at another confidence, with nothing beside the answers.
func decideAt(f *Fleet, opt Options, confidence float64) (*Result, error) {
	opt.Confidence = confidence
	pl, err := plan.PlanFleet(f, opt, 1)
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
