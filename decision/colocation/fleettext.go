package colocation

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
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

// decided holds the decision's view of a mechanism for a workload.
type decided struct {
	Recommended bool         `json:"recommended"`
	Verdict     gate.Verdict `json:"verdict"`
	Code        string       `json:"code,omitempty"` // of the deciding reason
	Reason      string       `json:"reason,omitempty"`
	Slowdown    *float64     `json:"slowdown_factor,omitempty"`

	unchecked string // why it could not check the limits
	tenants   int    // on a GPU, as many as it takes of the workload
	assumes   string // what the answer rests on, "" = on nothing that may turn out otherwise
}

// finding compares the simulation with the decision on a workload's objectives.
type finding struct {
	Scene       string            `json:"scene"`
	Workload    string            `json:"workload"`
	Mechanism   sharing.Mechanism `json:"mechanism"`
	Contradicts bool              `json:"contradicts_the_decision"`
	NotJudged   bool              `json:"not_judged,omitempty"` // the client shaped the figures
	Text        string            `json:"text"`
}

// latencyCodes are the reasons that rest on a workload's objectives.
var latencyCodes = []string{gate.CodeSLOMissed.String(), gate.CodeSLOOpen.String(), gate.CodeSLOTurns.String(),
	gate.CodeTTFT.String(), gate.CodeTPOT.String(), gate.CodeE2E.String(), gate.CodeFloor.String()}

// judge puts what the decision said beside each row, orders the rows by scene,
// workload and mechanism, and finds contradictions.
func (f *fleetFlow) judge() {
	order := map[string]int{}
	for i, s := range f.scenes {
		order[s.Name] = i
	}
	slices.SortStableFunc(f.rep.Rows, func(a, b ReportRow) int {
		return cmp.Or(order[a.Case]-order[b.Case], cmp.Compare(a.Load, b.Load), int(a.Mode)-int(b.Mode))
	})
	for i := range f.rep.Rows {
		r := &f.rep.Rows[i]
		s := &f.scenes[order[r.Case]]
		r.Decided = decidedOf(f.result.Decision(r.Load), candidate(f.result, r.Load, s.Pool, r.Mode))
		r.Decided.Recommended = r.Mode == s.Recommended
		text, contradicts := r.finding()
		if text == "" || r.Cut {
			continue
		}
		found := finding{Scene: r.Case, Workload: r.Load, Mechanism: r.Mode, Contradicts: contradicts, Text: text}
		if contradicts && f.shaped[r.Mode.String()] {
			found.Contradicts, found.NotJudged = false, true
			found.Text += "; but the client shaped the figures: run it again when this machine does nothing else"
		}
		f.rep.Findings = append(f.rep.Findings, found)
	}
}

func decidedOf(d *decision.Decision, c decision.Candidate) *decided {
	out := &decided{Verdict: c.Verdict, tenants: c.Tenants}
	if d.Status == decision.StatusProvisional {
		out.assumes = "its interval lies on both sides of a limit"
		if len(d.Assumes) > 0 {
			out.assumes = "it assumes that " + d.Assumes[0].What
		}
	}
	for _, p := range c.Parts {
		if p.Criterion == decision.CriterionLatency {
			out.Slowdown = &p.Raw
		}
	}
	if c.Verdict == gate.VerdictPass && d.Predicted != nil && d.Predicted.Mechanism == c.Mechanism {
		out.Slowdown = &d.Predicted.Slowdown.Value
	}
	for _, reason := range c.Reasons {
		if reason.Code == gate.CodeSLOUnmeasured {
			out.unchecked = reason.Message
		}
		if out.Code == "" && reason.Verdict == c.Verdict && c.Verdict != gate.VerdictPass {
			out.Code, out.Reason = reason.Code.String(), reason.Message
		}
	}
	return out
}

// finding returns the row's evidence on the decision, "" if there is none.
func (r *ReportRow) finding() (text string, contradicts bool) {
	if len(r.Objectives) == 0 {
		return "", false
	}
	d, missed := r.Decided, r.missed()
	kept, latency := missed == "", slices.Contains(latencyCodes, d.Code)
	switch {
	case d.Recommended && kept:
		return "recommended, and its limits are kept", false
	case d.assumes != "" && (d.Recommended || d.Verdict == gate.VerdictPass):
		return fmt.Sprintf("a limit is missed: %s; the answer is provisional: %s", missed, d.assumes), false
	case d.Recommended:
		text = "recommended, but a limit is missed: " + missed
		if d.unchecked != "" {
			text += "; it was decided unchecked: " + d.unchecked
		}
		return text, true
	case kept && latency && d.Verdict == gate.VerdictReject:
		return "rejected for its latency, but its limits are kept: " + d.Reason, true
	case kept && latency:
		return "open, and its limits are kept: " + d.Reason, false
	case kept && d.Verdict != gate.VerdictPass:
		return fmt.Sprintf("its limits are kept; the decision is against it for another reason (%s)", d.Code), false
	case !kept && d.Verdict == gate.VerdictPass && r.Mode != sharing.MechanismExclusive && r.Tenants > d.tenants:
		return fmt.Sprintf("a limit is missed with %d on a GPU, and it takes %d: %s", r.Tenants, d.tenants, missed), false
	case !kept && d.Verdict == gate.VerdictPass:
		return "not chosen but held possible, and a limit is missed: " + missed, true
	}
	return "", false // kept and possible, or missed and rejected: as decided
}

// missed lists the limits that were not kept.
func (r *ReportRow) missed() string {
	names := map[profile.Metric]string{profile.MetricTTFTP99: "TTFT P99", profile.MetricTPOTP99: "TPOT P99",
		profile.MetricE2EP99: "E2E P99"}
	var out []string
	for _, o := range r.Objectives {
		switch {
		case o.Kept:
		case o.ActualMS == nil:
			out = append(out, names[o.Metric]+": no answer ended")
		case *o.ActualMS > o.LimitMS:
			out = append(out, fmt.Sprintf("%s %s > %s", names[o.Metric], short(*o.ActualMS), short(o.LimitMS)))
		default:
			out = append(out, fmt.Sprintf("%d requests failed", r.Failed))
		}
	}
	return strings.Join(slices.Compact(out), ", ")
}
