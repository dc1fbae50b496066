// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// collector gathers a tenant's figures. Only ended is safe for concurrent use.
type collector struct {
	mu       sync.Mutex
	from, to int64 // the window in Unix ns; to is MaxInt64 for the end of the run
	slo      RequestSLO

	counts     Counts
	sums       Measures // as took and addSums fill them
	met        int64
	metUnknown int64
	firstStart int64 // earliest intended start and latest end of the requests that
	lastEnd    int64 // have a part in the window; 0 without any
	metrics    map[LatencyMetric]*Histogram
	sources    [len(tokenSources)]sourceFigures
	reads      ReadCounts
	timeline   timeline
	cache      PromptCache
}

// tokenSources are the sources for which figures are kept side by side, best
// first: only at the end is it known which of them every request had.
var tokenSources = [...]string{tokensUsage, tokensEvents}

// sourceFigures are the figures that depend on how tokens are counted.
type sourceFigures struct {
	missing int64 // ok requests that lack this source
	present int64
	tokens  float64 // within the window
	good    float64 // of these, of requests that kept the SLO
	unsure  bool    // some requests cannot show whether they did
	bases   map[string]int64
	tpot    *Histogram
	itl     *Histogram
}

func newCollector(from, to, start int64, slo RequestSLO) *collector {
	c := &collector{
		from: from, to: to, slo: slo, counts: Counts{ByClass: map[Class]int64{}},
		timeline: timeline{start: start}, metrics: map[LatencyMetric]*Histogram{},
	}
	for _, m := range latencyMetrics {
		if m == MetricChunkGap || m == metricReadLag {
			c.metrics[m] = newHistogram()
		} else {
			c.metrics[m] = newExactHistogram()
		}
	}
	for i := range c.sources {
		c.sources[i] = sourceFigures{bases: map[string]int64{}, tpot: newExactHistogram(), itl: newHistogram()}
	}
	return c
}

// lags holds the delays of a request's sending that the runner measured; a negative value means not known.
type lags struct{ pacing, send time.Duration }

// ended takes a request that is over. s may be nil when there was no exchange.
func (c *collector) ended(r *Record, s *stream, l lags, tenant *Tenant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onTimeline(r, s)
	var events []event
	if s != nil {
		events = s.events
	}
	if r.Class == ClassOK {
		c.tokensOf(r, s, tenant, c.inside(r.IntendedNS))
	} else {
		c.sums.OutputTokensFailed += int64(c.failedTokens(r, events))
	}
	if r.EndNS >= c.from {
		c.lastEnd = max(c.lastEnd, min(r.EndNS, c.to))
	}
	if !c.inside(r.IntendedNS) {
		return
	}
	if c.firstStart == 0 || r.IntendedNS < c.firstStart {
		c.firstStart = r.IntendedNS
	}
	c.counts.took(r)
	if l.pacing >= 0 {
		c.metrics[metricPacingLag].record(l.pacing)
	}
	if l.send >= 0 {
		c.metrics[metricSendLag].record(l.send)
	}
	if d, ok := between(r.IntendedNS, r.SentNS); ok {
		c.metrics[metricScheduleDelay].record(d)
	}
	if s != nil {
		c.reads.add(s.readCounts())
		lags := c.metrics[metricReadLag]
		for _, lag := range s.lags {
			lags.record(time.Duration(lag))
		}
	}
	if r.Class != ClassOK {
		return
	}
	c.latencies(r, events)
}

func (c *collector) inside(ns int64) bool { return ns >= c.from && ns < c.to }

// latencies records an ok request of the window.
func (c *collector) latencies(r *Record, events []event) {
	switch kept, known := r.meets(c.slo).Get(); {
	case !known:
		c.metUnknown++
	case kept:
		c.met++
	}
	c.sums.took(r)
	c.cache.took(r)
	for _, v := range []struct {
		m        LatencyMetric
		from, to int64
	}{
		{MetricTTFT, r.IntendedNS, r.FirstTokenNS}, {metricTTFTService, r.SentNS, r.FirstTokenNS},
		{metricTTFV, r.IntendedNS, r.FirstVisibleNS},
		{MetricE2E, r.IntendedNS, r.LastTokenNS}, {metricE2EService, r.SentNS, r.LastTokenNS},
		{metricE2EClose, r.IntendedNS, r.EndNS},
		{metricConnected, r.SentNS, r.ConnectedNS}, {metricWritten, r.SentNS, r.WrittenNS},
		{metricFirstByte, r.SentNS, r.FirstByteNS},
	} {
		// A retried request's phases are of its last attempt, and the start of that is unknown here.
		if r.Retries > 0 && slices.Contains(requestPhases, v.m) {
			continue
		}
		if d, ok := between(v.from, v.to); ok {
			c.metrics[v.m].record(d)
		}
	}
	gaps := c.metrics[MetricChunkGap]
	for i := 1; i < len(events); i++ {
		gaps.record(time.Duration(events[i].at - events[i-1].at))
	}
}

// tokensOf keeps the figures that depend on token counts, for each source of counts
// that the request has. latencies is true for a request of the window.
func (c *collector) tokensOf(r *Record, s *stream, tenant *Tenant, latencies bool) {
	kept, known := r.meets(c.slo).Get()
	for i, source := range tokenSources {
		f := &c.sources[i]
		n, basis := 0, "even"
		switch {
		case source == tokensEvents && r.Streamed:
			n, basis = r.Events, "event"
		case source == r.TokenSource:
			n = r.OutputTokens
			if source == tokensUsage && s.continuous() {
				basis = "usage"
			}
		}
		if n <= 0 {
			f.missing++
			continue
		}
		f.present++
		before := f.tokens
		f.add(r, s.events, n, basis, c, latencies)
		f.unsure = f.unsure || !known && f.tokens > before
		if kept {
			f.good += f.tokens - before
		}
	}
}

// add spreads n tokens over the events.
func (f *sourceFigures) add(r *Record, events []event, n int, basis string, c *collector, latencies bool) {
	if !r.Streamed {
		if c.inside(r.LastTokenNS) {
			f.tokens += float64(n)
		}
		return
	}
	if !latencies && r.EndNS < c.from {
		return
	}
	first := 1
	if basis == "usage" {
		first = r.FirstTokens
	}
	if latencies {
		f.bases[basis]++
		if r.LastTokenNS > r.FirstTokenNS && n > first {
			f.tpot.record(time.Duration((r.LastTokenNS - r.FirstTokenNS) / int64(n-first)))
		}
	}
	m := len(events)
	upTo := func(k int) int { // tokens up to and with event k
		switch {
		case k < 0:
			return 0
		case basis == "usage" && k < m-1:
			return int(events[k].tokens)
		case basis == "usage":
			return n // a final report may know of more
		}
		return int(int64(k+1) * int64(n) / int64(m))
	}
	for from, to := 0, 0; from < m; from = to {
		at := events[from].at
		for to = from; to < m && events[to].at == at; {
			to++
		}
		tokens := upTo(to-1) - upTo(from-1)
		if c.inside(at) {
			f.tokens += float64(tokens)
		}
		if !latencies || from == 0 || tokens <= 0 {
			continue
		}
		share := float64(tokens)
		if basis == "even" {
			share = float64(n) * float64(to-from) / float64(m)
		}
		f.itl.recordN(time.Duration(math.Round(float64(at-events[from-1].at)/share)), int64(tokens))
	}
}

// failedTokens counts the tokens that a failed request had delivered inside the window.
func (c *collector) failedTokens(r *Record, events []event) int {
	n, before := 0, int32(0)
	for _, e := range events {
		tokens := int32(1)
		if r.TokenSource == tokensUsage {
			tokens, before = e.tokens-before, e.tokens
		}
		if c.inside(e.at) {
			n += int(tokens)
		}
	}
	return n
}

func (c *collector) onTimeline(r *Record, s *stream) {
	c.timeline.at(r.IntendedNS).offered++
	if r.SentNS != 0 {
		c.timeline.at(r.SentNS).sent++
	}
	end := c.timeline.at(cmp.Or(r.EndNS, r.IntendedNS))
	if r.SentNS != 0 {
		end.ended++
	}
	if r.Class == ClassOK {
		end.done++
	} else {
		end.failed++
	}
	if s == nil {
		return
	}
	if d, ok := r.TTFT(); ok {
		c.timeline.at(r.FirstTokenNS).ttft.add(d, 1)
	}
	if m := int64(len(s.events)); m > 0 && r.Streamed {
		n := int64(max(r.OutputTokens, 1))
		for k := range s.events {
			sec := c.timeline.at(s.events[k].at)
			tokens := (int64(k)+1)*n/m - int64(k)*n/m
			sec.tokens += tokens
			if k > 0 {
				gap := time.Duration(s.events[k].at - s.events[k-1].at)
				sec.itl.add(time.Duration(int64(gap)*m/n), tokens)
			}
		}
	} else if r.LastTokenNS != 0 {
		c.timeline.at(r.LastTokenNS).tokens += int64(r.OutputTokens)
	}
}

// merge adds the figures of other; the windows must be the same.
func (c *collector) merge(other *collector) {
	c.counts.add(&other.counts)
	c.sums.addSums(&other.sums)
	c.met += other.met
	c.metUnknown += other.metUnknown
	c.cache.add(&other.cache)
	if c.firstStart == 0 || other.firstStart != 0 && other.firstStart < c.firstStart {
		c.firstStart = other.firstStart
	}
	c.lastEnd = max(c.lastEnd, other.lastEnd)
	c.reads.add(other.reads)
	for i := range c.metrics {
		c.metrics[i].merge(other.metrics[i])
	}
	for i := range c.sources {
		f, o := &c.sources[i], &other.sources[i]
		f.missing += o.missing
		f.present += o.present
		f.tokens += o.tokens
		f.good += o.good
		f.unsure = f.unsure || o.unsure
		for basis, n := range o.bases {
			f.bases[basis] += n
		}
		f.tpot.merge(o.tpot)
		f.itl.merge(o.itl)
	}
}

// source is the best source that every ok request has.
func (c *collector) source() (string, *sourceFigures) {
	for i, s := range tokenSources {
		if f := &c.sources[i]; f.missing == 0 && f.present > 0 {
			return s, f
		}
	}
	return tokensUnknown, nil
}
