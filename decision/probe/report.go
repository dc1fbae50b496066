package probe

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/sharing"
)

// Report holds a result for readers, with the predictor that it makes. Parameters
// are by the names of the predictor's own JSON.
type Report struct {
	GPU         string           `json:"gpu"`
	Driver      string           `json:"driver"`
	Simulated   bool             `json:"simulated"`
	Parameters  costs.Parameters `json:"parameters"`
	Measured    []Measurement    `json:"measured"`
	NotMeasured []NotMeasured    `json:"not_measured"`
	Warnings    []string         `json:"warnings"`
	Seconds     float64          `json:"seconds"`
}

// Report returns the report of a result whose predictor is p, with further notes.
func (r *Result) Report(p *predict.Predictor, notes ...string) *Report {
	return &Report{
		GPU: p.GPU, Driver: p.Driver, Simulated: r.Basis == sharing.BasisSimulated, Parameters: p.Parameters,
		Measured:    append([]Measurement{}, r.Measured...), // an empty list is [], not null
		NotMeasured: append([]NotMeasured{}, r.NotMeasured...),
		Warnings:    append(append([]string{}, notes...), r.Warnings...),
		Seconds:     r.Took.Seconds(),
	}
}

// String lays the report out in tables for people. Lines may be long.
func (o *Report) String() string {
	var b strings.Builder
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
	_ = t.Flush() // a Builder takes everything
	why := ""
	for i, n := range o.NotMeasured {
		if i == 0 {
			fmt.Fprintln(&b, "\nNot measured")
		}
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
	return strings.Join(lines, "\n")
}
