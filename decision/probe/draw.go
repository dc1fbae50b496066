package probe

import (
	"fmt"
	"html"
	"strings"
)

// The drawing's measures, in pixels.
const (
	svgLeft, svgTop  = 70, 40
	svgWidth, svgRow = 700, 26 // of the time axis; from lane to lane
	svgTicks         = 4       // of the time axis
)

// SVG draws a lane for each spinning process, with a bar for each time that it was
// on the GPU; "" where no turns were measured.
func (r *Result) SVG() string {
	last := 0.0
	for _, l := range r.Lanes {
		for _, on := range l.On {
			last = max(last, on[1])
		}
	}
	if last == 0 {
		return ""
	}
	x := func(ms float64) float64 { return svgLeft + ms/last*svgWidth }
	bottom := svgTop + len(r.Lanes)*svgRow
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
<text x="%d" y="20">When spinning processes were on a GPU (%s, %s), in ms</text>
`, svgLeft+svgWidth+20, bottom+30, svgLeft, html.EscapeString(r.Info.GPU), r.Basis)
	for i := range svgTicks + 1 {
		ms := last * float64(i) / svgTicks
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.1f</text>\n", x(ms), bottom+18, ms)
	}
	for i, l := range r.Lanes {
		y := svgTop + i*svgRow
		fmt.Fprintf(&b, "<text x=\"8\" y=\"%d\">%d of %d</text>\n", y+14, l.Process, l.Processes)
		// Okabe and Ito's blue and vermilion, which the colour-blind can tell apart.
		colour := "#0072b2"
		if l.Processes > 2 {
			colour = "#d55e00"
		}
		for _, on := range l.On {
			fmt.Fprintf(&b, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n", x(on[0]), y+3,
				x(on[1])-x(on[0]), svgRow-8, colour)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
