package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// printDay tells what a simulated day was like.
func printDay(out io.Writer, rep *dayReport) {
	fmt.Fprintf(out, "Simulated: %d GPUs, %d tenants, %v (seed %d). Nothing here is measured.\n\n", rep.GPUs, rep.Tenants, rep.Watched, rep.Seed)
	fmt.Fprintf(out, "idle GPUs taken back   %8.1f GPU-hours: %.0f%% of the %.1f of an oracle that knows the future,\n", rep.ReapedGPUHours, rep.ReapedPercent, rep.IdleGPUHours)
	fmt.Fprintf(out, "                                 %.0f%% of the %.1f that the policy allows\n", 100*rep.ReapedGPUHours/max(rep.PolicyGPUHours, 1e-9), rep.PolicyGPUHours)
	fmt.Fprintf(out, "objectives missed      %8d tenant-minutes, %d when left alone\n", rep.MissesGuarded, rep.MissesAlone)
	fmt.Fprintf(out, "disturbers named       %8d of %d that pushed somebody beyond an objective; %d wrongly\n", rep.Named, rep.Disturbed, rep.Wrong)
	fmt.Fprintf(out, "acts on bad readings   %8d in %.0f GPU-hours of stale or contradictory ones\n\n", rep.OnBadData, rep.FaultyGPU)
	fmt.Fprintf(out, "%-8s %9s %6s\n", "action", "proposed", "done")
	for _, a := range []action{actionKeep, actionNotice, actionCap, actionMove, actionSplit, actionReap} {
		done := "-"
		if a.acts() {
			done = fmt.Sprint(rep.Done[a])
		}
		fmt.Fprintf(out, "%-8s %9d %6s\n", a, rep.Proposed[a], done)
	}
	fmt.Fprintf(out, "withheld: %d (cool-down, budget)\n", rep.Withheld)
	shown := map[action]bool{}
	fmt.Fprintf(out, "\nThe first of each:\n")
	for i := range rep.Proposals {
		if p := &rep.Proposals[i]; !shown[p.Action] {
			shown[p.Action] = true
			printProposal(out, p)
		}
	}
}

// printProposal prints one proposal in at most 100 columns.
func printProposal(out io.Writer, p *proposal) {
	line := fmt.Sprintf("%s  GPU %d: %s %s", clock(p.At), p.GPU, p.Action, p.Target)
	if p.Percent > 0 {
		line += fmt.Sprintf(" to %.0f%% of the threads", p.Percent)
	}
	if p.To != nil {
		line += fmt.Sprintf(" to GPU %d", *p.To)
	}
	if p.Owner != "" {
		line += " (" + p.Owner + ")"
	}
	fmt.Fprintln(out, line)
	for _, e := range p.Evidence {
		wrapped(out, "because", e)
	}
	wrapped(out, "effect", p.Effect)
	if p.Withheld != "" {
		wrapped(out, "withheld", p.Withheld)
	}
}

// wrapped prints a labelled text over as many lines as it needs.
func wrapped(out io.Writer, label, text string) {
	const width = 100
	line := fmt.Sprintf("  %-9s", label)
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width {
			fmt.Fprintln(out, line)
			line = strings.Repeat(" ", 11)
		}
		line += " " + word
	}
	fmt.Fprintln(out, line)
}

func clock(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// writeAudit writes the proposals of a simulated day as an audit log's lines.
func writeAudit(w io.Writer, list []proposal) error {
	enc := json.NewEncoder(w)
	for i := range list {
		event := "proposed"
		if list[i].Withheld != "" {
			event = "withheld"
		}
		if err := enc.Encode(auditLine{Time: time.Time{}.Add(list[i].At), Event: "simulated " + event, proposal: list[i]}); err != nil {
			return err
		}
	}
	return nil
}

// health says in a line what could be judged.
func (g *guard) health() string {
	judged, blind := 0, 0
	for i := range g.tenants {
		if _, _, ok := g.expected(i); ok && g.tenants[i].online() {
			judged++
		}
	}
	for i := range g.devices {
		if g.devices[i].blind {
			blind++
		}
	}
	return fmt.Sprintf("%d servers have an expected TPOT, %d GPUs could not be judged at the end", judged, blind)
}
