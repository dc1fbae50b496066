// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/tools/research/accuracy"
)

// write writes the report for people.
func (rep *report) write(out io.Writer) error {
	w := &bytes.Buffer{}
	if len(rep.Errors) == 0 {
		fmt.Fprintln(w, "Nothing to compare: no row of several tenants was measured and could be predicted.")
	}
	writeAssumed(w, rep.Assumed)
	if len(rep.Errors) > 0 {
		list := []series{{Series: "predicted", Errors: rep.Errors}}
		for _, b := range accuracy.Baselines() {
			list = append(list, series{Series: baselineNames[b], Errors: rep.Baselines[b]})
		}
		wrapped(w, "Mean / P95 of the absolute error, the share of the outcomes in the 90% intervals, and their mean width, "+
			"in percent; below, of simpler rules")
		writeGroups(w, seriesMetrics, list)
		writeGroups(w, []profile.Metric{profile.MetricStepP50, profile.MetricStepsPerSecond}, list)
		fmt.Fprintln(w)
	}
	if len(rep.Series) > 0 {
		writeSeries(w, rep.Series, rep.Classes, rep.Splits[seriesOut])
	}
	_, err := w.WriteTo(out)
	return err
}

// baselineNames name the simpler rules: N tenants make it N times slower, everything is 1.75 times slower, and shares
// of what keeps the GPU, or its engines, busy.
var baselineNames = [...]string{accuracy.BaselineNTimesSlower: "N times slower", accuracy.BaselineFlat: "1.75 times",
	accuracy.BaselineGPUBusy: "GPU busy", accuracy.BaselineEngineBusy: "engine busy"}

// tabulate aligns the cells of lines, which tabs part.
func tabulate(padding int, lines []string) []byte {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, padding, ' ', 0)
	fmt.Fprintln(tw, strings.Join(lines, "\n"))
	_ = tw.Flush() // into a buffer
	return b.Bytes()
}

// ends keeps the beginning and more of the end, where names of runs differ.
func ends(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most/3]) + "…" + string(r[len(r)-(most-most/3-1):])
	}
	return s
}

func writeAssumed(w io.Writer, assumed []string) {
	for _, a := range assumed {
		wrapped(w, "assumed: "+a)
	}
	if len(assumed) > 0 {
		fmt.Fprintln(w)
	}
}

// seriesMetrics lists the metrics of the table; the JSON has all.
var seriesMetrics = []profile.Metric{profile.MetricTPOTP50, profile.MetricTTFTP50, profile.MetricE2EP50,
	profile.MetricTokensPerSecond}

// classMetrics lists those of the table by engine and kind.
var classMetrics = []profile.Metric{profile.MetricTPOTP50, profile.MetricTTFTP50, profile.MetricStepP50,
	profile.MetricStepsPerSecond}

// writeSeries prints the errors of each series, predicted by the others, and where there is
// more than one, of each engine and kind of tenant.
func writeSeries(w io.Writer, list, classes []series, all errorTable) {
	wrapped(w, "Each series predicted by the others of its GPU, or where there are not four by those of the GPU "+
		"calibrated on: mean / P95 of the absolute error, the share of the outcomes in the 90% intervals, and their "+
		"mean width, in percent")
	writeGroups(w, seriesMetrics, append(slices.Clone(list), series{Series: "all", Errors: all}))
	if len(classes) > 1 {
		wrapped(w, "\nEach engine and kind of tenant likewise. Only servers that launch their steps as a whole "+
			"calibrate: all others are left out whole, their intervals' widths too")
		writeGroups(w, classMetrics, classes)
		wrapped(w, "\nAsked whether the median of a token or a step stays below 1.3, 1.6 and 2 times that alone: yes, of "+
			"those wrong, no, unknown")
		for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
			lines := []string{strings.ToUpper(m.String()) + "\tYES\tWRONG\tNO\tUNKNOWN"}
			for _, c := range classes {
				if a, ok := c.Asked[m]; ok {
					lines = append(lines, fmt.Sprintf("%s\t%d\t%d\t%d\t%d", c.Series, a.Yes, a.Wrong, a.No, a.Unknown))
				}
			}
			_, _ = w.Write(tabulate(2, lines)) // into a buffer
		}
	}
}

func writeGroups(w io.Writer, metrics []profile.Metric, list []series) {
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		has := func(metric profile.Metric) bool {
			return slices.ContainsFunc(list, func(s series) bool { return s.Errors[m][metric].Rows > 0 })
		}
		if slices.ContainsFunc(metrics, has) {
			_, _ = w.Write(groupTable(m, metrics, list)) // into a buffer
		}
	}
}

// nameColumns is the room for the name of a series: what four metrics leave of a page.
const nameColumns = 14

// groupTable formats the errors of series under a mechanism.
func groupTable(m sharing.Mechanism, metrics []profile.Metric, list []series) []byte {
	head := fmt.Sprintf("\n%s\tROWS", strings.ToUpper(m.String()))
	for _, metric := range metrics {
		head += fmt.Sprintf("\t%s\tIN, W", metric)
	}
	lines := []string{head}
	for _, s := range list {
		cells := s.Errors[m]
		if len(cells) == 0 {
			continue
		}
		rows := 0
		for _, metric := range metrics {
			rows = max(rows, cells[metric].Rows)
		}
		line := fmt.Sprintf("%s\t%d", ends(s.Series, nameColumns), rows)
		for _, metric := range metrics {
			c, ok := cells[metric]
			switch {
			case !ok:
				line += "\t-\t"
			case c.Coverage == nil:
				line += fmt.Sprintf("\t%.1f/%.1f\t", c.Mean, c.P95)
			default:
				line += fmt.Sprintf("\t%.1f/%.1f\t%.0f, %.0f", c.Mean, c.P95, *c.Coverage, *c.Width)
			}
		}
		lines = append(lines, line)
	}
	return tabulate(1, lines)
}

// wrapped prints a line, folded at spaces.
func wrapped(w io.Writer, text string) {
	for line := range strings.Lines(text + "\n") {
		column := 0
		for i, word := range strings.Fields(line) {
			if n := len([]rune(word)) + 1; i > 0 && column+n > 100 {
				fmt.Fprint(w, "\n"+word)
				column = n - 1
			} else if i > 0 {
				fmt.Fprint(w, " "+word)
				column += n
			} else {
				fmt.Fprint(w, word)
				column = n - 1
			}
		}
		fmt.Fprintln(w)
	}
}
