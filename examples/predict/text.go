package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

// write writes the report for people, with the rows where they are asked for, or nothing was measured.
func (rep *report) write(out io.Writer, rows bool) error {
	w := &bytes.Buffer{}
	for _, m := range sharing.Mechanisms() {
		if rows || len(rep.Errors) == 0 {
			writeRows(w, m, slices.DeleteFunc(slices.Clone(rep.Rows), func(r row) bool { return r.Mechanism != m }))
		}
	}
	if len(rep.Rows) == 0 {
		fmt.Fprintln(w, "Nothing to predict: every row has one tenant, and rows with one tenant are profiles.")
	}
	rep.writeNotes(w)
	writeAssumed(w, rep.Assumed)
	if len(rep.Errors) > 0 {
		list := []series{{Series: "predicted", Errors: rep.Errors}}
		for _, split := range []predict.Split{predict.SplitLeaveOneCaseOut, predict.SplitLeaveOneModelOut} {
			list = append(list, series{Series: strings.TrimPrefix(split.String(), "leave-"), Errors: rep.Splits[split]})
		}
		for _, b := range predict.Baselines() {
			list = append(list, series{Series: baselineNames[b], Errors: rep.Baselines[b]})
		}
		wrapped(w, "Mean / P95 of the absolute error, the share of the outcomes in the 90% intervals, and their mean width, "+
			"in percent; below, of simpler rules")
		writeGroups(w, seriesMetrics, list)
		writeGroups(w, []profile.Metric{profile.MetricStepP50, profile.MetricStepsPerSecond}, list)
		fmt.Fprintln(w)
	}
	if len(rep.Series) > 0 {
		writeSeries(w, rep.Series, rep.Classes, rep.Splits[predict.SplitLeaveOneSeriesOut])
	}
	_, err := w.WriteTo(out)
	return err
}

// baselineNames name the simpler rules: N tenants make it N times slower, everything is 1.75 times slower, and shares
// of what keeps the GPU, or its engines, busy.
var baselineNames = [...]string{predict.BaselineNTimesSlower: "N times slower", predict.BaselineFlat: "1.75 times",
	predict.BaselineGPUBusy: "GPU busy", predict.BaselineEngineBusy: "engine busy"}

// missed returns the error of TPOT or step P50 as a fraction, NaN where there is none.
func (r *row) missed() float64 {
	a, ok := r.Actual[r.Kind.MainMetric()]
	if !ok || r.Unknown != "" {
		return math.NaN()
	}
	return r.Predicted[r.Kind.MainMetric()].Value/a - 1
}

func writeRows(w io.Writer, m sharing.Mechanism, rows []row) {
	if len(rows) == 0 {
		return
	}
	table := []string{strings.ToUpper(m.String()) + "\tTENANT, IN/OUT\tTPOT P50\t90%\tMEASURED\tERROR\tSLOWDOWN"}
	for _, r := range rows {
		line, measured, miss := fmt.Sprintf("%s\t%s", ends(r.Case, 24), ends(r.tenant(), 24)), "-", "-"
		if v, ok := r.Actual[r.Kind.MainMetric()]; ok {
			measured = fmt.Sprintf("%.2fms", v)
		}
		if v := r.missed(); !math.IsNaN(v) {
			miss = fmt.Sprintf("%+.1f%%", 100*v)
		}
		if tpot := r.Predicted[r.Kind.MainMetric()]; r.Unknown == "" {
			line += fmt.Sprintf("\t%.2fms\t%.2f-%.2f\t%s\t%s\t%.2fx", tpot.Value, tpot.Low, tpot.High, measured, miss,
				r.Slowdown.Value)
		} else {
			line += "\tunknown\t\t" + measured + "\t\t"
		}
		table = append(table, line)
	}
	_, _ = w.Write(tabulate(2, append(table, "")))
}

// tabulate aligns the cells of lines, which tabs part.
func tabulate(padding int, lines []string) []byte {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, padding, ' ', 0)
	fmt.Fprintln(tw, strings.Join(lines, "\n"))
	_ = tw.Flush() // into a buffer
	return b.Bytes()
}

// tenant abbreviates a tenant: server, clients or requests a second, tokens in and out.
func (r *row) tenant() string {
	if r.Kind != profile.KindServer {
		return nameOf(r.Server) + ", steps"
	}
	load := fmt.Sprintf("x%d", r.Load.Concurrency)
	if !r.Load.Closed() {
		load = fmt.Sprintf("%g/s", r.Load.Rate)
	}
	return fmt.Sprintf("%s %s %d/%d", nameOf(r.Server), load, r.Load.Prompt, r.Load.Output)
}

// ends keeps the beginning and more of the end, where names of runs differ.
func ends(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most/3]) + "…" + string(r[len(r)-(most-most/3-1):])
	}
	return s
}

// tenantInError matches the tenant's place in an error, which others may share.
var tenantInError = regexp.MustCompile(`^(tenants)?\[\d+\]: (predict: )?`)

// writeNotes writes each remark once, with the first row that it concerns and how many others.
func (rep *report) writeNotes(w io.Writer) {
	var texts []string
	first, rows := map[string]string{}, map[string]int{}
	for _, r := range rep.Rows {
		for _, text := range append(strings.Split(r.Unknown, "\n"), r.Notes...) { // a line for each tenant
			if text = tenantInError.ReplaceAllString(strings.TrimSpace(text), ""); text == "" {
				continue
			}
			if rows[text]++; rows[text] == 1 {
				texts, first[text] = append(texts, text), r.Case
			}
		}
	}
	for _, text := range texts {
		who := first[text]
		if more := rows[text] - 1; more > 0 {
			who += fmt.Sprintf(", %d more", more)
		}
		wrapped(w, "note: "+who+": "+text)
	}
	if len(texts) > 0 {
		fmt.Fprintln(w)
	}
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

// wrapped prints a line, folded.
func wrapped(w io.Writer, text string) { fmt.Fprintln(w, page.Fold(text)) }

func nameOf(s profile.Server) string {
	name := cmp.Or(s.Model, s.String())
	if p := s.SMPercent.Or(100); p < 100 {
		name += fmt.Sprintf("@%g%%", p)
	}
	return name
}
