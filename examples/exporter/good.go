package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// objective is what a tenant's requests are to keep, in seconds; missing where
// anything is good.
type objective struct{ ttft, tpot, e2e telemetry.Optional[float64] }

// parseObjective reads NAMESPACE/POD/CONTAINER=ttft:500ms,tpot:30ms,e2e:10s.
func parseObjective(s string) (container.Pod, objective, error) {
	who, list, ok := strings.Cut(s, "=")
	pod, named := parsePod(who)
	var o objective
	for part := range strings.SplitSeq(list, ",") {
		name, text, _ := strings.Cut(part, ":")
		to := map[string]*telemetry.Optional[float64]{"ttft": &o.ttft, "tpot": &o.tpot, "e2e": &o.e2e}[name]
		d, err := time.ParseDuration(text)
		if !ok || !named || to == nil || !to.IsZero() || err != nil || d <= 0 {
			return pod, o, fmt.Errorf("-objective: %q (use NAMESPACE/POD/CONTAINER=ttft:500ms,tpot:30ms,e2e:10s, or some of the three)", s)
		}
		*to = telemetry.Some(d.Seconds())
	}
	return pod, o, nil
}

// objects takes the objectives; each is of a server whose page is read.
func (s *servers) objects(args []string) error {
	for _, arg := range args {
		pod, o, err := parseObjective(arg)
		if err != nil {
			return err
		}
		if _, ok := s.pages[pod]; !ok {
			return fmt.Errorf("-objective: %q: there is no -serving of that container", arg)
		}
		if _, twice := s.objectives[pod]; twice {
			return fmt.Errorf("-objective: %q: there are two of that container", arg)
		}
		s.objectives[pod] = o
	}
	return nil
}

// good is the part of the requests between two pages that kept the objective, 0
// to 1. A page has a histogram of each latency, so that the part is known to a
// bucket, and where several latencies count, to how far they may overlap. It
// answers false where a latency that counts was not observed.
func (o objective) good(d *serving.Reading) (low, high float64, ok bool) {
	low, high = 1, 1
	for _, c := range []struct {
		limit telemetry.Optional[float64]
		of    *serving.Histogram
	}{{o.ttft, d.TTFT}, {o.tpot, d.TPOT}, {o.e2e, d.E2E}} {
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
	return max(low, 0), high, true
}

// unjudged is what a replica has generated since its requests were judged last.
type unjudged struct {
	since  serving.Reading
	tokens float64
}

// judge counts the tokens of good requests, taking these to be as long as the
// others. Tokens of which it cannot be told any more whether they were good,
// since their server was restarted, count as what there is at most.
func (d *served) judge(o objective, now *serving.Reading, generated float64) {
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
		d.counted.goodLow = telemetry.Some(d.counted.goodLow.Or(0) + low*u.tokens)
		d.counted.goodHigh = telemetry.Some(d.counted.goodHigh.Or(0) + high*u.tokens)
		*u = unjudged{since: *now}
	}
	pending := 0.0
	for _, u := range d.open {
		pending += u.tokens
	}
	d.counted.pending = telemetry.Some(pending)
}

// resume takes up the tokens of another run. What was not judged then never will
// be.
func (t tokens) resume() tokens {
	if n, ok := t.pending.Get(); ok && n > 0 {
		t.goodHigh = add(t.goodHigh, t.pending)
	}
	t.pending = telemetry.Optional[float64]{}
	return t
}
