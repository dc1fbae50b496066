// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	_ "embed" // the definitions
	"encoding/json"
	"maps"
	"math"
	"sync"

	"github.com/cotenant/cotenant/internal/optional"
)

// histograms returns the collector's distributions, with the token-dependent ones of the chosen source.
func (c *collector) histograms() map[LatencyMetric]*Histogram {
	out := maps.Clone(c.metrics)
	_, f := c.source()
	if f == nil {
		return out
	}
	out[MetricTPOT], out[MetricITL] = f.tpot, f.itl
	return out
}

// basis names how itl got its tokens, "mixed" when requests differ.
func (f *sourceFigures) basis() string {
	basis := ""
	for b := range f.bases {
		if basis != "" {
			return "mixed"
		}
		basis = b
	}
	return basis
}

// interval is the part of the run that the figures cover.
func (c *collector) interval() (from, to int64) {
	from = c.firstStart
	if c.from > 0 {
		from = c.from
	}
	return from, max(from, c.lastEnd)
}

// measures computes the figures; slo is nil where no goodput is wanted.
func (c *collector) measures(slo *RequestSLO) Measures {
	m := c.sums
	m.Counts = Counts{ByClass: map[Class]int64{}}
	m.Counts.add(&c.counts)
	if c.cache.Requests > 0 {
		m.PromptCache = &c.cache
	}
	from, to := c.interval()
	m.DurationS = float64(to-from) / 1e9
	source, f := c.source()
	m.TokenSource = source
	if f != nil {
		m.OutputTokens, m.ITLBasis = int64(math.Round(f.tokens)), f.basis()
	}
	m.fill(c.histograms())
	if slo != nil && *slo != (RequestSLO{}) && m.Counts.Total > 0 {
		m.Goodput = &Goodput{
			SLO: slo.figures(), Of: m.Counts.Total, Met: c.met, Unknown: c.metUnknown,
		}
		switch {
		case c.metUnknown > 0:
		case f == nil:
			m.Goodput.OutputTokens = optional.Of(int64(0))
		case !f.unsure:
			m.Goodput.OutputTokens = optional.Of(int64(math.Round(f.good)))
		}
	}
	m.rates()
	return m
}

// MetricFigures are the figures of one distribution.
type MetricFigures struct {
	Metric LatencyMetric
	*Figures
}

// Distributions returns pointers to the figures of every distribution of m, in a report's order, including empty ones.
func (m *Measures) Distributions() []MetricFigures {
	return []MetricFigures{
		{MetricTTFT, &m.TTFT}, {metricTTFTService, &m.TTFTService}, {metricTTFV, &m.TTFV}, {MetricTPOT, &m.TPOT},
		{MetricChunkGap, &m.ChunkGap}, {MetricITL, &m.ITL}, {MetricE2E, &m.E2E}, {metricE2EService, &m.E2EService},
		{metricE2EClose, &m.E2EClose}, {metricScheduleDelay, &m.ScheduleDelay}, {metricConnected, &m.Connected},
		{metricWritten, &m.Written}, {metricFirstByte, &m.FirstByte},
	}
}

// fill computes the distributions' figures. Counts must be there already.
func (m *Measures) fill(h map[LatencyMetric]*Histogram) {
	for _, d := range m.Distributions() {
		*d.Figures = h[d.Metric].Figures()
	}
}

// LatencyMetric names a distribution of a tenant; Definitions has the meaning of each.
type LatencyMetric string

// The metrics. Those of a request's phases and of the client have names only in a summary and in ByMetric.
const (
	MetricTTFT          LatencyMetric = "ttft"
	metricTTFTService   LatencyMetric = "ttft_service"
	metricTTFV          LatencyMetric = "ttfv"
	MetricTPOT          LatencyMetric = "tpot"
	MetricITL           LatencyMetric = "itl"
	MetricChunkGap      LatencyMetric = "chunk_gap"
	MetricE2E           LatencyMetric = "e2e"
	metricE2EService    LatencyMetric = "e2e_service"
	metricE2EClose      LatencyMetric = "e2e_close"
	metricScheduleDelay LatencyMetric = "schedule_delay"
	metricConnected     LatencyMetric = "connected"  // connection ready, from the actual start
	metricWritten       LatencyMetric = "written"    // request written, from the actual start
	metricFirstByte     LatencyMetric = "first_byte" // answer's headers, from the actual start
	metricPacingLag     LatencyMetric = "pacing_lag" // pacer's wake-up after the intended start
	metricSendLag       LatencyMetric = "send_lag"   // actual start after the request could have started
	metricReadLag       LatencyMetric = "read_lag"   // read by the client after the kernel had received it
)

// latencyMetrics lists the metrics in the order of a run's files.
var latencyMetrics = []LatencyMetric{MetricTTFT, metricTTFTService, metricTTFV, MetricTPOT, MetricITL, MetricChunkGap,
	MetricE2E, metricE2EService, metricE2EClose, metricScheduleDelay, metricConnected, metricWritten, metricFirstByte,
	metricPacingLag, metricSendLag, metricReadLag}

// requestPhases are the metrics of an attempt's phases.
var requestPhases = []LatencyMetric{metricConnected, metricWritten, metricFirstByte}

//go:embed definitions.json
var definitionsJSON []byte

// definitions are read once; a test holds that there is one for each metric.
var definitions = sync.OnceValue(func() (all map[string]string) {
	_ = json.Unmarshal(definitionsJSON, &all)
	return all
})

// Definitions returns the meaning of each figure of a summary, by its name. It is written into every summary.
func Definitions() map[string]string { return maps.Clone(definitions()) }

// addGoodput adds a tenant's goodput; rates come later.
func (m *Measures) addGoodput(o *Measures) {
	if o.Goodput == nil {
		return
	}
	m.Goodput = cmp.Or(m.Goodput, &Goodput{SLO: o.Goodput.SLO, OutputTokens: optional.Of(int64(0))})
	if m.Goodput.SLO != o.Goodput.SLO {
		m.Goodput.SLO = SLOFigures{}
	}
	m.Goodput.Of += cmp.Or(o.Goodput.Of, o.Counts.Total) // older summaries do not say
	m.Goodput.Met += o.Goodput.Met
	m.Goodput.Unknown += o.Goodput.Unknown
	have, ok := m.Goodput.OutputTokens.Get()
	more, known := o.Goodput.OutputTokens.Get()
	m.Goodput.OutputTokens = Optional[int64]{}
	if ok && known {
		m.Goodput.OutputTokens = optional.Of(have + more)
	}
}

// rates computes the rates from counts and duration.
func (m *Measures) rates() {
	m.PromptCache.rate()
	if g := m.Goodput; g != nil && g.Unknown == 0 && g.Of > 0 {
		g.Fraction = optional.Of(float64(g.Met) / float64(g.Of))
	}
	if m.DurationS <= 0 {
		return
	}
	m.OfferedPerS = float64(m.Counts.Total) / m.DurationS
	m.CompletedPerS = float64(m.Counts.OK) / m.DurationS
	m.OutputTokensPerS = float64(m.OutputTokens) / m.DurationS
	if g := m.Goodput; g != nil && g.Unknown == 0 {
		g.PerS = optional.Of(float64(g.Met) / m.DurationS)
		if n, ok := g.OutputTokens.Get(); ok {
			g.OutputTokensPerS = optional.Of(float64(n) / m.DurationS)
		}
	}
}
