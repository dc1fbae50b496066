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
	first, all := webpage.Section{}, webpage.Section{Title: "Every run", Folded: true}
	first.Tables, p.Answer = verdicts(results, rows)
	if t, said := interference(results); said != "" {
		first.Tables, p.Answer = append([]webpage.Table{t}, first.Tables...), said+"\n"+p.Answer
	}
	few := 0
	for _, r := range results {
		s := &r.Summary
		for _, reason := range append(slices.Clone(s.ClientHealth.Reasons), s.Implausible()...) {
			p.Invalid = append(p.Invalid, fmt.Sprintf("INVALID: %s, %s: %s", s.Scenario, LevelOf(s).Text, reason))
		}
		if s.Stopped != "" {
			first.Notes = append(first.Notes, fmt.Sprintf("%s, %s: stopped: %s", s.Scenario, LevelOf(s).Text, s.Stopped))
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
	meaning := webpage.Section{Title: "What the figures mean", Folded: true}
	definitions := loadgen.Definitions()
	t := webpage.Table{Head: []string{"figure", "meaning"}}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		t.Rows = append(t.Rows, webpage.Row{Cells: []string{name, definitions[name]}})
	}
	meaning.Tables = append(meaning.Tables, t)
	p.Sections = []webpage.Section{first, {Title: "Charts", Charts: Figures(results)}, all, meaning}
	return p.Write(w)
}

// attainment is the share of requests that keeps an objective.
const attainment = 0.99

// nearPeak is the share of the highest throughput from which on a load saturates.
const nearPeak = 0.95

// verdicts says up to which load each scenario keeps the objectives and what goes first beyond; without objectives, at
// which load its throughput stops growing.
func verdicts(results []*loadgen.Result, rows Scenarios) ([]webpage.Table, string) {
	t := webpage.Table{Head: []string{"scenario", "saturates at", "output (tokens/s)", "end-to-end P99 (s)"}}
	slo := slices.ContainsFunc(results, func(r *loadgen.Result) bool { return r.Summary.Goodput != nil })
	if slo {
		t.Head = []string{"scenario", "keeps the objectives to", "good requests/s", "output (tokens/s)", "end-to-end P99 (s)",
			"beyond"}
	}
	var said, grows, order []string
	names := map[string]string{} // of scenarios of which the same is said
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Scenario == rows[0].Scenario {
			n++
		}
		levels, name := rows[:n], rows[0].Scenario
		rows = rows[n:]
		if !slo {
			peak := slices.MaxFunc(levels, func(a, b Scenario) int { return cmp.Compare(a.TokensPerS, b.TokensPerS) }).TokensPerS
			r := levels[slices.IndexFunc(levels, func(r Scenario) bool { return r.TokensPerS >= nearPeak*peak })]
			at, figure := r.Load, fmt.Sprintf("%s at %s (%s tokens/s)", name, r.Load, webpage.Number(r.TokensPerS))
			if r.Load == levels[n-1].Load {
				at, grows = "not by "+at, append(grows, figure)
			} else {
				said = append(said, figure)
			}
			t.Rows = append(t.Rows, webpage.Row{Cells: []string{name, at, webpage.Number(r.TokensPerS), r.p99()}, Colour: name})
			continue
		}
		kept, good, beyond, aims := -1, 0.0, "nothing higher was tried", false
		for i, r := range levels {
			share, perS, spoiler := keeps(results, r)
			if math.IsNaN(share) {
				continue
			}
			aims = true
			if share < attainment {
				beyond = fmt.Sprintf("%s goes first (%s%% kept at %s)", spoiler, webpage.Number(100*share), r.Load)
				break
			}
			kept, good = i, perS
		}
		if !aims {
			t.Rows = append(t.Rows, webpage.Row{Cells: []string{name, "no objectives", "-", "-", "-", "-"}, Colour: name})
			continue
		}
		to, row := "at no load tried", webpage.Row{Colour: name,
			Cells: []string{name, "no load tried", "-", "-", "-", beyond}}
		if kept >= 0 {
			r := &levels[kept]
			to = "to " + r.Load
			row.Cells = []string{name, r.Load, webpage.Number(good), webpage.Number(r.TokensPerS), r.p99(), beyond}
		}
		t.Rows = append(t.Rows, row)
		key := to + "; " + beyond
		if names[key] == "" {
			order = append(order, key)
			names[key] = name
		} else {
			names[key] += ", " + name
		}
	}
	for _, key := range order {
		said = append(said, names[key]+" "+key)
	}
	var answer []string
	if slo && len(said) > 0 {
		answer = append(answer, "99% of requests keep the objectives with "+strings.Join(said, "; with ")+".")
	} else if len(said) > 0 {
		answer = append(answer, "Throughput saturates with "+strings.Join(said, ", ")+".")
	}
	if len(grows) > 0 {
		answer = append(answer, "Throughput is highest at the highest load tried with "+strings.Join(grows, ", ")+".")
	}
	return []webpage.Table{t}, strings.Join(answer, " ")
}

// keeps returns the share of requests that kept their objectives in the runs of a row, how many did a second, and the
// latency that exceeds its bound most. The share is NaN where no request has objectives.
func keeps(results []*loadgen.Result, row Scenario) (share, perS float64, spoiler string) {
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
				bound := objective(&t.Measures, b.of)
				over := float64(figuresOf(&t.Measures, b.metric).P99 / bound)
				if bound > 0 && over > worst {
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
func interference(results []*loadgen.Result) (webpage.Table, string) {
	t := webpage.Table{Caption: "Together against alone (median factor, interval over repeated runs at 95%)",
		Head: []string{"tenant", "scenario", "end-to-end P50", "end-to-end P99", "TTFT P99", "output"}}
	worst, said := 0.0, ""
	var done []string
	for _, r := range results {
		s := &r.Summary
		for i := range s.Tenants {
			name, load := s.Tenants[i].Name, s.Tenants[i].Load
			key := strings.Join([]string{s.Scenario, name, load}, "\x00")
			if len(s.Tenants) < 2 || s.Scenario == exclusive || slices.Contains(done, key) {
				continue
			}
			done = append(done, key)
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
			figures := []string{"e2e_ms.p50", "e2e_ms.p99", "ttft_ms.p99", "output_tokens_per_s"}
			c, err := CompareRuns(alone, with, CompareOptions{Tenant: name, AllowInvalid: true, Figures: figures})
			if err != nil || len(alone) == 0 {
				continue
			}
			row := webpage.Row{Cells: []string{name, s.Scenario + ", " + LevelOf(s).Text}, Colour: s.Scenario}
			for _, f := range c.Figures {
				row.Cells = append(row.Cells, factorText(&f))
			}
			t.Rows = append(t.Rows, row)
			if v := c.Figures[0].Other.Median / c.Figures[0].Base.Median; v > worst && !math.IsInf(v, 1) {
				worst = v
				said = fmt.Sprintf("Together, %s suffers most: its median request takes %s of what it takes alone (%s).", name,
					row.Cells[2], row.Cells[1])
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
		caption := fmt.Sprintf("%s, %s, %s: %d requests, %d ok, %d failed", s.Scenario, s.Tenants[i].Name, s.Tenants[i].Load,
			m.Counts.Total, m.Counts.OK, m.Counts.Failed)
		if classes := FailedByClass(&m.Counts); classes != "" {
			caption += " (" + classes + ")"
		}
		caption += fmt.Sprintf("; %.1f requests/s; %.1f tokens/s (%s); %s", m.CompletedPerS, m.OutputTokensPerS, tokens(m),
			s.RunID)
		if s.ClientHealth.Stamps != "" {
			caption += "; receive times: " + s.ClientHealth.Stamps
		}
		caption += fmt.Sprintf("; steady state: %s (%s)", s.SteadyState.Verdict, s.SteadyState.Reason)
		for _, remark := range remarks(m) {
			caption += "; " + remark
		}
		t := webpage.Table{Caption: caption, Head: []string{"ms", "count", "mean", "p50", "p90", "p95", "p99", "max"}}
		for _, r := range shown(m) {
			row := webpage.Row{Cells: []string{r.Metric.String(), fmt.Sprint(r.Count)}}
			for _, v := range []loadgen.Millis{r.Mean, r.P50, r.P90, r.P95, r.P99, r.Max} {
				row.Cells = append(row.Cells, strings.Replace(fmt.Sprintf("%.2f", float64(v)), "+Inf", "∞", 1))
			}
			t.Rows = append(t.Rows, row)
		}
		tables = append(tables, t)
	}
	return tables
}
