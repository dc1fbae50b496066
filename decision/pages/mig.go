package pages

import (
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/mig"
)

// Packed returns the page of a demand for MIG instances: how many GPUs hold it, and each distinct layout to scale.
func Packed(p *mig.Packing) *webpage.Page {
	proof := "no fewer do"
	if !p.Optimal {
		proof = fmt.Sprintf("%d at least are needed", p.LowerBound)
	}
	page := &webpage.Page{Title: "MIG layouts", Answer: fmt.Sprintf("%s hold what is asked for; %s.",
		plaintext.Count(p.GPUs,
			"GPU"), proof)}
	t, n := webpage.Table{Head: []string{"GPUs", "layout"}}, webpage.Node{}
	for _, g := range p.Groups {
		t.Rows = append(t.Rows, webpage.Row{Cells: []string{fmt.Sprint(g.GPUs), strings.Trim(g.Layout.Bar(), "|")}})
		n.GPUs = append(n.GPUs, alike(g.GPUs, g.Layout.Model.String(), unitsOf(&g.Layout))...)
	}
	page.Sections = []webpage.Section{{Tables: []webpage.Table{t}},
		{Title: "Slices", Maps: []webpage.Map{{Nodes: []webpage.Node{n}}}}}
	return page
}

// Changed returns the page of a change of a GPU's MIG layout: its steps, and the slices before and after.
func Changed(p *mig.ChangePlan) *webpage.Page {
	page := &webpage.Page{Title: "A change of MIG instances", Answer: fmt.Sprintf("%s destroyed, %d created, %d kept.",
		plaintext.Count(len(p.Destroy), "instance"), len(p.Create), len(p.Keep))}
	t := webpage.Table{Head: []string{"step", "what", "instance"}}
	for i, s := range p.Steps {
		t.Rows = append(t.Rows, webpage.Row{Cells: []string{fmt.Sprint(i + 1), s.Op.String(), s.Instance.String()}})
	}
	gpu := func(title string, l *mig.Layout) webpage.Map {
		return webpage.Map{Title: title, Nodes: []webpage.Node{{GPUs: alike(1, l.Model.String(), unitsOf(l))}}}
	}
	page.Sections = []webpage.Section{{Tables: []webpage.Table{t}},
		{Title: "The GPU's slices", Maps: []webpage.Map{gpu("Before", &p.Have), gpu("After", &p.Want)}}}
	return page
}

// unitsOf draws a GPU's units in their order.
func unitsOf(l *mig.Layout) (parts []webpage.Part) {
	unit := 1 / float64(l.Model.Units)
	for u := 0; u < l.Model.Units; {
		p, size := webpage.Part{Name: "free", Share: unit}, 1
		for _, in := range l.Instances {
			if in.Start == u {
				p.Name, size = in.Profile.Name, in.Size
				if in.Busy {
					p.Text = "in use"
				}
			}
		}
		p.Share, u = unit*float64(size), u+size
		parts = append(parts, p)
	}
	return parts
}
