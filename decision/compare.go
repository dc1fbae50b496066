// SPDX-License-Identifier: Apache-2.0

package decision

import (
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
	"github.com/cotenant/cotenant/sharing"
)

// Comparison holds the answers for one fleet with several options. The first column is the baseline.
type Comparison struct {
	Columns []Column `json:"columns"`
	// Changes lists the workloads with different answers, by name.
	Changes []Change `json:"changes"`
}

// Column is the answer with one of the options.
type Column struct {
	// Options lists the differences to the first column, for example "confidence=0.9 allow=hami"; "plain" without any.
	Options string `json:"options"`
	// Confidence is that of the answer; see Result.
	Confidence float64        `json:"confidence"`
	Statuses   map[Status]int `json:"statuses"` // workloads
	Placed     int            `json:"placed"`   // replicas
	Unplaced   int            `json:"unplaced"`
	Bill
	Currency string   `json:"currency,omitempty"`
	Remarks  []string `json:"remarks,omitempty"` // those that the first column does not have
	Result   *Result  `json:"-"`
}

// Change is a workload with its answers, one for each column.
type Change struct {
	Workload string   `json:"workload"`
	Answers  []Answer `json:"answers"`
}

// Answer holds the status, placement and price of a workload under one option.
type Answer struct {
	Status    Status            `json:"status"`
	Pool      string            `json:"pool,omitempty"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	Places    string            `json:"places,omitempty"`  // in words, of replicas in several places
	Profile   string            `json:"profile,omitempty"` // MIG
	Placed    int               `json:"placed"`            // replicas
	Unplaced  int               `json:"unplaced"`
	Hourly    string            `json:"per_workload_hour,omitempty"` // an exact decimal; absent without prices
}

// Compare calls [Decide] once for each of the options and compares the answers. Use it for the value of a change: less
// confidence, a mechanism to install, more free memory. The error names every problem of the fleet and of the options.
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
	c := &Comparison{Changes: []Change{}}
	for i := range options {
		r, err := Decide(ctx, f, options[i])
		if err != nil {
			return nil, err
		}
		col := Column{Options: differing(&options[0], &options[i]), Confidence: r.Confidence, Bill: r.Totals.Bill,
			Currency: r.Totals.Currency, Result: r, Statuses: map[Status]int{}}
		col.Placed, col.Unplaced = r.placed()
		for k := range r.Decisions {
			col.Statuses[r.Decisions[k].Status]++
		}
		for _, remark := range r.Remarks {
			if i > 0 && !slices.Contains(c.Columns[0].Result.Remarks, remark) {
				col.Remarks = append(col.Remarks, remark)
			}
		}
		c.Columns = append(c.Columns, col)
	}
	for k := range c.Columns[0].Result.Decisions {
		change := Change{Workload: c.Columns[0].Result.Decisions[k].Workload}
		for i := range c.Columns {
			change.Answers = append(change.Answers, answerOf(&c.Columns[i].Result.Decisions[k]))
		}
		if len(slices.Compact(slices.Clone(change.Answers))) > 1 {
			c.Changes = append(c.Changes, change)
		}
	}
	return c, nil
}

func answerOf(d *Decision) Answer {
	a := Answer{Status: d.Status, Pool: d.Pool, Mechanism: d.Mechanism, Profile: d.Profile, Placed: d.Placed,
		Unplaced: d.Unplaced}
	if len(d.Places) > 0 {
		a.Places = d.Where()
	}
	if d.Cost != nil {
		a.Hourly = d.Cost.PerWorkloadHour
	}
	return a
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

// WriteJSON writes the comparison as indented JSON with a final newline.
func (c *Comparison) WriteJSON(w io.Writer) error { return writeJSON(w, c) }

// mostChanges bounds the workloads that the table shows; the rest are counted.
const mostChanges = 24

// WriteText writes the comparison as a table with a column for each of the options: totals, and workloads with
// different answers.
func (c *Comparison) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	line := func(name string, cell func(col *Column) string) {
		cells := []string{name}
		for i := range c.Columns {
			cells = append(cells, cell(&c.Columns[i]))
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	line("options", func(col *Column) string { return col.Options })
	line("confidence", func(col *Column) string { return fmt.Sprintf("%.4g%%", 100*col.Confidence) })
	for _, st := range []Status{StatusDecided, StatusProvisional, StatusPartlyPlaced, StatusNone} {
		if slices.ContainsFunc(c.Columns, func(col Column) bool { return col.Statuses[st] > 0 }) {
			line(st.String(), func(col *Column) string { return plaintext.Count(col.Statuses[st], "workload") })
		}
	}
	line("replicas", func(col *Column) string {
		return fmt.Sprintf("%d of %d placed", col.Placed, col.Placed+col.Unplaced)
	})
	line("GPUs", func(col *Column) string { return fmt.Sprintf("%d, %d today", col.GPUsAfter, col.GPUsToday) })
	money := func(col *Column, amount string) string {
		if amount == "" {
			return "-"
		}
		return plaintext.Amount(amount) + " " + col.Currency
	}
	line("a month", func(col *Column) string { return money(col, col.MonthlyAfter) })
	line("freed", func(col *Column) string { return money(col, col.MonthlyFreed) })
	shown := min(len(c.Changes), mostChanges)
	for _, change := range c.Changes[:shown] {
		cells := []string{change.Workload}
		for _, a := range change.Answers {
			cells = append(cells, a.String())
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var after strings.Builder
	if more := len(c.Changes) - shown; more > 0 {
		fmt.Fprintf(&after, "%s more with different answers, which the JSON has\n", plaintext.Count(more, "workload"))
	}
	if same := len(c.Columns[0].Result.Decisions) - len(c.Changes); same > 0 {
		fmt.Fprintf(&after, "%s with the same answer in all\n", plaintext.Count(same, "workload"))
	}
	for i := range c.Columns {
		for _, remark := range c.Columns[i].Remarks {
			fmt.Fprintf(&after, "%s: %s\n", c.Columns[i].Options, remark)
		}
	}
	_, err := io.WriteString(w, after.String())
	return err
}

// String formats the placement and its cost an hour.
func (a Answer) String() string {
	if a.Status == StatusNone {
		return a.Status.String()
	}
	text := cmp.Or(a.Places, fmt.Sprintf("%d x %s on %s", a.Placed, choice(a.Mechanism, a.Profile), a.Pool))
	if a.Unplaced > 0 {
		text += fmt.Sprintf(", %d unplaced", a.Unplaced)
	}
	if a.Hourly != "" {
		text += fmt.Sprintf(", %s an hour", plaintext.Amount(a.Hourly))
	}
	if a.Status != StatusDecided {
		text += ", " + a.Status.String()
	}
	return text
}
