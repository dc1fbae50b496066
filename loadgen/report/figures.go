// SPDX-License-Identifier: Apache-2.0

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

// bound is a latency that an SLO may bound.
type bound struct {
	metric loadgen.LatencyMetric
	name   string
	of     func(*loadgen.SLOFigures) loadgen.Millis
}

var bounds = []bound{
	{loadgen.MetricTTFT, "TTFT", func(s *loadgen.SLOFigures) loadgen.Millis { return s.TTFT }},
	{loadgen.MetricTPOT, "TPOT", func(s *loadgen.SLOFigures) loadgen.Millis { return s.TPOT }},
	{loadgen.MetricChunkGap, "gap between chunks", func(s *loadgen.SLOFigures) loadgen.Millis { return s.Stall }},
	{loadgen.MetricE2E, "end-to-end latency", func(s *loadgen.SLOFigures) loadgen.Millis { return s.E2E }},
}

// limit returns the objective, 0 where there is none.
func (b *bound) limit(m *loadgen.Measures) loadgen.Millis {
	if m.Goodput == nil {
		return 0
	}
	return b.of(&m.Goodput.SLO)
}

func (b *bound) figures(m *loadgen.Measures) loadgen.Figures {
	for _, d := range m.Distributions() {
		if d.Metric == b.metric {
			return *d.Figures
		}
	}
	return loadgen.Figures{}
}

// charts returns the charts that runs have data for: throughput and P99 latency by load, with the objectives, which
// come first; and distributions and courses of the highest load of each scenario. Intervals span repeated runs.
func charts(results []*loadgen.Result) []webpage.Chart {
	d := drawer{several: slices.ContainsFunc(results, func(r *loadgen.Result) bool { return len(r.Summary.Tenants) > 1 })}
	var highest []*loadgen.Result // the last run of each scenario's highest load: a curve for each run would show nothing
	for _, r := range results {
		d.byLoad(&r.Summary)
		i := slices.IndexFunc(highest, func(h *loadgen.Result) bool { return h.Summary.Scenario == r.Summary.Scenario })
		switch {
		case i < 0:
			highest = append(highest, r)
		case levelOf(&r.Summary).Value >= levelOf(&highest[i].Summary).Value:
			highest[i] = r
		}
	}
	for i := range d.charts {
		for k := range d.charts[i].Series {
			d.charts[i].Series[k].Points = repeated(d.charts[i].Series[k].Points)
		}
	}
	for _, r := range highest {
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

// drawer gathers charts with points that come run by run.
type drawer struct {
	charts  []webpage.Chart
	several bool // tenants
}

// add adds points of a run to a line of a chart, which like describes; a chart has its Name for itself. limit is an
// objective to mark, 0 is none; in a distribution, with its logarithmic X, it is a vertical line.
func (d *drawer) add(s *loadgen.Summary, like webpage.Chart, line string, limit loadgen.Millis,
	points ...webpage.Point) {
	i := slices.IndexFunc(d.charts, func(c webpage.Chart) bool { return c.Name == like.Name })
	if i < 0 {
		i = len(d.charts)
		d.charts = append(d.charts, like)
	}
	c := &d.charts[i]
	l := c.Line(line)
	l.Colour, l.Points = s.Scenario, append(l.Points, points...)
	mark := webpage.Limit{Name: fmt.Sprintf("objective: %v ms", float64(limit)), At: float64(limit), Vertical: c.X.Log}
	if limit > 0 && !slices.Contains(c.Limits, mark) {
		c.Limits = append(c.Limits, mark)
	}
}

// ofTenant names a tenant's chart.
func (d *drawer) ofTenant(tenant, name, title string) webpage.Chart {
	if d.several {
		title = tenant + ": " + title
		name += "-" + tenant
	}
	return webpage.Chart{Name: name, Title: title}
}

// byLoad adds a run's throughput, and each tenant's latencies that have an objective, or end to end.
func (d *drawer) byLoad(s *loadgen.Summary) {
	level := levelOf(s)
	if level.Value == 0 {
		return
	}
	x, suffix := "concurrency (users)", "concurrency"
	if level.Unit == unitRate {
		x, suffix = "offered load (requests/s)", "rate"
	}
	d.add(s, webpage.Chart{Name: "throughput-" + suffix, Title: "Throughput by load", X: webpage.Axis{Label: x},
		Caption: "Output tokens per second of successful requests.", Y: webpage.Axis{Label: "output (tokens/s)"}},
		s.Scenario, 0, webpage.Point{X: level.Value, Y: s.OutputTokensPerS})
	for i := range s.Tenants {
		t := &s.Tenants[i]
		for _, b := range bounds {
			f, limit := b.figures(&t.Measures), b.limit(&t.Measures)
			if f.Count > 0 && (limit > 0 || b.metric == loadgen.MetricE2E) {
				like := d.ofTenant(t.Name, "p99-"+string(b.metric)+"-"+suffix, b.name+" by load")
				like.X.Label, like.Y.Label = x, b.name+" P99 (ms)"
				d.add(s, like, s.Scenario, limit, webpage.Point{X: level.Value, Y: float64(f.P99)})
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
		var ys []float64
		for _, p := range points {
			if p.X == points[0].X {
				ys = append(ys, p.Y)
			}
		}
		out = append(out, webpage.Point{X: points[0].X, Y: medianOf(ys), Low: ys[0], High: ys[len(ys)-1]})
		points = points[len(ys):]
	}
	return out
}

// distributions adds those of the latencies that have an objective, or of the usual ones, for each tenant of a run.
func (d *drawer) distributions(r *loadgen.Result) {
	for i := range r.Summary.Tenants {
		t := &r.Summary.Tenants[i]
		for _, b := range bounds {
			limit := b.limit(&t.Measures)
			usual := t.Goodput == nil && b.metric != loadgen.MetricTPOT
			if h := r.Histograms[t.Name][b.metric]; h.Count() > 0 && (limit > 0 || usual) {
				like := d.ofTenant(t.Name, "cdf-"+strings.ReplaceAll(string(b.metric), "_", "-"), b.name+", distribution")
				like.X = webpage.Axis{Label: b.name + " (ms)", Log: true}
				like.Y = webpage.Axis{Label: "requests at or below (share)", Max: 1}
				d.add(&r.Summary, like, r.Summary.Scenario+", "+levelOf(&r.Summary).Text, limit, cdf(h)...)
			}
		}
	}
}

// cdf reads a distribution off at steps that are finer towards its tail.
func cdf(h *loadgen.Histogram) (points []webpage.Point) {
	for q, step := 0.005, 0.005; q < 1+step/2; q += step {
		if q > 0.99-step/2 {
			step = 0.0005
		}
		if v, ok := h.Quantile(min(q, 1)); ok {
			// A logarithmic axis has no place for 0; nothing is measured below 1 µs.
			points = append(points, webpage.Point{X: max(float64(v)/1e6, 0.001), Y: min(q, 1)})
		}
	}
	return points
}

// leastSeconds is the length of the shortest run that is drawn over time.
const leastSeconds = 5

// course adds the seconds of a run.
func (d *drawer) course(r *loadgen.Result) {
	start := int64(math.MaxInt64)
	for _, row := range r.Timeline {
		start = min(start, row.UnixNS)
	}
	for _, row := range r.Timeline {
		run := r.Summary.Scenario + ", " + levelOf(&r.Summary).Text
		if d.several {
			run = r.Summary.Scenario + ": " + row.Tenant
		}
		add := func(name, title, y string, x, v float64) {
			d.add(&r.Summary, webpage.Chart{Name: "timeline-" + name, Title: title, Y: webpage.Axis{Label: y},
				X: webpage.Axis{Label: "time since the run's start (s)"}}, run, 0, webpage.Point{X: x, Y: v})
		}
		at, length := float64(row.UnixNS-start)/1e9, 1.0
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
