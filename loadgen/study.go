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

// Slowdown compares a tenant with neighbours to the same tenant alone. A factor
// is with/alone; 0 (absent in JSON) means that one of the two is not known.
type Slowdown struct {
	Tenant string `json:"tenant"`
	With   string `json:"with"`  // run id of the co-located run
	Alone  string `json:"alone"` // run id of the solo run
	Basis  string `json:"basis"` // measured, or simulated when one of the two is

	TTFTP50      float64 `json:"ttft_p50_factor,omitempty"`
	TTFTP99      float64 `json:"ttft_p99_factor,omitempty"`
	TPOTP50      float64 `json:"tpot_p50_factor,omitempty"`
	TPOTP99      float64 `json:"tpot_p99_factor,omitempty"`
	ChunkGapP99  float64 `json:"chunk_gap_p99_factor,omitempty"`
	E2EP50       float64 `json:"e2e_p50_factor,omitempty"`
	E2EP99       float64 `json:"e2e_p99_factor,omitempty"`
	TokenRate    float64 `json:"output_tokens_per_s_factor,omitempty"`
	FailedAlone  int64   `json:"failed_alone"`
	FailedBeside int64   `json:"failed_with"`
	// Valid is false when the client spoiled one of the runs.
	Valid bool `json:"valid"`
}

// Slowdowns compares every tenant of a co-located run that was also run alone, in
// the order of the co-located run.
func Slowdowns(colocated *Summary, alone []*Summary) []Slowdown {
	var out []Slowdown
	for i := range colocated.Tenants {
		with := &colocated.Tenants[i]
		for _, s := range alone {
			if len(s.Tenants) != 1 || s.Tenants[0].Name != with.Name {
				continue
			}
			a := &s.Tenants[0].Measures
			d := Slowdown{
				Tenant: with.Name, With: colocated.RunID, Alone: s.RunID, Basis: "measured",
				TTFTP50: factor(with.TTFT.P50, a.TTFT.P50), TTFTP99: factor(with.TTFT.P99, a.TTFT.P99),
				TPOTP50: factor(with.TPOT.P50, a.TPOT.P50), TPOTP99: factor(with.TPOT.P99, a.TPOT.P99),
				ChunkGapP99: factor(with.ChunkGap.P99, a.ChunkGap.P99),
				E2EP50:      factor(with.E2E.P50, a.E2E.P50), E2EP99: factor(with.E2E.P99, a.E2E.P99),
				TokenRate:   factor(Millis(with.OutputTokensPerS), Millis(a.OutputTokensPerS)),
				FailedAlone: a.Counts.Failed, FailedBeside: with.Counts.Failed,
				Valid: colocated.ClientHealth.Valid && s.ClientHealth.Valid,
			}
			if colocated.Basis == "simulated" || s.Basis == "simulated" {
				d.Basis = "simulated"
			}
			out = append(out, d)
			break
		}
	}
	return out
}

func factor(with, alone Millis) float64 {
	if with <= 0 || alone <= 0 {
		return 0
	}
	return float64(with / alone)
}
