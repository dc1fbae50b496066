// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/tools/research/accuracy"
)

// report is the output of -json.
type report struct {
	Method     predict.Method                   `json:"method"`
	Predictor  summary                          `json:"predictor"`
	Assumed    []string                         `json:"assumed,omitempty"` // where the files do not say
	Errors     errorTable                       `json:"errors"`
	Splits     map[string]errorTable            `json:"splits,omitempty"`
	Baselines  map[accuracy.Baseline]errorTable `json:"baselines"`         // of simpler rules
	Series     []series                         `json:"series,omitempty"`  // each predicted by the others
	Classes    []series                         `json:"classes,omitempty"` // likewise, by engine and kind of tenant
	Parameters []namedParameter                 `json:"parameters"`
	Sources    sharing.Citations                `json:"sources,omitzero"`
}

// namedParameter is a parameter with its name.
type namedParameter struct {
	Name string `json:"name"`
	predict.Parameter
}

type summary struct {
	GPU    string   `json:"gpu"`
	Driver string   `json:"driver,omitempty"`
	Models []string `json:"models,omitempty"`
}

// series are the errors of one series, predicted by predictors that were
// calibrated on the others of its GPU, or where there are none, of another.
type series struct {
	Series string     `json:"series"`
	GPU    string     `json:"gpu,omitempty"` // "" where its rows do not say
	Errors errorTable `json:"errors"`
	// Asked counts the answers whether a median stays below 1.3, 1.6 and 2 times that alone, of classes.
	Asked map[sharing.Mechanism]accuracy.Asked `json:"asked,omitempty"`
}

// errorTable holds errors by mechanism and metric.
type errorTable map[sharing.Mechanism]map[profile.Metric]errorCell

// errorCell holds absolute errors in percent.
type errorCell struct {
	Rows     int      `json:"rows"`
	Mean     float64  `json:"mean"`
	P50      float64  `json:"p50"`
	P95      float64  `json:"p95"`
	Coverage *float64 `json:"coverage,omitempty"` // of the 90% intervals, in percent
	Width    *float64 `json:"width,omitempty"`    // their mean width, in percent of the value
}

func (o *options) report(p *predict.Predictor, others *profile.Profiles) (*report, error) {
	if o.gpu != "" && plainGPU(o.gpu) != plainGPU(p.GPU) {
		if _, err := sharing.LookupGPU(o.gpu); err != nil {
			return nil, fmt.Errorf("-gpu: %w", err)
		}
	}
	var files []profile.Rows
	for _, name := range o.data {
		rows, err := o.readRows(name, o.gpu, others)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(rows, func(r profile.Row) bool { return r.GPUName == "" }) {
			o.assume(unnamed, p.GPU)
		}
		files = append(files, rows)
	}
	rep := &report{Method: o.method, Predictor: summary{p.GPU, p.Driver, p.Models}, Assumed: o.assumed,
		Sources: parameterSources(p)}
	for name, q := range p.Parameters.Named() {
		rep.Parameters = append(rep.Parameters, namedParameter{name, *q})
	}
	var measured []predict.Measured
	for i, rows := range files {
		of, err := p.PredictRows(o.method, rows, others)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.data[i], err)
		}
		measured = append(measured, of...)
	}
	rep.Errors, rep.Baselines = tableOf(predict.ErrorsOf(measured)), map[accuracy.Baseline]errorTable{}
	for _, b := range accuracy.Baselines() {
		errs, err := accuracy.BaselineErrors(b, files...)
		if err != nil {
			return nil, err
		}
		rep.Baselines[b] = tableOf(errs)
	}
	if !o.splits || len(rep.Errors) == 0 || len(files) == 1 {
		return rep, nil
	}
	var err error
	rep.Splits = map[string]errorTable{}
	rep.Series, rep.Classes, rep.Splits[seriesOut], err = o.seriesOut(files)
	return rep, err
}

// seriesOut names the errors of each series by the others.
const seriesOut = "leave-one-series-out"

// seriesOut predicts each series by the others, and returns the errors by series, by engine
// and kind of tenant, and of all.
func (o *options) seriesOut(files []profile.Rows) (of, classes []series, all errorTable, err error) {
	held, err := predict.NewPredictor().CrossValidate(o.method, files...)
	if err != nil {
		return nil, nil, nil, err
	}
	of = grouped(held, func(m predict.Measured) (string, string) { return m.Series, m.Row.GPUName })
	left := accuracy.LeaveClassesOut(held)
	classes = grouped(left, func(m predict.Measured) (string, string) { return accuracy.ClassName(&m), "" })
	for i := range classes {
		class := slices.DeleteFunc(slices.Clone(left), func(m predict.Measured) bool {
			return accuracy.ClassName(&m) != classes[i].Series
		})
		classes[i].Asked = accuracy.AskedOf(class, 1.3, 1.6, 2)
	}
	return of, classes, tableOf(predict.ErrorsOf(held)), nil
}

// grouped returns the errors of rows by the name and GPU that a function gives each.
func grouped(held []predict.Measured, name func(predict.Measured) (name, gpu string)) (out []series) {
	of := map[string][]predict.Measured{}
	for _, m := range held {
		n, gpu := name(m)
		if of[n] == nil {
			out = append(out, series{Series: n, GPU: gpu})
		}
		of[n] = append(of[n], m)
	}
	for i := range out {
		out[i].Errors = tableOf(predict.ErrorsOf(of[out[i].Series]))
	}
	return out
}

// tableOf puts errors into a table, in percent.
func tableOf(errs []predict.ErrorSummary) errorTable {
	percent := func(f float64) float64 { return math.Round(f*1e4) / 100 }
	t := errorTable{}
	for _, e := range errs {
		c := errorCell{Rows: e.Rows, Mean: percent(e.MeanFraction), P50: percent(e.P50Fraction), P95: percent(e.P95Fraction)}
		if v, ok := e.CoverageFraction.Get(); ok {
			coverage, width := percent(v), percent(e.WidthFraction.Or(0))
			c.Coverage, c.Width = &coverage, &width
		}
		if t[e.Mechanism] == nil {
			t[e.Mechanism] = map[profile.Metric]errorCell{}
		}
		t[e.Mechanism][e.Metric] = c
	}
	return t
}

func (o *options) writeParameters(out io.Writer, p *predict.Predictor) error {
	lines := []string{"PARAMETER\tVALUE\tPLAUSIBLE\tBASIS\tUNIT; FROM"}
	for name, n := range p.Parameters.Named() {
		lines = append(lines, fmt.Sprintf("%s\t%.4g\t%g to %g\t%s\t%s; %s", name, n.Value, n.Low, n.High, n.Basis,
			n.Unit, n.Source))
	}
	w := bytes.NewBuffer(tabulate(2, lines))
	w.WriteByte('\n')
	writeAssumed(w, o.assumed)
	if len(o.fitted) > 1 && o.splits {
		of, classes, all, err := o.seriesOut(o.fitted)
		if err != nil {
			return err
		}
		writeSeries(w, of, classes, all)
		w.WriteByte('\n')
	}
	if cites := parameterSources(p); !cites.IsZero() {
		_ = cites.WriteText(w) // into a buffer
	}
	_, err := w.WriteTo(out)
	return err
}

// parameterSources returns the known sources of the parameters.
func parameterSources(p *predict.Predictor) (cites sharing.Citations) {
	for _, n := range p.Parameters.Named() {
		if _, known := sharing.SourceByID(sharing.SourceID(n.Source)); known { // else in words
			cites.Add(sharing.SourceID(n.Source))
		}
	}
	return cites
}
