package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
)

// finding is where the simulation and the decision agree or not on a
// workload's objectives.
type finding struct {
	Scene       string `json:"scene"`
	Workload    string `json:"workload"`
	Mechanism   string `json:"mechanism"`
	Contradicts bool   `json:"contradicts_the_decision"`
	Text        string `json:"text"`
}

// latencyCodes are the reasons that rest on a workload's objectives.
var latencyCodes = []string{gate.CodeSLOMissed.String(), gate.CodeSLOOpen.String(), gate.CodeSLOTurns.String(),
	gate.CodeTTFT.String(), gate.CodeTPOT.String(), gate.CodeE2E.String()}

// judge puts what the decision said beside each row, orders the rows by scene,
// workload and mechanism, and says where they contradict one another.
func (m *measured) judge(result *decision.Result) {
	order := map[string]int{}
	for i, s := range m.Scenes {
		order[s.Name] = i
	}
	slices.SortStableFunc(m.Rows, func(a, b measuredRow) int {
		return cmp.Or(order[a.Scene]-order[b.Scene], cmp.Compare(a.Workload, b.Workload), int(a.Mechanism)-int(b.Mechanism))
	})
	for i := range m.Rows {
		r := &m.Rows[i]
		s := &m.Scenes[order[r.Scene]]
		c := candidate(result, r.Workload, s.Pool, r.Mechanism)
		r.Verdict = c.Verdict
		if d := result.Decision(r.Workload); c.Verdict == gate.VerdictPass && d.Predicted != nil && d.Predicted.Mechanism == r.Mechanism {
			v := d.Predicted.Slowdown.Value
			r.Slowdown.Decision = &v
		}
		for _, p := range c.Parts {
			if v := p.Raw; p.Criterion == decision.CriterionLatency && r.Slowdown.Decision == nil {
				r.Slowdown.Decision = &v
			}
		}
		for _, reason := range c.Reasons {
			if reason.Code == gate.CodeSLOUnmeasured {
				r.unchecked = reason.Message
			}
			if r.Code == "" && reason.Verdict == c.Verdict && c.Verdict != gate.VerdictPass {
				r.Code, r.Reason = reason.Code.String(), reason.Message
			}
		}
		if alone := m.alone[r.Workload]; alone > 0 {
			if got, ok := r.Measured[predict.TPOTP50]; ok {
				v := got / alone
				r.Slowdown.Measured = &v
			}
		}
		m.find(r)
	}
}

func (m *measured) find(r *measuredRow) {
	if len(r.Limits) == 0 {
		return
	}
	f := finding{Scene: r.Scene, Workload: r.Workload, Mechanism: r.Mechanism.String()}
	latency := slices.Contains(latencyCodes, r.Code)
	switch kept := r.kept(); {
	case r.Recommended && kept:
		f.Text = "recommended, and its limits are kept"
	case r.Recommended:
		f.Contradicts, f.Text = true, "recommended, but a limit is missed: "+r.missed()
		if r.unchecked != "" {
			f.Text += "; it was decided unchecked: " + r.unchecked
		}
	case kept && latency && r.Verdict == gate.VerdictReject:
		f.Contradicts, f.Text = true, "rejected for its latency, but its limits are kept: "+r.Reason
	case kept && latency:
		f.Text = "open, and its limits are kept: " + r.Reason
	case kept && r.Verdict != gate.VerdictPass:
		f.Text = fmt.Sprintf("its limits are kept; the decision is against it for another reason (%s)", r.Code)
	case !kept && r.Verdict == gate.VerdictPass:
		f.Contradicts, f.Text = true, "not chosen but held possible, and a limit is missed: "+r.missed()
	default:
		return // kept and possible, or missed and rejected: as decided
	}
	m.Findings = append(m.Findings, f)
}
