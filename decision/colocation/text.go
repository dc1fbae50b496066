// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// printer writes for people; the writer keeps the first error.
type printer struct{ *bufio.Writer }

// columns is the width of the text.
const columns = 100

// line writes lines, each wrapped a little further in than it begins.
func (p printer) line(format string, args ...any) {
	fmt.Fprintln(p, plaintext.Wrap(fmt.Sprintf(format, args...), columns, 4))
}

// table lines columns up; a row is its cells.
func (p printer) table(write func(row func(cells ...string))) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	write(func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) })
	_ = w.Flush() // b takes everything
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(p, strings.TrimRight(line, " \n"))
	}
}

// tableMetrics are those that the tables have room for; report.json has all.
var tableMetrics = []struct {
	m    profile.Metric
	head string
}{{profile.MetricTPOTP50, "TPOT p50"}, {profile.MetricTTFTP50, "TTFT p50"}, {profile.MetricE2EP50, "E2E p50"},
	{profile.MetricTokensPerSecond, "tokens/s"}, {profile.MetricStepP50, "step p50"},
	{profile.MetricStepsPerSecond, "steps/s"}}

// WriteText writes the report for people, in lines of at most 100 columns.
func (rep *Report) WriteText(w io.Writer) error {
	p := printer{bufio.NewWriter(w)}
	var modes []sharing.Mechanism
	for _, r := range rep.Rows {
		if !slices.Contains(modes, r.Mode) {
			modes = append(modes, r.Mode)
		}
	}
	if rep.Basis == sharing.BasisSimulated {
		p.line("SIMULATED: every figure below comes from embedded servers on a simulated GPU, not from a real one.\n")
	} else {
		p.line("Measured on %s, driver %s.\n", cmp.Or(rep.GPU, "unknown"), cmp.Or(rep.Driver, "unknown"))
	}
	if !rep.Complete {
		p.line("NOT COMPLETE: %s\n", strings.ReplaceAll(rep.Problem, "\n", "; "))
	}
	for _, choice := range rep.choices() {
		p.line("%s", choice)
	}
	p.line("")
	for _, m := range rep.Missing {
		p.line("MISSING: %s by %s: %s\n", m.Case, m.Mode, strings.ReplaceAll(m.Reason, "\n", "\n  "))
	}
	p.alone(rep.Rows)
	for _, m := range modes {
		p.beside(rep.Rows, m)
	}
	if len(rep.Agreement) > 0 {
		p.agreement(rep.Agreement)
	}
	if len(rep.Verdicts) > 0 {
		p.verdicts(rep.Verdicts)
	}
	for _, n := range rep.Notes {
		p.line("note: %s", n)
	}
	return p.Flush()
}

// count is the number of requests, or of steps.
func (r *ReportRow) count() string {
	if r.Kind != profile.KindServer {
		return fmt.Sprintf("%d steps", r.Steps)
	}
	return fmt.Sprint(r.Requests)
}

func (p printer) alone(rows []ReportRow) {
	p.line("Isolated (latencies in ms)")
	p.table(func(row func(...string)) {
		head := []string{"mode", "load", "requests", "failed"}
		var shown []profile.Metric
		for _, t := range tableMetrics {
			if slices.ContainsFunc(rows, func(r ReportRow) bool { return r.Tenants == 1 && r.Actual[t.m] > 0 }) {
				head, shown = append(head, t.head), append(shown, t.m)
			}
		}
		row(append(head, "slowdown")...)
		for i := range rows {
			r := &rows[i]
			if r.Tenants > 1 {
				continue
			}
			cells := []string{r.Mode.String(), r.Load, r.count(), fmt.Sprint(r.Failed)}
			for _, m := range shown {
				cells = append(cells, number(r.Actual, m))
			}
			row(append(cells, times(r.Slowdown))...)
		}
	})
	p.line("")
}

// beside tabulates the runs of several loads with their predictions.
func (p printer) beside(rows []ReportRow, m sharing.Mechanism) {
	any := false
	p.table(func(row func(...string)) {
		for i := range rows {
			r := &rows[i]
			if r.Mode != m || r.Tenants < 2 {
				continue
			}
			if !any {
				any = true
				p.line("Co-located, %s", title(m))
				row("case", "load", "figure", "predicted", "90% interval", "actual", "error", "inside", "ratio", "predicted", "n")
			}
			first, last := []string{r.Case, r.Load}, []string{times(r.Slowdown), "-", r.count()}
			if s := r.PredictedSlowdown; s != nil && s.Value > 0 {
				last[1] = times(&s.Value)
			}
			for _, t := range tableMetrics {
				if r.Actual[t.m] == 0 && r.Predicted[t.m].Value == 0 {
					continue
				}
				cells := []string{t.head, "-", "-", number(r.Actual, t.m), "-", "-"}
				if v, ok := r.Predicted[t.m]; ok {
					cells[1], cells[2] = short(v.Value), fmt.Sprintf("%s to %s", short(v.Low), short(v.High))
				}
				if e, ok := r.ErrorFraction[t.m]; ok {
					cells[4], cells[5] = fmt.Sprintf("%+.1f%%", 100*e), map[bool]string{true: "yes", false: "NO"}[r.Inside[t.m]]
				}
				row(append(append(first, cells...), last...)...)
				first, last = []string{"", ""}, []string{"", "", ""}
			}
		}
	})
	if any {
		p.line("")
	}
}

func (p printer) agreement(list []agreement) {
	p.line("Predictions, written before the co-located runs, compared with the measurements")
	points, inside := 0, 0
	p.table(func(row func(...string)) {
		row("mode", "figure", "mean error", "inside 90% interval", "mean width")
		for _, a := range list {
			name := "all"
			if a.Mode != nil {
				name = a.Mode.String()
			} else {
				points, inside = points+a.Points, inside+a.Inside
			}
			row(name, a.Metric.String(), fmt.Sprintf("%.1f%%", 100*a.MeanErrorFraction),
				fmt.Sprintf("%d of %d", a.Inside, a.Points), fmt.Sprintf("%.0f%%", 100*a.MeanWidthFraction))
		}
	})
	p.line("\n%d of %d figures lie inside their 90%% intervals.\n", inside, points)
}

func (p printer) verdicts(list []verdict) {
	p.line("Measured objectives, and the mode to choose")
	p.table(func(row func(...string)) {
		delivered := "tokens/s"
		if slices.ContainsFunc(list, func(v verdict) bool { return v.KeptRate > 0 }) {
			delivered = "of isolated"
		}
		row("case", "mode", delivered, "objectives", "", "expected", "")
		for _, v := range list {
			choose := ""
			if v.Best {
				choose = "choose"
			}
			first := []string{v.Case, v.Mode.String(), short(v.TokensPerS)}
			if v.KeptRate > 0 {
				first[2] = fmt.Sprintf("%.0f%%", 100*v.KeptRate)
			}
			if len(v.Objectives) == 0 {
				row(append(first, "none", "", "", choose)...)
			}
			for _, o := range v.Objectives {
				actual := "-"
				if o.ActualMS != nil {
					actual = short(*o.ActualMS)
				}
				row(append(first, fmt.Sprintf("%s %s %s of %s", o.Load, o.Metric, actual, short(o.LimitMS)),
					o.outcome(), o.Expected.String(), choose)...)
				first, choose = []string{"", "", ""}, ""
			}
		}
	})
	p.line("")
}

func number(figures map[profile.Metric]float64, m profile.Metric) string {
	if v, ok := figures[m]; ok {
		return short(v)
	}
	return "-"
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

func times(v *float64) string {
	if v == nil {
		return "-"
	}
	return short(*v) + "x"
}
