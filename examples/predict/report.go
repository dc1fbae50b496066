package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// report is what the command prints; its JSON is the command's.
type report struct {
	Method     predict.Method               `json:"method"`
	Predictor  summary                      `json:"predictor"`
	Rows       []row                        `json:"rows"`
	Errors     errorTable                   `json:"errors"`
	Splits     map[predict.Split]errorTable `json:"splits,omitempty"`
	Parameters []predict.NamedParameter     `json:"parameters"`
	Sources    sharing.Citations            `json:"sources,omitzero"`
}

type summary struct {
	GPU    string   `json:"gpu"`
	Driver string   `json:"driver,omitempty"`
	Models []string `json:"models,omitempty"`
}

type row struct {
	Index      int                                 `json:"index"`
	Mechanism  sharing.Mechanism                   `json:"mechanism"`
	Case       string                              `json:"case"`
	Server     predict.Server                      `json:"server"`
	Load       predict.Load                        `json:"load"`
	Basis      *sharing.Basis                      `json:"basis,omitempty"`
	Predicted  map[predict.Metric]predict.Interval `json:"predicted,omitempty"`
	Actual     map[predict.Metric]float64          `json:"actual,omitempty"`
	Slowdown   *predict.Interval                   `json:"slowdown,omitempty"`
	Turns      predict.Optional[int]               `json:"turns,omitzero"`
	OtherTurns predict.Optional[int]               `json:"other_turns,omitzero"`
	Notes      []string                            `json:"notes,omitempty"`
	Unknown    string                              `json:"unknown,omitempty"` // why there is no prediction
}

// errorTable holds errors by mechanism and metric.
type errorTable map[sharing.Mechanism]map[predict.Metric]errorCell

// errorCell holds absolute errors in percent.
type errorCell struct {
	Rows      int                            `json:"rows"`
	Mean      float64                        `json:"mean"`
	P50       float64                        `json:"p50"`
	P95       float64                        `json:"p95"`
	Coverage  *float64                       `json:"coverage,omitempty"` // of the 90% intervals, in percent
	Width     *float64                       `json:"width,omitempty"`    // their mean width, in percent of the value
	Baselines map[predict.Baseline]errorCell `json:"baselines,omitempty"`
}

func (o *options) report(p *predict.Predictor, others *predict.Profiles) (*report, error) {
	rows, err := o.readRows(o.data)
	if err != nil {
		return nil, err
	}
	measured, err := p.PredictRows(o.method, rows, others)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.data, err)
	}
	rep := &report{Method: o.method, Predictor: summary{p.GPU, p.Driver, p.Models}, Parameters: p.Parameters.List(), Sources: parameterSources(p), Rows: []row{}}
	compared := false
	for _, m := range measured {
		r := rowOf(m)
		compared = compared || len(r.Actual) > 0
		rep.Rows = append(rep.Rows, r)
	}
	if rep.Errors, err = tableOf(predict.ErrorsOf(measured), rows); err != nil {
		return nil, err
	}
	if !o.splits || !compared {
		return rep, nil
	}
	rep.Splits = map[predict.Split]errorTable{}
	for _, split := range []predict.Split{predict.SplitLeaveOneCaseOut, predict.SplitLeaveOneModelOut} {
		held, err := predict.NewPredictor().CrossValidate(o.method, split, rows)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.data, err)
		}
		if rep.Splits[split], err = tableOf(predict.ErrorsOf(held), nil); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

func rowOf(m predict.Measured) row {
	r := row{Index: m.Index, Mechanism: m.Row.Mechanism, Case: m.Row.Case, Server: m.Row.Server, Load: m.Row.Load, Actual: maps.Collect(m.Row.All())}
	if m.Err != nil {
		r.Unknown = m.Err.Error()
		return r
	}
	p := m.Prediction
	r.Predicted, r.Basis, r.Slowdown = map[predict.Metric]predict.Interval{}, &p.Basis, &predict.Interval{}
	*r.Slowdown = rounded(p.Slowdown)
	r.Turns, r.OtherTurns, r.Notes = p.Turns, p.OtherTurns, p.Notes
	for metric, v := range p.All() {
		r.Predicted[metric] = rounded(v)
	}
	return r
}

// rounded keeps five figures: more would pretend, and differ between machines.
func rounded(v predict.Interval) predict.Interval {
	return predict.Interval{Value: figures(v.Value), Low: figures(v.Low), High: figures(v.High)}
}

func figures(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// tableOf puts summaries into a table, with the baselines beside them when rows
// are given.
func tableOf(es []predict.ErrorSummary, rows predict.Rows) (errorTable, error) {
	t := errorTable{}
	for _, e := range es {
		if t[e.Mechanism] == nil {
			t[e.Mechanism] = map[predict.Metric]errorCell{}
		}
		t[e.Mechanism][e.Metric] = cellOf(e)
	}
	if rows == nil {
		return t, nil
	}
	for _, b := range predict.Baselines() {
		es, err := predict.BaselineErrors(b, rows)
		if err != nil {
			return nil, err
		}
		for _, e := range es {
			c, ok := t[e.Mechanism][e.Metric]
			if !ok {
				continue
			}
			if c.Baselines == nil {
				c.Baselines = map[predict.Baseline]errorCell{}
			}
			c.Baselines[b] = cellOf(e)
			t[e.Mechanism][e.Metric] = c
		}
	}
	return t, nil
}

func cellOf(e predict.ErrorSummary) errorCell {
	percent := func(f float64) float64 { return math.Round(f*1e4) / 100 }
	c := errorCell{Rows: e.Rows, Mean: percent(e.MeanFraction), P50: percent(e.P50Fraction), P95: percent(e.P95Fraction)}
	if v, ok := e.CoverageFraction.Get(); ok {
		coverage, width := percent(v), percent(e.WidthFraction.Or(0))
		c.Coverage, c.Width = &coverage, &width
	}
	return c
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeNotes prints each note once, in the order of their first rows.
func writeNotes(w io.Writer, notes []string) {
	times := map[string]int{}
	for _, n := range notes {
		times[n]++
	}
	for i, n := range notes {
		if i == 0 {
			fmt.Fprintln(w)
		}
		switch times[n] {
		case 0:
			continue
		case 1:
			fmt.Fprintf(w, "note: %s\n", n)
		default:
			fmt.Fprintf(w, "note: %s (%d rows)\n", n, times[n])
		}
		times[n] = 0
	}
}

func (rep *report) write(out io.Writer) error {
	w := &bytes.Buffer{}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "MECHANISM\tCASE\tTENANT\tTPOT P50\t90%\tMEASURED\tERROR\tE2E P99\tMEASURED\tTOKENS/S\tMEASURED\tSLOWDOWN")
	var notes []string
	for _, r := range rep.Rows {
		tenant := fmt.Sprintf("%s, %s", nameOf(r.Server), r.Load)
		if r.Unknown != "" {
			fmt.Fprintf(tw, "%s\t%s\t%s\tunknown\t\t%s\t\t\t\t\t\t\n", r.Mechanism, r.Case, tenant, actual(r, predict.MetricTPOTP50, "%.2fms"))
			notes = append(notes, fmt.Sprintf("%s: %s", r.Case, r.Unknown))
			continue
		}
		tpot := r.Predicted[predict.MetricTPOTP50]
		miss := "-"
		if a, ok := r.Actual[predict.MetricTPOTP50]; ok {
			miss = fmt.Sprintf("%+.1f%%", 100*(tpot.Value/a-1))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.2fms\t%.2f-%.2f\t%s\t%s\t%.0fms\t%s\t%.0f\t%s\t%.2fx\n", r.Mechanism, r.Case, tenant,
			tpot.Value, tpot.Low, tpot.High, actual(r, predict.MetricTPOTP50, "%.2fms"), miss,
			r.Predicted[predict.MetricE2EP99].Value, actual(r, predict.MetricE2EP99, "%.0fms"),
			r.Predicted[predict.MetricTokensPerSecond].Value, actual(r, predict.MetricTokensPerSecond, "%.0f"), r.Slowdown.Value)
		for _, n := range r.Notes {
			notes = append(notes, fmt.Sprintf("%s, %s: %s", r.Case, nameOf(r.Server), n))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(rep.Rows) == 0 {
		fmt.Fprintln(w, "\nNothing to predict: every row has one tenant, and rows with one tenant are profiles.")
	}
	writeNotes(w, notes)
	writeErrors(w, "Errors of these predictions", rep.Errors)
	for _, split := range []predict.Split{predict.SplitLeaveOneCaseOut, predict.SplitLeaveOneModelOut} {
		if t, ok := rep.Splits[split]; ok {
			writeErrors(w, "Errors, "+split.String(), t)
		}
	}
	_, err := w.WriteTo(out)
	return err
}

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

// writeErrors prints a table of errors in percent, mean / p95.
func writeErrors(w io.Writer, title string, t errorTable) {
	if len(t) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s (absolute, percent)\n", title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "MECHANISM\tMETRIC\tROWS\tMEAN\tP50\tP95\tCOVERAGE\tWIDTH"
	baselines := false
	for _, cells := range t {
		for _, c := range cells {
			baselines = baselines || c.Baselines != nil
		}
	}
	if baselines {
		header += "\tN TIMES\tFLAT 1.75\tSHARING BY GPU BUSY\tBY ENGINE BUSY"
	}
	fmt.Fprintln(tw, header)
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		for _, metric := range predict.Metrics() {
			c, ok := t[m][metric]
			if !ok {
				continue
			}
			fmt.Fprintf(tw, "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f", m, metric, c.Rows, c.Mean, c.P50, c.P95, *c.Coverage, *c.Width)
			if baselines {
				for _, b := range predict.Baselines() {
					if v, ok := c.Baselines[b]; ok {
						fmt.Fprintf(tw, "\t%.1f / %.1f", v.Mean, v.P95)
					} else {
						fmt.Fprint(tw, "\t-")
					}
				}
			}
			fmt.Fprintln(tw)
		}
	}
	_ = tw.Flush() // into a buffer
}

func writeParameters(out io.Writer, p *predict.Predictor) error {
	w := &bytes.Buffer{}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PARAMETER\tVALUE\tUNIT\tPLAUSIBLE\tBASIS\tFROM")
	for _, n := range p.Parameters.List() {
		fmt.Fprintf(tw, "%s\t%.4g\t%s\t%g to %g\t%s\t%s\n", n.Name, n.Value, n.Unit, n.Low, n.High, n.Basis, n.Source)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if cites := parameterSources(p); !cites.IsZero() {
		w.WriteByte('\n')
		_ = cites.WriteText(w) // into a buffer
	}
	_, err := w.WriteTo(out)
	return err
}

// parameterSources are the sources among what the parameters come from.
func parameterSources(p *predict.Predictor) (cites sharing.Citations) {
	for _, n := range p.Parameters.List() {
		cites.AddKnown(n.Source)
	}
	return cites
}
