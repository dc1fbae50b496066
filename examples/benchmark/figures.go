package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/cotenant/cotenant/loadgen"
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
	Name, Caption string
	SVG, PNG      []byte
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
	yMax                       float64 // 0: by the data
}

// watermark writes across a figure whose data are simulated.
type watermark struct{}

func (watermark) Plot(c draw.Canvas, p *plot.Plot) {
	style := p.Title.TextStyle
	style.Font.Size = 48
	style.Color = color.RGBA{0x40, 0x08, 0x08, 0x28}
	style.Rotation = math.Pi / 8
	style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
	c.FillText(style, c.Center(), "SYNTHETIC")
}

func (c *chart) draw() (picture, error) {
	p := plot.New()
	p.Title.Text = c.title
	p.Title.Padding = vg.Points(6)
	if c.synthetic {
		p.Title.Text += "\nSYNTHETIC: simulated GPU, not a measurement"
		p.Title.TextStyle.Color = color.RGBA{0xA0, 0x10, 0x10, 0xff}
	}
	p.X.Label.Text, p.Y.Label.Text = c.x, c.y
	for _, ax := range []*plot.Axis{&p.X, &p.Y} {
		ax.Label.TextStyle.Font.Size = 11
		ax.Tick.Label.Font.Size = 9
	}
	p.Title.TextStyle.Font = font.From(p.Title.TextStyle.Font, 13)
	legend := plot.NewLegend()
	legend.TextStyle.Font.Size = 9
	legend.Top, legend.Left = true, true
	legend.Padding = vg.Points(2)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	if c.synthetic {
		p.Add(watermark{})
	}
	for i, l := range c.lines {
		if r := []rune(l.name); len(r) > 44 {
			l.name = string(r[:43]) + "…"
		}
		curve, dots, err := plotter.NewLinePoints(l.points)
		if err != nil {
			return picture{}, fmt.Errorf("figure %s: %s: %w", c.name, l.name, err)
		}
		curve.Color = palette[i%len(palette)]
		curve.Width = vg.Points(1.6)
		if i >= len(palette) {
			curve.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
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

func (c *chart) scale(p *plot.Plot) {
	p.Y.Min = 0
	if c.yMax > 0 {
		p.Y.Max = c.yMax
	} else {
		p.Y.Max *= 1.05
	}
	if c.logX && p.X.Min > 0 {
		if p.X.Max < p.X.Min*1.5 {
			p.X.Min, p.X.Max = p.X.Min/1.5, p.X.Max*1.5
		}
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = plot.ConstantTicks(logTicks(p.X.Min, p.X.Max))
		return
	}
	if c.levels {
		p.X.Tick.Marker = plot.ConstantTicks(c.levelTicks())
		p.X.Min = 0
	}
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min-1, p.X.Max+1
	}
}

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

// logTicks are 1, 2 and 5 of each decade, with plain numbers.
func logTicks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= lo && v <= hi {
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
			}
		}
	}
	if len(ticks) == 0 {
		ticks = []plot.Tick{{Value: lo, Label: fmt.Sprintf("%.3g", lo)}, {Value: hi, Label: fmt.Sprintf("%.3g", hi)}}
	}
	return ticks
}

func (c *chart) render(onto func(draw.Canvas)) (picture, error) {
	pic := picture{Name: c.name, Caption: c.caption}
	svg := vgsvg.New(figureWidth, figureHeight)
	onto(draw.New(svg))
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return pic, fmt.Errorf("figure %s: %w", c.name, err)
	}
	pic.SVG = bytes.Clone(b.Bytes())
	b.Reset()
	img := vgimg.NewWith(vgimg.UseWH(figureWidth, figureHeight), vgimg.UseDPI(figureDPI), vgimg.UseBackgroundColor(color.White))
	onto(draw.New(img))
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&b); err != nil {
		return pic, fmt.Errorf("figure %s: %w", c.name, err)
	}
	pic.PNG = b.Bytes()
	return pic, nil
}

// drawAll draws every figure that the runs have data for.
func drawAll(results []*loadgen.Result) ([]picture, error) {
	charts := studyCharts(studyRows(summariesOf(results)))
	chosen := highestLoads(results)
	charts = append(charts, cdfCharts(chosen)...)
	charts = append(charts, timelineCharts(chosen)...)
	var pictures []picture
	for i := range charts {
		p, err := charts[i].draw()
		if err != nil {
			return nil, err
		}
		pictures = append(pictures, p)
	}
	return pictures, nil
}

// studyCharts are the two figures of the LLM-serving study.
func studyCharts(rows []studyRow) []chart {
	var charts []chart
	for _, unit := range []string{unitUsers, unitRate} {
		x, suffix := "Concurrency (users)", "concurrency"
		if unit == unitRate {
			x, suffix = "Offered load (requests/s)", "rate"
		}
		throughput := chart{name: "throughput-" + suffix, title: "Throughput by scenario", x: x, y: "Output tokens/s", levels: true,
			caption: "Output tokens per second of successful requests; the median where a point was repeated."}
		p99 := chart{name: "p99-" + suffix, title: "P99 latency by scenario", x: x, y: "P99 of e2e (s)", levels: true,
			caption: "99th percentile of e2e, from the scheduled start to the last token."}
		for i := range rows {
			r := &rows[i]
			if r.Unit != unit || r.Level == 0 {
				continue
			}
			throughput.add(r.Scenario, r.Level, r.TokensPerS, r.Simulated)
			if r.P99S > 0 {
				p99.add(r.Scenario, r.Level, r.P99S, r.Simulated)
			}
		}
		for _, c := range []chart{throughput, p99} {
			if len(c.lines) > 0 {
				charts = append(charts, c)
			}
		}
	}
	return charts
}

// add puts a point on the named line.
func (c *chart) add(name string, x, y float64, synthetic bool) {
	c.synthetic = c.synthetic || synthetic
	i := slices.IndexFunc(c.lines, func(l line) bool { return l.name == name })
	if i < 0 {
		i = len(c.lines)
		c.lines = append(c.lines, line{name: name, dots: true})
	}
	c.lines[i].points = append(c.lines[i].points, plotter.XY{X: x, Y: y})
}

// highestLoads takes the last run of each scenario's highest load: a curve for
// each run would show nothing.
func highestLoads(results []*loadgen.Result) []*loadgen.Result {
	var order []string
	best := map[string]*loadgen.Result{}
	for _, r := range results {
		name := r.Summary.Scenario
		have, ok := best[name]
		if !ok {
			order = append(order, name)
		}
		if ok {
			was, _, _ := level(&have.Summary)
			if is, _, _ := level(&r.Summary); is < was {
				continue
			}
		}
		best[name] = r
	}
	var chosen []*loadgen.Result
	for _, name := range order {
		chosen = append(chosen, best[name])
	}
	return chosen
}

// curveName names a tenant's curve of a run.
func curveName(r *loadgen.Result, tenant string) string {
	_, _, load := level(&r.Summary)
	name := r.Summary.Scenario + ", " + load
	if len(r.Summary.Tenants) > 1 {
		name = strings.TrimPrefix(r.Summary.Scenario+": "+tenant, ": ")
	}
	return name
}

var cdfMetrics = []struct {
	metric loadgen.Metric
	title  string
}{
	{loadgen.TTFT, "Time to first token"}, {loadgen.ChunkGap, "Gap between chunks"}, {loadgen.E2E, "End-to-end latency"},
}

func cdfCharts(results []*loadgen.Result) []chart {
	var charts []chart
	for _, m := range cdfMetrics {
		c := chart{name: "cdf-" + strings.ReplaceAll(m.metric.String(), "_", "-"), title: m.title + ", distribution", x: m.metric.String() + " (ms)",
			y: "Share of values at or below", logX: true, yMax: 1, caption: loadgen.Definitions()[m.metric.String()]}
		for _, r := range results {
			for _, th := range r.Histograms {
				h := th.ByMetric[m.metric]
				if h == nil || h.Count() == 0 {
					continue
				}
				c.synthetic = c.synthetic || r.Summary.Basis != "measured"
				c.lines = append(c.lines, line{name: curveName(r, th.Tenant), points: cdf(h)})
			}
		}
		if len(c.lines) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}

// cdf reads a distribution off at steps that are finer towards its tail.
func cdf(h *loadgen.Histogram) plotter.XYs {
	var xy plotter.XYs
	add := func(q float64) {
		if v, ok := h.Quantile(q); ok {
			// A logarithmic axis has no place for 0; nothing is measured below 1 µs.
			xy = append(xy, plotter.XY{X: max(float64(v)/1e6, 0.001), Y: q})
		}
	}
	for q := 0.005; q < 0.99; q += 0.005 {
		add(q)
	}
	for q := 0.99; q < 1; q += 0.0005 {
		add(q)
	}
	add(1)
	return xy
}

func timelineCharts(results []*loadgen.Result) []chart {
	tokens := chart{name: "timeline-tokens", title: "Tokens over time", x: "Seconds since the run's start", y: "Tokens/s",
		caption: "Tokens by the second in which their event came, of all requests, failed ones too."}
	flight := chart{name: "timeline-in-flight", title: "Requests in flight over time", x: tokens.x, y: "Requests in flight at the second's end",
		caption: "Requests sent and not ended at the end of each second."}
	ttft := chart{name: "timeline-ttft", title: "TTFT over time", x: tokens.x, y: "TTFT P99 in the second (ms)",
		caption: "99th percentile of ttft of the requests whose first token came in the second."}
	for _, r := range results {
		synthetic := r.Summary.Basis != "measured"
		start := int64(math.MaxInt64)
		for _, row := range r.Timeline {
			start = min(start, row.UnixNS)
		}
		for _, row := range r.Timeline {
			name, at := curveName(r, row.Tenant), float64(row.UnixNS-start)/1e9
			// The last second of a run is shorter.
			if length := min(float64(r.Summary.Window.ToNS-row.UnixNS)/1e9, 1); length >= 0.1 {
				tokens.add(name, at, float64(row.Tokens)/length, synthetic)
			}
			flight.add(name, at, float64(row.InFlight), synthetic)
			if row.HasTTFT {
				ttft.add(name, at, float64(row.TTFTP99)/1e6, synthetic)
			}
		}
	}
	var charts []chart
	for _, c := range []chart{tokens, flight, ttft} {
		if len(c.lines) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}
