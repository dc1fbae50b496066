package usage

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// noTime is the time of a sample that has none.
const noTime = math.MinInt64

// firstDeltas is the number of intervals between samples that teach the
// usual one; a gap is longer than gapFactor of those.
const (
	firstDeltas = 16
	gapFactor   = 3
	maxSegments = 1000
)

// segment is a stretch of samples in order of time. Files may come in any
// order: what lies before or after all that was seen begins a new one.
type segment struct {
	from, to    int64 // ms
	first, last float64
	growth      float64 // of a counter
	resets      int
	gaps        int
}

// acc is one figure of one tenant.
type acc struct {
	sketch
	segments []segment
	cur      int
	deltas   []int32 // the first intervals, ms
	usual    int64   // the usual interval, once it is known
	untimed  struct {
		n           int64
		first, last float64
	}
	refused [refusalEnd]int32
}

// check returns the reason why a value is impossible. Percentages a little above 100, as
// profiling counters give them, are 100.
func (f Figure) check(v float64) (float64, Refusal) {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return v, RefusalNotNumber
	case v < 0:
		return v, RefusalNegative
	case f.percent() && v > 100 && v <= 101:
		return 100, 0
	case v > f.limit():
		return v, RefusalOver
	}
	return v, 0
}

// add takes a sample that can be, and returns by how much a counter grew.
func (a *acc) add(f Figure, ms int64, v float64) (grown float64, ok bool) {
	if ms == noTime {
		if a.untimed.n == 0 {
			a.untimed.first = v
		}
		a.untimed.n, a.untimed.last = a.untimed.n+1, v
	} else if grown, ok = a.place(ms, v); !ok {
		a.refused[RefusalOrder]++
		return 0, false
	}
	if f == FigureEnergy { // a counter's values have no distribution
		a.n++
	} else {
		a.sketch.add(f, v)
	}
	return grown, true
}

// place finds the sample's segment.
func (a *acc) place(ms int64, v float64) (grown float64, ok bool) {
	if a.cur < len(a.segments) {
		s := &a.segments[a.cur]
		if ms > s.to && !a.within(ms, a.cur) {
			delta := ms - s.to
			a.interval(s, delta)
			if grown = v - s.last; grown < 0 {
				s.resets++
				grown = v // the counter began again at zero
			}
			s.growth += grown
			s.to, s.last = ms, v
			return grown, true
		}
	}
	if a.within(ms, -1) || len(a.segments) >= maxSegments {
		return 0, false
	}
	a.cur = len(a.segments)
	a.segments = append(a.segments, segment{from: ms, to: ms, first: v, last: v})
	return 0, true
}

// within reports whether a time lies in a segment other than one, or after a
// segment that begins after that one.
func (a *acc) within(ms int64, but int) bool {
	for i := range a.segments {
		s := &a.segments[i]
		if i != but && ms >= s.from && (ms <= s.to || but >= 0 && s.from > a.segments[but].to) {
			return true
		}
	}
	return false
}

func (a *acc) interval(s *segment, delta int64) {
	if a.usual == 0 {
		a.deltas = append(a.deltas, int32(min(delta, math.MaxInt32)))
		if len(a.deltas) < firstDeltas {
			return
		}
		a.settle()
		return
	}
	if delta > gapFactor*a.usual {
		s.gaps++
	}
}

// settle learns the usual interval from the first ones.
func (a *acc) settle() {
	usual, gaps := a.learned()
	if usual > 0 && len(a.deltas) > 0 {
		a.segments[0].gaps += gaps
	}
	a.usual, a.deltas = usual, nil
}

// learned is the usual interval, and how many of the first ones were gaps.
func (a *acc) learned() (usual int64, gaps int) {
	if len(a.deltas) == 0 {
		return a.usual, 0
	}
	sorted := slices.Sorted(slices.Values(a.deltas))
	usual = int64(sorted[len(sorted)/2])
	for _, d := range a.deltas {
		if int64(d) > gapFactor*usual {
			gaps++
		}
	}
	return usual, gaps
}

// merge adds what another series of the same figure said, at other times. The
// other one stays as it is.
func (a *acc) merge(f Figure, o *acc) {
	if f == FigureEnergy {
		a.n += o.n
	} else {
		a.sketch.merge(f, &o.sketch)
	}
	usual, gaps := o.learned()
	if len(o.segments) > 0 {
		a.segments = append(a.segments, o.segments...)
		a.segments[len(a.segments)-1].gaps += gaps
	}
	a.usual = max(a.usual, usual)
	if o.untimed.n > 0 {
		if a.untimed.n == 0 {
			a.untimed.first = o.untimed.first
		}
		a.untimed.n, a.untimed.last = a.untimed.n+o.untimed.n, o.untimed.last
	}
	for i, n := range o.refused {
		a.refused[i] += n
	}
}

// statistics reduces the series.
func (a *acc) statistics(f Figure) Statistics {
	s := Statistics{N: a.n, Error: a.err(), First: a.untimed.first, Last: a.untimed.last}
	if f != FigureEnergy && a.n > 0 {
		q := a.quantiles(f, 0.5, 0.95)
		s.P50, s.P95, s.Min, s.Max, s.Mean = q[0], q[1], a.min, a.max, a.sum/float64(a.n)
	}
	segs := slices.SortedFunc(slices.Values(a.segments), func(x, y segment) int { return cmp.Compare(x.from, y.from) })
	for i := range segs {
		g := &segs[i]
		s.Gaps, s.Resets, s.Growth = s.Gaps+g.gaps, s.Resets+g.resets, s.Growth+g.growth
		if i == 0 {
			s.First, s.From = g.first, stamp(g.from)
		} else {
			before := &segs[i-1]
			if a.usual > 0 && g.from-before.to > gapFactor*a.usual {
				s.Gaps++
			}
			if g.first >= before.last {
				s.Growth += g.first - before.last
			} else {
				s.Resets++
			}
		}
		s.Last, s.To = g.last, stamp(g.to)
	}
	if f != FigureEnergy {
		s.Resets, s.Growth = 0, 0
	}
	for r, n := range a.refused {
		if n > 0 {
			if s.Refused == nil {
				s.Refused = map[Refusal]int{}
			}
			s.Refused[Refusal(r)] = int(n)
		}
	}
	s.Interval = time.Duration(a.usual) * time.Millisecond
	return s
}

func stamp(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
