package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// print writes the report as JSON or for people.
func (f *flow) print(w io.Writer) error {
	var b bytes.Buffer
	if f.config.json {
		enc := json.NewEncoder(&b)
		enc.SetIndent("", "  ")
		if err := enc.Encode(f.report); err != nil {
			return err
		}
	} else {
		f.report.write(&b, f.plan.Modes)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// tableMetrics are those that the table has room for; report.json has all.
var tableMetrics = []struct {
	m    predict.Metric
	head string
}{{predict.TPOTP50, "TPOT p50 ms"}, {predict.TTFTP50, "TTFT p50 ms"}, {predict.E2EP50, "E2E p50 ms"}, {predict.TokensPerSecond, "tokens/s"}}

func (rep *report) write(b *bytes.Buffer, modes []mode) {
	if rep.Basis == sharing.BasisSimulated {
		fmt.Fprintf(b, "SIMULATED: every figure below is of embedded servers on a simulated GPU and of no real one.\n\n")
	} else {
		fmt.Fprintf(b, "Measured on %s, driver %s.\n\n", orUnknown(rep.GPU), orUnknown(rep.Driver))
	}
	if !rep.Complete {
		fmt.Fprintf(b, "NOT COMPLETE: %s\n\n", strings.ReplaceAll(rep.Problem, "\n", "; "))
	}
	rep.writeAlone(b)
	for _, m := range modes {
		rep.writeBeside(b, m)
	}
	rep.writeAgreement(b)
	rep.writeVerdicts(b)
	rep.writeDecision(b)
	for _, n := range rep.Notes {
		fmt.Fprintf(b, "note: %s\n", n)
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// table lines columns up; a line is a row of cells.
func table(b *bytes.Buffer, write func(line func(cells ...string))) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	write(func(cells ...string) {
		_, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n") // into memory
	})
	_ = w.Flush() // into memory
	fmt.Fprintln(b)
}

func (rep *report) writeAlone(b *bytes.Buffer) {
	fmt.Fprintln(b, "Alone")
	table(b, func(line func(...string)) {
		head := []string{"mode", "load", "requests", "failed"}
		for _, t := range tableMetrics {
			head = append(head, t.head)
		}
		line(append(head, "slowdown")...)
		for i := range rep.Rows {
			r := &rep.Rows[i]
			if r.Tenants > 1 {
				continue
			}
			cells := []string{r.Mode.String(), r.Load, fmt.Sprint(r.Requests), fmt.Sprint(r.Failed)}
			for _, t := range tableMetrics {
				cells = append(cells, number(r.Actual, t.m))
			}
			line(append(cells, factor(r.Slowdown))...)
		}
	})
}

// writeBeside shows the runs side by side with what was predicted for them.
func (rep *report) writeBeside(b *bytes.Buffer, m mode) {
	var rows []*reportRow
	for i := range rep.Rows {
		if r := &rep.Rows[i]; r.Mode == m && r.Tenants > 1 {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "Side by side, %s\n", m.title())
	table(b, func(line func(...string)) {
		line("case", "load", "figure", "predicted", "90% interval", "actual", "error", "inside", "slowdown", "predicted", "requests")
		for _, r := range rows {
			name, load, slow, slowPredicted, n := r.Case, r.Load, factor(r.Slowdown), "-", fmt.Sprint(r.Requests)
			if p := r.PredictedSlowdown; p != nil && p.Value > 0 {
				slowPredicted = factor(&p.Value)
			}
			for _, t := range tableMetrics {
				cells := []string{name, load, t.head, "-", "-", number(r.Actual, t.m), "-", "-", slow, slowPredicted, n}
				if v, ok := r.Predicted[t.m]; ok {
					cells[3], cells[4] = short(v.Value), fmt.Sprintf("%s to %s", short(v.Low), short(v.High))
				}
				if e, ok := r.ErrorFraction[t.m]; ok {
					cells[6], cells[7] = fmt.Sprintf("%+.1f%%", 100*e), yesNo(r.Inside[t.m])
				}
				line(cells...)
				name, load, slow, slowPredicted, n = "", "", "", "", ""
			}
		}
	})
}

func (rep *report) writeAgreement(b *bytes.Buffer) {
	if len(rep.Agreement) == 0 {
		return
	}
	fmt.Fprintln(b, "Agreement of predictions, written before the runs side by side, with what came")
	points, inside := 0, 0
	table(b, func(line func(...string)) {
		line("mode", "figure", "mean error", "inside 90% interval", "mean width")
		for _, a := range rep.Agreement {
			name := "all"
			if a.Mode != nil {
				name = a.Mode.String()
			} else {
				points, inside = points+a.Points, inside+a.Inside
			}
			line(name, a.Metric.String(), fmt.Sprintf("%.1f%%", 100*a.MeanErrorFraction), fmt.Sprintf("%d of %d", a.Inside, a.Points), fmt.Sprintf("%.0f%%", 100*a.MeanWidthFraction))
		}
	})
	fmt.Fprintf(b, "%d of %d figures lie inside their 90%% intervals.\n\n", inside, points)
}

func (rep *report) writeVerdicts(b *bytes.Buffer) {
	if len(rep.Verdicts) == 0 {
		return
	}
	fmt.Fprintln(b, "Objectives, and the mode to choose")
	table(b, func(line func(...string)) {
		line("case", "mode", "tokens/s", "objectives", "", "choose")
		for _, v := range rep.Verdicts {
			choose := ""
			if v.Best {
				choose = "this one"
			}
			first := []string{v.Case, v.Mode.String(), short(v.TokensPerS)}
			if len(v.Objectives) == 0 {
				line(append(first, "none", "", choose)...)
			}
			for _, o := range v.Objectives {
				line(append(first, fmt.Sprintf("%s %s at most %s: %s", o.Load, o.Metric, short(o.LimitMS), short(o.ActualMS)),
					fmt.Sprintf("%s (predicted: %s)", map[bool]string{true: "kept", false: "MISSED"}[o.Kept], o.Expected), choose)...)
				first, choose = []string{"", "", ""}, ""
			}
		}
	})
}

func (rep *report) writeDecision(b *bytes.Buffer) {
	d := rep.Decision
	if d == nil {
		return
	}
	if d.Problem != "" {
		fmt.Fprintf(b, "No decision: %s\n\n", d.Problem)
		return
	}
	fmt.Fprintf(b, "Decision on %s between not sharing and what was run, without and with the runs alone as evidence\n(report.json has every reason)\n", d.GPU)
	for _, w := range d.Workload {
		fmt.Fprintf(b, "  %s: %s -> %s\n", w.Workload, w.Before, w.After)
		for _, r := range w.New {
			// What speaks for the choice, and against what else was run.
			if run := r.Mechanism == sharing.MechanismTimeSlicing || r.Mechanism == sharing.MechanismMPS; r.Mechanism == w.After.Mechanism || run && r.Verdict != gate.VerdictPass {
				fmt.Fprintf(b, "    %s: %s: %s\n", r.Mechanism, r.Verdict, r.Message)
			}
		}
		if p := w.Predicted; p != nil {
			fmt.Fprintf(b, "    predicted with %d tenants on a GPU: %.2f times slower than alone (%.2f to %.2f, %s)\n", p.Tenants, p.Slowdown.Value, p.Slowdown.Low, p.Slowdown.High, p.Basis)
		}
	}
	for _, w := range d.Workload {
		for _, s := range w.BreakEven {
			sure := ""
			if !s.Sure {
				sure = ", but the intervals overlap"
			}
			fmt.Fprintf(b, "  %s: from %d copies on a GPU %s is predicted to be the better (TPOT p50 %s ms by time-slicing, %s by MPS)%s\n",
				w.Workload, s.Tenants, s.Better, short(s.TimeSlicing.Value), short(s.MPS.Value), sure)
		}
	}
	fmt.Fprintln(b)
}

func (a answer) String() string {
	if a.Mechanism == sharing.MechanismNone {
		return "nowhere"
	}
	return fmt.Sprintf("%s (%s, %d on a GPU)", a.Mechanism, a.Verdict, a.Tenants)
}

func number(figures map[predict.Metric]float64, m predict.Metric) string {
	v, ok := figures[m]
	if !ok {
		return "-"
	}
	return short(v)
}

// short writes three figures, or more before the point.
func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func factor(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2fx", *v)
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "NO"
}
