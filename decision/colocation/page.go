// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/sharing"
)

// tableMetrics are those that the tables have room for; report.json has all.
var tableMetrics = []profile.Metric{profile.MetricTPOTP50, profile.MetricTTFTP50, profile.MetricE2EP50,
	profile.MetricTokensPerSecond, profile.MetricStepP50, profile.MetricStepsPerSecond}

// chartMetrics are those with a chart of predictions against measurements.
var chartMetrics = []profile.Metric{profile.MetricTPOTP50, profile.MetricTTFTP50, profile.MetricTPOTP99,
	profile.MetricTTFTP99, profile.MetricStepP50}

// WriteText writes the report as text, with sentences wrapped at 100 columns.
func (rep *Report) WriteText(w io.Writer) error { return rep.page().WriteText(w, 100) }

// WriteHTML writes the report as one self-contained page.
func (rep *Report) WriteHTML(w io.Writer) error { return rep.page().Write(w) }

// page returns the report as a page: the mode to choose for each case, the slowdowns, the objectives, and each load
// isolated, predicted and co-located.
func (rep *Report) page() *webpage.Page {
	p := &webpage.Page{Title: "Workloads on one GPU", Basis: fmt.Sprintf("Measured on %s, driver %s.",
		cmp.Or(rep.GPU, "an unknown GPU"), cmp.Or(rep.Driver, "unknown"))}
	if rep.Basis == sharing.BasisSimulated {
		p.Basis = "SIMULATED: every figure below comes from embedded servers on a simulated GPU, not from a real one."
	}
	if !rep.Complete {
		p.Invalid = append(p.Invalid, "NOT COMPLETE: "+strings.ReplaceAll(rep.Problem, "\n", "; "))
	}
	for _, run := range rep.Invalid {
		p.Invalid = append(p.Invalid, "INVALID: the load client shaped the figures of "+run+
			" too; measure again when this machine does nothing else.")
	}
	p.Answer = strings.Join(append(rep.choices(), rep.sums()...), "\n")
	notes := slices.Clone(rep.Notes)
	for _, m := range rep.Missing {
		notes = append(notes, fmt.Sprintf("MISSING: %s by %s: %s", m.Case, m.Mode, m.Reason))
	}
	if slices.ContainsFunc(rep.Rows, func(r reportRow) bool { return r.Mode == sharing.MechanismMIGLikeEmulation }) {
		notes = append(notes, title(sharing.MechanismMIGLikeEmulation))
	}
	against := webpage.Section{Title: "Predicted and measured; equal on the dashed line"}
	for _, m := range chartMetrics {
		c := webpage.Against(m.Title())
		for r := range rep.runs(true) {
			if v, ok := r.Predicted[m]; ok && r.Actual[m] > 0 {
				c.Add(r.Mode.String(), webpage.Point{X: r.Actual[m], Y: v.Value, Low: v.Low, High: v.High})
			}
		}
		against.Charts = append(against.Charts, c)
	}
	p.Sections = []webpage.Section{{Tables: []webpage.Table{rep.slowdowns(), rep.objectives()}, Notes: notes}, against,
		{Title: "Isolated (latencies in ms)", Tables: []webpage.Table{rep.isolated()}},
		{Title: "Co-located, predicted before the runs and measured", Tables: []webpage.Table{rep.coLocated()}}}
	if len(rep.Copies) > 0 {
		p.Sections = append(p.Sections, webpage.Section{Title: "Copies of one server", Tables: []webpage.Table{rep.copies()}})
	}
	return p
}

// runs are the rows of loads that ran co-located, or isolated.
func (rep *Report) runs(coLocated bool) iter.Seq[*reportRow] {
	return func(visit func(*reportRow) bool) {
		for i := range rep.Rows {
			if r := &rep.Rows[i]; r.Tenants > 1 == coLocated && !visit(r) {
				return
			}
		}
	}
}

// copies tabulates the rate of copies over that of one.
func (rep *Report) copies() webpage.Table {
	t := webpage.Table{Caption: "Ratios to the rate of one isolated copy under time-slicing, predicted from it",
		Head: []string{"mode", "copies", "rate/s", "ratio", "predicted"}}
	for _, r := range rep.Copies {
		t.Add(r.Mode, r.Copies, r.Rate, r.Ratio, webpage.Interval(r.Predicted.Value, r.Predicted.Low, r.Predicted.High))
	}
	return t
}

// sums returns the largest slowdown, and how well the medians were predicted.
func (rep *Report) sums() (all []string) {
	var worst *reportRow
	for r := range rep.runs(true) {
		if r.Slowdown != nil && (worst == nil || *r.Slowdown > *worst.Slowdown) {
			worst = r
		}
	}
	if worst != nil {
		all = append(all, fmt.Sprintf("%s slows down most: its median token or step takes %s times as long as when "+
			"isolated (%s, %s).", worst.Load, webpage.Number(*worst.Slowdown), worst.Case, worst.Mode))
	}
	points, inside := 0, 0
	for _, a := range rep.Agreement {
		points, inside = points+a.Points, inside+a.Inside
		if a.Metric == profile.MetricTPOTP50 || a.Metric == profile.MetricStepP50 {
			all = append(all, fmt.Sprintf("%s was predicted to %s%% on average, and %d of %d outcomes lie in their 90%% "+
				"intervals.", a.Metric.Title(), webpage.Number(100*a.MeanErrorFraction), a.Inside, a.Points))
		}
	}
	if points > 0 {
		all = append(all, fmt.Sprintf("%d of %d figures lie inside their 90%% intervals.", inside, points))
	}
	if len(rep.Verdicts) == 0 {
		all = append(all, "No case ran to its end.")
	}
	return all
}

// slowdowns tabulates the co-located loads by case; those of the mode to choose are highlighted.
func (rep *Report) slowdowns() webpage.Table {
	t := webpage.Table{Head: []string{"load", "case", "mode", "slowdown", "predicted", "P50 (ms)"}}
	for r := range rep.runs(true) {
		predicted := "-"
		if s := r.PredictedSlowdown; s != nil {
			predicted = webpage.Interval(s.Value, s.Low, s.High)
		}
		t.Add(r.Load, r.Case, r.Mode, r.Slowdown, predicted, r.actual(r.Kind.MainMetric()))
		if slices.ContainsFunc(rep.Verdicts, func(v verdict) bool { return v.Best && v.Case == r.Case && v.Mode == r.Mode }) {
			t.Choose()
		}
	}
	return t
}

// objectives tabulates the outcome of each case's objectives in each mode.
func (rep *Report) objectives() webpage.Table {
	t := webpage.Table{Caption: "Objectives", Head: []string{"case", "mode", "tokens/s", "load", "objective",
		"measured (ms)", "limit", "outcome", "expected"}}
	for _, v := range rep.Verdicts {
		delivered := webpage.Number(v.TokensPerS)
		if v.KeptRate > 0 {
			delivered = fmt.Sprintf("%.0f%% of isolated", 100*v.KeptRate)
		}
		for _, o := range v.Objectives {
			t.Add(v.Case, v.Mode, delivered, o.Load, o.Metric.Title(), o.ActualMS, o.LimitMS, o.outcome(), o.Expected)
		}
	}
	return t
}

// isolated tabulates the loads that ran isolated.
func (rep *Report) isolated() webpage.Table {
	t := webpage.Table{Head: []string{"mode", "load", "requests", "failed"}}
	var shown []profile.Metric
	for _, m := range tableMetrics {
		if slices.ContainsFunc(rep.Rows, func(r reportRow) bool { return r.Tenants == 1 && r.Actual[m] > 0 }) {
			t.Head, shown = append(t.Head, m.Title()), append(shown, m)
		}
	}
	t.Head = append(t.Head, "slowdown")
	for r := range rep.runs(false) {
		cells := []any{r.Mode, r.Load, r.count(), r.Failed}
		for _, m := range shown {
			cells = append(cells, r.actual(m))
		}
		t.Add(append(cells, r.Slowdown)...)
	}
	return t
}

// coLocated tabulates the figures of co-located loads, each with its prediction.
func (rep *Report) coLocated() webpage.Table {
	t := webpage.Table{Head: []string{"case", "mode", "load", "figure", "predicted", "measured", "error", "inside", "n"}}
	for r := range rep.runs(true) {
		for _, m := range tableMetrics {
			v, expected := r.Predicted[m]
			if r.Actual[m] == 0 && !expected {
				continue
			}
			predicted, off, inside := "-", "-", "-"
			if expected {
				predicted = webpage.Interval(v.Value, v.Low, v.High)
			}
			if e, ok := r.ErrorFraction[m]; ok {
				off, inside = fmt.Sprintf("%+.1f%%", 100*e), map[bool]string{true: "yes", false: "NO"}[r.Inside[m]]
			}
			t.Add(r.Case, r.Mode, r.Load, m.Title(), predicted, r.actual(m), off, inside, r.count())
		}
	}
	return t
}

// actual is a measured figure for a table, nil where there is none.
func (r *reportRow) actual(m profile.Metric) *float64 {
	if v, ok := r.Actual[m]; ok {
		return &v
	}
	return nil
}

// count is the number of requests, or of steps.
func (r *reportRow) count() string {
	if r.Kind != profile.KindServer {
		return fmt.Sprintf("%d steps", r.Steps)
	}
	return fmt.Sprint(r.Requests)
}
