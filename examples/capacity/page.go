package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/cotenant/cotenant/decision/capacity"
)

//go:embed page.html.tmpl
var pageTemplate string

// curve is an arrangement's line in the drawing: the worst figure over its limit as
// load grows.
type curve struct {
	Name, Colour, Points string
	Width                int
	Dots                 []dot
}

type dot struct {
	X, Y float64
	Text string
}

type page struct {
	*report
	Curves []curve
	Ticks  []dot // of the load axis, and of the other one
	Levels []dot
	Limit  float64 // where the limit lies
}

const (
	plotWidth, plotHeight, plotLeft, plotTop = 760.0, 360.0, 60.0, 16.0
	plotHighest                              = 4.0 // times the limit: what lies above is drawn there
)

var colours = []string{"#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b", "#16a085", "#7f8c8d", "#d35400", "#2c3e50", "#e84393"}

// writeHTML writes a page that needs no other file.
func (r *report) writeHTML(w io.Writer) error {
	p := page{report: r}
	least, most := math.Inf(1), 0.0
	for i := range r.Arrangements {
		for _, c := range r.Arrangements[i].Curve {
			least, most = min(least, c.Load), max(most, c.Load)
		}
	}
	x := func(load float64) float64 {
		if most <= least {
			return plotLeft
		}
		return round(plotLeft + plotWidth*math.Log(load/least)/math.Log(most/least))
	}
	y := func(over float64) float64 {
		return round(plotTop + plotHeight*(1-min(over, plotHighest)/plotHighest))
	}
	loads := map[float64]bool{}
	for i := range r.Arrangements {
		a := &r.Arrangements[i]
		c := curve{Name: label(a), Colour: colours[i%len(colours)], Width: 2}
		if r.isChosen(a) {
			c.Name, c.Width = c.Name+": chosen", 4
		}
		var points []string
		for _, q := range a.Curve {
			points = append(points, fmt.Sprintf("%g,%g", x(q.Load), y(q.Over)))
			c.Dots = append(c.Dots, dot{x(q.Load), y(q.Over), fmt.Sprintf("load %g: %.2f of its limit", q.Load, q.Over)})
			if !loads[q.Load] {
				loads[q.Load] = true
				p.Ticks = append(p.Ticks, dot{x(q.Load), plotTop + plotHeight + 18, fmt.Sprintf("%g", q.Load)})
			}
		}
		c.Points = strings.Join(points, " ")
		p.Curves = append(p.Curves, c)
	}
	for v := 0.0; v <= plotHighest; v++ {
		p.Levels = append(p.Levels, dot{plotLeft, y(v), fmt.Sprintf("%gx", v)})
	}
	p.Limit = y(1)
	t, err := template.New("page").Funcs(template.FuncMap{
		"amount": amount, "chosen": r.isChosen, "notBy": notBy, "interval": interval,
		"million": func(a *capacity.Arrangement) string {
			if m, ok := a.PerMillion.Get(); ok {
				return amount(m)
			}
			return "-"
		},
	}).Parse(pageTemplate)
	if err != nil {
		return err
	}
	return t.Execute(w, &p)
}

func round(v float64) float64 { return math.Round(v*10) / 10 }

func label(a *capacity.Arrangement) string {
	text := fmt.Sprintf("%s, %d %s", a.Kind, a.GPUs, a.GPU)
	if a.Division != "" {
		text += " (" + a.Division + ")"
	}
	return text
}
