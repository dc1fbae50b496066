package account

import (
	"slices"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// Objective bounds the latencies of good requests in seconds; what is missing is not asked of them.
type Objective struct{ TTFT, TPOT, E2E telemetry.Optional[float64] }

// good returns the part of the requests between two pages that kept the objective, 0 to 1. A page has a histogram
// of each latency, so that the part is known to a bucket, and where several latencies count, to how far they may
// overlap. It answers false where a latency that counts was not observed.
func (o Objective) good(d *serving.Reading) (low, high float64, ok bool) {
	low, high = 1, 1
	for _, c := range []struct {
		limit telemetry.Optional[float64]
		of    *serving.Histogram
	}{{o.TTFT, d.TTFT}, {o.TPOT, d.TPOT}, {o.E2E, d.E2E}} {
		limit, counts := c.limit.Get()
		if !counts {
			continue
		}
		if c.of == nil || c.of.Count == 0 {
			return 0, 0, false
		}
		few, many := c.of.AtMost(limit)
		low += float64(few)/float64(c.of.Count) - 1
		high = min(high, float64(many)/float64(c.of.Count))
	}
	return min(max(low, 0), high), high, true
}

// unjudged holds the tokens of a replica since its requests were judged last.
type unjudged struct {
	since  serving.Reading
	tokens float64
}

// judge counts the tokens of good requests, taking these to be as long as the others. Tokens of which it cannot be
// told any more whether they were good, since their server was restarted, count as what there is at most.
func (d *served) judge(o Objective, now *serving.Reading, generated float64) {
	i := slices.IndexFunc(d.open, func(u unjudged) bool { return u.since.Same(now) })
	if i < 0 {
		d.open = append(d.open, unjudged{})
		i = len(d.open) - 1
		if generated == 0 { // the first page
			d.open[i].since = *now
			return
		}
	}
	u := &d.open[i]
	u.tokens += generated
	low, high, ok := 0.0, 1.0, true
	if between, err := now.Since(u.since); err == nil {
		low, high, ok = o.good(&between)
	}
	if ok {
		d.counted.GoodLow = telemetry.Some(d.counted.GoodLow.Or(0) + low*u.tokens)
		d.counted.GoodHigh = telemetry.Some(d.counted.GoodHigh.Or(0) + high*u.tokens)
		*u = unjudged{since: *now}
	}
	pending := 0.0
	for _, u := range d.open {
		pending += u.tokens
	}
	d.counted.Pending = telemetry.Some(pending)
}

// resume takes up the tokens of another run. What was not judged then never will be.
func (t Tokens) resume() Tokens {
	if n, ok := t.Pending.Get(); ok && n > 0 {
		t.GoodHigh = add(t.GoodHigh, t.Pending)
	}
	t.Pending = telemetry.Optional[float64]{}
	return t
}
