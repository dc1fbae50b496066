package loadgen

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// Case is one run of a study of interference.
type Case struct {
	Name string // e.g. "solo-chat", "colocated", "probe-with-chat"
	Plan Plan
}

// Solo returns a case for each tenant of the plan, alone.
func Solo(plan Plan) []Case {
	cases := make([]Case, 0, len(plan.Tenants))
	for _, t := range plan.Tenants {
		cases = append(cases, caseOf(plan, "solo-"+t.Name, t))
	}
	return cases
}

// Study returns the cases that show how a plan's tenants disturb one another:
// each of them alone and all of them together. With a probe tenant among them the
// others are not run together pairwise but each with the probe, whose latencies
// then say what each of them inflicts on a neighbour.
func Study(plan Plan) []Case {
	cases := Solo(plan)
	for _, probe := range plan.Tenants {
		if !probe.Probe {
			continue
		}
		for _, t := range plan.Tenants {
			if !t.Probe {
				cases = append(cases, caseOf(plan, probe.Name+"-with-"+t.Name, t, probe))
			}
		}
	}
	return append(cases, caseOf(plan, "colocated", plan.Tenants...))
}

func caseOf(plan Plan, name string, tenants ...Tenant) Case {
	if plan.Scenario != "" {
		plan.Scenario += "-"
	}
	plan.Scenario += name
	plan.Tenants = slices.Clone(tenants)
	// A tenant alone would otherwise vanish from the totals.
	if len(tenants) == 1 {
		plan.Tenants[0].Probe = false
	}
	return Case{Name: name, Plan: plan}
}

// RunStudy runs the cases one after another. Each gets its own directory under
// opts.Dir, named after the case. On an error the results so far are returned
// with it. PromptSources are shared by the cases: use ones that can go on, or
// start over, such as Cycle.
func RunStudy(ctx context.Context, cases []Case, opts Options) ([]*Result, error) {
	results := make([]*Result, 0, len(cases))
	for _, c := range cases {
		o := opts
		if o.Dir != "" {
			o.Dir = filepath.Join(opts.Dir, c.Name)
		}
		if o.RunID != "" {
			o.RunID += "-" + c.Name
		}
		res, err := Run(ctx, c.Plan, o)
		if res != nil {
			results = append(results, res)
		}
		if err != nil {
			return results, fmt.Errorf("loadgen: case %q: %w", c.Name, err)
		}
	}
	return results, nil
}
