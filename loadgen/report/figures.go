package report

import (
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/loadgen"
)

// Figure describes a drawing of curves; the examples' chart package draws one.
type Figure struct {
	Name, Title, Caption string
	X, Y                 string // the axes' labels
	Lines                []Line
	Simulated            bool
	LogX, LogY           bool
	Levels               bool    // x holds a few levels of load: one tick for each
	YMax                 float64 // 1 for shares; 0: by the data
}

// Line is a curve of a Figure.
type Line struct {
	Name   string
	Points []Point
	Dots   bool // each point is marked
}

// Point is a point of a Line, in the units of the axes.
type Point struct{ X, Y float64 }

// Figures returns the figures that runs have data for: throughput and P99 latency by
// load, and distributions and courses of the highest load of each scenario.
func Figures(results []*loadgen.Result) []Figure {
	chosen := highestLoads(results)
	return slices.Concat(studyFigures(ScenariosOf(results)), cdfFigures(chosen), timelineFigures(chosen))
}

// studyFigures returns throughput and P99 latency by scenario and load.
func studyFigures(rows Scenarios) []Figure {
	var figures []Figure
	for _, unit := range []string{UnitUsers, UnitRate} {
		x, suffix := "Concurrency (users)", "concurrency"
		if unit == UnitRate {
			x, suffix = "Offered load (requests/s)", "rate"
		}
		throughput := Figure{
			Name: "throughput-" + suffix, Title: "Throughput by scenario", X: x, Y: "Output tokens/s", Levels: true,
			Caption: "Output tokens per second of successful requests; the median where a point was repeated.",
		}
		p99 := Figure{
			Name: "p99-" + suffix, Title: "P99 latency by scenario", X: x, Y: "P99 end-to-end latency (s)", Levels: true,
			Caption: "99th percentile of e2e, from the scheduled start to the last token.",
		}
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
		for _, c := range []Figure{throughput, p99} {
			if len(c.Lines) > 0 {
				figures = append(figures, c)
			}
		}
	}
	return figures
}

// add puts a point on the named line.
func (c *Figure) add(name string, x, y float64, simulated bool) {
	c.Simulated = c.Simulated || simulated
	i := slices.IndexFunc(c.Lines, func(l Line) bool { return l.Name == name })
	if i < 0 {
		i = len(c.Lines)
		c.Lines = append(c.Lines, Line{Name: name, Dots: true})
	}
	c.Lines[i].Points = append(c.Lines[i].Points, Point{X: x, Y: y})
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

// curveName names a tenant's curve of a run.
func curveName(r *loadgen.Result, tenant string) string {
	if len(r.Summary.Tenants) > 1 {
		return strings.TrimPrefix(r.Summary.Scenario+": "+tenant, ": ")
	}
	return r.Summary.Scenario + ", " + LevelOf(&r.Summary).Text
}

var cdfMetrics = []struct {
	metric         loadgen.LatencyMetric
	title, caption string
}{
	{loadgen.MetricTTFT, "Time to first token", "From the intended start of a request to its first content."},
	{loadgen.MetricChunkGap, "Gap between chunks", "From one event with content to the next, gaps of all requests."},
	{loadgen.MetricE2E, "End-to-end latency", "From the intended start of a request to its last content."},
}

func cdfFigures(results []*loadgen.Result) []Figure {
	var figures []Figure
	for _, m := range cdfMetrics {
		c := Figure{
			Name: "cdf-" + strings.ReplaceAll(m.metric.String(), "_", "-"), Title: m.title + ", distribution",
			X: m.metric.String() + " (ms, logarithmic)", Y: "Share at or below", LogX: true, YMax: 1,
			Caption: m.caption,
		}
		for _, r := range results {
			for _, th := range r.Histograms {
				h := th.ByMetric[m.metric]
				if h == nil || h.Count() == 0 {
					continue
				}
				c.Simulated = c.Simulated || synthetic(&r.Summary)
				c.Lines = append(c.Lines, Line{Name: curveName(r, th.Tenant), Points: cdf(h)})
			}
		}
		if len(c.Lines) > 0 {
			figures = append(figures, c)
		}
	}
	return figures
}

// cdf reads a distribution off at steps that are finer towards its tail.
func cdf(h *loadgen.Histogram) []Point {
	var xy []Point
	add := func(q float64) {
		if v, ok := h.Quantile(q); ok {
			// A logarithmic axis has no place for 0; nothing is measured below 1 µs.
			xy = append(xy, Point{X: max(float64(v)/1e6, 0.001), Y: q})
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

func timelineFigures(results []*loadgen.Result) []Figure {
	tokens := Figure{Name: "timeline-tokens", Title: "Tokens over time", X: "Seconds since the run's start", Y: "Tokens/s",
		Caption: "Tokens by the second in which their event came, of all requests, failed ones too."}
	flight := Figure{
		Name: "timeline-in-flight", Title: "Requests in flight over time", X: tokens.X, Y: "Requests in flight",
		Caption: "Requests sent and not ended at the end of each second.",
	}
	ttft := Figure{Name: "timeline-ttft", Title: "TTFT over time", X: tokens.X, Y: "TTFT P99 in the second (ms)",
		Caption: "99th percentile of ttft of the requests whose first token came in the second."}
	for _, r := range results {
		simulated := synthetic(&r.Summary)
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
				tokens.add(name, at, float64(row.Tokens)/length, simulated)
			}
			flight.add(name, at+length, float64(row.InFlight), simulated)
			if d, ok := row.TTFTP99.Get(); ok {
				ttft.add(name, at, float64(d)/1e6, simulated)
			}
		}
	}
	var figures []Figure
	for _, c := range []Figure{tokens, flight, ttft} {
		// Two or three points show no course of time.
		if slices.ContainsFunc(c.Lines, func(l Line) bool { return len(l.Points) >= leastSeconds }) {
			figures = append(figures, c)
		}
	}
	return figures
}
