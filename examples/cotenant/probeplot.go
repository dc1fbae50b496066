package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/cotenant/cotenant/decision/probe"
)

// drawTurns draws a lane for each spinning process, with a bar for each time that
// it was on the GPU.
func drawTurns(w io.Writer, r *probe.Result) error {
	if len(r.Lanes) == 0 {
		return errors.New("-plot: no turns were measured, so there is nothing to draw")
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("When spinning processes were on a GPU (%s, %s)", r.Info.GPU, r.Basis)
	p.X.Label.Text = "ms"
	var ticks []plot.Tick
	for i, l := range r.Lanes {
		y := float64(len(r.Lanes) - i)
		// The spaces keep the label off the axis in fonts that are wider than gonum's.
		ticks = append(ticks, plot.Tick{Value: y, Label: fmt.Sprintf("%d of %d    ", l.Process, l.Processes)})
		for _, on := range l.On {
			bar, err := plotter.NewLine(plotter.XYs{{X: on[0], Y: y}, {X: on[1], Y: y}})
			if err != nil {
				return err
			}
			// Okabe and Ito's blue and vermilion, which the colour-blind can tell apart.
			bar.Color, bar.Width = color.RGBA{0, 114, 178, 255}, vg.Points(9)
			if l.Processes > 2 {
				bar.Color = color.RGBA{213, 94, 0, 255}
			}
			p.Add(bar)
		}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Min, p.Y.Max = 0.5, float64(len(r.Lanes))+0.5
	c := vgsvg.New(8*vg.Inch, 3.5*vg.Inch)
	p.Draw(draw.Crop(draw.New(c), 8, -8, 8, -8))
	_, err := c.WriteTo(w)
	return err
}
