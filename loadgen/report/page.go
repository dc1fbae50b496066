package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/loadgen"
)

// WriteHTML writes a page that needs no other file: up to which load each scenario keeps the objectives or still gains
// throughput, each tenant together against alone, the charts of Figures, every run, and what the metrics mean.
func WriteHTML(w io.Writer, results []*loadgen.Result) error {
	rows := ScenariosOf(results)
	p := webpage.Page{Title: "Load test"}
	if rows.synthetic() {
		p.Basis = SyntheticNote
	}
	together, said := interference(results)
	kept, answer := verdicts(results, rows)
	p.Answer = said + answer
	first := webpage.Section{Tables: []webpage.Table{together, kept}}
	all := webpage.Section{Title: "Every run", Folded: true}
	few := 0
	for _, r := range results {
		s, name := &r.Summary, r.Summary.Scenario+", "+LevelOf(&r.Summary).Text
		for _, reason := range append(slices.Clone(s.ClientHealth.Reasons), s.Implausible()...) {
			p.Invalid = append(p.Invalid, "INVALID: "+name+": "+reason)
		}
		if s.Stopped != "" {
			first.Notes = append(first.Notes, name+": stopped: "+s.Stopped)
		}
		if s.E2E.Count < 100 {
			few++
		}
		all.Tables = append(all.Tables, runTables(s)...)
	}
	if few > 0 {
		first.Notes = append(first.Notes, fmt.Sprintf("In %d of %d runs fewer than 100 requests succeeded, so that P99 is "+
			"their maximum: make more requests, or longer runs.", few, len(results)))
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

// verdicts says up to which load each scenario keeps the objectives and what goes first beyond; without objectives, at
// which load its throughput stops growing.
func verdicts(results []*loadgen.Result, rows Scenarios) (t webpage.Table, answer string) {
	slo := slices.ContainsFunc(results, func(r *loadgen.Result) bool { return r.Summary.Goodput != nil })
	t.Head = []string{"scenario", "keeps the objectives to", "good requests/s", "output (tokens/s)", "end-to-end P99 (s)",
		"beyond"}
	if !slo {
		t.Head = []string{"scenario", "saturates at", "output (tokens/s)", "end-to-end P99 (s)"}
	}
	var said, grows []string
	alike := map[string]string{} // names of scenarios of which the same is said
	for len(rows) > 0 {
		n, name := len(rows), rows[0].Scenario
		if i := slices.IndexFunc(rows, func(r Scenario) bool { return r.Scenario != name }); i > 0 {
			n = i
		}
		levels := rows[:n]
		rows = rows[n:]
		if !slo {
			peak := slices.MaxFunc(levels, func(a, b Scenario) int { return cmp.Compare(a.TokensPerS, b.TokensPerS) }).TokensPerS
			r := levels[slices.IndexFunc(levels, func(r Scenario) bool { return r.TokensPerS >= nearPeak*peak })]
			at, into := r.Load, &said
			if r.Load == levels[n-1].Load {
				at, into = "not by "+at, &grows
			}
			*into = append(*into, fmt.Sprintf("%s at %s (%s tokens/s)", name, r.Load, webpage.Number(r.TokensPerS)))
			t.Add(name, at, r.TokensPerS, r.p99())
			continue
		}
		to, beyond, cells := "at no load tried", "", []any{name, "no load tried", "-", "-", "-"}
		for i := range levels {
			r := &levels[i]
			share, good, spoiler := keeps(results, r)
			if math.IsNaN(share) {
				continue
			}
			if beyond = "nothing higher was tried"; share < attainment {
				beyond = fmt.Sprintf("%s goes first (%s%% kept at %s)", spoiler, webpage.Number(100*share), r.Load)
				break
			}
			to, cells = "to "+r.Load, []any{name, r.Load, good, r.TokensPerS, r.p99()}
		}
		if beyond == "" {
			t.Add(name, "no objectives", "-", "-", "-", "-")
			continue
		}
		t.Add(append(cells, beyond)...)
		if what := to + " (" + beyond + ")"; alike[what] == "" {
			said, alike[what] = append(said, what), name
		} else {
			alike[what] += ", " + name
		}
	}
	if slo && len(said) > 0 {
		for i, what := range said {
			said[i] = alike[what] + " " + what
		}
		return t, "99% of requests keep the objectives with " + strings.Join(said, "; with ") + "."
	}
	if len(said) > 0 {
		answer = "Throughput saturates with " + strings.Join(said, ", ") + ". "
	}
	if len(grows) > 0 {
		answer += "Throughput is highest at the highest load tried with " + strings.Join(grows, ", ") + "."
	}
	return t, answer
}

// keeps returns the share of requests that kept their objectives in the runs of a row, how many did a second, and the
// latency that exceeds its bound most. The share is NaN where no request has objectives.
func keeps(results []*loadgen.Result, row *Scenario) (share, perS float64, spoiler string) {
	met, of, runs, worst := 0.0, 0.0, 0.0, 0.0
	for _, r := range results {
		s := &r.Summary
		if s.Scenario != row.Scenario || LevelOf(s).Text != row.Load || s.Goodput == nil {
			continue
		}
		met, of, runs, perS = met+float64(s.Goodput.Met), of+float64(s.Goodput.Of), runs+1, perS+s.Goodput.PerS.Or(0)
		for i := range s.Tenants {
			t := &s.Tenants[i]
			for _, b := range bounds {
				limit := b.limit(&t.Measures)
				if over := float64(b.figures(&t.Measures).P99 / limit); limit > 0 && over > worst {
					if worst, spoiler = over, b.name; len(s.Tenants) > 1 {
						spoiler = t.Name + "'s " + b.name
					}
				}
			}
		}
	}
	if of == 0 {
		return math.NaN(), 0, ""
	}
	return met / of, perS / runs, cmp.Or(spoiler, "failures")
}

// exclusive is the scenario of tenants that have GPUs of their own.
const exclusive = "exclusive"

// interference compares each tenant together with others to itself alone: in a run of its own, or with a GPU of its
// own under the same load.
func interference(results []*loadgen.Result) (t webpage.Table, said string) {
	t.Caption = "Together against alone (median factor, interval over repeated runs at 95%)"
	t.Head = []string{"tenant", "scenario", "load", "end-to-end P50", "end-to-end P99", "TTFT P99", "output"}
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
			var with, alone []loadgen.Summary
			for _, o := range results {
				other, ok := o.Summary.Tenant(name)
				switch {
				case !ok || other.Load != load:
				case o.Summary.Scenario == s.Scenario:
					with = append(with, o.Summary)
				case len(o.Summary.Tenants) == 1 || o.Summary.Scenario == exclusive:
					alone = append(alone, o.Summary)
				}
			}
			c, err := CompareRuns(alone, with, CompareOptions{Tenant: name, AllowInvalid: true,
				Figures: []string{"e2e_ms.p50", "e2e_ms.p99", "ttft_ms.p99", "output_tokens_per_s"}})
			if err != nil || len(alone) == 0 {
				continue
			}
			cells := []any{name, s.Scenario, LevelOf(s).Text}
			for k := range c.Figures {
				cells = append(cells, factorText(&c.Figures[k]))
			}
			t.Add(cells...)
			if v := c.Figures[0].Other.Median / c.Figures[0].Base.Median; v > worst && !math.IsInf(v, 1) {
				worst = v
				said = fmt.Sprintf("Together, %s suffers most: its median request takes %s of what it takes alone (%s, %s).\n",
					name, cells[3], s.Scenario, cells[2])
			}
		}
	}
	return t, said
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
	if f.Base.N < 2 {
		text += " (one run)"
	}
	return text
}

// runTables are a run's counts and the distributions of each tenant.
func runTables(s *loadgen.Summary) (tables []webpage.Table) {
	for i := range s.Tenants {
		m := &s.Tenants[i].Measures
		caption := []string{fmt.Sprintf("%s, %s, %s: %d requests, %d ok, %d failed", s.Scenario, s.Tenants[i].Name,
			s.Tenants[i].Load, m.Counts.Total, m.Counts.OK, m.Counts.Failed), FailedByClass(&m.Counts),
			fmt.Sprintf("%.1f requests/s", m.CompletedPerS), fmt.Sprintf("%.1f tokens/s (%s)", m.OutputTokensPerS, tokens(m)),
			s.RunID, strings.TrimSuffix("receive times: "+s.ClientHealth.Stamps, "receive times: "),
			fmt.Sprintf("steady state: %s (%s)", s.SteadyState.Verdict, s.SteadyState.Reason)}
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
