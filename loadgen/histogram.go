// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cotenant/cotenant/internal/stats"
)

// The range and precision of every HDR histogram, in microseconds.
const (
	histogramLowest  = 1
	histogramHighest = int64(time.Hour / time.Microsecond)
	histogramDigits  = 3
)

// exactLimit is the number of samples up to which percentiles are exact.
const exactLimit = 1_000_000

// errHistogram is returned for an encoded histogram that cannot be used.
var errHistogram = errors.New("loadgen: unusable histogram")

// Histogram is a distribution of durations: an HDR histogram from 1 µs to 1 h with 3 significant digits, and, for
// per-request metrics, up to a million exact samples. Longer durations count as 1 h, except in Max. It is not safe for
// concurrent use.
type Histogram struct {
	hdr   *hdrhistogram.Histogram
	sum   float64 // ns
	max   time.Duration
	exact []time.Duration // nil when not kept
	keep  bool
}

// newHistogram returns an empty Histogram that keeps no samples.
func newHistogram() *Histogram { return &Histogram{} }

func newExactHistogram() *Histogram { return &Histogram{keep: true} }

// Record adds a duration; a negative one counts as 0.
func (h *Histogram) record(d time.Duration) { h.recordN(d, 1) }

// recordN adds a duration n times; n of 0 or less adds nothing.
func (h *Histogram) recordN(d time.Duration, n int64) {
	if n <= 0 {
		return
	}
	if h.hdr == nil {
		h.hdr = hdrhistogram.New(histogramLowest, histogramHighest, histogramDigits)
	}
	d = max(d, 0)
	us := int64((min(d, time.Hour) + 500) / time.Microsecond)
	if err := h.hdr.RecordValues(us, n); err != nil {
		return // us is in range and n positive: nothing else is refused
	}
	h.sum += float64(d) * float64(n)
	h.max = max(h.max, d)
	if !h.keep {
		return
	}
	if int64(len(h.exact))+n > exactLimit {
		h.keep, h.exact = false, nil
		return
	}
	for range n {
		h.exact = append(h.exact, d)
	}
}

// Count is the number of samples.
func (h *Histogram) Count() int64 {
	if h == nil || h.hdr == nil {
		return 0
	}
	return h.hdr.TotalCount()
}

// Quantile returns the nearest-rank quantile q in (0, 1], and false without samples.
func (h *Histogram) Quantile(q float64) (time.Duration, bool) {
	n := h.Count()
	if n == 0 {
		return 0, false
	}
	rank := stats.Rank(q, n)
	if h.keep {
		if !slices.IsSorted(h.exact) {
			slices.Sort(h.exact)
		}
		return h.exact[rank-1], true
	}
	if rank == n {
		return h.max, true
	}
	// The library rounds p*n to the nearest rank; ask for the rank itself.
	us := h.hdr.ValueAtPercentile(float64(rank) / float64(n) * 100)
	return min(time.Duration(us)*time.Microsecond, h.max), true
}

// Figures summarises the distribution.
func (h *Histogram) Figures() Figures {
	n := h.Count()
	if n == 0 {
		return Figures{}
	}
	q := func(p float64) Millis {
		d, _ := h.Quantile(p)
		return millis(d)
	}
	f := Figures{
		Count: n, Mean: Millis(h.sum / float64(n) / 1e6), P50: q(0.5), P90: q(0.9), P95: q(0.95), P99: q(0.99),
		Max: millis(h.max), Method: "hdr",
	}
	if h.keep {
		f.Method = "exact"
	}
	return f
}

// merge adds the samples of other, which stays as it is.
func (h *Histogram) merge(other *Histogram) {
	n := other.Count()
	if n == 0 {
		return
	}
	if h.hdr == nil {
		h.hdr = hdrhistogram.New(histogramLowest, histogramHighest, histogramDigits)
	}
	if h.keep = h.keep && other.keep && int64(len(h.exact))+n <= exactLimit; h.keep {
		h.exact = append(h.exact, other.exact...)
	} else {
		h.exact = nil
	}
	h.hdr.Merge(other.hdr)
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// encodedHistogram is the JSON of a Histogram. Sum and max are exact; the
// counts are in the HDR V2 compressed encoding, base64.
type encodedHistogram struct {
	Count int64   `json:"count"`
	SumNS float64 `json:"sum_ns"`
	MaxNS int64   `json:"max_ns"`
	HDR   string  `json:"hdr_v2_us,omitempty"`
}

func (h *Histogram) encode() (encodedHistogram, error) {
	e := encodedHistogram{Count: h.Count()}
	if e.Count == 0 {
		return e, nil
	}
	e.SumNS, e.MaxNS = h.sum, int64(h.max)
	b, err := h.hdr.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return e, fmt.Errorf("%w: %w", errHistogram, err)
	}
	e.HDR = string(b)
	return e, nil
}

func (e encodedHistogram) decode() (*Histogram, error) {
	h := newHistogram()
	if e.Count == 0 {
		return h, nil
	}
	if _, err := base64.StdEncoding.DecodeString(e.HDR); err != nil {
		return nil, fmt.Errorf("%w: %w", errHistogram, err)
	}
	hdr, err := hdrhistogram.Decode([]byte(e.HDR))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHistogram, err)
	}
	// Merging into the known geometry keeps a foreign one from spreading.
	h.hdr = hdrhistogram.New(histogramLowest, histogramHighest, histogramDigits)
	if dropped := h.hdr.Merge(hdr); dropped > 0 || h.hdr.TotalCount() != e.Count {
		return nil, fmt.Errorf("%w: %d samples by its count, %d in range", errHistogram, e.Count, h.hdr.TotalCount())
	}
	if e.MaxNS < 0 || !(e.SumNS >= 0) || math.IsInf(e.SumNS, 0) {
		return nil, fmt.Errorf("%w: sum or maximum is not a duration", errHistogram)
	}
	h.sum, h.max = e.SumNS, time.Duration(e.MaxNS)
	return h, nil
}
