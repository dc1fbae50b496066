package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// WriteText writes the comparison as a table for people.
func (rc *RunComparison) WriteText(w io.Writer) error {
	var b strings.Builder
	basis := ""
	if rc.Basis != "measured" {
		basis = "SYNTHETIC (" + rc.Basis + "), not a measurement\n"
	}
	fmt.Fprintf(&b, "%sbase: %s; other: %s\n\n", basis, rc.Base, rc.Other)
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "figure\tbase median (n)\tother median (n)\tchange\tp\tcorrected\tverdict")
	var notes []string
	for i := range rc.Figures {
		c := &rc.Figures[i]
		change, p, corrected, note := "-", "-", "-", ""
		if v, ok := c.Change.Get(); ok {
			change = fmt.Sprintf("%+.1f%%", 100*v)
			if ci := c.ShiftCI; ci != nil {
				scale := 100 / math.Abs(c.Base.Median)
				change += fmt.Sprintf(", %+.1f to %+.1f%%", ci.Low*scale, ci.High*scale)
			}
		}
		if v, ok := c.P.Get(); ok {
			p = fmt.Sprintf("%.3f", v)
		}
		if v, ok := c.PCorrected.Get(); ok {
			corrected = fmt.Sprintf("%.3f", v)
		}
		for _, reason := range c.Reasons {
			k := slices.Index(notes, reason)
			if k < 0 {
				notes, k = append(notes, reason), len(notes)
			}
			note += fmt.Sprintf(" [%d]", k+1)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s%s\n", c.Figure, c.Base.text(), c.Other.text(), change, p, corrected,
			c.Claim, note)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, n := range notes {
		fmt.Fprintf(&b, "[%d] %s\n", i+1, n)
	}
	if rc.Withheld != "" {
		fmt.Fprintf(&b, "withheld: %s\n", rc.Withheld)
	}
	if rc.Correction != "" {
		fmt.Fprintf(&b, "note: claims rest on the corrected p, which allows for all figures that were tested (%s); "+
			"intervals are each figure's own\n", rc.Correction)
	}
	for _, warning := range rc.Warnings {
		fmt.Fprintf(&b, "note: %s\n", warning)
	}
	_, err := io.WriteString(w, plaintext.Show(b.String()))
	return err
}

func (s ComparedSide) text() string {
	switch {
	case s.N == 0:
		return "-"
	case s.CI == nil:
		return fmt.Sprintf("%.4g (%d)", s.Median, s.N)
	}
	return fmt.Sprintf("%.4g, %.4g to %.4g (%d)", s.Median, s.CI.Low, s.CI.High, s.N)
}
