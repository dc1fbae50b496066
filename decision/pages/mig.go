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
	t, n := webpage.Table{Head: []string{"GPUs", "layout"}}, webpage.Node{}
	for _, g := range p.Groups {
		t.Add(g.GPUs, strings.Trim(g.Layout.Bar(), "|"))
		for range g.GPUs {
			n.GPUs = append(n.GPUs, slicesOf(&g.Layout))
		}
	}
	return &webpage.Page{Title: "MIG layouts", Answer: fmt.Sprintf("%s hold what is asked for; %s.",
		plaintext.Count(p.GPUs, "GPU"), proof), Sections: []webpage.Section{{Tables: []webpage.Table{t}},
		{Title: "Slices", Maps: []webpage.Map{{Nodes: []webpage.Node{n}}}}}}
}

// Changed returns the page of a change of a GPU's MIG layout: its steps, and the slices before and after.
func Changed(p *mig.ChangePlan) *webpage.Page {
	t := webpage.Table{Head: []string{"step", "what", "instance"}}
	for i, s := range p.Steps {
		t.Add(i+1, s.Op, s.Instance)
	}
	gpu := func(title string, l *mig.Layout) webpage.Map {
		return webpage.Map{Title: title, Nodes: []webpage.Node{{GPUs: []webpage.GPU{slicesOf(l)}}}}
	}
	return &webpage.Page{Title: "A change of MIG instances", Answer: fmt.Sprintf("%s destroyed, %d created, %d kept.",
		plaintext.Count(len(p.Destroy), "instance"), len(p.Create), len(p.Keep)), Sections: []webpage.Section{
		{Tables: []webpage.Table{t}},
		{Title: "Slices", Maps: []webpage.Map{gpu("Before", &p.Have), gpu("After", &p.Want)}}}}
}

// slicesOf draws a GPU's units in their order.
func slicesOf(l *mig.Layout) webpage.GPU {
	gpu, unit := webpage.GPU{Name: l.Model.String()}, 1/float64(l.Model.Units)
	for u := 0; u < l.Model.Units; {
		p, size := webpage.Part{Name: "free"}, 1
		for _, in := range l.Instances {
			if in.Start == u {
				p.Name, size = in.Profile.Name, in.Size
				if in.Busy {
					p.Text = "in use"
				}
			}
		}
		p.Share, u = unit*float64(size), u+size
		gpu.Parts = append(gpu.Parts, p)
	}
	return gpu
}
