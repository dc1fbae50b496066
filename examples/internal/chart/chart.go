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

// WriteReport writes table.md, figures/*.svg and *.png and report.html into dir, and returns the page's path.
func WriteReport(dir string, results []*loadgen.Result) (string, error) {
	figures := filepath.Join(dir, "figures")
	if err := os.MkdirAll(figures, 0o755); err != nil {
		return "", err
	}
	var table, html bytes.Buffer
	err := errors.Join(report.WriteHTML(&html, results), report.ScenariosOf(results).WriteMarkdown(&table))
	for _, c := range report.Figures(results) {
		name := filepath.Join(figures, c.Name)
		err = errors.Join(err, WriteFile(name+".svg", &c), WriteFile(name+".png", &c))
	}
	at := filepath.Join(dir, "report.html")
	return at, errors.Join(err, page.WriteFile(filepath.Join(dir, "table.md"), table.Bytes()),
		page.WriteFile(at, html.Bytes()))
}

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
	x, y := c.Ranges()
	for _, l := range c.Limits {
		ends := plotter.XYs{{X: x.Min, Y: l.At}, {X: x.Max, Y: l.At}}
		if l.Vertical {
			ends = plotter.XYs{{X: l.At, Y: y.Min}, {X: l.At, Y: y.Max}}
		}
		err = errors.Join(err, across(p, &legend, l.Name, ends))
	}
	if c.Diagonal {
		low, high := max(x.Min, y.Min), min(x.Max, y.Max)
		err = errors.Join(err, across(p, &legend, "equal", plotter.XYs{{X: low, Y: low}, {X: high, Y: high}}))
	}
	scale(&p.X, &c.X, x)
	scale(&p.Y, &c.Y, y)
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
	for k, part := range unbroken(s.Points) {
		curve, dots, err := plotter.NewLinePoints(part)
		if err != nil {
			return err
		}
		curve.Color, curve.Dashes, curve.Width = plotutil.Color(i), plotutil.Dashes(i), lineWidth(i, len(c.Series))
		if c.Kind == webpage.Bars {
			curve.StepStyle = plotter.PostStep
		}
		dots.Color, dots.Shape = curve.Color, plotutil.Shape(i)
		var shown []plot.Thumbnailer
		if c.Kind != webpage.Scatter {
			p.Add(curve)
			shown = append(shown, curve)
		}
		if s.Dots || c.Kind == webpage.Scatter {
			p.Add(dots)
			shown = append(shown, dots)
		}
		if k == 0 {
			legend.Add(s.Name, shown...)
		}
	}
	return nil
}

func lineWidth(i, of int) vg.Length { return vg.Points(1.4 + 0.9*float64(min(of-1-i, 4))) }

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

func scale(to *plot.Axis, of *webpage.Axis, r webpage.Range) {
	to.Label.Text, to.Min, to.Max = of.Label, r.Min, r.Max
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
