package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/loadgen"
)

// bounds are the latencies that an SLO may bound, the gaps between chunks apart.
var bounds = []struct {
	metric loadgen.LatencyMetric
	name   string
	of     func(loadgen.SLOFigures) loadgen.Millis
}{
	{loadgen.MetricTTFT, "TTFT", func(s loadgen.SLOFigures) loadgen.Millis { return s.TTFT }},
	{loadgen.MetricTPOT, "TPOT", func(s loadgen.SLOFigures) loadgen.Millis { return s.TPOT }},
	{loadgen.MetricChunkGap, "gap between chunks", func(s loadgen.SLOFigures) loadgen.Millis { return s.Stall }},
	{loadgen.MetricE2E, "end-to-end latency", func(s loadgen.SLOFigures) loadgen.Millis { return s.E2E }},
}

// figuresOf returns a distribution's figures.
func figuresOf(m *loadgen.Measures, metric loadgen.LatencyMetric) loadgen.Figures {
	for _, d := range m.Distributions() {
		if d.Metric == metric {
			return *d.Figures
		}
	}
	return loadgen.Figures{}
}

// Figures returns the charts that runs have data for: throughput and P99 latency by load, with the objectives, which
// come first; and distributions and courses of the highest load of each scenario. Intervals span repeated runs.
func Figures(results []*loadgen.Result) []webpage.Chart {
	d := drawer{several: slices.ContainsFunc(results, func(r *loadgen.Result) bool { return len(r.Summary.Tenants) > 1 })}
	for _, r := range results {
		d.byLoad(&r.Summary)
	}
	for i := range d.charts {
		for k := range d.charts[i].Series {
			l := &d.charts[i].Series[k]
			l.Dots, l.Points = true, repeated(l.Points)
		}
	}
	for _, r := range highestLoads(results) {
		d.distributions(r)
		d.course(r)
	}
	// Two or three points show no course of time.
	return slices.DeleteFunc(d.charts, func(c webpage.Chart) bool {
		return strings.HasPrefix(c.Name, "timeline") && !slices.ContainsFunc(c.Series, func(l webpage.Series) bool {
			return len(l.Points) >= leastSeconds
		})
	})
}

// drawer gathers charts whose points come run by run.
type drawer struct {
	charts  []webpage.Chart
	several bool // tenants
}

// line returns a run's line of a chart, which like describes; a chart has its Name for itself.
func (d *drawer) line(s *loadgen.Summary, name string, like webpage.Chart) (*webpage.Chart, *webpage.Series) {
	i := slices.IndexFunc(d.charts, func(c webpage.Chart) bool { return c.Name == like.Name })
	if i < 0 {
		i = len(d.charts)
		d.charts = append(d.charts, like)
	}
	c := &d.charts[i]
	c.Simulated = c.Simulated || synthetic(s)
	k := slices.IndexFunc(c.Series, func(l webpage.Series) bool { return l.Name == name })
	if k < 0 {
		k = len(c.Series)
		c.Series = append(c.Series, webpage.Series{Name: name, Colour: s.Scenario})
	}
	return c, &c.Series[k]
}

// ofTenant names a tenant's chart and its file.
func (d *drawer) ofTenant(tenant, name, title string) webpage.Chart {
	if d.several {
		title = tenant + ": " + title
		name += "-" + strings.Map(func(r rune) rune {
			if strings.ContainsRune(`/\:*?"<>| `, r) {
				return '-'
			}
			return r
		}, tenant)
	}
	return webpage.Chart{Name: name, Title: title}
}

// objective returns a tenant's bound on a latency, 0 where there is none.
func objective(m *loadgen.Measures, of func(loadgen.SLOFigures) loadgen.Millis) loadgen.Millis {
	if m.Goodput == nil {
		return 0
	}
	return of(m.Goodput.SLO)
}

// mark draws an objective into a chart, once.
func mark(c *webpage.Chart, bound loadgen.Millis, vertical bool) {
	l := webpage.Limit{Name: fmt.Sprintf("objective: %v ms", float64(bound)), At: float64(bound), Vertical: vertical}
	if bound > 0 && !slices.Contains(c.Limits, l) {
		c.Limits = append(c.Limits, l)
	}
}

// byLoad adds a run's throughput, and each tenant's latencies that have an objective, or end to end.
func (d *drawer) byLoad(s *loadgen.Summary) {
	level := LevelOf(s)
	if level.Value == 0 {
		return
	}
	x, suffix := "concurrency (users)", "concurrency"
	if level.Unit == UnitRate {
		x, suffix = "offered load (requests/s)", "rate"
	}
	add := func(like webpage.Chart, y string, v float64) *webpage.Chart {
		like.X.Label, like.Y.Label = x, y
		c, l := d.line(s, s.Scenario, like)
		l.Points = append(l.Points, webpage.Point{X: level.Value, Y: v})
		if !slices.Contains(c.X.Ticks, level.Value) {
			c.X.Ticks = append(c.X.Ticks, level.Value)
		}
		return c
	}
	add(webpage.Chart{Name: "throughput-" + suffix, Title: "Throughput by load",
		Caption: "Output tokens per second of successful requests."}, "output (tokens/s)", s.OutputTokensPerS)
	for i := range s.Tenants {
		t := &s.Tenants[i]
		for _, b := range bounds {
			f, bound := figuresOf(&t.Measures, b.metric), objective(&t.Measures, b.of)
			if f.Count > 0 && (bound > 0 || b.metric == loadgen.MetricE2E) {
				like := d.ofTenant(t.Name, "p99-"+b.metric.String()+"-"+suffix, b.name+" by load")
				mark(add(like, b.name+" P99 (ms)", float64(f.P99)), bound, false)
			}
		}
	}
}

// repeated makes one point of those at one load: the median, with the range as its interval.
func repeated(points []webpage.Point) (out []webpage.Point) {
	slices.SortFunc(points, func(a, b webpage.Point) int {
		return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y))
	})
	for len(points) > 0 {
		n := 1
		for n < len(points) && points[n].X == points[0].X {
			n++
		}
		var ys []float64
		for _, p := range points[:n] {
			ys = append(ys, p.Y)
		}
		out = append(out, webpage.Point{X: points[0].X, Y: medianOf(ys), Low: ys[0], High: ys[n-1]})
		points = points[n:]
	}
	return out
}

// highestLoads takes the last run of each scenario's highest load: a curve for each run would show nothing.
func highestLoads(results []*loadgen.Result) []*loadgen.Result {
	var chosen []*loadgen.Result
	for _, r := range results {
		i := slices.IndexFunc(chosen, func(c *loadgen.Result) bool { return c.Summary.Scenario == r.Summary.Scenario })
		switch {
		case i < 0:
			chosen = append(chosen, r)
		case LevelOf(&r.Summary).Value >= LevelOf(&chosen[i].Summary).Value:
			chosen[i] = r
		}
	}
	return chosen
}

// distributions adds those of the latencies that have an objective, or of the usual ones, for each tenant of a run.
func (d *drawer) distributions(r *loadgen.Result) {
	for _, th := range r.Histograms {
		t, ok := r.Summary.Tenant(th.Tenant)
		if !ok {
			continue
		}
		for _, b := range bounds {
			bound := objective(&t.Measures, b.of)
			usual := t.Goodput == nil && b.metric != loadgen.MetricTPOT
			if h := th.ByMetric[b.metric]; h != nil && h.Count() > 0 && (bound > 0 || usual) {
				like := d.ofTenant(th.Tenant, "cdf-"+strings.ReplaceAll(b.metric.String(), "_", "-"), b.name+", distribution")
				like.X = webpage.Axis{Label: b.name + " (ms)", Log: true}
				like.Y = webpage.Axis{Label: "requests at or below (share)", Max: 1}
				c, l := d.line(&r.Summary, r.Summary.Scenario+", "+LevelOf(&r.Summary).Text, like)
				l.Points = cdf(h)
				mark(c, bound, true)
			}
		}
	}
}

// cdf reads a distribution off at steps that are finer towards its tail.
func cdf(h *loadgen.Histogram) []webpage.Point {
	var xy []webpage.Point
	add := func(q float64) {
		if v, ok := h.Quantile(q); ok {
			// A logarithmic axis has no place for 0; nothing is measured below 1 µs.
			xy = append(xy, webpage.Point{X: max(float64(v)/1e6, 0.001), Y: q})
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

// leastSeconds is the length of the shortest run whose course is drawn.
const leastSeconds = 5

// course adds the seconds of a run.
func (d *drawer) course(r *loadgen.Result) {
	start := int64(math.MaxInt64)
	for _, row := range r.Timeline {
		start = min(start, row.UnixNS)
	}
	for _, row := range r.Timeline {
		at := float64(row.UnixNS-start) / 1e9
		add := func(name, title, y string, x, v float64) {
			run := r.Summary.Scenario + ", " + LevelOf(&r.Summary).Text
			if d.several {
				run = r.Summary.Scenario + ": " + row.Tenant
			}
			_, l := d.line(&r.Summary, run, webpage.Chart{Name: "timeline-" + name, Title: title,
				X: webpage.Axis{Label: "time since the run's start (s)"}, Y: webpage.Axis{Label: y}})
			l.Points = append(l.Points, webpage.Point{X: x, Y: v})
		}
		length := 1.0
		if rest := float64(r.Summary.Window.ToNS-row.UnixNS) / 1e9; rest < 1 && !r.Summary.Window.Cut {
			length = rest // the last second of a run is shorter
		}
		if length >= 0.1 {
			add("tokens", "Tokens over time, failed requests' too", "output (tokens/s)", at, float64(row.Tokens)/length)
		}
		add("in-flight", "Requests in flight over time", "requests sent and not ended", at+length, float64(row.InFlight))
		if ttft, ok := row.TTFTP99.Get(); ok {
			add("ttft", "TTFT over time", "TTFT P99 in the second (ms)", at, float64(ttft)/1e6)
		}
	}
}
