package usage

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	exact = 512 // the number of samples that are kept as they are
	// digits of the histogram after that: its percentiles lie at most 1/128 above the
	// truth (128 steps to a power of two).
	digits = 2
)

// sketch holds the distribution of a figure. The zero sketch is empty.
type sketch struct {
	few      []float32 // in units of the resolution, until there are too many
	hist     *hdrhistogram.Histogram
	n        int64
	sum      float64
	min, max float64
}

func (s *sketch) add(f Figure, v float64) {
	if s.n == 0 || v < s.min {
		s.min = v
	}
	if s.n == 0 || v > s.max {
		s.max = v
	}
	s.n++
	s.sum += v
	u := v / f.resolution()
	if s.hist != nil {
		_ = s.hist.RecordValue(int64(math.Round(u))) // below its limit: add refused the rest
		return
	}
	s.few = append(s.few, float32(u))
	if len(s.few) > exact {
		s.spill(f)
	}
}

// spill moves what is kept into a histogram.
func (s *sketch) spill(f Figure) {
	s.hist = hdrhistogram.New(1, int64(f.limit()/f.resolution())+1, digits)
	for _, u := range s.few {
		_ = s.hist.RecordValue(int64(math.Round(float64(u))))
	}
	s.few = nil
}

// merge adds another sketch of the same figure.
func (s *sketch) merge(f Figure, o *sketch) {
	if o.n == 0 {
		return
	}
	if s.n == 0 {
		s.min, s.max = o.min, o.max
	}
	s.min, s.max = min(s.min, o.min), max(s.max, o.max)
	s.n += o.n
	s.sum += o.sum
	if s.hist == nil && o.hist == nil && len(s.few)+len(o.few) <= exact {
		s.few = append(s.few, o.few...)
		return
	}
	if s.hist == nil {
		s.spill(f)
	}
	if o.hist != nil {
		s.hist.Merge(o.hist)
		return
	}
	for _, u := range o.few {
		_ = s.hist.RecordValue(int64(math.Round(float64(u))))
	}
}

// quantiles are the smallest values that so many of the samples do not exceed.
func (s *sketch) quantiles(f Figure, qs ...float64) []float64 {
	out := make([]float64, len(qs))
	sorted := slices.Sorted(slices.Values(s.few))
	for i, q := range qs {
		var v float64
		rank := max(math.Ceil(q*float64(s.n)), 1)
		if s.hist != nil { // its own rounding of ranks may fall one short
			v = float64(s.hist.ValueAtPercentile(100*rank/float64(s.n))) * f.resolution()
		} else if len(sorted) > 0 {
			v = float64(sorted[int(rank)-1]) * f.resolution()
		}
		out[i] = min(max(v, s.min), s.max)
	}
	return out
}
