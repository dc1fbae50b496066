package replay

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/internal/webpage"
)

// Both axes of the chart begin at lowestShown: policies differ in the upper part.
const lowestShown = 60

// Chart draws allocation against arrivals, both in percent of the cluster's GPUs, of the first seed, and the bound.
func (c *Comparison) Chart() webpage.Chart {
	out := webpage.Chart{Name: "fleet", Title: "GPU allocation against arrivals", Simulated: true,
		Caption: "Trace: " + c.Trace, Y: webpage.Axis{Label: "allocated (%)", Min: lowestShown, Max: 100},
		X: webpage.Axis{Label: fmt.Sprintf("asked for (%% of all GPUs; axes begin at %d)", lowestShown), Min: lowestShown}}
	for _, p := range c.Policies {
		s := webpage.Series{Name: p.Name}
		for _, pt := range p.Curve {
			if pt.Arrived >= lowestShown && pt.Allocated >= lowestShown {
				s.Points = append(s.Points, webpage.Point{X: pt.Arrived, Y: pt.Allocated})
			}
		}
		out.Series = append(out.Series, s)
	}
	if c.Bound > 0 {
		out.Limits = []webpage.Limit{{Name: fmt.Sprintf("bound: %.2f%%", c.Bound), At: c.Bound}}
	}
	return out
}

// Page returns the comparison as a page: which policy gets most allocated, figures of each, and Chart.
func (c *Comparison) Page() *webpage.Page {
	p := &webpage.Page{Title: "A trace replayed", Basis: "Simulated. Trace: " + c.Trace}
	t := webpage.Table{Head: []string{"policy", "allocated (%), mean", "least", "most", "tasks placed", "GPUs of one",
		"refused", "GPUs of one", "seconds"}}
	best := &c.Policies[0]
	for i := range c.Policies {
		q := &c.Policies[i]
		if q.Mean > best.Mean {
			best = q
		}
		each := append(slices.Clone(q.Allocated), 0)[:max(1, len(q.Allocated))] // none where it was interrupted
		row := webpage.Row{Colour: q.Name, Cells: []string{q.Name}}
		for _, v := range []float64{q.Mean, slices.Min(each), slices.Max(each), q.Placed, q.PlacedGPUs, q.Failed,
			q.FailedGPUs,
			q.Seconds} {
			row.Cells = append(row.Cells, fmt.Sprintf("%.2f", v))
		}
		t.Rows = append(t.Rows, row)
	}
	p.Answer = fmt.Sprintf("When %g times the cluster's GPUs have been asked for, %s has allocated %.2f%% of them, the "+
		"most "+
		"of %d policies (mean of %d orders of arrival).", c.Ratio, best.Name, best.Mean, len(c.Policies), len(c.Seeds))
	if c.Bound > 0 {
		p.Answer += fmt.Sprintf("\nMoving tasks freely would allocate %.2f%% at most.", c.Bound)
	}
	p.Sections = []webpage.Section{{Tables: []webpage.Table{t},
		Notes: []string{"More tasks placed are not more GPUs used: " +
			"a policy that leaves pieces of many GPUs refuses the large tasks, and has room for more of the small ones."}},
		{Title: "Over arrivals", Charts: []webpage.Chart{c.Chart()}}}
	return p
}
