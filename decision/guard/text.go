package guard

import (
	"fmt"
	"strings"
	"time"
)

// String describes the day for people: what the guard took back, missed and did, and
// the first proposal of each action.
func (rep *DayReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Simulated: %d GPUs, %d tenants, %v (seed %d). Nothing here is measured.\n\n"+
		"idle GPUs taken back   %8.1f GPU-hours: %.0f%% of the %.1f of an oracle that knows the future,\n"+
		"                                 %.0f%% of the %.1f that the policy allows\n"+
		"objectives missed      %8d tenant-minutes, %d when left alone\n"+
		"disturbers named       %8d of %d that pushed somebody beyond an objective; %d wrongly\n"+
		"acts on bad readings   %8d in %.0f GPU-hours of stale or contradictory ones\n\n"+
		"%-8s %9s %6s\n", rep.GPUs, rep.Tenants, rep.Watched, rep.Seed,
		rep.ReapedGPUHours, rep.ReapedPercent, rep.IdleGPUHours,
		100*rep.ReapedGPUHours/max(rep.PolicyGPUHours, 1e-9), rep.PolicyGPUHours,
		rep.MissesGuarded, rep.MissesAlone, rep.Named, rep.Disturbed, rep.Wrong, rep.OnBadData, rep.FaultyGPU,
		"action", "proposed", "done")
	for _, a := range []Action{ActionKeep, ActionNotice, ActionCap, ActionMove, ActionSplit, ActionReap} {
		done := "-"
		if a.Acts() {
			done = fmt.Sprint(rep.Done[a])
		}
		fmt.Fprintf(&b, "%-8s %9d %6s\n", a, rep.Proposed[a], done)
	}
	fmt.Fprintf(&b, "withheld: %d (cool-down, budget, too little seen)\n\nThe first of each:\n", rep.Withheld)
	shown := map[Action]bool{}
	for i := range rep.Proposals {
		if p := &rep.Proposals[i]; !shown[p.Action] {
			shown[p.Action] = true
			b.WriteString(p.String())
		}
	}
	return b.String()
}

// String describes the proposal in a paragraph: when, what and to whom, the evidence and the effect to expect.
func (p *Proposal) String() string {
	at := p.At.Round(time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d  GPU %d: %s %s",
		int(at.Hours()), int(at.Minutes())%60, int(at.Seconds())%60, p.GPU, p.Action, p.Target)
	if p.Percent > 0 {
		text += fmt.Sprintf(" to %.0f%% of the threads", p.Percent)
	}
	if p.To != nil {
		text += fmt.Sprintf(" to GPU %d", *p.To)
	}
	if p.Owner != "" {
		text += " (" + p.Owner + ")"
	}
	text += "\n"
	for _, e := range p.Evidence {
		text += "  because   " + e + "\n"
	}
	text += "  effect    " + p.Effect + "\n"
	if p.Withheld != "" {
		text += "  withheld  " + p.Withheld + "\n"
	}
	return text
}
