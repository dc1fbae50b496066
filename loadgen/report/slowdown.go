package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/plaintext"
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
	// Withheld says why there are no factors: the shares of failed requests differ
	// beyond chance, and the figures are those of the requests that did not fail.
	Withheld string `json:"withheld,omitempty"`
	// Valid is false when the client spoiled one of the runs.
	Valid bool `json:"valid"`
}

// SlowdownTable holds the slow-downs of a run's tenants beside one another.
type SlowdownTable []Slowdown

// Slowdowns compares every tenant of a co-located run that was also run alone, in the order of the co-located run.
func Slowdowns(colocated *loadgen.Summary, alone []*loadgen.Summary) SlowdownTable {
	var out SlowdownTable
	for i := range colocated.Tenants {
		with := &colocated.Tenants[i]
		for _, s := range alone {
			if len(s.Tenants) != 1 || s.Tenants[0].Name != with.Name {
				continue
			}
			a := &s.Tenants[0].Measures
			d := Slowdown{
				Tenant: with.Name, With: colocated.RunID, Alone: s.RunID, Basis: "measured",
				FailedAlone: a.Counts.Failed, FailedBeside: with.Counts.Failed,
				Valid: colocated.ClientHealth.Valid && s.ClientHealth.Valid,
			}
			if w, c := with.Counts, a.Counts; w.Total > 0 && c.Total > 0 &&
				fisher(c.Failed, c.Total, w.Failed, w.Total) <= slowdownLevel {
				d.Withheld = fmt.Sprintf("%d of %d requests failed together, %d of %d alone: the factors would be of the others",
					w.Failed, w.Total, c.Failed, c.Total)
			} else {
				d.TTFTP50, d.TTFTP99 = factor(with.TTFT.P50, a.TTFT.P50), factor(with.TTFT.P99, a.TTFT.P99)
				d.TPOTP50, d.TPOTP99 = factor(with.TPOT.P50, a.TPOT.P50), factor(with.TPOT.P99, a.TPOT.P99)
				d.E2EP50, d.E2EP99 = factor(with.E2E.P50, a.E2E.P50), factor(with.E2E.P99, a.E2E.P99)
				d.ChunkGapP99 = factor(with.ChunkGap.P99, a.ChunkGap.P99)
				d.TokenRate = factor(loadgen.Millis(with.OutputTokensPerS), loadgen.Millis(a.OutputTokensPerS))
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

// slowdownLevel is that of the test whether shares of failed requests differ.
const slowdownLevel = 0.05

func factor(with, alone loadgen.Millis) Optional[float64] {
	if with <= 0 || alone <= 0 {
		return Optional[float64]{}
	}
	return optional.Of(float64(with / alone))
}

// WriteText writes the factors for people, a tenant a line.
func (t SlowdownTable) WriteText(w io.Writer) error {
	w = plaintext.NewWriter(w)
	for _, d := range t {
		if d.Basis != "measured" {
			if _, err := fmt.Fprintln(w, SyntheticNote); err != nil {
				return err
			}
			break
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "together / alone\tttft p50\tttft p99\ttpot p50\tchunk gap p99\te2e p99\ttokens/s\tfailed\tvalid")
	for _, d := range t {
		fmt.Fprint(tw, d.Tenant)
		for _, factor := range []Optional[float64]{d.TTFTP50, d.TTFTP99, d.TPOTP50, d.ChunkGapP99, d.E2EP99, d.TokenRate} {
			if f, ok := factor.Get(); ok {
				fmt.Fprintf(tw, "\t%.2fx", f)
			} else {
				fmt.Fprint(tw, "\t-")
			}
		}
		fmt.Fprintf(tw, "\t%d / %d\t%v\n", d.FailedBeside, d.FailedAlone, d.Valid)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, d := range t {
		if d.Withheld != "" {
			if _, err := fmt.Fprintf(w, "note: %s: %s\n", d.Tenant, d.Withheld); err != nil {
				return err
			}
		}
	}
	return nil
}
