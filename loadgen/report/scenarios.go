// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/loadgen"
)

// Scenario is the runs of a scenario under one load. Figures are medians over the valid runs, or over all runs if none
// is valid. Goodput is missing if no run is valid or without thresholds.
type Scenario struct {
	Scenario     string                    `json:"scenario"`
	Load         string                    `json:"load"` // e.g. "8 users" or "15 requests/s"
	Level        float64                   `json:"level,omitempty"`
	Unit         string                    `json:"unit"` // of Level: "users" or "requests/s"
	Runs         int                       `json:"runs"`
	TokensPerS   float64                   `json:"output_tokens_per_s"`
	TTFTP99MS    loadgen.Optional[float64] `json:"ttft_p99_ms,omitzero"`
	TPOTP99MS    loadgen.Optional[float64] `json:"tpot_p99_ms,omitzero"`
	E2EP99S      loadgen.Optional[float64] `json:"e2e_p99_s,omitzero"`
	Thresholds   string                    `json:"thresholds,omitempty"` // e.g. "TTFT 500 ms"; by tenant if several
	GoodPerS     loadgen.Optional[float64] `json:"goodput_requests_per_s,omitzero"`
	GoodFraction loadgen.Optional[float64] `json:"goodput_fraction,omitzero"`
	OK           int64                     `json:"ok"`
	Failed       int64                     `json:"failed"`
	Simulated    bool                      `json:"simulated"`
	Invalid      int                       `json:"invalid_runs"`
	CutOff       int                       `json:"cut_off_runs,omitempty"`   // ended early
	P99IsMax     bool                      `json:"p99_is_maximum,omitempty"` // fewer than 100 requests in a run
}

// Scenarios is the table of an LLM-serving study: throughput, latencies and goodput by scenario and load.
type Scenarios []Scenario

// ScenariosOf makes the table of runs: scenarios in order of appearance, loads in ascending order.
func ScenariosOf(results []*loadgen.Result) Scenarios {
	groups := map[Scenario][]*loadgen.Summary{}
	var keys []Scenario
	first := map[string]int{}
	for _, r := range results {
		s := &r.Summary
		l := levelOf(s)
		k := Scenario{Scenario: s.Scenario, Level: l.Value, Unit: l.Unit, Load: l.Text, Simulated: synthetic(s),
			Thresholds: thresholds(s)}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		if _, seen := first[s.Scenario]; !seen {
			first[s.Scenario] = len(keys)
		}
		groups[k] = append(groups[k], s)
	}
	var rows Scenarios
	for _, k := range keys {
		k.summarize(groups[k])
		rows = append(rows, k)
	}
	slices.SortStableFunc(rows, func(a, b Scenario) int {
		return cmp.Or(cmp.Compare(first[a.Scenario], first[b.Scenario]), cmp.Compare(a.Unit, b.Unit),
			cmp.Compare(a.Level, b.Level))
	})
	return rows
}

// invalid reports whether a run's figures say nothing of the server.
func invalid(s *loadgen.Summary) bool { return !s.ClientHealth.Valid || len(s.Implausible()) > 0 }

// summarize fills the row in from its runs.
func (r *Scenario) summarize(runs []*loadgen.Summary) {
	valid := slices.DeleteFunc(slices.Clone(runs), invalid)
	r.Runs, r.Invalid = len(runs), len(runs)-len(valid)
	for _, s := range runs {
		r.OK += s.Counts.OK
		r.Failed += s.Counts.Failed
		if !s.Complete {
			r.CutOff++
		}
	}
	if len(valid) > 0 {
		runs = valid
		goodput := func(of func(*loadgen.Goodput) loadgen.Optional[float64]) loadgen.Optional[float64] {
			return median(runs, func(s *loadgen.Summary) loadgen.Optional[float64] {
				if s.Goodput == nil {
					return loadgen.Optional[float64]{}
				}
				return of(s.Goodput)
			})
		}
		r.GoodPerS = goodput(func(g *loadgen.Goodput) loadgen.Optional[float64] { return g.PerS })
		r.GoodFraction = goodput(func(g *loadgen.Goodput) loadgen.Optional[float64] { return g.Fraction })
	}
	p99 := func(f func(*loadgen.Summary) *loadgen.Figures, scale float64) loadgen.Optional[float64] {
		return median(runs, func(s *loadgen.Summary) loadgen.Optional[float64] {
			if f(s).Count == 0 {
				return loadgen.Optional[float64]{}
			}
			return optional.Of(float64(f(s).P99) * scale)
		})
	}
	r.TTFTP99MS = p99(func(s *loadgen.Summary) *loadgen.Figures { return &s.TTFT }, 1)
	r.TPOTP99MS = p99(func(s *loadgen.Summary) *loadgen.Figures { return &s.TPOT }, 1)
	r.E2EP99S = p99(func(s *loadgen.Summary) *loadgen.Figures { return &s.E2E }, 1e-3)
	tokens := func(s *loadgen.Summary) loadgen.Optional[float64] { return optional.Of(s.OutputTokensPerS) }
	r.TokensPerS = median(runs, tokens).Or(0)
	for _, s := range runs {
		r.P99IsMax = r.P99IsMax || s.E2E.Count > 0 && s.E2E.Count < 100
	}
}

// median returns that of the runs that have the figure.
func median(runs []*loadgen.Summary, of func(*loadgen.Summary) loadgen.Optional[float64]) loadgen.Optional[float64] {
	var all []float64
	for _, s := range runs {
		if v, ok := of(s).Get(); ok {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return loadgen.Optional[float64]{}
	}
	slices.Sort(all)
	return optional.Of(medianOf(all))
}

// thresholds lists the latencies that each tenant's requests must keep.
func thresholds(s *loadgen.Summary) string {
	var all []string
	for i := range s.Tenants {
		t := &s.Tenants[i]
		var own []string
		for _, b := range bounds {
			if limit := b.limit(&t.Measures); limit > 0 {
				own = append(own, fmt.Sprintf("%s %v ms", b.name, float64(limit)))
			}
		}
		if text := strings.Join(own, ", "); text != "" && len(s.Tenants) > 1 {
			all = append(all, t.Name+": "+text)
		} else if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// remarks returns the reservations that belong to the row's figures.
func (r *Scenario) remarks() (m []string) {
	if r.Simulated {
		m = append(m, syntheticNote)
	}
	if r.Invalid > 0 {
		m = append(m, fmt.Sprintf("%d of %d INVALID", r.Invalid, r.Runs))
	}
	if r.CutOff > 0 {
		m = append(m, fmt.Sprintf("%d of %d cut off", r.CutOff, r.Runs))
	}
	if all := r.OK + r.Failed; r.Failed > 0 {
		m = append(m, fmt.Sprintf("%.3g%% failed", 100*float64(r.Failed)/float64(all)))
	}
	if r.P99IsMax {
		m = append(m, "P99 is the maximum of fewer than 100 requests")
	}
	return m
}

func (rows Scenarios) synthetic() bool {
	return slices.ContainsFunc(rows, func(r Scenario) bool { return r.Simulated })
}

// table is the same in text and on the page, with the reservations that belong to its rows.
func (rows Scenarios) table() (t webpage.Table, notes []string) {
	t.Head = []string{"scenario", "load", "tokens/s", "TTFT P99", "TPOT P99", "e2e P99", "goodput", "ok", "failed", "runs"}
	by := map[string][]string{}
	for i := range rows {
		r := &rows[i]
		good := "-"
		if share, ok := r.GoodFraction.Get(); ok {
			good = fmt.Sprintf("%s/s, %s%%", webpage.Number(r.GoodPerS.Or(0)), webpage.Number(100*share))
		}
		t.Add(r.Scenario, r.Load, r.TokensPerS, figure(r.TTFTP99MS, " ms"), figure(r.TPOTP99MS, " ms"),
			figure(r.E2EP99S, " s"), good, r.OK, r.Failed, r.Runs)
		for _, remark := range r.remarks() {
			by[remark] = append(by[remark], r.Scenario+" "+r.Load)
		}
	}
	for _, remark := range slices.Sorted(maps.Keys(by)) {
		if len(by[remark]) == len(rows) && remark == syntheticNote {
			notes = slices.Insert(notes, 0, remark)
		} else if len(by[remark]) == len(rows) {
			notes = append(notes, remark)
		} else {
			notes = append(notes, remark+": "+plaintext.Some(by[remark], 5, len(by[remark])))
		}
	}
	return t, append(notes, rows.thresholdNote())
}

// figure writes a figure that may be missing.
func figure(v loadgen.Optional[float64], unit string) string {
	if x, ok := v.Get(); ok {
		return webpage.Number(x) + unit
	}
	return "-"
}

// thresholdNote gives the thresholds of goodput, in the table of all rows.
func (rows Scenarios) thresholdNote() string {
	by := distinct(rows, func(r *Scenario) []string { return []string{r.Thresholds} })
	if len(by) == 1 && by[0] == "" {
		return "Thresholds: none given, so there is no goodput (add -slo-ttft, -slo-tpot or -slo-e2e)."
	}
	if len(by) > 1 {
		by = distinct(rows, func(r *Scenario) []string {
			return []string{r.Scenario + ": " + cmp.Or(r.Thresholds, "none given")}
		})
	}
	return "Thresholds: " + strings.Join(by, "; ") + "; goodput counts the requests that meet them."
}

// WriteText writes the table as text.
func (rows Scenarios) WriteText(w io.Writer) error {
	b := bufio.NewWriter(plaintext.NewWriter(w))
	t, notes := rows.table()
	if notes[0] == syntheticNote { // so are all
		fmt.Fprintln(b, notes[0])
		notes = notes[1:]
	}
	err := writeTable(b, t)
	for _, note := range notes {
		fmt.Fprintln(b, plaintext.Wrap(note, textWidth, 2))
	}
	return errors.Join(err, b.Flush())
}

// textWidth is the width of notes in text, in columns.
const textWidth = 100

// writeTable writes a page's table as text.
func writeTable(w io.Writer, t webpage.Table) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// WriteIndex writes a line for each run: time, folder, load, and whether its figures are valid.
func WriteIndex(w io.Writer, results []*loadgen.Result) error {
	t := webpage.Table{Head: []string{"started (UTC)", "folder", "scenario", "load", "ok", "failed", "run"}}
	for _, r := range results {
		s, verdict := &r.Summary, "valid"
		if invalid(s) {
			verdict = "INVALID: " + strings.Join(append(s.Implausible(), s.ClientHealth.Reasons...), "; ")
		} else if !s.Complete {
			verdict = strings.TrimSuffix("cut off: "+s.Stopped, ": ")
		}
		t.Add(time.Unix(0, s.Window.FromNS).UTC().Format(time.DateTime), r.Dir, s.Scenario, levelOf(s).Text, s.Counts.OK,
			s.Counts.Failed, verdict)
	}
	return writeTable(plaintext.NewWriter(w), t)
}

// exclusive is the scenario of tenants that have GPUs of their own.
const exclusive = "exclusive"

// WriteInterference compares each co-located tenant with itself in isolation: in a separate run, or on its own GPU
// under the same load. It writes nothing if no tenant ran both ways.
func WriteInterference(w io.Writer, results []*loadgen.Result) error {
	t, notes, _ := interference(results)
	if len(t.Rows) == 0 {
		return nil
	}
	b := bufio.NewWriter(plaintext.NewWriter(w))
	fmt.Fprintln(b, t.Caption)
	err := writeTable(b, t)
	for _, note := range notes {
		fmt.Fprintln(b, plaintext.Wrap("note: "+note, textWidth, 2))
	}
	return errors.Join(err, b.Flush())
}

// interference compares each tenant together with others to itself in isolation. Runs that are invalid take no part,
// and where the shares of failed requests differ there are no factors: they would be of those that did not fail.
func interference(results []*loadgen.Result) (t webpage.Table, notes []string, answer string) {
	t.Caption = "Co-located relative to isolated (ratio of medians; with a 95% interval for repeated runs)"
	t.Head = []string{"tenant", "scenario", "load", "TTFT P99", "TPOT P50", "TPOT P99", "e2e P50", "e2e P99", "output"}
	worst, done := 0.0, map[[3]string]bool{}
	for _, r := range results {
		s := &r.Summary
		for i := range s.Tenants {
			name, load := s.Tenants[i].Name, s.Tenants[i].Load
			key := [3]string{s.Scenario, name, load}
			if len(s.Tenants) < 2 || s.Scenario == exclusive || done[key] {
				continue
			}
			done[key] = true
			with, isolated, spoiled := sidesOf(results, s.Scenario, name, load)
			if len(with)+len(isolated)+spoiled == 0 || len(isolated) == 0 && spoiled == 0 {
				continue
			}
			row := []any{name, s.Scenario, levelOf(s).Text}
			c, err := CompareRuns(isolated, with, CompareOptions{Tenant: name, AllowInvalid: true, Figures: []string{
				"ttft_ms.p99", "tpot_ms.p50", "tpot_ms.p99", "e2e_ms.p50", "e2e_ms.p99", "output_tokens_per_s"}})
			withheld := fmt.Sprintf("%d runs are INVALID", spoiled)
			if err == nil {
				withheld = c.Withheld
			}
			if withheld != "" {
				t.Add(append(row, "-", "-", "-", "-", "-", "-")...)
				notes = append(notes, fmt.Sprintf("%s, %s: no factors: %s", name, s.Scenario, withheld))
				continue
			}
			for k := range c.Figures {
				row = append(row, factorText(&c.Figures[k]))
			}
			t.Add(row...)
			if v := c.Figures[3].Other.Median / c.Figures[3].Base.Median; v > worst && !math.IsInf(v, 1) {
				worst = v
				answer = fmt.Sprintf("%s slows down most: its median request takes %s as long as when isolated (%s, %s).\n",
					name, row[6], s.Scenario, row[2])
			}
		}
	}
	return t, notes, answer
}

// sidesOf returns a tenant's valid runs of a scenario and those by itself, under one load, and counts the invalid ones.
func sidesOf(results []*loadgen.Result, scenario, name, load string) (with, isolated []loadgen.Summary, spoiled int) {
	for _, o := range results {
		other, ok := o.Summary.Tenant(name)
		together := o.Summary.Scenario == scenario && len(o.Summary.Tenants) > 1
		switch {
		case !ok || other.Load != load || !together && len(o.Summary.Tenants) > 1 && o.Summary.Scenario != exclusive:
		case invalid(&o.Summary):
			spoiled++
		case together:
			with = append(with, o.Summary)
		default:
			isolated = append(isolated, o.Summary)
		}
	}
	return with, isolated, spoiled
}

// factorText is the factor between the medians of two groups of runs, with the interval of their difference.
func factorText(f *FigureComparison) string {
	if f.Base.Median == 0 || f.Other.N == 0 {
		return "-"
	}
	text := webpage.Number(f.Other.Median/f.Base.Median) + "×"
	if ci := f.ShiftCI; ci != nil {
		low, high := webpage.Number(1+ci.Low/f.Base.Median), webpage.Number(1+ci.High/f.Base.Median)
		return fmt.Sprintf("%s (%s to %s)", text, low, high)
	}
	return text
}
