package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/cotenant/cotenant/examples/internal/page"
)

// writeChart draws P50 and P99 of each tenant's requests against the number of tenants, as the file's name says (.svg,
// .png, .pdf), with the legend beside the lines.
func writeChart(path string, s *study) error {
	plot.DefaultFont.Variant = "Sans"
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text = "Request latency by tenants on the GPU\nSYNTHETIC: simulated GPU, not a measurement"
	p.X.Label.Text, p.Y.Label.Text = "tenants", "latency (ms)"
	p.Add(plotter.NewGrid())
	var tenants plot.ConstantTicks
	lines := 0
	for i := range s.Together {
		tenants = append(tenants, plot.Tick{Value: float64(i + 1), Label: fmt.Sprint(i + 1)})
		for _, q := range []float64{0.50, 0.99} {
			var points plotter.XYs
			for n, res := range s.Together[i:] {
				if d, ok := res.Tenants[i].Request.Quantile(q); ok && d > 0 {
					points = append(points, plotter.XY{X: float64(i + n + 1), Y: ms(d)})
				}
			}
			if len(points) == 0 {
				continue
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return err
			}
			line.Color, line.Dashes, line.Width = plotutil.Color(lines), plotutil.Dashes(lines), vg.Points(1.5)
			dots.Color, dots.Shape = line.Color, plotutil.Shape(lines)
			p.Add(line, dots)
			legend.Add(fmt.Sprintf("%s P%g", s.Together[i].Tenants[i].Name, 100*q), line, dots)
			lines++
		}
	}
	if lines == 0 {
		return errors.New("no request ended in the simulated time, so there is nothing to draw")
	}
	p.X.Tick.Marker, p.Y.Scale, p.Y.Tick.Marker = tenants, plot.LogScale{}, plot.LogTicks{Prec: -1}
	canvas, err := draw.NewFormattedCanvas(20*vg.Centimeter, 10*vg.Centimeter,
		cmp.Or(strings.TrimPrefix(filepath.Ext(path), "."), "svg"))
	if err != nil {
		return err
	}
	to := draw.New(canvas)
	legend.Top, legend.Left = true, true
	width := legend.Rectangle(to).Size().X*6/5 + vg.Points(12) // a viewer's font may be wider
	p.Draw(draw.Crop(to, 0, -width, 0, 0))
	legend.Draw(draw.Crop(to, to.Rectangle.Size().X-width+vg.Points(8), 0, 0, -vg.Points(46)))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	return page.WriteFile(path, b.Bytes())
}
