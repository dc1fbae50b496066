package main

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/placement/replay"
	"github.com/cotenant/cotenant/internal/webpage"
)

// Both axes begin at lowestShown: policies differ in the upper part.
const lowestShown = 60

// plot draws allocation against arrivals, both in percent of the cluster's GPUs, of the first seed.
func plot(c *replay.Comparison) *webpage.Chart {
	out := &webpage.Chart{Name: "fleet", Title: "GPU allocation against arrivals (simulated), trace: " + c.Trace,
		X: webpage.Axis{Label: fmt.Sprintf("asked for, of the cluster's GPUs (both axes begin at %d %%)", lowestShown),
			Min: lowestShown},
		Y: webpage.Axis{Label: "allocated (%)", Min: lowestShown, Max: 100}}
	for _, p := range c.Policies {
		s := webpage.Series{Name: fmt.Sprintf("%s %.2f %%, %.0f tasks of %.2f GPUs", p.Name, p.Mean, p.Placed, p.PlacedGPUs)}
		for _, pt := range p.Curve {
			if pt.Arrived >= lowestShown && pt.Allocated >= lowestShown {
				s.Points = append(s.Points, webpage.Point{X: pt.Arrived, Y: pt.Allocated})
			}
		}
		out.Series = append(out.Series, s)
	}
	return out
}
