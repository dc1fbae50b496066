// SPDX-License-Identifier: Apache-2.0

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

// Predicted returns the page of predictions: their errors by mechanism and engine, each prediction with its
// measurement, and the rows with the largest errors. how names the predictor.
func Predicted(ms []predict.Measured, how string) *webpage.Page {
	known := slices.DeleteFunc(slices.Clone(ms), func(m predict.Measured) bool { return m.Prediction == nil })
	groups := map[string][]predict.Measured{"all": known}
	for _, m := range known {
		groups[m.ClassName()] = append(groups[m.ClassName()], m)
	}
	t := webpage.Table{Caption: "Errors, absolute, in percent", Head: []string{"engine or kind of tenant", "mechanism",
		"figure", "rows", "mean", "P95", "outcomes in 90% intervals", "mean width of these"}}
	var said []string
	for _, name := range slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), cmp.Compare(a, b))
	}) {
		for _, e := range predict.ErrorsOf(groups[name]) {
			main := e.Metric == profile.MetricTPOTP50 || e.Metric == profile.MetricStepP50
			if name != "all" && !main {
				continue
			}
			inside := 100 * e.CoverageFraction.Or(0)
			t.Add(name, e.Mechanism, e.Metric.Title(), e.Rows, 100*e.MeanFraction, 100*e.P95Fraction, inside,
				100*e.WidthFraction.Or(0))
			if name == "all" && e.Metric == profile.MetricTPOTP50 {
				t.Choose()
				said = append(said, fmt.Sprintf("by %s%% on average under %s (%.0f%% of %d outcomes lie in the 90%% intervals)",
					webpage.Number(100*e.MeanFraction), e.Mechanism, inside, e.Rows))
			}
		}
	}
	p := &webpage.Page{Title: "Predicted and measured", Basis: how,
		Answer: "TPOT P50 is missed " + strings.Join(said, ", and ") + "."}
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
	missed := func(m *predict.Measured) (v profile.Interval, got, off float64) {
		v, _ = m.Prediction.Get(m.Row.Kind.MainMetric())
		if got, _ = m.Row.Compared(m.Row.Kind.MainMetric()); got > 0 {
			off = 100 * (v.Value/got - 1)
		}
		return v, got, off
	}
	slices.SortStableFunc(known, func(a, b predict.Measured) int {
		_, _, x := missed(&a)
		_, _, y := missed(&b)
		return cmp.Compare(math.Abs(y), math.Abs(x))
	})
	worst := webpage.Table{Head: []string{"case", "tenant", "mechanism", "figure", "predicted (ms)", "measured (ms)",
		"error (%)", "times alone"}}
	for i := range known[:min(mostMissed, len(known))] {
		m := &known[i]
		v, got, off := missed(m)
		measured, miss := "-", "-"
		if got > 0 {
			measured, miss = webpage.Number(got), fmt.Sprintf("%+.1f", off)
		}
		worst.Add(m.Row.Case, cmp.Or(m.Row.Server.Model, m.Row.Server.String()), m.Row.Mechanism,
			m.Row.Kind.MainMetric().Title(), webpage.Interval(v.Value, v.Low, v.High), measured, miss,
			m.Prediction.Slowdown.Value)
	}
	p.Sections = []webpage.Section{{Tables: []webpage.Table{t}}, against,
		{Title: fmt.Sprintf("The %d of %d missed most", len(worst.Rows), len(known)), Tables: []webpage.Table{worst}}}
	return p
}
