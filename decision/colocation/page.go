// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/sharing"
)

// Page returns the report as a page: the slowdowns and the best mechanism, and each tenant predicted and measured.
func (rep *Report) Page() *webpage.Page {
	p := &webpage.Page{Title: "Workloads side by side", Basis: fmt.Sprintf("Measured on %s, driver %s.",
		cmp.Or(rep.GPU, "an unknown GPU"), cmp.Or(rep.Driver, "unknown"))}
	if rep.Basis == sharing.BasisSimulated {
		p.Basis = "Simulated: embedded servers on a simulated GPU, and no real one."
	}
	if !rep.Complete {
		p.Invalid = append(p.Invalid, "Not complete: "+rep.Problem)
	}
	for _, run := range rep.Invalid {
		p.Invalid = append(p.Invalid, "INVALID: the load client shaped the figures of "+run+
			" too; measure again when this machine does nothing else.")
	}
	t := webpage.Table{Head: []string{"load", "case", "mechanism", "slower (times)", "predicted",
		"P50 of a token or step (ms)", "predicted (ms)", "objectives"}}
	against := webpage.Section{Title: "Predicted before the runs, and measured; equal on the dashed line"}
	for _, m := range []profile.Metric{profile.MetricTPOTP50, profile.MetricTTFTP50, profile.MetricTPOTP99,
		profile.MetricTTFTP99, profile.MetricStepP50} {
		c := webpage.Against(m.Title())
		for i := range rep.Rows {
			r := &rep.Rows[i]
			if v, ok := r.Predicted[m]; ok && r.beside() && r.Actual[m] > 0 {
				c.Add(r.Mode.String(), webpage.Point{X: r.Actual[m], Y: v.Value, Low: v.Low, High: v.High})
			}
		}
		against.Charts = append(against.Charts, c)
	}
	var worst *ReportRow
	for i := range rep.Rows {
		r := &rep.Rows[i]
		if !r.beside() {
			continue
		}
		if r.Slowdown != nil && (worst == nil || *r.Slowdown > *worst.Slowdown) {
			worst = r
		}
		of, predicted, took, foreseen, kept := r.Kind.MainMetric(), "-", "-", "-", "-"
		if s := r.PredictedSlowdown; s != nil {
			predicted = webpage.Interval(s.Value, s.Low, s.High)
		}
		if len(r.Objectives) > 0 {
			kept = cmp.Or(r.missed(), "met")
		}
		if v := r.Actual[of]; v > 0 {
			took = webpage.Number(v)
		}
		if v, ok := r.Predicted[of]; ok {
			foreseen = webpage.Interval(v.Value, v.Low, v.High)
		}
		t.Add(r.Load, r.Case, r.Mode, r.Slowdown, predicted, took, foreseen, kept)
		if slices.ContainsFunc(rep.Verdicts, func(v verdict) bool { return v.Best && v.Case == r.Case && v.Mode == r.Mode }) {
			t.Choose()
		}
	}
	var said []string
	if worst != nil {
		said = append(said, fmt.Sprintf("%s slows down most: its median token or step takes %s times as long as when "+
			"isolated (%s, %s).", worst.Load, webpage.Number(*worst.Slowdown), worst.Case, worst.Mode))
	}
	for _, a := range rep.Agreement {
		if a.Mode == nil && (a.Metric == profile.MetricTPOTP50 || a.Metric == profile.MetricStepP50) {
			said = append(said, fmt.Sprintf("%s was predicted to %s%% on average, and %d of %d outcomes lie in their 90%% "+
				"intervals.", a.Metric.Title(), webpage.Number(100*a.MeanErrorFraction), a.Inside, a.Points))
		}
	}
	p.Answer = strings.Join(append(rep.choices(), cmp.Or(strings.Join(said, " "), "Nothing ran side by side to its end.")),
		"\n")
	notes := slices.Clone(rep.Notes)
	for _, m := range rep.Missing {
		notes = append(notes, fmt.Sprintf("Not run: %s by %s: %s", m.Case, m.Mode, m.Reason))
	}
	p.Sections = []webpage.Section{{Tables: []webpage.Table{t}, Notes: notes}, against}
	return p
}

// beside reports whether the page shows a row: of a run of several loads.
func (r *ReportRow) beside() bool { return r.Tenants > 1 }

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
