package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// writeText prints a result for people.
func writeText(w io.Writer, r *decision.Result, all bool) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "DECISIONS")
	tw := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "workload\treplicas\tmemory\tmechanism\ton\tcost/hour\tsaving")
	for _, d := range r.Decisions {
		price, saving := "-", "-"
		if d.Cost != nil {
			price = d.Cost.PerWorkloadHour + " " + d.Cost.Currency
			saving = fmt.Sprintf("%.1f%%", d.Cost.SavingPercent)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Workload, replicas(d), d.Memory, what(d), dash(d.Pool), price, saving)
	}
	tw.Flush()
	for _, d := range r.Decisions {
		fmt.Fprintln(b)
		explain(b, d, all)
	}
	fmt.Fprintln(b, "\nLAYOUT")
	for _, p := range r.Pools {
		layout(b, p)
	}
	if len(r.Traps) > 0 {
		fmt.Fprintln(b, "\nTRAPS")
		for _, t := range r.Traps {
			fmt.Fprintf(b, "  %-8s %-4s %s\n", t.Severity, t.ID, t.Message)
		}
	}
	fmt.Fprintln(b, "\nCOST")
	costs(b, r.Totals)
	return b.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func what(d decision.Decision) string {
	if d.Profile != "" {
		return fmt.Sprintf("%s %s", d.Mechanism, d.Profile)
	}
	return d.Mechanism.String()
}

func replicas(d decision.Decision) string {
	if d.GPUs > 1 {
		return fmt.Sprintf("%d x %d GPUs", d.Replicas, d.GPUs)
	}
	return fmt.Sprint(d.Replicas)
}

func explain(b io.Writer, d decision.Decision, all bool) {
	fmt.Fprintf(b, "%s: %s", d.Workload, what(d))
	if d.Pool != "" {
		fmt.Fprintf(b, " on %s", d.Pool)
	}
	fmt.Fprintln(b)
	if d.Mechanism == sharing.MechanismNone {
		fmt.Fprintln(b, "  fits nowhere; nothing was chosen")
	}
	for _, c := range d.Candidates {
		if c.Chosen {
			fmt.Fprintf(b, "  why       score %.1f of 100", c.Score)
			if c.Preference != c.Score {
				fmt.Fprintf(b, " (%.1f with the pool's price)", c.Preference)
			}
			fmt.Fprintf(b, ", %d on a GPU\n", c.Tenants)
			for _, reason := range c.Reasons {
				fmt.Fprintf(b, "            %s [%s]\n", reason.Message, reason.Source)
			}
		}
	}
	for _, s := range d.NotChosen {
		fmt.Fprintf(b, "  instead   %s\n", s)
	}
	if d.TradeOff != nil {
		fmt.Fprintf(b, "  accepts   %s [%s]\n", d.TradeOff.Message, d.TradeOff.Source)
	}
	if len(d.Isolation) > 0 {
		parts := make([]string, len(d.Isolation))
		for i, a := range d.Isolation {
			parts[i] = fmt.Sprintf("%s %s", a.Axis, a.Level)
		}
		fmt.Fprintf(b, "  isolation %s\n", strings.Join(parts, ", "))
	}
	if d.Risk != nil {
		fmt.Fprintf(b, "  risk      %s: %s risk, %s [%s]\n", d.Risk.Class, d.Risk.Level, d.Risk.Recommendation, d.Risk.Source)
	}
	if i := d.Impact; i != nil {
		fmt.Fprintf(b, "  impact    +%.4g ms may lose %.3g%%: %s against %s %s saved a month (%s)\n", i.AddedLatencyMS, i.LossPercent, i.MonthlyLoss, i.MonthlySaving, i.Currency, i.Basis)
	}
	if p := d.Predicted; p != nil {
		fmt.Fprintf(b, "  predicted %.2f times slower than alone (90%%: %.2f to %.2f), %d on a GPU (%s)", p.Slowdown.Value, p.Slowdown.Low, p.Slowdown.High, p.Tenants, p.Basis)
		if i, ok := p.Figures[predict.TPOTP99.String()]; ok {
			fmt.Fprintf(b, "; TPOT P99 %.3g ms (%.3g to %.3g)", i.Value, i.Low, i.High)
		}
		fmt.Fprintln(b)
	}
	for _, s := range d.BreakEven {
		sure := ""
		if !s.Sure {
			sure = ", intervals overlap"
		}
		fmt.Fprintf(b, "  pays      from %d on a GPU %s: %.3g ms a token time-sliced, %.3g ms under MPS%s\n", s.Tenants, s.Better, s.TimeSlicing.Value, s.MPS.Value, sure)
	}
	rejected(b, d, all)
	for _, t := range d.Traps {
		fmt.Fprintf(b, "  trap %-4s %s: %s\n", t.ID, t.Severity, t.Message)
	}
}

// rejected prints what was not to be had: for each mechanism its first
// deciding reason, or all reasons of all candidates.
func rejected(b io.Writer, d decision.Decision, all bool) {
	seen := map[sharing.Mechanism]bool{}
	for _, c := range d.Candidates {
		seen[c.Mechanism] = seen[c.Mechanism] || c.Verdict == decision.VerdictPass
		if c.Chosen || c.Verdict == decision.VerdictPass || !all && seen[c.Mechanism] {
			continue
		}
		seen[c.Mechanism] = true
		for _, reason := range c.Reasons {
			if !all && reason.Verdict != c.Verdict {
				continue
			}
			fmt.Fprintf(b, "  %-9s %s on %s: %s [%s]\n", c.Verdict, c.Mechanism, c.Pool, reason.Message, reason.Source)
			if !all {
				break
			}
		}
	}
}

func layout(b io.Writer, p decision.PoolResult) {
	fmt.Fprintf(b, "  %s: %d of %d %s\n", p.Pool, p.GPUsNeeded, p.GPUs, p.GPU)
	for _, g := range p.Groups {
		fmt.Fprintf(b, "    %s: %d GPUs (no packing needs fewer than %d)\n", g.Mechanism, g.GPUs, g.LowerBound)
		for _, l := range g.Layouts {
			var parts []string
			for _, in := range l.Instances {
				parts = append(parts, fmt.Sprintf("%s@%d %s", in.Profile, in.Start, in.Workload))
			}
			for _, t := range l.Tenants {
				name := t.Workload
				if t.Replicas > 1 {
					name = fmt.Sprintf("%d x %s", t.Replicas, name)
				}
				parts = append(parts, name)
			}
			fmt.Fprintf(b, "      %3d x [%s]\n", l.GPUs, strings.Join(parts, " | "))
		}
		for _, n := range g.Notes {
			fmt.Fprintf(b, "      note: %s\n", n)
		}
	}
	if m := p.Migration; m != nil {
		fmt.Fprintf(b, "    from the layouts that are there: keep %d, destroy %d (%d busy), create %d instances\n", m.Keep, m.Destroy, m.Busy, m.Create)
		for _, s := range m.Steps {
			fmt.Fprintf(b, "      %s\n", s)
		}
	}
}

func costs(b io.Writer, t decision.Totals) {
	fmt.Fprintf(b, "  GPUs     %d before (each replica alone), %d after\n", t.GPUsBefore, t.GPUsAfter)
	if t.MonthlyBefore != "" {
		fmt.Fprintf(b, "  a month  %s before, %s after, %s %s saved (%.1f%%; %d hours)\n", t.MonthlyBefore, t.MonthlyAfter, t.MonthlySaving, t.Currency, *t.SavingPercent, t.HoursPerMonth)
	}
	if len(t.UnpricedPools) > 0 {
		fmt.Fprintf(b, "  no total: pools without a price: %s\n", strings.Join(t.UnpricedPools, ", "))
	}
	fmt.Fprintf(b, "  freed    %.0f GPU-hours a day\n", t.CapacityHours)
	if t.Unplaced > 0 {
		fmt.Fprintf(b, "  %d of %d workloads fit nowhere and count on neither side\n", t.Unplaced, t.WorkloadsTotal)
	}
}
