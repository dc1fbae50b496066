package probe

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// The measures of a picture of pressures, in pixels: of a panel's axes, and of what surrounds them.
const (
	panelWidth, panelHeight = 300, 170
	panelLeft, panelTop     = 70, 56
	panelBottom, panelGap   = 48, 190 // the gap has room for a legend
	longestTitle            = 36      // characters of a tenant's name
)

// curve is a line of a panel. x and y are positive.
type curve struct {
	name   string
	points [][2]float64
}

// PressureSVG draws what each of the named tenants does to kernels beside it, and these to the tenant: how long
// launches of the reporter wait, by their kernels' length, and the tenant's step by the length of the press's. Both
// axes are logarithmic. It returns "" where there are none.
func PressureSVG(names []string, pressures []*profile.Pressure, simulated bool) string {
	if len(pressures) == 0 {
		return ""
	}
	row := panelTop + panelHeight + panelBottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif"
font-size="12"><rect width="100%%" height="100%%" fill="white"/>
`, 2*(panelLeft+panelWidth+panelGap), row*len(pressures))
	for i, p := range pressures {
		title := string([]rune(names[i])[:min(len([]rune(names[i])), longestTitle)])
		if simulated {
			title += " (SIMULATED)"
		}
		alone, one, wide, chain := curve{name: "nobody beside"}, curve{name: "one block"}, curve{name: "a block on each SM"},
			curve{name: "each of a chain, wide"}
		for _, w := range p.Waits {
			x := max(w.KernelUS, 1)
			c := &one
			switch {
			case w.Kernels > 1:
				c = &chain
			case w.Wide:
				c = &wide
				alone.points = append(alone.points, [2]float64{x, w.AloneMeanUS})
			}
			c.points = append(c.points, [2]float64{x, w.BesideMeanUS / float64(w.Kernels)})
		}
		panel(&b, 0, i*row, "Launches beside "+title, "length of the kernel launched (us)", "mean time to its end (us)",
			alone, one, wide, chain)
		still, fills, reads := curve{name: "nothing beside"}, curve{name: "calculating, all SMs"},
			curve{name: "reading memory"}
		for _, q := range p.Presses {
			c := &fills
			if q.Reads {
				c = &reads
			}
			c.points = append(c.points, [2]float64{max(q.KernelUS, 1), q.StepMS})
			still.points = append(still.points, [2]float64{max(q.KernelUS, 1), p.StepMS})
		}
		panel(&b, panelLeft+panelWidth+panelGap, i*row, "Step of "+title+" beside kernels",
			"length of the kernels back to back (us)", "median step (ms)", still, fills, reads)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// panel draws curves on logarithmic axes, with a legend to the right.
func panel(b *strings.Builder, left, top int, title, xName, yName string, curves ...curve) {
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{}
	for _, c := range curves {
		for _, p := range c.points {
			for k, v := range p {
				if v > 0 {
					low[k], high[k] = min(low[k], v), max(high[k], v)
				}
			}
		}
	}
	x0, y0 := float64(left+panelLeft), float64(top+panelTop+panelHeight)
	fmt.Fprintf(b, "<text x=\"%g\" y=\"%d\" font-size=\"14\">%s</text>\n", x0, top+panelTop-22, html.EscapeString(title))
	if high[0] == 0 || high[1] == 0 {
		fmt.Fprintf(b, "<text x=\"%g\" y=\"%g\">not measured</text>\n", x0, y0-panelHeight/2)
		return
	}
	for k := range low { // whole decades
		low[k], high[k] = math.Floor(math.Log10(low[k])), math.Ceil(math.Log10(high[k])+1e-9)
	}
	at := func(p [2]float64) (x, y float64) {
		f := func(k int) float64 { return (math.Log10(p[k]) - low[k]) / (high[k] - low[k]) }
		return x0 + f(0)*panelWidth, y0 - f(1)*panelHeight
	}
	fmt.Fprintf(b, "<rect x=\"%g\" y=\"%g\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#333\"/>\n", x0,
		y0-panelHeight, panelWidth, panelHeight)
	for v := low[0]; v <= high[0]; v++ {
		x, _ := at([2]float64{math.Pow(10, v), math.Pow(10, low[1])})
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n", x, y0+16, math.Pow(10, v))
	}
	for v := low[1]; v <= high[1]; v++ {
		_, y := at([2]float64{math.Pow(10, low[0]), math.Pow(10, v)})
		fmt.Fprintf(b, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", x0-6, y+4, math.Pow(10, v))
	}
	fmt.Fprintf(b, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>\n", x0+panelWidth/2, y0+36, xName)
	fmt.Fprintf(b, "<text transform=\"translate(%g,%g) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", x0-50,
		y0-panelHeight/2, yName)
	line := 0
	for i, c := range curves {
		if len(c.points) == 0 {
			continue
		}
		colour := pressureColours[i%len(pressureColours)]
		var path strings.Builder
		for _, p := range c.points {
			x, y := at(p)
			fmt.Fprintf(&path, "%.1f,%.1f ", x, y)
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, colour)
		}
		fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\"/>\n", strings.TrimSpace(path.String()), colour)
		y := y0 - panelHeight + 14 + float64(18*line)
		fmt.Fprintf(b, "<circle cx=\"%g\" cy=\"%g\" r=\"4\" fill=\"%s\"/>\n<text x=\"%g\" y=\"%g\">%s</text>\n",
			x0+panelWidth+14, y-4, colour, x0+panelWidth+24, y, c.name)
		line++
	}
}

// pressureColours are Okabe and Ito's, which the colour-blind can tell apart.
var pressureColours = []string{"#333333", "#0072b2", "#d55e00", "#009e73"}
