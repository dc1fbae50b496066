package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"

	"github.com/cotenant/cotenant/decision/placement/replay"
)

// The drawing: allocation against arrivals, both in percent of the cluster's GPUs, of the first seed. The upper
// part is drawn large: that is where policies differ.
const (
	svgWidth, svgHeight           = 800, 500
	plotLeft, plotTop             = 70, 50
	plotRight, plotBottom         = 780, 440
	svgFont                       = `font-family="sans-serif" font-size="13"`
	lowestShown           float64 = 60
)

// Colours that stay apart in print and for colour-blind readers (Okabe, Ito).
var colours = []string{"#999999", "#E69F00", "#0072B2", "#D55E00"}

// dashes tell the lines apart without colour.
var dashes = []string{"2 3", "8 4", "12 3 2 3", ""}

// plot draws a comparison as SVG.
func plot(c *replay.Comparison) []byte {
	var b bytes.Buffer
	right := max(100, math.Ceil(c.Ratio*10)*10)
	x := func(v float64) float64 {
		return plotLeft + (v-lowestShown)/(right-lowestShown)*(plotRight-plotLeft)
	}
	y := func(v float64) float64 {
		return plotBottom - (v-lowestShown)/(100-lowestShown)*(plotBottom-plotTop)
	}
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" %s>`,
		svgWidth, svgHeight, svgWidth, svgHeight, svgFont)
	put(`<rect width="100%%" height="100%%" fill="white"/>`)
	title := "GPU allocation against arrivals (simulated), trace: "
	if len(c.Seeds) > 0 {
		title = fmt.Sprintf("GPU allocation against arrivals (simulated), seed %d, trace: ", c.Seeds[0])
	}
	put(`<text x="%d" y="25" font-size="15">%s</text>`, plotLeft, escape(title+c.Trace))
	for v := lowestShown; v <= 100; v += 10 {
		put(`<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f %%</text>`,
			plotLeft, y(v), plotRight, plotLeft-8, y(v)+4, v)
	}
	for v := lowestShown; v <= right; v += 10 {
		put(`<path d="M%.1f %dV%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%.0f %%</text>`,
			x(v), plotTop, plotBottom, x(v), plotBottom+18, v)
	}
	put(`<text x="%d" y="%d" text-anchor="middle">asked for, of the cluster's GPUs (both axes begin at %.0f %%)</text>`,
		(plotLeft+plotRight)/2, plotBottom+42, lowestShown)
	for i := range c.Policies {
		p := &c.Policies[i]
		var d bytes.Buffer
		for _, pt := range p.Curve {
			if pt.Arrived < lowestShown || pt.Allocated < lowestShown {
				continue
			}
			op := byte('L')
			if d.Len() == 0 {
				op = 'M'
			}
			fmt.Fprintf(&d, "%c%.1f %.1f", op, x(pt.Arrived), y(pt.Allocated))
		}
		if d.Len() > 0 {
			put(`<path d="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`,
				d.String(), colours[i], dashes[i])
		}
		at := plotBottom - 20*(len(c.Policies)-i) + 5
		fmt.Fprintf(&b, `<path d="M%d %dh40" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`,
			plotRight-350, at-4, colours[i], dashes[i])
		put(`<text x="%d" y="%d">%s: mean %.2f %%, %.0f tasks of %.2f GPUs</text>`,
			plotRight-300, at, escape(p.Name), p.Mean, p.Placed, p.PlacedGPUs)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func escape(s string) string {
	var b bytes.Buffer
	// Writing to a bytes.Buffer does not fail.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
