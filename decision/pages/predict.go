package pages

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/webpage"
)

// mostMissed is how many rows a page lists, of those missed most; the charts show all.
const mostMissed = 25

// Predicted returns the page of predictions: how far they are from what was measured, by mechanism and engine, each
// against its measurement, and the rows. how says which predictor made them.
func Predicted(ms []predict.Measured, how string) *webpage.Page {
	p := &webpage.Page{Title: "Predicted and measured", Basis: how}
	errors := webpage.Table{Caption: "Errors, absolute, in percent", Head: []string{"mechanism", "figure", "rows",
		"mean", "P95",
		"outcomes in 90% intervals", "mean width of these"}}
	engines := webpage.Table{Head: append([]string{"engine or kind of tenant"}, errors.Head[1:]...)}
	var said []string
	for _, e := range predict.ErrorsOf(ms) {
		row := errorRow(e.Mechanism.String(), &e)
		row.Chosen = e.Metric == profile.MetricTPOTP50
		errors.Rows = append(errors.Rows, row)
		if row.Chosen {
			said = append(said, fmt.Sprintf("by %s%% on average under %s, where %.0f%% of %d outcomes lie in the 90%% intervals",
				webpage.Number(100*e.MeanFraction), e.Mechanism, 100*e.CoverageFraction.Or(0), e.Rows))
		}
	}
	groups, charts := map[string][]predict.Measured{}, map[string]*webpage.Chart{}
	var names, titles []string
	var rows []webpage.Row
	miss := func(m *predict.Measured) float64 {
		got, ok := m.Row.Compared(mainMetric(m.Row))
		if !ok || m.Prediction == nil {
			return -1
		}
		v, _ := m.Prediction.Get(mainMetric(m.Row))
		return math.Abs(v.Value/got - 1)
	}
	sorted := slices.Clone(ms)
	slices.SortStableFunc(sorted, func(a, b predict.Measured) int { return cmp.Compare(miss(&b), miss(&a)) })
	unknown := 0
	for i := range sorted {
		m := &sorted[i]
		if m.Prediction == nil {
			unknown++
			continue
		}
		name := m.ClassName()
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], *m)
		for _, metric := range []profile.Metric{profile.MetricTPOTP50, profile.MetricStepP50, profile.MetricTTFTP50} {
			got, ok := m.Row.Compared(metric)
			v, ok2 := m.Prediction.Get(metric)
			if !ok || !ok2 {
				continue
			}
			title := fmt.Sprintf("%s under %s", metricNames[metric], m.Row.Mechanism)
			c := charts[title]
			if c == nil {
				c = &webpage.Chart{Title: title, Kind: webpage.Scatter, Diagonal: true,
					X: webpage.Axis{Label: "measured (ms)", Log: true}, Y: webpage.Axis{Label: "predicted (ms)", Log: true}}
				charts[title], titles = c, append(titles, title)
			}
			k := slices.IndexFunc(c.Series, func(s webpage.Series) bool { return s.Name == name })
			if k < 0 {
				k = len(c.Series)
				c.Series = append(c.Series, webpage.Series{Name: name})
			}
			c.Series[k].Points = append(c.Series[k].Points, webpage.Point{X: got, Y: v.Value, Low: v.Low, High: v.High})
		}
		rows = append(rows, measuredRow(m))
	}
	slices.Sort(names)
	for _, name := range names {
		for _, e := range predict.ErrorsOf(groups[name]) {
			if e.Metric == profile.MetricTPOTP50 || e.Metric == profile.MetricStepP50 {
				engines.Rows = append(engines.Rows, errorRow(name+", "+e.Mechanism.String(), &e))
			}
		}
	}
	each := webpage.Table{Head: []string{"case", "tenant", "mechanism", "figure", "predicted (ms)", "measured (ms)",
		"error (%)",
		"slower"}}
	switch {
	case len(said) > 0:
		p.Answer = "TPOT P50 is missed " + strings.Join(said, ", and ") + "."
	case len(errors.Rows) > 0:
		p.Answer = fmt.Sprintf("%s of tenants without requests is missed by %s%% on average.", errors.Rows[0].Cells[1],
			errors.Rows[0].Cells[3])
	default:
		p.Answer = plural(len(rows), "tenant") + " predicted; no outcome was measured."
	}
	if unknown > 0 {
		p.Answer += fmt.Sprintf("\n%s cannot be predicted.", plural(unknown, "tenant"))
	}
	first := webpage.Section{}
	if len(errors.Rows) > 0 {
		first.Tables = []webpage.Table{errors, engines}
	}
	p.Sections = []webpage.Section{first}
	against := webpage.Section{Title: "Each tenant, with the 90% interval of its prediction",
		Text: []string{"On the dashed line both are equal."}}
	slices.Sort(titles)
	for _, title := range titles {
		against.Charts = append(against.Charts, *charts[title])
	}
	if len(titles) > 0 {
		p.Sections = append(p.Sections, against)
	}
	each.Rows = rows[:min(mostMissed, len(rows))]
	p.Sections = append(p.Sections, webpage.Section{Title: fmt.Sprintf("The %d of %d missed most", len(each.Rows),
		len(rows)),
		Tables: []webpage.Table{each}, Notes: []string{"-json has all."}})
	return p
}

// metricNames are those of the figures that have charts.
var metricNames = map[profile.Metric]string{profile.MetricTPOTP50: "TPOT P50", profile.MetricStepP50: "Step P50",
	profile.MetricTTFTP50: "TTFT P50"}

// mainMetric is the one that a tenant is judged by first.
func mainMetric(r *profile.Row) profile.Metric {
	if r.Kind != profile.KindServer {
		return profile.MetricStepP50
	}
	return profile.MetricTPOTP50
}

func errorRow(name string, e *predict.ErrorSummary) webpage.Row {
	row := webpage.Row{Cells: []string{name, e.Metric.String(), fmt.Sprint(e.Rows)}}
	for _, v := range []float64{e.MeanFraction, e.P95Fraction, e.CoverageFraction.Or(0), e.WidthFraction.Or(0)} {
		row.Cells = append(row.Cells, webpage.Number(100*v))
	}
	return row
}

func measuredRow(m *predict.Measured) webpage.Row {
	of := mainMetric(m.Row)
	v, _ := m.Prediction.Get(of)
	measured, miss := "-", "-"
	if got, ok := m.Row.Compared(of); ok {
		measured, miss = webpage.Number(got), fmt.Sprintf("%+.1f", 100*(v.Value/got-1))
	}
	return webpage.Row{Cells: []string{m.Row.Case, cmp.Or(m.Row.Server.Model, m.Row.Server.String()),
		m.Row.Mechanism.String(),
		of.String(), fmt.Sprintf("%s (%s to %s)", webpage.Number(v.Value), webpage.Number(v.Low), webpage.Number(v.High)),
		measured,
		miss, webpage.Number(m.Prediction.Slowdown.Value) + "×"}}
}
