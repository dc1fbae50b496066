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
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

// worstRows are shown of more than twice as many, those that were missed most; the JSON
// has everything.
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
	var notes notes
	var mechanisms []sharing.Mechanism
	for _, r := range shown {
		if !slices.Contains(mechanisms, r.Mechanism) {
			mechanisms = append(mechanisms, r.Mechanism)
		}
	}
	for _, m := range mechanisms {
		of := slices.DeleteFunc(slices.Clone(shown), func(r row) bool { return r.Mechanism != m })
		if err := writeRows(w, m, of); err != nil {
			return err
		}
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
		writeSeries(w, rep.Series, rep.Splits[predict.SplitLeaveOneSeriesOut])
	}
	_, err := w.WriteTo(out)
	return err
}

// worst returns the rows with the largest errors, in their order; none where nothing
// was measured.
func (rep *report) worst() []row {
	missed := slices.DeleteFunc(slices.Clone(rep.Rows), func(r row) bool { return math.IsNaN(r.missed()) })
	slices.SortStableFunc(missed, func(a, b row) int { return cmp.Compare(math.Abs(b.missed()), math.Abs(a.missed())) })
	missed = missed[:min(worstRows, len(missed))]
	slices.SortFunc(missed, func(a, b row) int { return a.Index - b.Index })
	return missed
}

// missed returns the error of TPOT P50 as a fraction, NaN where there is none.
func (r *row) missed() float64 {
	a, ok := r.Actual[predict.MetricTPOTP50]
	if !ok || r.Unknown != "" {
		return math.NaN()
	}
	return r.Predicted[predict.MetricTPOTP50].Value/a - 1
}

func writeRows(w io.Writer, m sharing.Mechanism, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\tTENANT, IN/OUT\tTPOT P50\t90%%\tMEASURED\tERROR\tSLOWDOWN\n", strings.ToUpper(m.String()))
	for _, r := range rows {
		first := fmt.Sprintf("%s\t%s", short(r.Case, 24), short(r.tenant(), 24))
		if r.Unknown != "" {
			fmt.Fprintf(tw, "%s\tunknown\t\t%s\t\t\n", first, actual(r, predict.MetricTPOTP50, "%.2fms"))
			continue
		}
		tpot, miss := r.Predicted[predict.MetricTPOTP50], "-"
		if v := r.missed(); !math.IsNaN(v) {
			miss = fmt.Sprintf("%+.1f%%", 100*v)
		}
		fmt.Fprintf(tw, "%s\t%.2fms\t%.2f-%.2f\t%s\t%s\t%.2fx\n", first, tpot.Value, tpot.Low, tpot.High,
			actual(r, predict.MetricTPOTP50, "%.2fms"), miss, r.Slowdown.Value)
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}

// tenant abbreviates a tenant: server, clients or requests a second, tokens in and out.
func (r *row) tenant() string {
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
type notes []note

type note struct {
	text string
	who  []string
}

func (ns *notes) add(text, who string) {
	i := slices.IndexFunc(*ns, func(n note) bool { return n.text == text })
	if i < 0 {
		i = len(*ns)
		*ns = append(*ns, note{text: text})
	}
	if n := &(*ns)[i]; !slices.Contains(n.who, who) {
		n.who = append(n.who, who)
	}
}

// write prints each note once, with the first of its tenants.
func (ns notes) write(w io.Writer) {
	const named = 3
	for _, n := range ns {
		who := n.who
		if more := len(who) - named; more > 1 {
			who = append(slices.Clone(who[:named]), fmt.Sprintf("%d more", more))
		}
		wrapped(w, "note: "+strings.Join(who, ", ")+": "+n.text)
	}
	if len(ns) > 0 {
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
var seriesMetrics = []predict.Metric{predict.MetricTPOTP50, predict.MetricTTFTP50, predict.MetricE2EP50,
	predict.MetricTokensPerSecond}

// writeSeries prints the errors of each series, predicted by the others.
func writeSeries(w io.Writer, list []series, all errorTable) {
	wrapped(w, "Each series predicted by the others of its GPU, or where there are not four by those of the GPU "+
		"calibrated on: mean / P95 of the absolute error, the share of the outcomes in the 90% intervals, and their "+
		"mean width, in percent")
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		if len(all[m]) == 0 {
			continue
		}
		for room := 15; ; room-- { // for the series' names, as far as the figures leave it
			table := seriesTable(m, list, all[m], room)
			if room == 6 || widest(table) <= page.Width {
				_, _ = w.Write(table) // into a buffer
				break
			}
		}
	}
}

// seriesTable formats the errors of series under a mechanism, with room columns for
// their names.
func seriesTable(m sharing.Mechanism, list []series, all map[predict.Metric]errorCell, room int) []byte {
	var table bytes.Buffer
	tw := tabwriter.NewWriter(&table, 0, 0, 1, ' ', 0)
	fmt.Fprintf(tw, "\n%s\tROWS", strings.ToUpper(m.String()))
	for _, metric := range seriesMetrics {
		fmt.Fprintf(tw, "\t%s\tIN, W", metric)
	}
	fmt.Fprintln(tw)
	line := func(name string, cells map[predict.Metric]errorCell) {
		if len(cells) == 0 {
			return
		}
		fmt.Fprintf(tw, "%s\t%d", ends(name, room), cells[predict.MetricTPOTP50].Rows)
		for _, metric := range seriesMetrics {
			c, ok := cells[metric]
			if !ok {
				fmt.Fprint(tw, "\t-\t")
				continue
			}
			fmt.Fprintf(tw, "\t%.1f/%.1f\t%.0f, %.0f", c.Mean, c.P95, *c.Coverage, *c.Width)
		}
		fmt.Fprintln(tw)
	}
	for _, s := range list {
		line(s.Series, s.Errors[m])
	}
	line("all", all)
	_ = tw.Flush() // into a buffer
	return table.Bytes()
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

func nameOf(s predict.Server) string {
	name := s.Model
	if name == "" {
		name = s.String()
	}
	if p := s.SMPercent.Or(100); p < 100 {
		name += fmt.Sprintf("@%g%%", p)
	}
	return name
}

func actual(r row, m predict.Metric, format string) string {
	v, ok := r.Actual[m]
	if !ok {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// writeErrors prints the errors of the predictions, of those of held-out rows, and of
// simpler rules.
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
	cell := func(c errorCell) string {
		return fmt.Sprintf("%.1f / %.1f\t%.0f, %.0f", c.Mean, c.P95, *c.Coverage, *c.Width)
	}
	byMechanism(w, "ROWS\t"+strings.Join(names, "\tIN, WIDTH\t")+"\tIN, WIDTH", rep.Errors,
		func(m sharing.Mechanism, metric predict.Metric) string {
			cells := []string{fmt.Sprint(rep.Errors[m][metric].Rows)}
			for _, t := range tables {
				if c, ok := t[m][metric]; ok {
					cells = append(cells, cell(c))
				} else {
					cells = append(cells, "-\t-")
				}
			}
			return strings.Join(cells, "\t")
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
		func(m sharing.Mechanism, metric predict.Metric) string {
			var cells []string
			for _, b := range predict.Baselines() {
				if v, ok := rep.Errors[m][metric].Baselines[b]; ok {
					cells = append(cells, fmt.Sprintf("%.1f / %.1f", v.Mean, v.P95))
				} else {
					cells = append(cells, "-")
				}
			}
			return strings.Join(cells, "\t")
		})
}

// byMechanism prints a table for each mechanism, with a line for each metric.
func byMechanism(w io.Writer, head string, t errorTable, line func(sharing.Mechanism, predict.Metric) string) {
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		if len(t[m]) == 0 {
			continue
		}
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(tw, "\n%s\t%s\n", strings.ToUpper(m.String()), head)
		for _, metric := range predict.Metrics() {
			if _, ok := t[m][metric]; ok {
				fmt.Fprintf(tw, "%s\t%s\n", metric, line(m, metric))
			}
		}
		_ = tw.Flush() // into a buffer
	}
	fmt.Fprintln(w)
}
