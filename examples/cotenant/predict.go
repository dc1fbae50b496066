// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/observe"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

type predictConfig struct {
	profiles, metrics   []string
	predictor, gpu, out string
	json                bool
}

func runPredict(_ context.Context, fl *call, std stdio) error {
	var c predictConfig
	list := func(name, usage string, to *[]string) {
		fl.Func(name, usage+"; may be repeated", func(s string) error { *to = append(*to, s); return nil })
	}
	list("profiles", "`FILE` of profiles and of rows to predict", &c.profiles)
	list("from-metrics", "`FILE` of a server's metrics pages, two or more pages in one file or several, or\n"+
		"Prometheus' answer to a range query; pages without times have their file's time", &c.metrics)
	fl.StringVar(&c.predictor, "predictor", "", "`FILE` of a fitted predictor (default: the built-in one, of an H200)")
	fl.StringVar(&c.gpu, "gpu", "", "`NAME` of the GPU of rows and pages that name none (default: the predictor's)")
	fl.BoolVar(&c.json, "json", false, "print JSON")
	fl.Func("out", "with -from-metrics: write the profiles to `FILE`", page.Named(&c.out))
	if err := fl.parse(0, std); err != nil {
		return err
	}
	switch {
	case len(c.metrics) > 0:
		const why = "-from-metrics makes profiles; give them to -profiles in another run"
		if errs := refuse(fl.FlagSet, why, "profiles", "predictor"); len(errs) > 0 {
			return badInput(errors.Join(errs...))
		}
		return c.observe(std)
	case len(c.profiles) == 0:
		return badInput(errors.New("name a file of rows: -profiles FILE"))
	case c.out != "":
		return badInput(errors.New("-out: only -from-metrics makes profiles to write"))
	}
	rep, err := c.predict()
	if err != nil {
		return badInput(err)
	}
	if c.json {
		return page.JSON(std.out, rep)
	}
	return printText(std.out, page.Fold(rep.text()))
}

// predictReport is the output of -json.
type predictReport struct {
	Predictor struct {
		GPU    string   `json:"gpu"`
		Driver string   `json:"driver,omitempty"`
		Models []string `json:"models,omitempty"`
	} `json:"predictor"`
	Assumed []string               `json:"assumed,omitempty"` // where the files state nothing
	Rows    []predictRow           `json:"rows"`
	Errors  []predict.ErrorSummary `json:"errors,omitempty"` // of the rows that were measured
}

type predictRow struct {
	Series      string                              `json:"series,omitempty"`
	Index       int                                 `json:"index"` // in its file
	Mechanism   sharing.Mechanism                   `json:"mechanism"`
	Case        string                              `json:"case"`
	Kind        profile.Kind                        `json:"kind,omitzero"`
	Server      profile.Server                      `json:"server"`
	Load        profile.Load                        `json:"load,omitzero"`
	Basis       *sharing.Basis                      `json:"basis,omitempty"`
	Predicted   map[profile.Metric]profile.Interval `json:"predicted,omitempty"`
	Actual      map[profile.Metric]float64          `json:"actual,omitempty"`
	Slowdown    *profile.Interval                   `json:"slowdown,omitempty"`
	Slices      sharing.Optional[int]               `json:"turns,omitzero"`
	OtherSlices sharing.Optional[int]               `json:"other_turns,omitzero"`
	Notes       []string                            `json:"notes,omitempty"`
	Unknown     string                              `json:"unknown,omitempty"` // why there is no prediction
}

// predict predicts the rows of several tenants of all files; a file's workloads may have their profiles in another.
func (c *predictConfig) predict() (*predictReport, error) {
	p := predict.NewPredictor()
	if c.predictor != "" {
		kept, err := predict.LoadPredictor(c.predictor)
		if err != nil {
			return nil, err
		}
		p = *kept
	}
	plain := func(gpu string) string { return strings.TrimPrefix(strings.ToLower(gpu), "nvidia ") }
	if _, err := sharing.LookupGPU(c.gpu); err != nil && c.gpu != "" && plain(c.gpu) != plain(p.GPU) {
		return nil, fmt.Errorf("-gpu: %w", err)
	}
	rep := &predictReport{Rows: []predictRow{}}
	rep.Predictor.GPU, rep.Predictor.Driver, rep.Predictor.Models = p.GPU, p.Driver, p.Models
	var all profile.Profiles
	var files []profile.Rows
	for i, name := range c.profiles {
		if slices.Contains(c.profiles[:i], name) {
			return nil, fmt.Errorf("-profiles: %s is given twice", name)
		}
		rows, err := profile.LoadRows(name)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].GPUName = cmp.Or(rows[i].GPUName, c.gpu); rows[i].GPUName == "" && rep.Assumed == nil {
				rep.Assumed = []string{fmt.Sprintf("rows that name no GPU are of the %s, as the predictor is (-gpu NAME says "+
					"otherwise)", p.GPU)}
			}
		}
		if err := all.Add(rows.Profiles()...); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files = append(files, rows)
	}
	var found []predict.Measured
	for i, rows := range files {
		of, err := p.PredictRows(predict.MethodSimulated, rows, &all)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.profiles[i], err)
		}
		found = append(found, of...)
	}
	for i := range found {
		rep.Rows = append(rep.Rows, predictRowOf(&found[i]))
	}
	rep.Errors = predict.ErrorsOf(found)
	return rep, nil
}

func predictRowOf(m *predict.Measured) predictRow {
	r := predictRow{Series: m.Series, Index: m.Index, Mechanism: m.Row.Mechanism, Case: m.Row.Case, Kind: m.Row.Kind,
		Server: m.Row.Server, Load: m.Row.Load, Actual: maps.Collect(m.Row.All())}
	if m.Err != nil {
		r.Unknown = m.Err.Error()
		return r
	}
	p := m.Prediction
	slowdown := fiveFigures(p.Slowdown)
	r.Basis, r.Slowdown, r.Predicted = &p.Basis, &slowdown, map[profile.Metric]profile.Interval{}
	r.Slices, r.OtherSlices, r.Notes = p.Slices, p.OtherSlices, p.Notes
	for metric, v := range p.All() {
		r.Predicted[metric] = fiveFigures(v)
	}
	return r
}

// fiveFigures rounds an interval: more figures would pretend, and differ between machines.
func fiveFigures(v profile.Interval) profile.Interval {
	for _, f := range []*float64{&v.Value, &v.Low, &v.High} {
		if *f != 0 && !math.IsInf(*f, 0) && !math.IsNaN(*f) {
			scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(*f))))
			*f = math.Round(*f*scale) / scale
		}
	}
	return v
}

// text returns the report for people: a line for each tenant, and each note once.
func (rep *predictReport) text() string {
	if len(rep.Rows) == 0 {
		return "Nothing to predict: every row has one tenant, and rows with one tenant are profiles.\n"
	}
	rows := [][]string{{"mechanism", "case", "tenant, in/out", "P50, 90% interval (ms)", "measured",
		"error", "slowdown"}}
	var notes []string
	for _, r := range rep.Rows {
		for _, note := range append(strings.Split(r.Unknown, "\n"), r.Notes...) {
			if note != "" && !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
		got, predicted, miss, slowdown := "-", "unknown", "-", "-"
		actual, measured := r.Actual[r.Kind.MainMetric()]
		if measured {
			got = fmt.Sprintf("%.2f", actual)
		}
		if v := r.Predicted[r.Kind.MainMetric()]; r.Slowdown != nil {
			predicted = fmt.Sprintf("%.2f (%.2f to %.2f)", v.Value, v.Low, v.High)
			slowdown = fmt.Sprintf("%.2f", r.Slowdown.Value)
			if measured {
				miss = fmt.Sprintf("%+.1f%%", 100*(v.Value/actual-1))
			}
		}
		rows = append(rows, []string{r.Mechanism.String(), r.Case, r.tenant(), predicted, got, miss, slowdown})
	}
	var b strings.Builder
	b.WriteString(page.Table(rows) + "\n")
	for _, note := range notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	for _, a := range rep.Assumed {
		fmt.Fprintf(&b, "assumed: %s\n", a)
	}
	for _, e := range rep.Errors {
		if e.Metric == profile.MetricTPOTP50 || e.Metric == profile.MetricStepP50 {
			fmt.Fprintf(&b, "%s, %s: error %.1f%% on average, %.1f%% at P95; %.0f%% of %d measurements lie in the 90%% "+
				"intervals\n", e.Mechanism, e.Metric.Title(), 100*e.MeanFraction, 100*e.P95Fraction,
				100*e.CoverageFraction.Or(0), e.Rows)
		}
	}
	return b.String()
}

// tenant names the row's tenant by its model, its share of the SMs where that is limited, and its load.
func (r *predictRow) tenant() string {
	name := cmp.Or(r.Server.Model, r.Server.String())
	if percent := r.Server.SMPercent.Or(100); percent < 100 {
		name += fmt.Sprintf("@%g%%", percent)
	}
	switch {
	case r.Kind != profile.KindServer:
		return name + ", steps"
	case r.Load.Closed():
		return name + fmt.Sprintf(" x%d %d/%d", r.Load.Concurrency, r.Load.Prompt, r.Load.Output)
	}
	return name + fmt.Sprintf(" %g/s %d/%d", r.Load.Rate, r.Load.Prompt, r.Load.Output)
}

// readPages reads metrics pages of servers; a page without times of its own is as old as its file.
func readPages(names []string, in io.Reader) (readings []serving.Reading, err error) {
	for _, name := range names {
		data, err := page.Read(name, in)
		if err != nil {
			return nil, err
		}
		parse := serving.Parse
		if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			parse = serving.ParseRange
		}
		read, err := parse(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range read {
			if info, err := os.Stat(name); read[i].At.IsZero() && err == nil {
				read[i].At = info.ModTime()
			}
		}
		readings = append(readings, read...)
	}
	return readings, nil
}

// observe makes profiles of servers from their metrics pages.
func (c *predictConfig) observe(std stdio) error {
	readings, err := readPages(c.metrics, std.in)
	if err != nil {
		return badInput(err)
	}
	found, err := observe.Profiles(readings)
	if len(found) == 0 {
		return badInput(err)
	}
	var profiles []profile.SoloProfile
	for i := range found {
		found[i].GPU = c.gpu
		profiles = append(profiles, found[i].SoloProfile)
		for _, left := range slices.Concat(found[i].Left, found[i].Fit.Unknown) {
			fmt.Fprintf(std.err, "cotenant predict: %s: unknown: %s\n", found[i].Server.Model, left)
		}
	}
	if err != nil {
		fmt.Fprintf(std.err, "cotenant predict: left out: %v\n", err)
	}
	if c.out != "" {
		return page.WriteJSON(c.out, profiles)
	}
	return page.JSON(std.out, profiles)
}
