// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
	"encoding/json"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is a histogram of simulated latencies, to three significant figures
// and 100 ns. It must not be copied. Reading is safe for concurrent use.
type Latency struct {
	h   *hdrhistogram.Histogram
	sum time.Duration
}

const latencyUnit = 100 * time.Nanosecond

func newLatency(longest time.Duration) *Latency {
	return &Latency{h: hdrhistogram.New(1, max(1000, 1+int64(longest/latencyUnit)), 3)}
}

func (l *Latency) record(d time.Duration) {
	// No latency exceeds the simulated time, for which the histogram is built.
	if l.h.RecordValue(int64(d/latencyUnit)) == nil {
		l.sum += d
	}
}

// Count is the number of latencies.
func (l *Latency) Count() int64 { return l.h.TotalCount() }

// Mean is their exact mean; false when there are none.
func (l *Latency) Mean() (time.Duration, bool) {
	if l.Count() == 0 {
		return 0, false
	}
	return l.sum / time.Duration(l.Count()), true
}

// Quantile is the latency that a share q (0 to 1) of them does not exceed; false when there are none.
func (l *Latency) Quantile(q float64) (time.Duration, bool) {
	if l.Count() == 0 {
		return 0, false
	}
	return time.Duration(l.h.ValueAtQuantile(100*min(max(q, 0), 1))) * latencyUnit, true
}

// MarshalJSON writes the count, and in milliseconds the mean, p50, p90, p95,
// p99 and max, which are absent when there are no latencies.
func (l *Latency) MarshalJSON() ([]byte, error) {
	out := struct {
		Count int64    `json:"count"`
		Mean  *float64 `json:"mean_ms,omitempty"`
		P50   *float64 `json:"p50_ms,omitempty"`
		P90   *float64 `json:"p90_ms,omitempty"`
		P95   *float64 `json:"p95_ms,omitempty"`
		P99   *float64 `json:"p99_ms,omitempty"`
		Max   *float64 `json:"max_ms,omitempty"`
	}{Count: l.Count()}
	if mean, ok := l.Mean(); ok {
		ms := func(d time.Duration) *float64 { v := float64(d.Microseconds()) / 1e3; return &v }
		q := func(f float64) *float64 { v, _ := l.Quantile(f); return ms(v) }
		out.Mean, out.P50, out.P90, out.P95, out.P99, out.Max = ms(mean), q(.5), q(.9), q(.95), q(.99), q(1)
	}
	return json.Marshal(out)
}
