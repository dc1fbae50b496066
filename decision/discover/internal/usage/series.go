package usage

import (
	"math"
	"time"
)

const noTime = math.MinInt64 // the time of a sample that has none

const maxSegments = 1000 // bound of the segments of one figure of one tenant

// segment is a stretch of samples in order of time, in ms. Files may come in any
// order: what lies before or after all that was seen begins a new one.
type segment struct{ from, to int64 }

// acc is one figure of one tenant.
type acc struct {
	sketch
	segments []segment
	cur      int
	refused  [refusalEnd]int32
}

// check returns the reason why a value is impossible. Percentages a little above 100, as
// profiling counters give them, are 100.
func (f Figure) check(v float64) (float64, Refusal) {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return v, RefusalNotNumber
	case v < 0:
		return v, RefusalNegative
	case f != FigureMemUsed && v > 100 && v <= 101:
		return 100, 0
	case v > f.limit():
		return v, RefusalOver
	}
	return v, 0
}

// add takes a sample that can be; it answers false for one that is not after those before it.
func (a *acc) add(f Figure, ms int64, v float64) bool {
	if ms != noTime && !a.place(ms) {
		a.refused[RefusalOrder]++
		return false
	}
	a.sketch.add(f, v)
	return true
}

// place finds the sample's segment.
func (a *acc) place(ms int64) bool {
	if a.cur < len(a.segments) {
		if s := &a.segments[a.cur]; ms > s.to && !a.within(ms, a.cur) {
			s.to = ms
			return true
		}
	}
	if a.within(ms, -1) || len(a.segments) >= maxSegments {
		return false
	}
	a.cur = len(a.segments)
	a.segments = append(a.segments, segment{ms, ms})
	return true
}

// within reports whether a time lies in a segment other than one, or after a segment that begins after that one.
func (a *acc) within(ms int64, but int) bool {
	for i := range a.segments {
		s := &a.segments[i]
		if i != but && ms >= s.from && (ms <= s.to || but >= 0 && s.from > a.segments[but].to) {
			return true
		}
	}
	return false
}

// merge adds what another series of the same figure said, at other times. The other one stays as it is.
func (a *acc) merge(f Figure, o *acc) {
	a.sketch.merge(f, &o.sketch)
	a.segments = append(a.segments, o.segments...)
	for i, n := range o.refused {
		a.refused[i] += n
	}
}

// statistics reduces the series.
func (a *acc) statistics(f Figure) Statistics {
	s := Statistics{N: a.n}
	if a.n > 0 {
		q := a.quantiles(f, 0.5, 0.95)
		s.P50, s.P95, s.Max, s.Mean = q[0], q[1], a.max, a.sum/float64(a.n)
	}
	if len(a.segments) > 0 {
		from, to := int64(math.MaxInt64), int64(math.MinInt64)
		for _, g := range a.segments {
			from, to = min(from, g.from), max(to, g.to)
		}
		s.From, s.To = stamp(from), stamp(to)
	}
	for r, n := range a.refused {
		if n > 0 {
			if s.Refused == nil {
				s.Refused = map[Refusal]int{}
			}
			s.Refused[Refusal(r)] = int(n)
		}
	}
	return s
}

func stamp(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
