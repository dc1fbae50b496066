// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/loadgen"
)

// WriteHTML writes a self-contained page: the highest load at which each scenario meets the objectives or still gains
// throughput, each tenant co-located and isolated, every load, charts, every run, and the definitions of the metrics.
// Invalid runs are marked and support no verdict.
func WriteHTML(w io.Writer, results []*loadgen.Result) error {
	rows := ScenariosOf(results)
	p := webpage.Page{Title: "Load test"}
	if rows.synthetic() {
		p.Basis = syntheticNote
	}
	together, notes, slowdown := interference(results)
	kept, answer := verdicts(results, rows)
	p.Answer = slowdown + answer
	loads, remarks := rows.table()
	first := webpage.Section{Tables: []webpage.Table{kept, loads, together}, Notes: append(notes, remarks...)}
	all := webpage.Section{Title: "Every run", Folded: true}
	for _, r := range results {
		s, name := &r.Summary, r.Summary.Scenario+", "+levelOf(&r.Summary).Text
		for _, reason := range append(slices.Clone(s.ClientHealth.Reasons), s.Implausible()...) {
			p.Invalid = append(p.Invalid, "INVALID: "+name+": "+reason)
		}
		if s.Stopped != "" {
			first.Notes = append(first.Notes, name+": stopped: "+s.Stopped)
		}
		all.Tables = append(all.Tables, runTables(s)...)
	}
	meaning, definitions := webpage.Table{Head: []string{"figure", "meaning"}}, loadgen.Definitions()
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		meaning.Add(name, definitions[name])
	}
	p.Sections = []webpage.Section{first, {Title: "Charts", Charts: charts(results)}, all,
		{Title: "What the figures mean", Folded: true, Tables: []webpage.Table{meaning}}}
	return p.Write(w)
}

// attainment is the share of requests that keeps an objective.
const attainment = 0.99

// nearPeak is the share of the highest throughput from which on a load saturates.
const nearPeak = 0.95

// verdicts lists the highest load at which each scenario meets the objectives, and the first objective missed beyond;
// without objectives, the load at which its throughput stops growing. Loads with only invalid runs have no part in it.
func verdicts(results []*loadgen.Result, rows Scenarios) (t webpage.Table, answer string) {
	slo := slices.ContainsFunc(rows, func(r Scenario) bool { return r.Thresholds != "" })
	t.Head = []string{"scenario", "keeps the objectives to", "good requests/s", "output (tokens/s)", "e2e P99", "beyond"}
	if !slo {
		t.Head = []string{"scenario", "saturates at", "output (tokens/s)", "e2e P99"}
	}
	var texts, grows []string
	alike := map[string]string{} // names of scenarios with the same text
	for len(rows) > 0 {
		n, name := len(rows), rows[0].Scenario
		if i := slices.IndexFunc(rows, func(r Scenario) bool { return r.Scenario != name }); i > 0 {
			n = i
		}
		levels := slices.DeleteFunc(slices.Clone(rows[:n]), func(r Scenario) bool { return r.Invalid == r.Runs })
		rows = rows[n:]
		if len(levels) == 0 {
			t.Add(append([]any{name, "no verdict: every run is INVALID"}, slices.Repeat([]any{"-"}, len(t.Head)-2)...)...)
			continue
		}
		if !slo {
			peak := slices.MaxFunc(levels, func(a, b Scenario) int { return cmp.Compare(a.TokensPerS, b.TokensPerS) }).TokensPerS
			r := levels[slices.IndexFunc(levels, func(r Scenario) bool { return r.TokensPerS >= nearPeak*peak })]
			at, into := r.Load, &texts
			if r.Load == levels[len(levels)-1].Load {
				at, into = "not by "+at, &grows
			}
			*into = append(*into, fmt.Sprintf("%s at %s (%s tokens/s)", name, r.Load, webpage.Number(r.TokensPerS)))
			t.Add(name, at, r.TokensPerS, figure(r.E2EP99S, " s"))
			continue
		}
		what, cells := kept(results, levels)
		if t.Add(append([]any{name}, cells...)...); what == "" {
			continue
		}
		if alike[what] == "" {
			texts, alike[what] = append(texts, what), name
		} else {
			alike[what] += ", " + name
		}
	}
	if slo && len(texts) > 0 {
		for i, what := range texts {
			texts[i] = alike[what] + " " + what
		}
		return t, "99% of requests keep the objectives with " + strings.Join(texts, "; with ") + "."
	}
	if len(texts) > 0 {
		answer = "Throughput saturates with " + strings.Join(texts, ", ") + ". "
	}
	if len(grows) > 0 {
		answer += "Throughput is highest at the highest load tried with " + strings.Join(grows, ", ") + "."
	}
	return t, cmp.Or(answer, "No verdict: every run is INVALID.")
}

// kept returns the highest of a scenario's loads that meets the objectives, with the cells of its row; the first
// result is "" where there are no objectives.
func kept(results []*loadgen.Result, levels []Scenario) (what string, cells []any) {
	to, beyond := "at no load tried", ""
	cells = []any{"no load tried", "-", "-", "-"}
	for i := range levels {
		r := &levels[i]
		share, ok := r.GoodFraction.Get()
		if !ok {
			continue
		}
		if beyond = "nothing higher was tried"; share < attainment {
			beyond = fmt.Sprintf("%s goes first (%s%% kept at %s)", worstOf(results, r), webpage.Number(100*share), r.Load)
			break
		}
		to, cells = "to "+r.Load, []any{r.Load, r.GoodPerS.Or(0), r.TokensPerS, figure(r.E2EP99S, " s")}
	}
	if beyond == "" {
		return "", []any{"no objectives", "-", "-", "-", "-"}
	}
	return to + " (" + beyond + ")", append(cells, beyond)
}

// worstOf names the latency that exceeds its bound most in the valid runs of a row.
func worstOf(results []*loadgen.Result, row *Scenario) string {
	worst, name := 1.0, "failures"
	for _, r := range results {
		s := &r.Summary
		if s.Scenario != row.Scenario || levelOf(s).Text != row.Load || invalid(s) {
			continue
		}
		for i := range s.Tenants {
			t := &s.Tenants[i]
			for _, b := range bounds {
				limit := b.limit(&t.Measures)
				if over := float64(b.figures(&t.Measures).P99 / limit); limit > 0 && over > worst {
					if worst, name = over, b.name; len(s.Tenants) > 1 {
						name = t.Name + "'s " + b.name
					}
				}
			}
		}
	}
	return name
}

// runTables are a run's counts and the distributions of each tenant.
func runTables(s *loadgen.Summary) (tables []webpage.Table) {
	for i := range s.Tenants {
		m := &s.Tenants[i].Measures
		caption := []string{fmt.Sprintf("%s, %s, %s: %d requests, %d ok, %d failed", s.Scenario, s.Tenants[i].Name,
			s.Tenants[i].Load, m.Counts.Total, m.Counts.OK, m.Counts.Failed), FailedByClass(&m.Counts),
			fmt.Sprintf("%.1f requests/s", m.CompletedPerS), fmt.Sprintf("%.1f tokens/s (%s)", m.OutputTokensPerS, tokens(m)),
			s.RunID, strings.TrimSuffix("receive times: "+s.ClientHealth.Stamps, "receive times: ")}
		caption = slices.DeleteFunc(append(caption, remarks(m)...), func(text string) bool { return text == "" })
		t := webpage.Table{Caption: strings.Join(caption, "; "),
			Head: []string{"ms", "count", "mean", "p50", "p90", "p95", "p99", "max"}}
		for _, r := range shown(m) {
			cells := []any{r.Metric, r.Count}
			for _, v := range []loadgen.Millis{r.Mean, r.P50, r.P90, r.P95, r.P99, r.Max} {
				cells = append(cells, float64(v))
			}
			t.Add(cells...)
		}
		tables = append(tables, t)
	}
	return tables
}
