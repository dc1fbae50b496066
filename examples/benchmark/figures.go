package main

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// drawAll draws every figure that the runs have data for.
func drawAll(results []*loadgen.Result) ([]picture, error) {
	charts := studyCharts(report.ScenariosOf(results))
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
func studyCharts(rows report.Scenarios) []chart {
	var charts []chart
	for _, unit := range []string{report.UnitUsers, report.UnitRate} {
		x, suffix := "Concurrency (users)", "concurrency"
		if unit == report.UnitRate {
			x, suffix = "Offered load (requests/s)", "rate"
		}
		throughput := chart{name: "throughput-" + suffix, title: "Throughput by scenario", x: x, y: "Output tokens/s", levels: true,
			caption: "Output tokens per second of successful requests; the median where a point was repeated."}
		p99 := chart{name: "p99-" + suffix, title: "P99 latency by scenario", x: x, y: "P99 end-to-end latency (s)", levels: true,
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
			if report.LevelOf(&r.Summary).Value < report.LevelOf(&have.Summary).Value {
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
	name := r.Summary.Scenario + ", " + report.LevelOf(&r.Summary).Text
	if len(r.Summary.Tenants) > 1 {
		name = strings.TrimPrefix(r.Summary.Scenario+": "+tenant, ": ")
	}
	return name
}

var cdfMetrics = []struct {
	metric         loadgen.LatencyMetric
	title, caption string
}{
	{loadgen.MetricTTFT, "Time to first token", "From the intended start of a request to its first content."},
	{loadgen.MetricChunkGap, "Gap between chunks", "From one event with content to the next, all requests' gaps together."},
	{loadgen.MetricE2E, "End-to-end latency", "From the intended start of a request to its last content."},
}

func cdfCharts(results []*loadgen.Result) []chart {
	var charts []chart
	for _, m := range cdfMetrics {
		c := chart{name: "cdf-" + strings.ReplaceAll(m.metric.String(), "_", "-"), title: m.title + ", distribution",
			x: m.metric.String() + " (ms, logarithmic)", y: "Share at or below", logX: true, yMax: 1, caption: m.caption}
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

// leastSeconds is the length of the shortest run whose course is drawn.
const leastSeconds = 5

func timelineCharts(results []*loadgen.Result) []chart {
	tokens := chart{name: "timeline-tokens", title: "Tokens over time", x: "Seconds since the run's start", y: "Tokens/s",
		caption: "Tokens by the second in which their event came, of all requests, failed ones too."}
	flight := chart{name: "timeline-in-flight", title: "Requests in flight over time", x: tokens.x, y: "Requests in flight",
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
			length := 1.0
			if rest := float64(r.Summary.Window.ToNS-row.UnixNS) / 1e9; rest < 1 && !r.Summary.Window.Cut {
				length = rest // the last second of a run is shorter
			}
			if length >= 0.1 {
				tokens.add(name, at, float64(row.Tokens)/length, synthetic)
			}
			flight.add(name, at+length, float64(row.InFlight), synthetic)
			if d, ok := row.TTFTP99.Get(); ok {
				ttft.add(name, at, float64(d)/1e6, synthetic)
			}
		}
	}
	var charts []chart
	for _, c := range []chart{tokens, flight, ttft} {
		// Two or three points show no course of time.
		if slices.ContainsFunc(c.lines, func(l line) bool { return len(l.points) >= leastSeconds }) {
			charts = append(charts, c)
		}
	}
	return charts
}
