// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
)

// Comparison holds the answers for one fleet with several options. The first options are the baseline.
type Comparison struct {
	// Options lists the differences to the first options, for example "confidence=0.9 allow=hami"; "plain" without any.
	Options []string  `json:"options"`
	Results []*Result `json:"results"` // one for each
}

// Compare calls [Decide] once for each of the options and compares the answers. Use it to value a change: less
// confidence, another mechanism, more free memory. The error names every problem of the fleet and of the options.
func Compare(ctx context.Context, f *Fleet, options ...Options) (*Comparison, error) {
	if f == nil || len(options) == 0 {
		return nil, errors.New("decision: give a fleet, and options to compare")
	}
	var l problem.List
	l.AddErr("", f.Validate())
	for i := range options {
		l.AddErr(fmt.Sprintf("options[%d]", i), options[i].Check())
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	c := &Comparison{}
	for i := range options {
		r, err := Decide(ctx, f, options[i])
		if err != nil {
			return nil, err
		}
		c.Options, c.Results = append(c.Options, differing(&options[0], &options[i])), append(c.Results, r)
	}
	return c, nil
}

// differing lists the differences between two options.
func differing(from, o *Options) string {
	var out []string
	add := func(differs bool, format string, args ...any) {
		if differs {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	was, is := cmp.Or(from.Headroom, &DefaultHeadroom), cmp.Or(o.Headroom, &DefaultHeadroom)
	confidence := cmp.Or(o.Confidence, DefaultConfidence)
	add(confidence != cmp.Or(from.Confidence, DefaultConfidence), "confidence=%v", confidence)
	add(is.Fragmentation != was.Fragmentation, "headroom=%v", is.Fragmentation)
	add(is.Driver != was.Driver, "driver-headroom=%v", is.Driver)
	for _, m := range o.Allow {
		add(!slices.Contains(from.Allow, m), "allow=%s", m)
	}
	for _, m := range from.Allow {
		add(!slices.Contains(o.Allow, m), "without allow=%s", m)
	}
	add(o.Profiles != from.Profiles || o.Predictor != from.Predictor, "other profiles")
	return cmp.Or(strings.Join(out, " "), "plain")
}

// mostChanges bounds the workloads that the table shows; the rest are counted.
const mostChanges = 24

// WriteText writes the comparison as a table with a column for each of the options: totals, workloads with different
// answers, and remarks that the first answer lacks.
func (c *Comparison) WriteText(w io.Writer) error {
	var out bytes.Buffer
	tw := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	cells := func(of func(r *Result) string) (out []string) {
		for _, r := range c.Results {
			out = append(out, of(r))
		}
		return out
	}
	line := func(name string, cells []string) { fmt.Fprintln(tw, name+"\t"+strings.Join(cells, "\t")) }
	line("options", c.Options)
	line("confidence", cells(func(r *Result) string { return fmt.Sprintf("%.4g%%", 100*r.Confidence) }))
	for _, st := range statuses {
		if slices.ContainsFunc(c.Results, func(r *Result) bool { return r.tally().byStatus[st] > 0 }) {
			line(string(st), cells(func(r *Result) string { return plaintext.Count(r.tally().byStatus[st], "workload") }))
		}
	}
	line("replicas", cells(func(r *Result) string {
		t := r.tally()
		return fmt.Sprintf("%d of %d placed", t.Placed, t.Wanted)
	}))
	line("GPUs", cells(func(r *Result) string {
		return fmt.Sprintf("%d, %d today", r.Totals.GPUsAfter, r.Totals.GPUsToday)
	}))
	money := func(amount, currency string) string {
		return strings.TrimSpace(plaintext.Amount(amount) + " " + currency)
	}
	line("a month", cells(func(r *Result) string { return money(r.Totals.MonthlyAfter, r.Totals.Currency) }))
	line("freed", cells(func(r *Result) string { return money(r.Totals.MonthlyFreed, r.Totals.Currency) }))
	changes, same := 0, 0
	for k := range c.Results[0].Decisions {
		row := cells(func(r *Result) string { return r.Decisions[k].brief() })
		if len(slices.Compact(slices.Clone(row))) == 1 {
			same++
		} else if changes++; changes <= mostChanges {
			line(c.Results[0].Decisions[k].Workload, row)
		}
	}
	_ = tw.Flush() // to memory
	if more := changes - mostChanges; more > 0 {
		fmt.Fprintf(&out, "%s more with different answers, which the JSON has\n", plaintext.Count(more, "workload"))
	}
	if same > 0 {
		fmt.Fprintf(&out, "%s with the same answer in all\n", plaintext.Count(same, "workload"))
	}
	for i, r := range c.Results {
		for _, remark := range r.Remarks {
			if !slices.Contains(c.Results[0].Remarks, remark) {
				fmt.Fprintf(&out, "%s: %s\n", c.Options[i], remark)
			}
		}
	}
	_, err := out.WriteTo(w)
	return err
}

// brief formats the placement and its cost an hour.
func (d *Decision) brief() string {
	if d.Status == StatusNone {
		return string(d.Status)
	}
	text := d.Where()
	if len(d.Places) == 0 {
		text = fmt.Sprintf("%d x %s", d.Placed, text)
	}
	if d.Unplaced > 0 {
		text += fmt.Sprintf(", %d unplaced", d.Unplaced)
	}
	if d.Cost != nil {
		text += fmt.Sprintf(", %s an hour", plaintext.Amount(d.Cost.PerWorkloadHour))
	}
	if d.Status != StatusDecided {
		text += ", " + string(d.Status)
	}
	return text
}
