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
	"unicode/utf8"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

// worstRows are shown of more than twice as many, those that were missed most; the JSON has everything.
const worstRows = 10

// write writes the report for people, with all rows or those missed most.
func (rep *report) write(out io.Writer, rows bool) error {
	w := &bytes.Buffer{}
	shown := rep.Rows
	if worst := rep.worst(); !rows && len(rep.Rows) > 2*worstRows && len(worst) > 0 {
		shown = worst
		fmt.Fprintf(w, "The %d of %d rows whose TPOT is missed most (-rows shows all, -json all figures)\n\n", len(shown),
			len(rep.Rows))
	}
	notes := notes{who: map[string][]string{}}
	for _, m := range sharing.Mechanisms() {
		of := slices.DeleteFunc(slices.Clone(shown), func(r row) bool { return r.Mechanism != m })
		writeRows(w, m, of)
	}
	for _, r := range rep.Rows {
		for why := range strings.Lines(r.Unknown) { // one of each tenant's
			notes.add(tenantInError.ReplaceAllString(strings.TrimSpace(why), ""), r.Case)
		}
		for _, n := range r.Notes {
			notes.add(n, r.Case+" "+nameOf(r.Server))
		}
	}
	if len(rep.Rows) == 0 {
		fmt.Fprintln(w, "Nothing to predict: every row has one tenant, and rows with one tenant are profiles.")
	}
	notes.write(w)
	writeAssumed(w, rep.Assumed)
	rep.writeErrors(w)
	if len(rep.Series) > 0 {
		writeSeries(w, rep.Series, rep.Classes, rep.Splits[predict.SplitLeaveOneSeriesOut])
	}
	_, err := w.WriteTo(out)
	return err
}

// worst returns the rows with the largest errors, in their order; none where nothing was measured.
func (rep *report) worst() []row {
	missed := slices.DeleteFunc(slices.Clone(rep.Rows), func(r row) bool { return math.IsNaN(r.missed()) })
	slices.SortStableFunc(missed, func(a, b row) int { return cmp.Compare(math.Abs(b.missed()), math.Abs(a.missed())) })
	missed = missed[:min(worstRows, len(missed))]
	slices.SortFunc(missed, func(a, b row) int { return a.Index - b.Index })
	return missed
}

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
		line, measured, miss := fmt.Sprintf("%s\t%s", short(r.Case, 24), short(r.tenant(), 24)), "-", "-"
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

func short(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
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

// notes collects remarks, each with the tenants that it concerns.
type notes struct {
	texts []string
	who   map[string][]string // by text
}

func (ns *notes) add(text, who string) {
	if ns.who[text] == nil {
		ns.texts = append(ns.texts, text)
	}
	if !slices.Contains(ns.who[text], who) {
		ns.who[text] = append(ns.who[text], who)
	}
}

// write prints each note once, with the first of its tenants.
func (ns *notes) write(w io.Writer) {
	const named = 3
	for _, text := range ns.texts {
		who := ns.who[text]
		if more := len(who) - named; more > 1 {
			who = append(who[:named:named], fmt.Sprintf("%d more", more))
		}
		wrapped(w, "note: "+strings.Join(who, ", ")+": "+text)
	}
	if len(ns.texts) > 0 {
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
		if !slices.ContainsFunc(list, func(s series) bool { return len(s.Errors[m]) > 0 }) {
			continue
		}
		for room := 15; ; room-- { // for the series' names, as far as the figures leave it
			table := groupTable(m, metrics, list, room)
			if room == 6 || widest(table) <= page.Width {
				_, _ = w.Write(table) // into a buffer
				break
			}
		}
	}
}

// groupTable formats the errors of series under a mechanism, with room columns for their names.
func groupTable(m sharing.Mechanism, metrics []profile.Metric, list []series, room int) []byte {
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
		line := fmt.Sprintf("%s\t%d", ends(s.Series, room), max(cells[profile.MetricTPOTP50].Rows,
			cells[profile.MetricStepP50].Rows))
		for _, metric := range metrics {
			if c, ok := cells[metric]; ok {
				line += fmt.Sprintf("\t%.1f/%.1f\t%.0f, %.0f", c.Mean, c.P95, *c.Coverage, *c.Width)
			} else {
				line += "\t-\t"
			}
		}
		lines = append(lines, line)
	}
	return tabulate(1, lines)
}

// widest returns the length of a text's longest line.
func widest(text []byte) (columns int) {
	for line := range bytes.Lines(text) {
		columns = max(columns, utf8.RuneCount(bytes.TrimRight(line, " \n")))
	}
	return columns
}

// wrapped prints a line, folded.
func wrapped(w io.Writer, text string) { fmt.Fprintln(w, page.Fold(text)) }

func nameOf(s profile.Server) string {
	name := s.Model
	if name == "" {
		name = s.String()
	}
	if p := s.SMPercent.Or(100); p < 100 {
		name += fmt.Sprintf("@%g%%", p)
	}
	return name
}

// writeErrors prints the errors of the predictions, of those of held-out rows, and of simpler rules.
func (rep *report) writeErrors(w io.Writer) {
	if len(rep.Errors) == 0 {
		return
	}
	tables := []errorTable{rep.Errors}
	names := []string{"PREDICTED"}
	for _, split := range []predict.Split{predict.SplitLeaveOneCaseOut, predict.SplitLeaveOneModelOut} {
		if t, ok := rep.Splits[split]; ok {
			tables, names = append(tables, t), append(names, strings.ToUpper(strings.TrimPrefix(split.String(), "leave-")))
		}
	}
	wrapped(w, "Errors of the predictions, absolute, in percent: mean / P95; how many percent of the outcomes lie in "+
		"the 90% intervals, and their width in percent of the value")
	byMechanism(w, "ROWS\t"+strings.Join(names, "\tIN, WIDTH\t")+"\tIN, WIDTH", rep.Errors,
		func(m sharing.Mechanism, metric profile.Metric) string {
			line := fmt.Sprint(rep.Errors[m][metric].Rows)
			for _, t := range tables {
				if c, ok := t[m][metric]; ok {
					line += fmt.Sprintf("\t%.1f / %.1f\t%.0f, %.0f", c.Mean, c.P95, *c.Coverage, *c.Width)
				} else {
					line += "\t-\t-"
				}
			}
			return line
		})
	baselines := false
	for _, cells := range rep.Errors {
		for _, c := range cells {
			baselines = baselines || c.Baselines != nil
		}
	}
	if !baselines {
		return
	}
	wrapped(w, "Errors of simpler rules: N tenants make it N times slower; always 1.75 times; shares of what keeps "+
		"the GPU busy; shares of what keeps its engines busy")
	byMechanism(w, "N TIMES\tFLAT 1.75\tGPU BUSY\tENGINE BUSY", rep.Errors,
		func(m sharing.Mechanism, metric profile.Metric) string {
			var cells []string
			for _, b := range predict.Baselines() {
				cell := "-"
				if v, ok := rep.Errors[m][metric].Baselines[b]; ok {
					cell = fmt.Sprintf("%.1f / %.1f", v.Mean, v.P95)
				}
				cells = append(cells, cell)
			}
			return strings.Join(cells, "\t")
		})
}

// byMechanism prints a table for each mechanism, with a line for each metric.
func byMechanism(w io.Writer, head string, t errorTable, line func(sharing.Mechanism, profile.Metric) string) {
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		if len(t[m]) == 0 {
			continue
		}
		lines := []string{"\n" + strings.ToUpper(m.String()) + "\t" + head}
		for _, metric := range profile.Metrics() {
			if _, ok := t[m][metric]; ok {
				lines = append(lines, fmt.Sprintf("%s\t%s", metric, line(m, metric)))
			}
		}
		_, _ = w.Write(tabulate(2, lines))
	}
	fmt.Fprintln(w)
}
