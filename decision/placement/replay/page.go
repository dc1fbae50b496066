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
		for _, at := range p.Curve {
			if at.Arrived >= lowestShown && at.Allocated >= lowestShown {
				out.Add(p.Name, webpage.Point{X: at.Arrived, Y: at.Allocated})
			}
		}
	}
	if c.Bound > 0 {
		out.Limits = []webpage.Limit{{Name: fmt.Sprintf("bound: %.2f%%", c.Bound), At: c.Bound}}
	}
	return out
}

// Page returns the comparison as a page: which policy gets most allocated, figures of each, and Chart.
func (c *Comparison) Page() *webpage.Page {
	t := webpage.Table{Head: []string{"policy", "allocated (%), mean", "least", "most", "tasks placed", "GPUs of one",
		"refused", "GPUs of one", "seconds"}}
	best := &c.Policies[0]
	for i := range c.Policies {
		q := &c.Policies[i]
		if q.Mean > best.Mean {
			best = q
		}
		each := append(slices.Clone(q.Allocated), 0)[:max(1, len(q.Allocated))] // none where it was interrupted
		t.Add(q.Name, q.Mean, slices.Min(each), slices.Max(each), q.Placed, q.PlacedGPUs, q.Failed, q.FailedGPUs, q.Seconds)
	}
	p := &webpage.Page{Title: "A trace replayed", Basis: "Simulated. Trace: " + c.Trace, Answer: fmt.Sprintf("When %g "+
		"times the cluster's GPUs have been asked for, %s has allocated %.2f%% of them, the most of %d policies (mean of "+
		"%d orders of arrival).", c.Ratio, best.Name, best.Mean, len(c.Policies), len(c.Seeds))}
	if c.Bound > 0 {
		p.Answer += fmt.Sprintf("\nMoving tasks freely would allocate %.2f%% at most.", c.Bound)
	}
	p.Sections = []webpage.Section{{Tables: []webpage.Table{t}, Charts: []webpage.Chart{c.Chart()},
		Notes: []string{"More tasks placed are not more GPUs used: a policy that leaves pieces of many GPUs refuses the " +
			"large tasks, and has room for more of the small ones."}}}
	return p
}
