// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"time"
)

const noTime = math.MinInt64 // the time of a sample that has none

// Statistics are those of one figure.
type Statistics struct {
	N int64 // samples that count
	// P50 and P95 are at most 1/128 of them above the truth and never below it.
	P50, P95, Max, Mean float64
	From, To            time.Time
	Percent             int64 // samples that were refused as percent where a fraction is expected
	// Fractions reports that no value is above 1 and not all are whole numbers.
	Fractions bool
}

// Times are sums over slots of a minute in which anything is known.
type Times struct {
	Known time.Duration // with a utilization
	// ExecutionIdle is with 1 GiB of memory held, and never 5 % of utilization, or 2 % of SMs or memory bandwidth. Used
	// is with either.
	ExecutionIdle, Used time.Duration
}

// Times that no clock should show: before NVIDIA had CUDA, and far ahead.
var (
	earliest = time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// acc is one figure of one tenant.
type acc struct {
	sketch
	from, to int64 // the times of the first and last sample in ms, 0 where none has one
	percent  int64 // refused as percent where a fraction is expected
	parts    bool  // some value is no whole number
}

// add takes a sample of a figure; it answers false for one that is impossible, by its value or its clock, or not after
// those before it. Percentages a little above 100, as profiling counters give them, are 100.
func (a *acc) add(f Figure, ms int64, v float64) bool {
	limit := figures[f].limit
	if limit == 100 && v > 100 && v <= 101 {
		v = 100
	}
	if f != FigureGPUUtil && limit == 100 && v > 200 && v <= 100*100 {
		a.percent++
	}
	if !(v >= 0 && v <= limit) || ms != noTime && (ms < earliest || ms > latest || ms <= a.to) {
		return false
	}
	if ms != noTime {
		a.from, a.to = cmp.Or(a.from, ms), ms
	}
	a.parts = a.parts || v != math.Trunc(v)
	a.sketch.add(v)
	return true
}

// merge adds another series of the same figure, of other times.
func (a *acc) merge(o *acc) {
	a.sketch.merge(&o.sketch)
	a.parts, a.percent = a.parts || o.parts, a.percent+o.percent
	if a.to = max(a.to, o.to); a.from == 0 || o.from > 0 && o.from < a.from {
		a.from = o.from
	}
}

func (a *acc) statistics() Statistics {
	s := Statistics{N: a.n, P50: a.quantile(0.5), P95: a.quantile(0.95), Max: a.max, Mean: a.sum / max(1, float64(a.n)),
		Percent: a.percent, Fractions: a.parts && a.max <= 1}
	if a.from > 0 {
		s.From, s.To = time.UnixMilli(a.from).UTC(), time.UnixMilli(a.to).UTC()
	}
	return s
}

// sketch holds the distribution of a figure in buckets, 128 to a power of two. The zero sketch is empty.
type sketch struct {
	buckets  map[uint16]bucket // by the upper half of a float32: its exponent, and 7 digits of the rest
	n        int64
	sum, max float64
}

type bucket struct {
	n   int64
	max float64 // of its values
}

func (s *sketch) add(v float64) {
	if s.buckets == nil {
		s.buckets = map[uint16]bucket{}
	}
	k := uint16(math.Float32bits(float32(v)) >> 16)
	s.buckets[k] = bucket{s.buckets[k].n + 1, max(s.buckets[k].max, v)}
	s.n, s.sum, s.max = s.n+1, s.sum+v, max(s.max, v)
}

// merge adds another sketch of the same figure.
func (s *sketch) merge(o *sketch) {
	if s.buckets == nil {
		s.buckets = map[uint16]bucket{}
	}
	for k, b := range o.buckets {
		s.buckets[k] = bucket{s.buckets[k].n + b.n, max(s.buckets[k].max, b.max)}
	}
	s.n, s.sum, s.max = s.n+o.n, s.sum+o.sum, max(s.max, o.max)
}

// quantile is the smallest value that so many of the samples do not exceed, or at most 1/128 more.
func (s *sketch) quantile(q float64) (v float64) {
	rank := max(int64(math.Ceil(q*float64(s.n))), 1)
	for _, k := range slices.Sorted(maps.Keys(s.buckets)) {
		if v = s.buckets[k].max; rank <= s.buckets[k].n {
			break
		}
		rank -= s.buckets[k].n
	}
	return v
}

const slotTime = time.Minute // the resolution of busy and idle time

const maxHours = 400 * 24 // bound of the hours with samples

// slots are flags by minute, or by page for samples without a time, the slots of an hour together. The zero slots are
// empty.
type slots map[int64]*[60]uint8

// set adds flags to a slot by its number.
func (s *slots) set(slot int64, flags uint8) {
	if *s == nil {
		*s = slots{}
	}
	hour := (*s)[slot/60]
	if hour == nil && len(*s) < maxHours {
		hour = new([60]uint8)
		(*s)[slot/60] = hour
	}
	if hour != nil {
		hour[slot%60] |= flags
	}
}

// all visits the slots that have flags, in any order.
func (s slots) all() iter.Seq2[int64, uint8] {
	return func(yield func(int64, uint8) bool) {
		for hour, flags := range s {
			for i, f := range flags {
				if f != 0 && !yield(hour*60+int64(i), f) {
					return
				}
			}
		}
	}
}

func (s *slots) merge(o slots) {
	for slot, f := range o.all() {
		s.set(slot, f)
	}
}

func (s slots) get(slot int64) uint8 {
	if hour := s[slot/60]; hour != nil {
		return hour[slot%60]
	}
	return 0
}

// times adds the slots up, by the utilization that known and busy mean.
func (s slots) times(known, busy uint8) (t Times) {
	for _, f := range s.all() {
		if f&(slotHeld|busy) != 0 {
			t.Used += slotTime
		}
		if f&known == 0 {
			continue
		}
		t.Known += slotTime
		if f&busy == 0 && f&slotHeld != 0 {
			t.ExecutionIdle += slotTime
		}
	}
	return t
}

// without counts the slots with a flag in s and without it in o, and all slots with it in s.
func (s slots) without(o slots, flag uint8) (missing, all int) {
	for slot, f := range s.all() {
		if f&flag != 0 {
			if all++; o.get(slot)&flag == 0 {
				missing++
			}
		}
	}
	return missing, all
}
