package main

import (
	"errors"
	"image/color"
	"io"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// palette is Okabe and Ito's, which the colour-blind can tell apart.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 0, 0, 255}, {240, 228, 66, 255},
}

// margin keeps letters from the chart's edge.
const margin = 8 // points

// writeSVG draws P50 (dashed) and P99 (solid) of each tenant's requests against
// the number of tenants.
func writeSVG(w io.Writer, s *study) error {
	if len(s.Rows) == 0 {
		return errors.New("nothing was simulated, so there is nothing to draw")
	}
	p := plot.New()
	p.Title.Text = "Request latency by tenants on the GPU (simulated)"
	p.X.Label.Text, p.Y.Label.Text = "tenants", "latency, ms"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Title.Padding = vg.Points(6)
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, vg.Points(2)
	p.Add(plotter.NewGrid())
	n := s.Rows[len(s.Rows)-1].Tenants
	var names []string
	p50, p99 := map[string]plotter.XYs{}, map[string]plotter.XYs{}
	for _, r := range s.Rows {
		if _, seen := p99[r.Tenant]; !seen {
			names = append(names, r.Tenant)
		}
		point := func(d time.Duration, ok bool, to plotter.XYs) plotter.XYs {
			if !ok || d <= 0 {
				return to
			}
			return append(to, plotter.XY{X: float64(r.Tenants), Y: ms(d)})
		}
		d, ok := r.Request.Quantile(0.5)
		p50[r.Tenant] = point(d, ok, p50[r.Tenant])
		d, ok = r.Request.Quantile(0.99)
		p99[r.Tenant] = point(d, ok, p99[r.Tenant])
	}
	drawn := false
	for i, name := range names {
		if len(p99[name]) == 0 {
			continue
		}
		drawn = true
		c := palette[i%len(palette)]
		solid, points, err := plotter.NewLinePoints(p99[name])
		if err != nil {
			return err
		}
		solid.Color, points.Color, points.Shape = c, c, draw.CircleGlyph{}
		solid.Width = vg.Points(1.5)
		dashed, err := plotter.NewLine(p50[name])
		if err != nil {
			return err
		}
		dashed.Color, dashed.Dashes = c, []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(dashed, solid, points)
		legend.Add(name+" P99", solid, points)
		legend.Add(name+" P50", dashed)
	}
	if !drawn {
		return errors.New("no request ended in the simulated time, so there is nothing to draw")
	}
	ticks := make([]plot.Tick, n)
	for i := range ticks {
		ticks[i] = plot.Tick{Value: float64(i + 1), Label: strconv.Itoa(i + 1)}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Min, p.X.Max = 0.8, float64(n)+0.2
	// The legend stands beside the plot, where it hides no curve.
	c := vgsvg.New(8*vg.Inch, 4.5*vg.Inch)
	all := draw.Crop(draw.New(c), margin, -margin, margin, -margin)
	width := legend.Rectangle(all).Size().X + 2*margin
	p.Draw(draw.Crop(all, 0, -width, 0, 0))
	legend.Draw(draw.Crop(all, all.Rectangle.Size().X-width+margin, 0, 0, -3*margin))
	_, err := c.WriteTo(w)
	return err
}
