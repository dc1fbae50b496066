package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

// writeText prints the result for people.
func (o *output) writeText(w io.Writer, c *config) error {
	var b bytes.Buffer
	title := o.GPU
	if o.Driver != "" {
		title += ", driver " + o.Driver
	}
	if o.Simulated {
		title += ": SIMULATED, nothing was measured on a GPU"
	}
	fmt.Fprintf(&b, "%s (%.0f s)\n\n", title, o.Seconds)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tvalue\t80% lie within\t")
	for _, m := range o.Measured {
		span := ""
		if m.Points > 1 {
			span = fmt.Sprintf("%.4g to %.4g", m.Low, m.High)
		}
		fmt.Fprintf(t, "%s\t%.4g %s\t%s\t\n", m.Name, m.Value, m.Unit, span)
	}
	_ = t.Flush() // to memory
	if len(o.NotMeasured) > 0 {
		fmt.Fprintln(&b, "\nNot measured")
	}
	why := ""
	for _, n := range o.NotMeasured {
		if n.Why != why {
			fmt.Fprintf(&b, "  %s:\n", n.Why)
			why = n.Why
		}
		fmt.Fprintf(&b, "    %s\n", n.Name)
	}
	for _, s := range o.Warnings {
		fmt.Fprintf(&b, "\nNote: %s.\n", s)
	}
	fmt.Fprintln(&b, "\nThe predictor's parameters")
	t = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range o.Parameters.List() {
		also := ""
		if v, ok := p.Independent.Get(); ok && p.Basis != sharing.BasisMeasured && p.Basis != sharing.BasisSimulated {
			also = fmt.Sprintf("measured otherwise: %.3g", v)
		}
		fmt.Fprintf(t, "  %s\t%.4g %s\t%s\t%s\n", p.Name, p.Value, p.Unit, p.Basis, also)
	}
	_ = t.Flush()
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	text := page.Fold(strings.Join(lines, "\n"))
	if c.written {
		text += fmt.Sprintf("\nWritten to %s: examples/measure -use %s\n", c.out, c.out)
	}
	_, err := io.WriteString(w, text)
	return err
}
