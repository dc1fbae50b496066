package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

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

// picture is a figure in both formats.
type picture struct {
	report.Picture
	png []byte
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// line is a curve with its name.
type line struct {
	name   string
	points plotter.XYs
	dots   bool
}

// chart is what to draw.
type chart struct {
	name, caption, title, x, y string
	lines                      []line
	synthetic, logX            bool
	levels                     bool    // x is a few levels of load: one tick each
	yMax                       float64 // 1 for shares; 0: by the data
}

func (c *chart) draw() (picture, error) {
	p := plot.New()
	p.Title.Text = c.title
	p.Title.Padding = vg.Points(6)
	if c.synthetic {
		p.Title.Text += "\nSYNTHETIC: simulated GPU, not a measurement" // a figure may be shown without its page
	}
	p.X.Label.Text, p.Y.Label.Text = c.x, c.y
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
	for i, l := range c.lines {
		if r := []rune(l.name); len(r) > 44 {
			l.name = string(r[:43]) + "…"
		}
		curve, dots, err := plotter.NewLinePoints(l.points)
		if err != nil {
			return picture{}, fmt.Errorf("figure %s: %s: %w", c.name, l.name, err)
		}
		curve.Color = palette[i%len(palette)]
		curve.Width, curve.Dashes = lineStyle(i, len(c.lines))
		p.Add(curve)
		if !l.dots {
			legend.Add(l.name, curve)
			continue
		}
		dots.Color, dots.Radius = curve.Color, vg.Points(2.5)
		dots.Shape = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}}[i%3]
		p.Add(dots)
		legend.Add(l.name, curve, dots)
	}
	c.scale(p)
	return c.render(func(to draw.Canvas) {
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

func (c *chart) scale(p *plot.Plot) {
	p.Y.Min = 0
	if c.yMax > 0 {
		p.Y.Max = c.yMax
		p.Y.Tick.Marker = plot.ConstantTicks(shareTicks)
	} else {
		p.Y.Max *= 1.05
	}
	if c.logX && p.X.Min > 0 {
		if p.X.Max < p.X.Min*1.1 {
			p.X.Min, p.X.Max = p.X.Min/1.05, p.X.Max*1.05
		}
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = plot.ConstantTicks(logTicks(p.X.Min, p.X.Max))
		return
	}
	if c.levels {
		p.X.Tick.Marker = plot.ConstantTicks(c.levelTicks())
	}
	// Loads and times begin at 0.
	p.X.Min = 0
	p.X.Max = max(p.X.Max, 1)
}

var shareTicks = []plot.Tick{{Value: 0, Label: "0"}, {Value: 0.25, Label: "0.25"}, {Value: 0.5, Label: "0.5"}, {Value: 0.75, Label: "0.75"}, {Value: 0.9, Label: "0.9"}, {Value: 1, Label: "1"}}

func (c *chart) levelTicks() []plot.Tick {
	var ticks []plot.Tick
	seen := map[float64]bool{}
	for _, l := range c.lines {
		for _, xy := range l.points {
			if !seen[xy.X] {
				seen[xy.X] = true
				ticks = append(ticks, plot.Tick{Value: xy.X, Label: fmt.Sprintf("%g", xy.X)})
			}
		}
	}
	return ticks
}

// logTicks are 1, 2 and 5 of each decade, or even steps where the axis is too
// short for them.
func logTicks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	add := func(v float64) {
		if v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.6g", v)})
		}
	}
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			add(m * math.Pow(10, e))
		}
	}
	if len(ticks) >= 4 {
		return ticks
	}
	ticks = nil
	step := evenStep((hi - lo) / 5)
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		add(i * step)
	}
	return ticks
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

func (c *chart) render(onto func(draw.Canvas)) (picture, error) {
	pic := picture{Picture: report.Picture{Name: c.name, Title: c.title, Caption: c.caption}}
	svg := vgsvg.New(figureWidth, figureHeight)
	onto(draw.New(svg))
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return pic, fmt.Errorf("figure %s: %w", c.name, err)
	}
	// Where the font is missing the drawing falls back on another one without serifs.
	pic.SVG = bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
	b.Reset()
	img := vgimg.NewWith(vgimg.UseWH(figureWidth, figureHeight), vgimg.UseDPI(figureDPI), vgimg.UseBackgroundColor(color.White))
	onto(draw.New(img))
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&b); err != nil {
		return pic, fmt.Errorf("figure %s: %w", c.name, err)
	}
	pic.png = b.Bytes()
	return pic, nil
}
