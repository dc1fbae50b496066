package colocation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

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
