// Package chart draws the figures of load tests, as SVG and PNG, and the folder of their report.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

const (
	figureWidth  = 20 * vg.Centimeter
	figureHeight = 10 * vg.Centimeter
	figureDPI    = 120
)

// palette is colour-blind safe (Okabe and Ito).
var palette = []color.RGBA{
	{0x00, 0x72, 0xB2, 0xff}, {0xD5, 0x5E, 0x00, 0xff}, {0x00, 0x9E, 0x73, 0xff}, {0xCC, 0x79, 0xA7, 0xff},
	{0xE6, 0x9F, 0x00, 0xff}, {0x56, 0xB4, 0xE9, 0xff}, {0x33, 0x33, 0x33, 0xff}, {0x99, 0x4F, 0x00, 0xff},
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// WriteReport writes table.md, figures/*.svg and *.png and report.html into dir, and returns the page's path.
func WriteReport(dir string, results []*loadgen.Result) (string, error) {
	figures := filepath.Join(dir, "figures")
	if err := os.MkdirAll(figures, 0o755); err != nil {
		return "", err
	}
	var table, html bytes.Buffer
	err := errors.Join(report.WriteHTML(&html, results), report.ScenariosOf(results).WriteMarkdown(&table))
	for _, c := range report.Figures(results) {
		svg, png, drawErr := Draw(&c)
		name := filepath.Join(figures, c.Name)
		err = errors.Join(err, drawErr, page.WriteFile(name+".svg", svg), page.WriteFile(name+".png", png))
	}
	at := filepath.Join(dir, "report.html")
	return at, errors.Join(err, page.WriteFile(filepath.Join(dir, "table.md"), table.Bytes()),
		page.WriteFile(at, html.Bytes()))
}

// WriteFile draws a chart into a file, as PNG where its name says so and otherwise as SVG.
func WriteFile(path string, c *webpage.Chart) error {
	svg, png, err := Draw(c)
	if err != nil {
		return err
	}
	if filepath.Ext(path) == ".png" {
		svg = png
	}
	return page.WriteFile(path, svg)
}

// Draw draws a chart. The same chart gives the same bytes.
func Draw(c *webpage.Chart) (svg, png []byte, err error) {
	p := plot.New()
	p.Title.Text = c.Title
	p.Title.Padding = vg.Points(6)
	if c.Simulated {
		p.Title.Text += "\nSYNTHETIC: simulated GPU, not a measurement" // a figure may be shown without its page
	}
	p.Title.TextStyle.Font = sans(14)
	x, y := c.Ranges()
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(11)
	legend.Top, legend.Left = true, true
	legend.Padding = vg.Points(2)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	for i, s := range c.Series {
		if r := []rune(s.Name); len(r) > longestName {
			s.Name = string(r[:longestName-1]) + "…"
		}
		if err := add(p, &legend, c, i, &s); err != nil {
			return nil, nil, fmt.Errorf("figure %s: %s: %w", c.Name, s.Name, err)
		}
	}
	for _, l := range c.Limits {
		ends := plotter.XYs{{X: x.Min, Y: l.At}, {X: x.Max, Y: l.At}}
		if l.Vertical {
			ends = plotter.XYs{{X: l.At, Y: y.Min}, {X: l.At, Y: y.Max}}
		}
		if err := across(p, &legend, l.Name, ends); err != nil {
			return nil, nil, err
		}
	}
	if c.Diagonal {
		low, high := max(x.Min, y.Min), min(x.Max, y.Max)
		if err := across(p, &legend, "equal", plotter.XYs{{X: low, Y: low}, {X: high, Y: high}}); err != nil {
			return nil, nil, err
		}
	}
	scale(&p.X, &c.X, x)
	scale(&p.Y, &c.Y, y)
	return render(c.Name, func(to draw.Canvas) {
		// The legend stands beside the plot, where it hides no curve.
		to = draw.Crop(to, vg.Points(8), -vg.Points(8), vg.Points(6), -vg.Points(6))
		width := legend.Rectangle(to).Size().X + vg.Points(12)
		p.Draw(draw.Crop(to, 0, -width, 0, 0))
		legend.Draw(draw.Crop(to, to.Rectangle.Size().X-width+vg.Points(8), 0, 0, -vg.Points(46)))
	})
}

// longestName is the number of characters of the longest name in a legend.
const longestName = 44

// add draws a series, a line for each of its unbroken parts.
func add(p *plot.Plot, legend *plot.Legend, c *webpage.Chart, i int, s *webpage.Series) error {
	width, dashes := lineStyle(i, len(c.Series))
	ink := palette[i%len(palette)]
	named := false
	for _, part := range unbroken(s.Points) {
		curve, dots, err := plotter.NewLinePoints(part)
		if err != nil {
			return err
		}
		curve.Color, curve.Width, curve.Dashes = ink, width, dashes
		if c.Kind == webpage.Bars {
			curve.StepStyle = plotter.PostStep
		}
		dots.Color, dots.Radius = ink, vg.Points(2.5)
		dots.Shape = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}}[i%3]
		var shown []plot.Thumbnailer
		if c.Kind != webpage.Scatter {
			p.Add(curve)
			shown = append(shown, curve)
		}
		if s.Dots || c.Kind == webpage.Scatter {
			p.Add(dots)
			shown = append(shown, dots)
		}
		if !named {
			legend.Add(s.Name, shown...)
			named = true
		}
	}
	return nil
}

// unbroken parts points where there is no Y.
func unbroken(points []webpage.Point) (parts []plotter.XYs) {
	open := false
	for _, q := range points {
		switch {
		case math.IsNaN(q.Y):
			open = false
			continue
		case !open:
			parts, open = append(parts, nil), true
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], plotter.XY{X: q.X, Y: q.Y})
	}
	return parts
}

// across draws a dashed line over the others.
func across(p *plot.Plot, legend *plot.Legend, name string, ends plotter.XYs) error {
	l, err := plotter.NewLine(ends)
	if err != nil {
		return err
	}
	l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(l)
	legend.Add(name, l)
	return nil
}

// lineStyle draws each line narrower than the one beneath it, and with gaps of its
// own, so that lines that coincide all show.
func lineStyle(i, of int) (width vg.Length, dashes []vg.Length) {
	width = vg.Points(1.4 + 0.9*float64(min(of-1-i, 4)))
	if i > 0 {
		on := vg.Points(9 - 2*float64((i-1)%4))
		dashes = []vg.Length{on, vg.Points(4)}
	}
	return width, dashes
}

func scale(to *plot.Axis, of *webpage.Axis, r webpage.Range) {
	to.Label.Text, to.Min, to.Max = of.Label, r.Min, r.Max
	to.Label.TextStyle.Font, to.Tick.Label.Font = sans(12), sans(11)
	to.Label.Padding = vg.Points(3)
	if of.Log {
		to.Scale = plot.LogScale{}
	}
	if r.Ticks == nil {
		return
	}
	ticks := make(plot.ConstantTicks, len(r.Ticks))
	for i, v := range r.Ticks {
		ticks[i] = plot.Tick{Value: v, Label: fmt.Sprintf("%.6g", v)}
		if i < len(of.Names) {
			ticks[i].Label = of.Names[i]
		}
	}
	to.Tick.Marker = ticks
}

func render(name string, onto func(draw.Canvas)) (asSVG, asPNG []byte, err error) {
	svg := vgsvg.New(figureWidth, figureHeight)
	onto(draw.New(svg))
	var s, p bytes.Buffer
	_, svgErr := svg.WriteTo(&s)
	size, res := vgimg.UseWH(figureWidth, figureHeight), vgimg.UseDPI(figureDPI)
	img := vgimg.NewWith(size, res, vgimg.UseBackgroundColor(color.White))
	onto(draw.New(img))
	_, pngErr := (vgimg.PngCanvas{Canvas: img}).WriteTo(&p)
	if err := errors.Join(svgErr, pngErr); err != nil {
		return nil, nil, fmt.Errorf("figure %s: %w", name, err)
	}
	// Where the font is missing the drawing falls back on another one without serifs.
	const font, fallback = "font-family:Liberation Sans", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"
	return bytes.ReplaceAll(s.Bytes(), []byte(font), []byte(fallback)), p.Bytes(), nil
}
