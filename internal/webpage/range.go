package webpage

import "math"

// Range holds the ends of an axis and its steps; nil are steps that whoever draws it may choose.
type Range struct {
	Min, Max float64
	Ticks    []float64
}

// margin is the length of an axis relative to its data.
const margin = 1.05

// Ranges returns the ranges of a chart's axes.
func (c *Chart) Ranges() (x, y Range) {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
			if p.High > p.Low {
				ys = append(ys, p.Low, p.High)
			}
		}
	}
	for _, l := range c.Limits {
		if l.Vertical {
			xs = append(xs, l.At)
		} else {
			ys = append(ys, l.At)
		}
	}
	if c.Diagonal {
		xs, ys = append(xs, ys...), append(ys, xs...)
	}
	return c.X.span(xs), c.Y.span(ys)
}

// shows says whether an axis has a place for a value.
func (a *Axis) shows(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) && (v > 0 || !a.Log) }

func (a *Axis) span(values []float64) Range {
	r := Range{Min: math.Inf(1), Max: math.Inf(-1), Ticks: a.Ticks}
	for _, v := range values {
		if a.shows(v) {
			r.Min, r.Max = min(r.Min, v), max(r.Max, v)
		}
	}
	switch {
	case r.Min > r.Max:
		r.Min, r.Max = 1, 10
	case a.Log:
		r.Min, r.Max = r.Min/margin, r.Max*margin
	default:
		r.Min = min(r.Min*margin, 0)
		if r.Max *= margin; r.Max <= r.Min {
			r.Max = r.Min + 1
		}
	}
	if a.Min != 0 {
		r.Min = a.Min
	}
	if a.Max != 0 {
		r.Max = a.Max
	}
	if a.Log && a.Ticks == nil {
		r.Ticks = logTicks(r.Min, r.Max)
	}
	return r
}

// logTicks are 1, 2 and 5 of each decade, or even steps where the axis is too short for them.
func logTicks(low, high float64) (at []float64) {
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= low && v <= high {
				at = append(at, v)
			}
		}
	}
	if len(at) >= 4 {
		return at
	}
	at = nil
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, m := range []float64{2, 5, 10} {
		if (high-low)/step > 7 {
			step = m * math.Pow(10, math.Floor(math.Log10((high-low)/5)))
		}
	}
	for i := math.Ceil(low / step); i*step <= high; i++ {
		at = append(at, i*step)
	}
	return at
}
