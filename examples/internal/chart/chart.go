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
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/cotenant/cotenant/examples/internal/page"
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
	err := report.WriteHTML(&html, results, func(f *report.Figure) ([]byte, error) {
		svg, png, err := Draw(f)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(figures, f.Name)
		return svg, errors.Join(page.WriteFile(name+".svg", svg), page.WriteFile(name+".png", png))
	})
	if err = errors.Join(err, report.ScenariosOf(results).WriteMarkdown(&table)); err != nil {
		return "", err
	}
	at := filepath.Join(dir, "report.html")
	return at, errors.Join(
		page.WriteFile(filepath.Join(dir, "table.md"), table.Bytes()), page.WriteFile(at, html.Bytes()))
}

// Draw draws a figure. The same figure gives the same bytes.
func Draw(f *report.Figure) (svg, png []byte, err error) {
	p := plot.New()
	p.Title.Text = f.Title
	p.Title.Padding = vg.Points(6)
	if f.Simulated {
		p.Title.Text += "\nSYNTHETIC: simulated GPU, not a measurement" // a figure may be shown without its page
	}
	p.X.Label.Text, p.Y.Label.Text = f.X, f.Y
	for _, ax := range []*plot.Axis{&p.X, &p.Y} {
		ax.Label.TextStyle.Font = sans(12)
		ax.Tick.Label.Font = sans(11)
		ax.Label.Padding = vg.Points(3)
	}
	p.Title.TextStyle.Font = sans(14)
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(11)
	legend.Top, legend.Left = true, true
	legend.Padding = vg.Points(2)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	for i, l := range f.Lines {
		if r := []rune(l.Name); len(r) > 44 {
			l.Name = string(r[:43]) + "…"
		}
		curve, dots, err := plotter.NewLinePoints(points(l.Points))
		if err != nil {
			return nil, nil, fmt.Errorf("figure %s: %s: %w", f.Name, l.Name, err)
		}
		curve.Color = palette[i%len(palette)]
		curve.Width, curve.Dashes = lineStyle(i, len(f.Lines))
		p.Add(curve)
		if !l.Dots {
			legend.Add(l.Name, curve)
			continue
		}
		dots.Color, dots.Radius = curve.Color, vg.Points(2.5)
		dots.Shape = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}}[i%3]
		p.Add(dots)
		legend.Add(l.Name, curve, dots)
	}
	scale(p, f)
	return render(f.Name, func(to draw.Canvas) {
		// The legend stands beside the plot, where it hides no curve.
		to = draw.Crop(to, vg.Points(8), -vg.Points(8), vg.Points(6), -vg.Points(6))
		width := legend.Rectangle(to).Size().X + vg.Points(12)
		p.Draw(draw.Crop(to, 0, -width, 0, 0))
		legend.Draw(draw.Crop(to, to.Rectangle.Size().X-width+vg.Points(8), 0, 0, -vg.Points(46)))
	})
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

func scale(p *plot.Plot, f *report.Figure) {
	switch {
	case f.LogY && p.Y.Min > 0:
		p.Y.Min, p.Y.Max = p.Y.Min/1.05, p.Y.Max*1.05
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(logTicks(p.Y.Min, p.Y.Max))
	case f.YMax > 0:
		p.Y.Min, p.Y.Max = 0, f.YMax
		p.Y.Tick.Marker = plot.ConstantTicks(shareTicks)
	default:
		p.Y.Min = 0
		p.Y.Max *= 1.05
	}
	if f.LogX && p.X.Min > 0 {
		if p.X.Max < p.X.Min*1.1 {
			p.X.Min, p.X.Max = p.X.Min/1.05, p.X.Max*1.05
		}
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = plot.ConstantTicks(logTicks(p.X.Min, p.X.Max))
		return
	}
	if f.Levels {
		p.X.Tick.Marker = plot.ConstantTicks(levelTicks(f))
	}
	// Loads and times begin at 0.
	p.X.Min = 0
	p.X.Max = max(p.X.Max, 1)
}

var shareTicks = ticks(0, 0.25, 0.5, 0.75, 0.9, 1)

func ticks(at ...float64) (ticks []plot.Tick) {
	for _, v := range at {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.6g", v)})
	}
	return ticks
}

func levelTicks(f *report.Figure) []plot.Tick {
	var levels []float64
	for _, l := range f.Lines {
		for _, p := range l.Points {
			if !slices.Contains(levels, p.X) {
				levels = append(levels, p.X)
			}
		}
	}
	return ticks(levels...)
}

// logTicks are 1, 2 and 5 of each decade, or even steps where the axis is too short for them.
func logTicks(lo, hi float64) []plot.Tick {
	var at []float64
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				at = append(at, v)
			}
		}
	}
	if len(at) < 4 {
		at = nil
		step := evenStep((hi - lo) / 5)
		for i := math.Ceil(lo / step); i*step <= hi; i++ {
			at = append(at, i*step)
		}
	}
	return ticks(at...)
}

// evenStep is the least of 1, 2 and 5 times a power of ten that is no less than v.
func evenStep(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*decade >= v {
			return m * decade
		}
	}
	return 10 * decade
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

func points(of []report.Point) plotter.XYs {
	xys := make(plotter.XYs, len(of))
	for i, p := range of {
		xys[i] = plotter.XY(p)
	}
	return xys
}
