package decision

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// TextOptions say what [Result.WriteText] shows.
type TextOptions struct {
	// All shows every reason against every candidate instead of one line a
	// mechanism.
	All bool
	// Rest says how to see the sources that the list at the end leaves out, for
	// example "-format json has all".
	Rest string
}

// WriteText writes the result for people: a table of the decisions, for each of
// them what speaks for it and against the others, the layout of the GPUs, the
// traps of the fleet, the cost, and the sources that all this names.
func (r *Result) WriteText(w io.Writer, opts TextOptions) error {
	t := text{bufio.NewWriter(w), opts, &sharing.Citations{Rest: opts.Rest}}
	t.table(r.Decisions)
	for i := range r.Decisions {
		t.decision(&r.Decisions[i])
	}
	t.line("\nLAYOUT")
	for i := range r.Pools {
		t.pool(&r.Pools[i])
	}
	if len(r.Traps) > 0 {
		t.line("\nTRAPS")
	}
	for _, hit := range r.Traps {
		t.line("  %-8s %-26s %s%s", hit.Severity, hit.ID, hit.Message, t.cites.Ref(hit.Sources[0]))
	}
	t.line("\nCOST")
	t.totals(&r.Totals)
	t.line("")
	_ = t.cites.WriteText(t.w) // t.w keeps its error
	return t.w.Flush()
}

// text writes a result; the writer keeps the first error.
type text struct {
	w     *bufio.Writer
	opts  TextOptions
	cites *sharing.Citations
}

func (t text) line(format string, args ...any) { fmt.Fprintf(t.w, format+"\n", args...) }

func (t text) table(list []Decision) {
	t.line("DECISIONS")
	tw := tabwriter.NewWriter(t.w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "workload\treplicas\tmemory\tmechanism\ton\tcost/hour\tsaving")
	for i := range list {
		d := &list[i]
		replicas, pool, price, saving := fmt.Sprint(d.Replicas), "-", "-", "-"
		if d.GPUs > 1 {
			replicas += fmt.Sprintf(" x %d GPUs", d.GPUs)
		}
		if d.Pool != "" {
			pool = d.Pool
		}
		if c := d.Cost; c != nil {
			price, saving = c.PerWorkloadHour+" "+c.Currency, fmt.Sprintf("%.1f%%", c.SavingPercent)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Workload, replicas, d.Memory, d.choice(), pool, price, saving)
	}
	_ = tw.Flush() // t.w keeps its error
}

// choice is the mechanism, and the slice's profile where there is one.
func (d *Decision) choice() string {
	return strings.TrimSuffix(d.Mechanism.String()+" "+d.Profile, " ")
}

func (t text) decision(d *Decision) {
	on := ""
	if d.Pool != "" {
		on = " on " + d.Pool
	}
	t.line("\n%s: %s%s", d.Workload, d.choice(), on)
	if d.Mechanism == sharing.MechanismNone {
		t.line("  fits nowhere; nothing was chosen")
	}
	if d.Why != "" {
		t.line("  %-9s %s", d.Status, d.Why)
	}
	if d.Unplaced > 0 && d.Placed > 0 {
		t.line("  unplaced  %d of %d replicas: the pools have no room for more", d.Unplaced, d.Replicas)
	}
	for _, a := range d.Assumes {
		t.line("  assumes   %s (%s)", a.What, a.Why)
	}
	if s := d.Settle; s != nil {
		t.line("  settle    %s: %s", s.Measurement, s.Command)
	}
	t.reasonsFor(d)
	for _, s := range d.NotChosen {
		t.line("  instead   %s", s)
	}
	if a := d.TradeOff; a != nil {
		t.line("  accepts   %s%s", a.Message, t.cites.Ref(a.Source))
	}
	if len(d.Isolation) > 0 {
		parts := make([]string, len(d.Isolation))
		for i, a := range d.Isolation {
			parts[i] = fmt.Sprintf("%s %s", a.Axis, a.Level)
		}
		t.line("  isolation %s", strings.Join(parts, ", "))
	}
	if k := d.Risk; k != nil {
		t.line("  risk      %s: %s risk, %s%s", k.Class, k.Level, k.Recommendation, t.cites.Ref(k.Source))
	}
	if i := d.Impact; i != nil {
		t.line("  impact    +%.4g ms may lose %.3g%%: %s against %s %s saved a month (%s)", i.AddedLatencyMS, i.LossPercent, i.MonthlyLoss, i.MonthlySaving, i.Currency, i.Basis)
	}
	t.predicted(d)
	t.reasonsAgainst(d)
	for _, hit := range d.Traps {
		t.line("  trap      %s, %s: %s", hit.ID, hit.Severity, hit.Message)
	}
}

func (t text) reasonsFor(d *Decision) {
	for _, c := range d.Candidates {
		if !c.Chosen {
			continue
		}
		priced := ""
		if c.Preference != c.Score {
			priced = fmt.Sprintf(" (%.1f with the pool's price)", c.Preference)
		}
		t.line("  why       score %.1f of 100%s, %d on a GPU", c.Score, priced, c.Tenants)
		for _, reason := range c.Reasons {
			t.line("            %s%s", reason.Message, t.cites.Ref(reason.Source))
		}
	}
}

func (t text) predicted(d *Decision) {
	if p := d.Predicted; p != nil {
		tpot := ""
		if i, ok := p.Figures[predict.MetricTPOTP99.String()]; ok {
			tpot = fmt.Sprintf("; TPOT P99 %.3g ms (%.3g to %.3g)", i.Value, i.Low, i.High)
		}
		t.line("  predicted %.2f times slower than alone (90%%: %.2f to %.2f), %d on a GPU (%s)%s", p.Slowdown.Value, p.Slowdown.Low, p.Slowdown.High, p.Tenants, p.Basis, tpot)
	}
	for _, s := range d.BreakEven {
		sure := ""
		if !s.Sure {
			sure = ", intervals overlap"
		}
		t.line("  pays      from %d on a GPU %s: %.3g ms a token time-sliced, %.3g ms under MPS%s", s.Tenants, s.Better, s.TimeSlicing.Value, s.MPS.Value, sure)
	}
}

// reasonsAgainst writes what was not to be had: for each mechanism the first
// deciding reason, or all reasons of all candidates.
func (t text) reasonsAgainst(d *Decision) {
	seen := map[sharing.Mechanism]bool{}
	for _, c := range d.Candidates {
		seen[c.Mechanism] = seen[c.Mechanism] || c.Verdict == gate.VerdictPass
		if c.Chosen || c.Verdict == gate.VerdictPass || !t.opts.All && seen[c.Mechanism] {
			continue
		}
		seen[c.Mechanism] = true
		for _, reason := range c.Reasons {
			if !t.opts.All && reason.Verdict != c.Verdict {
				continue
			}
			t.line("  %-9s %s on %s: %s%s", c.Verdict, c.Mechanism, c.Pool, reason.Message, t.cites.Ref(reason.Source))
			if !t.opts.All {
				break
			}
		}
	}
}

func (t text) pool(p *PoolResult) {
	t.line("  %s: %d of %d %s", p.Pool, p.GPUsNeeded, p.GPUs, p.GPU)
	for _, g := range p.Groups {
		t.line("    %s: %d GPUs (no packing needs fewer than %d)", g.Mechanism, g.GPUs, g.LowerBound)
		for _, l := range g.Layouts {
			var parts []string
			for _, in := range l.Instances {
				parts = append(parts, fmt.Sprintf("%s@%d %s", in.Profile, in.Start, in.Workload))
			}
			for _, tenant := range l.Tenants {
				name := tenant.Workload
				if tenant.Replicas > 1 {
					name = fmt.Sprintf("%d x %s", tenant.Replicas, name)
				}
				parts = append(parts, name)
			}
			t.line("      %3d x [%s]", l.GPUs, strings.Join(parts, " | "))
		}
		for _, n := range g.Notes {
			t.line("      note: %s", n)
		}
	}
	if m := p.Migration; m != nil {
		t.line("    from the layouts that are there: keep %d, destroy %d (%d busy), create %d instances", m.Keep, m.Destroy, m.Busy, m.Create)
		for _, s := range m.Steps {
			t.line("      %s", s)
		}
	}
}

func (t text) totals(s *Totals) {
	t.line("  GPUs     %d before (each replica alone), %d after", s.GPUsBefore, s.GPUsAfter)
	if s.MonthlyBefore != "" {
		t.line("  a month  %s before, %s after, %s %s saved (%.1f%%; %d hours)", s.MonthlyBefore, s.MonthlyAfter, s.MonthlySaving, s.Currency, s.SavingPercent.Or(0), s.HoursPerMonth)
	}
	if len(s.UnpricedPools) > 0 {
		t.line("  no total: pools without a price: %s", strings.Join(s.UnpricedPools, ", "))
	}
	t.line("  freed    %.0f GPU-hours a day", s.CapacityHours)
	if s.Unplaced > 0 {
		t.line("  %d of %d workloads fit nowhere and count on neither side", s.Unplaced, s.WorkloadsTotal)
	}
}
