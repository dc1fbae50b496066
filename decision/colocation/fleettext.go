package colocation

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// writeFleet writes what came of a fleet for people.
func (rep *Report) writeFleet(w io.Writer) error {
	p := printer{bufio.NewWriter(w)}
	p.line("\nSIMULATED: expected beside measured, on embedded servers on simulated GPUs and on no real one (%v s a "+
		"run, seed %d)", rep.SecondsPerRun, rep.Seed)
	if !rep.Complete {
		p.line("NOT COMPLETE: %s\n", rep.Problem)
		p.alone(rep.Alone)
	}
	for i := range rep.Scenes {
		p.scene(&rep.Scenes[i], rep.Rows)
	}
	if len(rep.NotRun) > 0 {
		p.line("\nSIMULATED: not run")
	}
	for _, n := range rep.NotRun {
		what := n.Workload
		if n.Mechanism != nil {
			what = fmt.Sprintf("%s by %s", n.Scene, n.Mechanism)
		}
		p.line("  %s: %s", what, n.Reason)
	}
	if len(rep.Rows) > 0 {
		p.findings(rep)
	}
	if len(rep.Assumed) > 0 {
		p.line("\nSIMULATED: assumed, for the fleet file does not say")
	}
	for _, a := range rep.Assumed {
		p.line("  %s: %s", a.Workload, strings.Join(a.Assumed, "; "))
	}
	for _, n := range rep.Notes {
		p.line("  simulated: note: %s", n)
	}
	return p.Flush()
}

func (p printer) scene(s *scene, rows []ReportRow) {
	counts := map[string]int{}
	var names, who []string
	for _, t := range s.Tenants {
		if counts[t.Workload]++; counts[t.Workload] == 1 {
			names = append(names, t.Workload)
		}
	}
	for _, name := range names {
		who = append(who, fmt.Sprintf("%d x %s", counts[name], name))
	}
	note := ""
	if s.Note != "" {
		note = ", here " + s.Note
	}
	p.line("\nSIMULATED %s (%s): %s, who ask for %.0f%% of a GPU; recommended: %s%s", s.Name, s.GPU,
		strings.Join(who, ", "), 100*s.Busy, s.Recommended, note)
	for _, name := range names {
		p.workload(s.Name, name, rows)
	}
}

// workload is a table of what a workload met in a scene.
func (p printer) workload(scene, name string, rows []ReportRow) {
	var own []*ReportRow
	for i := range rows {
		if r := &rows[i]; r.Case == scene && r.Load == name {
			own = append(own, r)
		}
	}
	if len(own) == 0 {
		return
	}
	p.line("  %s: %s; expected beside what it got", name, requests(own))
	p.table(func(row func(...string)) {
		row("    mechanism", "decision", "TTFT P99", "got", "TPOT P99", "got", "slower", "got")
		for _, r := range own {
			expected := r.PriorSlowdown
			if s := r.PredictedSlowdown; s != nil {
				expected = &s.Value
			}
			row("    "+r.name(r.Mode.String()), r.Decided.word(),
				expectedCell(r.Predicted, r.Prior, profile.MetricTTFTP99), r.actualCell(profile.MetricTTFTP99),
				expectedCell(r.Predicted, r.Prior, profile.MetricTPOTP99), r.actualCell(profile.MetricTPOTP99),
				times(expected), times(r.Slowdown))
		}
	})
	for _, r := range own {
		if missed := r.missed(); missed != "" {
			p.line("    MISSED by %s: %s", r.Mode, missed)
		}
	}
}

// requests summarises the counts of requests, and whether there are limits.
func requests(rows []*ReportRow) string {
	least, failed := rows[0].Requests, 0
	for _, r := range rows {
		least, failed = min(least, r.Requests), failed+r.Failed
	}
	text := fmt.Sprintf("%d requests at least", least)
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	if len(rows[0].Objectives) == 0 {
		return text + ", no limits"
	}
	return text
}

// word is the decision's word on a mechanism.
func (d *decided) word() string {
	if d.Recommended {
		return "recommended"
	}
	return d.Verdict.String()
}

// actualCell marks what is outside its interval.
func (r *ReportRow) actualCell(m profile.Metric) string {
	if inside, ok := r.Inside[m]; ok && !inside {
		return number(r.Actual, m) + " !"
	}
	return number(r.Actual, m)
}

func times(v *float64) string {
	if v == nil {
		return "-"
	}
	return short(*v) + "x"
}

func (p printer) findings(rep *Report) {
	p.line("\nSIMULATED: findings (latencies in ms with 90%% intervals; ! is outside; a P99 of under 100 requests is " +
		"about their maximum)")
	for _, of := range []struct {
		name       string
		ttft, tpot profile.Metric
	}{{"P50s", profile.MetricTTFTP50, profile.MetricTPOTP50}, {"P99s", profile.MetricTTFTP99, profile.MetricTPOTP99}} {
		inside, points := 0, 0
		for _, a := range rep.Agreement {
			if a.Metric == of.ttft || a.Metric == of.tpot {
				inside, points = inside+a.Inside, points+a.Points
			}
		}
		p.line("  %d of %d TTFT and TPOT %s lie inside their intervals", inside, points, of.name)
	}
	silent := rep.Complete
	for _, f := range rep.Findings {
		word := "as decided"
		switch {
		case f.Contradicts:
			silent, word = false, "CONTRADICTS THE DECISION"
		case f.NotJudged:
			silent, word = false, "not judged"
		}
		p.line("  %s: %s by %s: %s", word, f.Workload, f.Mechanism, f.Text)
	}
	if silent {
		p.line("  nothing that was simulated contradicts the decision")
	}
}
