// Package chart draws the figures of load tests, as SVG and PNG, and the folder of their report.
package chart

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

const figureWidth, figureHeight = 20 * vg.Centimeter, 10 * vg.Centimeter

// longestName is the number of characters of the longest name in a legend.
const longestName = 44

// WriteReport writes figures/*.svg and *.png and report.html into dir, and returns the page's path.
func WriteReport(dir string, results []*loadgen.Result) (string, error) {
	figures := filepath.Join(dir, "figures")
	if err := os.MkdirAll(figures, 0o755); err != nil {
		return "", err
	}
	var html bytes.Buffer
	err := report.WriteHTML(&html, results)
	for _, c := range report.Figures(results) {
		name := filepath.Join(figures, c.Name)
		err = errors.Join(err, WriteFile(name+".svg", &c), WriteFile(name+".png", &c))
	}
	at := filepath.Join(dir, "report.html")
	return at, errors.Join(err, page.WriteFile(at, html.Bytes()))
}

// Named is [page.Named] for a flag that names a chart's file.
func Named(path *string) func(string) error { return page.Named(path, ".svg", ".png", ".pdf") }

// WriteFile draws a chart into a file, as its name says (.svg, .png, .pdf), and as SVG where it does not.
func WriteFile(path string, c *webpage.Chart) error {
	data, err := Draw(c, cmp.Or(strings.TrimPrefix(filepath.Ext(path), "."), "svg"))
	if err != nil {
		return err
	}
	return page.WriteFile(path, data)
}

// WriteAll draws the charts of a page, each into a file with its title before the ending; nothing for no path.
func WriteAll(path string, p *webpage.Page) error {
	if path == "" {
		return nil
	}
	var err error
	end := filepath.Ext(path)
	for _, s := range p.Sections {
		for i := range s.Charts {
			if len(s.Charts[i].Series) == 0 {
				continue
			}
			title := strings.Join(strings.FieldsFunc(strings.ToLower(s.Charts[i].Title), func(r rune) bool {
				return !unicode.IsLetter(r) && !unicode.IsDigit(r)
			}), "-")
			err = errors.Join(err, WriteFile(strings.TrimSuffix(path, end)+"-"+title+end, &s.Charts[i]))
		}
	}
	return err
}

// Draw draws a chart as "svg" or "png". The same chart gives the same bytes.
func Draw(c *webpage.Chart, format string) ([]byte, error) {
	p := plot.New()
	p.Title.Text = c.Title
	if c.Simulated {
		p.Title.Text += "\nSYNTHETIC: simulated GPU, not a measurement" // a figure may be shown without its page
	}
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	p.Add(plotter.NewGrid())
	var err error
	for i, s := range c.Series {
		if r := []rune(s.Name); len(r) > longestName {
			s.Name = string(r[:longestName-1]) + "…"
		}
		err = errors.Join(err, add(p, &legend, c, i, &s))
	}
	for _, l := range c.Limits {
		axis := &p.Y
		if l.Vertical {
			axis = &p.X
		}
		axis.Min, axis.Max = min(axis.Min, l.At), max(axis.Max, l.At)
	}
	if c.Diagonal {
		p.X.Min, p.X.Max = min(p.X.Min, p.Y.Min), max(p.X.Max, p.Y.Max)
		p.Y.Min, p.Y.Max = p.X.Min, p.X.Max
	}
	scale(&p.X, &c.X)
	scale(&p.Y, &c.Y)
	for _, l := range c.Limits {
		ends := plotter.XYs{{X: p.X.Min, Y: l.At}, {X: p.X.Max, Y: l.At}}
		if l.Vertical {
			ends = plotter.XYs{{X: l.At, Y: p.Y.Min}, {X: l.At, Y: p.Y.Max}}
		}
		err = errors.Join(err, across(p, &legend, l.Name, ends))
	}
	if c.Diagonal {
		err = errors.Join(err, across(p, &legend, "equal", plotter.XYs{{X: p.X.Min, Y: p.Y.Min}, {X: p.X.Max, Y: p.Y.Max}}))
	}
	canvas, formatErr := draw.NewFormattedCanvas(figureWidth, figureHeight, format)
	if err = errors.Join(err, formatErr); err != nil {
		return nil, fmt.Errorf("figure %s: %w", c.Name, err)
	}
	// The legend stands beside the plot, where it hides no curve, with room for a viewer's wider font.
	to := draw.New(canvas)
	width := legend.Rectangle(to).Size().X*6/5 + vg.Points(12)
	p.Draw(draw.Crop(to, 0, -width, 0, 0))
	legend.Draw(draw.Crop(to, to.Rectangle.Size().X-width+vg.Points(8), 0, 0, -vg.Points(46)))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("figure %s: %w", c.Name, err)
	}
	// Where the font is missing the drawing falls back on another one without serifs.
	const font, fallback = "font-family:Liberation Sans", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"
	return bytes.ReplaceAll(b.Bytes(), []byte(font), []byte(fallback)), nil
}

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

// add draws a series, a line for each of its unbroken parts, narrower than those beneath and with gaps of its own, so
// that lines that coincide all show.
func add(p *plot.Plot, legend *plot.Legend, c *webpage.Chart, i int, s *webpage.Series) error {
	for k, part := range unbroken(c, s.Points) {
		curve, dots, err := plotter.NewLinePoints(part)
		if err != nil {
			return err
		}
		curve.Color, curve.Dashes, curve.Width = plotutil.Color(i), plotutil.Dashes(i), lineWidth(i, len(c.Series))
		dots.Color, dots.Shape = curve.Color, plotutil.Shape(i)
		var shown []plot.Thumbnailer
		if !c.Scatter {
			p.Add(curve)
			shown = append(shown, curve)
		}
		if c.Scatter || len(s.Points) < mostDots {
			p.Add(dots)
			shown = append(shown, dots)
		}
		if k == 0 {
			legend.Add(s.Name, shown...)
		}
	}
	return nil
}

// mostDots is from how many points on a line has no dots.
const mostDots = 20

func lineWidth(i, of int) vg.Length { return vg.Points(1.4 + 0.9*float64(min(of-1-i, 4))) }

// unbroken parts points where there is no Y, and leaves out what a logarithmic axis has no place for.
func unbroken(c *webpage.Chart, points []webpage.Point) (parts []plotter.XYs) {
	open := false
	for _, q := range points {
		switch {
		case math.IsNaN(q.Y):
			open = false
			continue
		case c.X.Log && q.X <= 0 || c.Y.Log && q.Y <= 0:
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

// margin is the length of an axis relative to its data.
const margin = 1.05

// scale gives an axis its range, and a logarithmic one its steps.
func scale(to *plot.Axis, of *webpage.Axis) {
	to.Label.Text, to.Max = of.Label, cmp.Or(of.Max, to.Max*margin)
	if !of.Log || math.IsInf(to.Min, 0) { // nothing is shown
		to.Min = cmp.Or(of.Min, min(to.Min*margin, 0))
		return
	}
	to.Min, to.Scale = cmp.Or(of.Min, to.Min/margin), plot.LogScale{}
	to.Tick.Marker = plot.TickerFunc(func(low, high float64) (ticks []plot.Tick) {
		for e := math.Floor(math.Log10(low)); e <= math.Log10(high); e++ {
			for _, m := range []float64{1, 2, 5} {
				v := m * math.Pow(10, e)
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.6g", v)})
			}
		}
		ticks = slices.DeleteFunc(ticks, func(t plot.Tick) bool { return t.Value < low || t.Value > high })
		if len(ticks) < 3 {
			return plot.DefaultTicks{}.Ticks(low, high)
		}
		return ticks
	})
}
