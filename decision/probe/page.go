package probe

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/webpage"
)

// Page returns a result with its report as a page: the length of a turn and of a switch, all figures, and who was on
// the GPU when.
func (r *Result) Page(rep *Report) *webpage.Page {
	p := &webpage.Page{Title: "A GPU probed: " + rep.GPU,
		Basis:  fmt.Sprintf("Measured in %.0f s, driver %s.", rep.Seconds, rep.Driver),
		Answer: fmt.Sprintf("%d figures were measured, %d were not.", len(r.Measured), len(r.NotMeasured))}
	if rep.Simulated {
		p.Basis = "Simulated: nothing was measured on a GPU."
	}
	if q, ok := r.Get(Quantum); ok {
		s, _ := r.Get(Switch)
		p.Answer = fmt.Sprintf("A turn takes %s %s and a switch %s %s, so that %s%% of a shared GPU's time goes to "+
			"switching. ", webpage.Number(q.Value), q.Unit, webpage.Number(s.Value), s.Unit,
			webpage.Number(100*s.Value/(q.Value+s.Value))) + p.Answer
	}
	t := webpage.Table{Head: []string{"figure", "value", "unit", "80% lie within", "what"}}
	for _, m := range r.Measured {
		within := "-"
		if m.High > m.Low {
			within = webpage.Number(m.Low) + " to " + webpage.Number(m.High)
		}
		t.Add(m.Name, m.Value, m.Unit, within, m.What)
		if m.Name == Quantum {
			t.Choose()
		}
	}
	first := webpage.Section{Tables: []webpage.Table{t}, Notes: rep.Warnings}
	for _, n := range r.NotMeasured {
		first.Notes = append(first.Notes, "Not measured: "+n.Name+": "+n.Why)
	}
	turns := webpage.Section{Title: "Turns: when each of several spinning processes was on the GPU"}
	for i, l := range r.Lanes {
		if i == 0 || r.Lanes[i-1].Processes != l.Processes {
			turns.Charts = append(turns.Charts, webpage.Chart{Title: fmt.Sprintf("%d processes in turns", l.Processes),
				X: webpage.Axis{Label: "time (ms)"}, Y: webpage.Axis{Label: "process", Max: float64(l.Processes) + 1}})
		}
		c, y := &turns.Charts[len(turns.Charts)-1], float64(l.Process)
		c.Y.Ticks = append(c.Y.Ticks, y)
		for _, on := range l.On {
			for _, p := range []webpage.Point{{X: on[0], Y: y}, {X: on[1], Y: y}, {X: on[1], Y: math.NaN()}} {
				c.Add(fmt.Sprintf("process %d", l.Process), p)
			}
		}
	}
	p.Sections = []webpage.Section{first, turns}
	return p
}
