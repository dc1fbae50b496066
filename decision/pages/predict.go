package pages

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
)

// mostMissed bounds the rows that a page lists, of those missed most; the charts show all.
const mostMissed = 25

// Predicted returns the page of predictions: how far they are from what was measured, by mechanism and engine, each
// against its measurement, and the rows that are missed most. how says which predictor made them.
func Predicted(ms []predict.Measured, how string) *webpage.Page {
	p := &webpage.Page{Title: "Predicted and measured", Basis: how}
	errors := webpage.Table{Caption: "Errors, absolute, in percent", Head: []string{"mechanism", "figure", "rows", "mean",
		"P95", "outcomes in 90% intervals", "mean width of these"}}
	engines := webpage.Table{Head: append([]string{"engine or kind of tenant"}, errors.Head[1:]...)}
	var said []string
	for _, e := range predict.ErrorsOf(ms) {
		row := errorRow(e.Mechanism.String(), &e)
		if row.Chosen = e.Metric == profile.MetricTPOTP50; row.Chosen {
			said = append(said, fmt.Sprintf("by %s%% on average under %s (%.0f%% of %d outcomes lie in the 90%% intervals)",
				row.Cells[3], e.Mechanism, 100*e.CoverageFraction.Or(0), e.Rows))
		}
		errors.Rows = append(errors.Rows, row)
	}
	known := slices.DeleteFunc(slices.Clone(ms), func(m predict.Measured) bool { return m.Prediction == nil })
	groups := map[string][]predict.Measured{}
	for _, m := range known {
		groups[m.ClassName()] = append(groups[m.ClassName()], m)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		for _, e := range predict.ErrorsOf(groups[name]) {
			if e.Metric == profile.MetricTPOTP50 || e.Metric == profile.MetricStepP50 {
				engines.Rows = append(engines.Rows, errorRow(name+", "+e.Mechanism.String(), &e))
			}
		}
	}
	p.Answer = "TPOT P50 is missed " + strings.Join(said, ", and ") + "."
	if len(said) == 0 {
		p.Answer = plaintext.Count(len(known), "tenant") + " predicted; no TPOT was measured."
	}
	if unknown := len(ms) - len(known); unknown > 0 {
		p.Answer += fmt.Sprintf("\n%s cannot be predicted.", plaintext.Count(unknown, "tenant"))
	}
	against := webpage.Section{Title: "Each tenant with its 90% interval; equal on the dashed line"}
	for _, mechanism := range profile.Mechanisms {
		for _, metric := range []profile.Metric{profile.MetricTPOTP50, profile.MetricTTFTP50, profile.MetricStepP50} {
			c := webpage.Against(fmt.Sprintf("%s under %s", metric.Title(), mechanism))
			for i := range known {
				got, ok := known[i].Row.Compared(metric)
				if v, predicted := known[i].Prediction.Get(metric); ok && predicted && known[i].Row.Mechanism == mechanism {
					c.Add(known[i].ClassName(), webpage.Point{X: got, Y: v.Value, Low: v.Low, High: v.High})
				}
			}
			against.Charts = append(against.Charts, c)
		}
	}
	slices.SortStableFunc(known, func(a, b predict.Measured) int { return cmp.Compare(missed(&b), missed(&a)) })
	worst := webpage.Table{Head: []string{"case", "tenant", "mechanism", "figure", "predicted (ms)", "measured (ms)",
		"error (%)", "slower"}}
	for i := range known[:min(mostMissed, len(known))] {
		worst.Rows = append(worst.Rows, measuredRow(&known[i]))
	}
	p.Sections = []webpage.Section{{Tables: []webpage.Table{errors, engines}}, against,
		{Title: fmt.Sprintf("The %d of %d missed most", len(worst.Rows), len(known)), Tables: []webpage.Table{worst}}}
	return p
}

// missed returns the relative error of a prediction of the main metric, -1 where that was not measured.
func missed(m *predict.Measured) float64 {
	got, ok := m.Row.Compared(m.Row.Kind.MainMetric())
	if !ok {
		return -1
	}
	v, _ := m.Prediction.Get(m.Row.Kind.MainMetric())
	return math.Abs(v.Value/got - 1)
}

func errorRow(name string, e *predict.ErrorSummary) webpage.Row {
	row := webpage.Row{Cells: []string{name, e.Metric.Title(), fmt.Sprint(e.Rows)}}
	for _, v := range []float64{e.MeanFraction, e.P95Fraction, e.CoverageFraction.Or(0), e.WidthFraction.Or(0)} {
		row.Cells = append(row.Cells, webpage.Number(100*v))
	}
	return row
}

func measuredRow(m *predict.Measured) webpage.Row {
	of := m.Row.Kind.MainMetric()
	v, _ := m.Prediction.Get(of)
	measured, miss := "-", "-"
	if got, ok := m.Row.Compared(of); ok {
		measured, miss = webpage.Number(got), fmt.Sprintf("%+.1f", 100*(v.Value/got-1))
	}
	return webpage.Row{Cells: []string{m.Row.Case, cmp.Or(m.Row.Server.Model, m.Row.Server.String()),
		m.Row.Mechanism.String(), of.Title(), webpage.Interval(v.Value, v.Low, v.High), measured, miss,
		webpage.Number(m.Prediction.Slowdown.Value) + "×"}}
}
