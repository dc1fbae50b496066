// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/stats"
	"gonum.org/v1/gonum/stat"
)

// Figure holds a mean and a 95th percentile, in percent.
type Figure struct {
	Mean float64 `json:"mean"`
	P95  float64 `json:"p95"`
}

// String returns the figure as the table shows it.
func (f Figure) String() string {
	short := func(v float64) string {
		if v >= 1000 {
			return fmt.Sprintf("%.0f", v)
		}
		return fmt.Sprintf("%.1f", v)
	}
	return short(f.Mean) + ", " + short(f.P95)
}

// Outcome sums up the consequences of one way of deciding. Counts are of workloads; what is missed and overcommitted is
// counted in every world.
type Outcome struct {
	Decided                  int     `json:"decided"`
	Provisional              int     `json:"provisional"`
	ProvisionalStatedPercent float64 `json:"provisional_stated_percent"` // among workloads whose load was stated
	None                     int     `json:"none"`
	WrongNone                int     `json:"wrong_none"`
	MissedPercent            float64 `json:"missed_percent"`
	MissedMeansPercent       float64 `json:"missed_means_percent"` // of model servers that state mean lengths alone
	MissedOthersPercent      float64 `json:"missed_others_percent"`
	ProvisionalMissedPercent float64 `json:"provisional_missed_percent"`
	Overcommitted            int     `json:"overcommitted"` // GPUs
	Regret                   Figure  `json:"regret_percent"`
	Hindsight                Figure  `json:"hindsight_percent"`
}

// Report holds the outcomes of a run. Everything in it is simulated.
type Report struct {
	Simulated  bool                `json:"simulated"`
	Fleets     int                 `json:"fleets"`
	Workloads  int                 `json:"workloads"`
	Worlds     int                 `json:"worlds"`            // in which each fleet was played
	Exhaustive int                 `json:"exhaustive_fleets"` // whose cheapest arrangement was sought among all
	Confidence float64             `json:"confidence"`
	Ours       Outcome             `json:"ours"`
	Shown      Outcome             `json:"shown"` // the cheapest arrangement that could be shown to do, where ours decided
	Rules      map[string]*Outcome `json:"rules"`
	Seed       uint64              `json:"seed"`
}

// tally gathers an outcome while fleets are played.
type tally struct {
	Outcome
	missed, provisionalMissed, stated, statedProvisional int
	means, missedMeans                                   int // of model servers that state mean lengths alone
	regret, hindsight                                    []float64
}

func (t *tally) sum(worlds int) *Outcome {
	o := t.Outcome
	o.MissedPercent = percent(t.missed, o.Decided*worlds)
	o.MissedMeansPercent = percent(t.missedMeans, t.means*worlds)
	o.MissedOthersPercent = percent(t.missed-t.missedMeans, (o.Decided-t.means)*worlds)
	o.ProvisionalMissedPercent = percent(t.provisionalMissed, o.Provisional*worlds)
	o.ProvisionalStatedPercent = percent(t.statedProvisional, t.stated)
	o.Regret, o.Hindsight = figureOf(t.regret), figureOf(t.hindsight)
	return &o
}

// add adds another tally's counts.
func (t *tally) add(o *tally) {
	t.Decided += o.Decided
	t.Provisional += o.Provisional
	t.None += o.None
	t.WrongNone += o.WrongNone
	t.Overcommitted += o.Overcommitted
	t.missed += o.missed
	t.provisionalMissed += o.provisionalMissed
	t.means += o.means
	t.missedMeans += o.missedMeans
	t.stated += o.stated
	t.statedProvisional += o.statedProvisional
	t.regret = append(t.regret, o.regret...)
	t.hindsight = append(t.hindsight, o.hindsight...)
}

func percent(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return math.Round(1e4*float64(n)/float64(of)) / 100
}

func figureOf(v []float64) Figure {
	if len(v) == 0 {
		return Figure{}
	}
	slices.Sort(v)
	return Figure{math.Round(1e4*stat.Mean(v, nil)) / 100, math.Round(1e4*stats.NearestRank(v, 0.95)) / 100}
}

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "SIMULATED: %d fleets with %d workloads in %s each, seed %d, confidence %v; the cheapest\n"+
		"arrangement was sought among all in %d fleets, elsewhere the best found stands for it.\n\n", r.Fleets, r.Workloads,
		plaintext.Count(r.Worlds, "world"), r.Seed, r.Confidence, r.Exhaustive)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tdeci-\tprovi-\tnone\twrong\tmissed\tprov.\tover\tregret %\thindsight %")
	fmt.Fprintln(t, "\tded\tsional\t\tnone\t%\tmiss %\t\tmean, P95\tmean, P95")
	line := func(name string, o *Outcome) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%.2f\t%.1f\t%d\t%s\t%s\n", name, o.Decided, o.Provisional, o.None, o.WrongNone,
			o.MissedPercent, o.ProvisionalMissedPercent, o.Overcommitted, o.Regret, o.Hindsight)
	}
	line("decision", &r.Ours)
	line("could be shown", &r.Shown)
	for _, rule := range rules {
		line(rule.label, r.Rules[rule.name])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nCounts are of workloads; over: GPUs out of memory. Provisional where the load was "+
		"stated: %.1f%%.\nOf model servers that state mean lengths alone the decision missed %.2f%%, of others %.2f%%.\n"+
		"Regret is what is paid over the cheapest arrangement that could be shown to keep the objectives\n"+
		"from the same information; hindsight knows the world.\n", r.Ours.ProvisionalStatedPercent,
		r.Ours.MissedMeansPercent, r.Ours.MissedOthersPercent)
	return err
}
