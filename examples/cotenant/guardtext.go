package main

import (
	"fmt"
	"io"
	"time"

	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/examples/internal/page"
)

// printGuardDay prints the report of a simulated day.
func printGuardDay(out io.Writer, rep *guard.DayReport) {
	fmt.Fprintf(out, "Simulated: %d GPUs, %d tenants, %v (seed %d). Nothing here is measured.\n\n",
		rep.GPUs, rep.Tenants, rep.Watched, rep.Seed)
	fmt.Fprintf(out, "idle GPUs taken back   %8.1f GPU-hours: %.0f%% of the %.1f of an oracle that knows the future,\n",
		rep.ReapedGPUHours, rep.ReapedPercent, rep.IdleGPUHours)
	fmt.Fprintf(out, "                                 %.0f%% of the %.1f that the policy allows\n",
		100*rep.ReapedGPUHours/max(rep.PolicyGPUHours, 1e-9), rep.PolicyGPUHours)
	fmt.Fprintf(out, "objectives missed      %8d tenant-minutes, %d when left alone\n", rep.MissesGuarded, rep.MissesAlone)
	fmt.Fprintf(out, "disturbers named       %8d of %d that pushed somebody beyond an objective; %d wrongly\n",
		rep.Named, rep.Disturbed, rep.Wrong)
	fmt.Fprintf(out, "acts on bad readings   %8d in %.0f GPU-hours of stale or contradictory ones\n\n",
		rep.OnBadData, rep.FaultyGPU)
	fmt.Fprintf(out, "%-8s %9s %6s\n", "action", "proposed", "done")
	for _, a := range guard.Actions() {
		done := "-"
		if a.Acts() {
			done = fmt.Sprint(rep.Done[a])
		}
		fmt.Fprintf(out, "%-8s %9d %6s\n", a, rep.Proposed[a], done)
	}
	fmt.Fprintf(out, "withheld: %d (cool-down, budget, too little seen)\n\nThe first of each:\n", rep.Withheld)
	shown := map[guard.Action]bool{}
	for i := range rep.Proposals {
		if p := &rep.Proposals[i]; !shown[p.Action] {
			shown[p.Action] = true
			printGuardProposal(out, p)
		}
	}
}

func printGuardProposal(out io.Writer, p *guard.Proposal) {
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
	fmt.Fprint(out, page.Fold(text))
}
