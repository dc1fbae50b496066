package report

import (
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
)

// Slowdown compares a tenant with neighbours to the same tenant alone. A factor
// is with/alone; it is missing when one of the two is not known.
type Slowdown struct {
	Tenant string `json:"tenant"`
	With   string `json:"with"`  // run id of the co-located run
	Alone  string `json:"alone"` // run id of the solo run
	Basis  string `json:"basis"` // measured, or simulated when one of the two is

	TTFTP50      Optional[float64] `json:"ttft_p50_factor,omitzero"`
	TTFTP99      Optional[float64] `json:"ttft_p99_factor,omitzero"`
	TPOTP50      Optional[float64] `json:"tpot_p50_factor,omitzero"`
	TPOTP99      Optional[float64] `json:"tpot_p99_factor,omitzero"`
	ChunkGapP99  Optional[float64] `json:"chunk_gap_p99_factor,omitzero"`
	E2EP50       Optional[float64] `json:"e2e_p50_factor,omitzero"`
	E2EP99       Optional[float64] `json:"e2e_p99_factor,omitzero"`
	TokenRate    Optional[float64] `json:"output_tokens_per_s_factor,omitzero"`
	FailedAlone  int64             `json:"failed_alone"`
	FailedBeside int64             `json:"failed_with"`
	// Valid is false when the client spoiled one of the runs.
	Valid bool `json:"valid"`
}

// Slowdowns compares every tenant of a co-located run that was also run alone, in
// the order of the co-located run.
func Slowdowns(colocated *loadgen.Summary, alone []*loadgen.Summary) []Slowdown {
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
				TokenRate:   factor(loadgen.Millis(with.OutputTokensPerS), loadgen.Millis(a.OutputTokensPerS)),
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

func factor(with, alone loadgen.Millis) Optional[float64] {
	if with <= 0 || alone <= 0 {
		return Optional[float64]{}
	}
	return optional.Of(float64(with / alone))
}
