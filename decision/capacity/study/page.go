package study

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed page.html.tmpl
var pageTemplate string

// curve is an arrangement's line in the drawing: the worst figure over its limit as load grows.
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
	*Report
	Curves []curve
	Ticks  []dot   // of the load axis
	Levels []dot   // of the other axis
	Limit  float64 // y of the objectives' limit
}

// The drawing, in SVG units.
const (
	plotWidth, plotHeight, plotLeft, plotTop = 760.0, 360.0, 60.0, 16.0
	plotHighest                              = 4.0 // times the limit: higher values are drawn there
)

var colours = []string{
	"#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b", "#16a085", "#7f8c8d", "#d35400", "#2c3e50", "#e84393",
}

// WriteHTML writes a page with the report's tables and curves that needs no other file.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{Report: r}
	least, most := math.Inf(1), 0.0
	for i := range r.Arrangements {
		for _, c := range r.Arrangements[i].Curve {
			least, most = min(least, c.Load), max(most, c.Load)
		}
	}
	round := func(v float64) float64 { return math.Round(v*10) / 10 }
	x := func(load float64) float64 {
		if most <= least {
			return plotLeft
		}
		return round(plotLeft + plotWidth*math.Log(load/least)/math.Log(most/least))
	}
	y := func(over float64) float64 { return round(plotTop + plotHeight*(1-min(over, plotHighest)/plotHighest)) }
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
		"amount": amount, "chosen": r.isChosen, "notBy": notBy, "interval": interval, "million": perMillion,
	}).Parse(pageTemplate)
	if err != nil {
		return err
	}
	return t.Execute(w, &p)
}
