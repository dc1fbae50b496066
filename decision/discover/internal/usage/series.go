package usage

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
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

// What a slot knows of a tenant or a device.
const (
	slotUtil    = 1 << iota // a utilization, of any kind
	slotBusy                // something ran
	slotMem                 // its memory
	slotHeld                // a program was resident
	slotGPUUtil             // NVML's utilization, which the exporter may give of a pod's own processes
	slotGPUBusy             // of that, something ran
)

// The thresholds are those of telemetry's idle detection: a device is busy from 5 percent of utilization or 2 percent
// of SMs or memory bandwidth, and a program is resident from 1 GiB.
const (
	busyPercent = 5
	workPercent = 2
	heldBytes   = 1 << 30
)

const slotTime = time.Minute // the resolution of busy and idle time

const maxSlots = 400 * 24 * 60 // bound of a window: 400 days of minutes

// slots are flags by time, or by page for samples without one. The zero slots are empty.
type slots struct {
	base  int64 // the first slot's number
	flags []uint8
}

// at returns the index of a slot's flags, or -1 where the window would be too long.
func (s *slots) at(slot int64) int {
	if len(s.flags) == 0 {
		s.base = slot
	}
	i := slot - s.base
	if i < 0 {
		if int64(len(s.flags))-i > maxSlots {
			return -1
		}
		grow := -i + int64(len(s.flags))/2 // so that going back step by step costs little
		s.flags = append(make([]uint8, grow), s.flags...)
		s.base -= grow
		i = slot - s.base
	}
	if i >= maxSlots {
		return -1
	}
	for int64(len(s.flags)) <= i {
		s.flags = append(s.flags, 0)
	}
	return int(i)
}

// flagsOf returns the flags that a sample sets of its slot.
func flagsOf(f Figure, v float64) uint8 {
	known, on, busy := uint8(slotUtil), uint8(slotBusy), v >= busyPercent
	switch f {
	case FigureMemUsed:
		known, on, busy = slotMem, slotHeld, v >= heldBytes
	case FigureGPUUtil:
		known, on = slotUtil|slotGPUUtil, slotBusy|slotGPUBusy
	case FigureSM, FigureDRAM:
		busy = v >= workPercent
	}
	if busy {
		return known | on
	}
	return known
}

// merge adds the flags of another set.
func (s *slots) merge(o *slots) {
	for i, f := range o.flags {
		if f == 0 {
			continue
		}
		if at := s.at(o.base + int64(i)); at >= 0 {
			s.flags[at] |= f
		}
	}
}

// get returns the flags of a slot by its number.
func (s *slots) get(slot int64) uint8 {
	if i := slot - s.base; i >= 0 && i < int64(len(s.flags)) {
		return s.flags[i]
	}
	return 0
}

// times adds the slots up, by the utilization that known and busy mean.
func (s *slots) times(known, busy uint8) (t Times) {
	for _, f := range s.flags {
		if f&slotHeld != 0 {
			t.Held += slotTime
		}
		if f&known == 0 {
			continue
		}
		t.Known += slotTime
		switch {
		case f&busy != 0:
			t.Busy += slotTime
		case f&slotHeld != 0:
			t.ExecutionIdle += slotTime
		}
	}
	return t
}

// without counts the slots in which s has a flag and o has it not, beside all in which s has it.
func (s *slots) without(o *slots, flag uint8) (missing, all int) {
	for i, f := range s.flags {
		if f&flag != 0 {
			if all++; o.get(s.base+int64(i))&flag == 0 {
				missing++
			}
		}
	}
	return missing, all
}
