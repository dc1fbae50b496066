package mig

import (
	"fmt"
	"html"
	"strings"
)

const cellWidth = 9 // the width of one placement unit of a bar, in characters

// Bar draws the layout as one line of placement units: names of instances, a
// star on busy ones, dots where nothing stands.
//
//	|2g.20gb          |1g.10gb* |.........|3g.40gb                            |
func (l Layout) Bar() string {
	if l.Model == nil || l.Model.Units == 0 {
		return "|?|"
	}
	var b strings.Builder
	b.WriteByte('|')
	for u := 0; u < l.Model.Units; {
		in, ok := l.at(u)
		if !ok {
			b.WriteString(strings.Repeat(".", cellWidth) + "|")
			u++
			continue
		}
		name := in.Profile.Name
		if in.Busy {
			name += "*"
		}
		width := in.Size*(cellWidth+1) - 1
		if len(name) > width {
			name = name[:width]
		}
		fmt.Fprintf(&b, "%-*s|", width, name)
		u += in.Size
	}
	return b.String()
}

// at returns the instance that starts at a unit.
func (l Layout) at(unit int) (Instance, bool) {
	for _, in := range l.Instances {
		if in.Start == unit {
			return in, true
		}
	}
	return Instance{}, false
}

const (
	svgUnit, svgHeight, svgGap, svgLabel = 90, 34, 10, 150
	svgFont                              = `font-family="sans-serif" font-size="13"`
)

// svgColors are fills by compute slices, light enough for black text.
var svgColors = map[int]string{1: "#bde0fe", 2: "#a8e6cf", 3: "#ffd6a5", 4: "#ffadad", 7: "#d0bdf4"}

// SVG draws layouts below one another, each with its label. labels may be
// shorter than layouts. The text is complete and the same for the same input.
func SVG(layouts []Layout, labels []string) string {
	units := 1
	for _, l := range layouts {
		if l.Model != nil {
			units = max(units, l.Model.Units)
		}
	}
	width, height := svgLabel+units*svgUnit+svgGap, svgGap+len(layouts)*(svgHeight+svgGap)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n", width,
		height, width, height)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height)
	for i, l := range layouts {
		y := svgGap + i*(svgHeight+svgGap)
		if i < len(labels) {
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" %s>%s</text>\n", svgGap, y+svgHeight/2+5, svgFont,
				html.EscapeString(labels[i]))
		}
		if l.Model == nil {
			continue
		}
		for u := range l.Model.Units {
			fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\" stroke=\"#cccccc\"/>\n",
				svgLabel+u*svgUnit, y, svgUnit, svgHeight)
		}
		for _, in := range l.Instances {
			l.svgInstance(&b, in, y)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (l Layout) svgInstance(b *strings.Builder, in Instance, y int) {
	fill, ok := svgColors[in.Profile.ComputeSlices]
	if !ok {
		fill = "#dddddd"
	}
	stroke := "#333333"
	if in.Busy {
		stroke = "#cc0000"
	}
	x := svgLabel + in.Start*svgUnit
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"%s\" "+
		"stroke-width=\"2\"><title>%s</title></rect>\n",
		x+1, y+1, in.Size*svgUnit-2, svgHeight-2, fill, stroke, html.EscapeString(in.String()))
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" %s>%s</text>\n", x+8, y+svgHeight/2+5, svgFont,
		html.EscapeString(in.Profile.Name))
}
