// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
)

// Latency holds simulated latencies. Reading is safe for concurrent use.
type Latency struct {
	sorted []time.Duration // once the simulation has ended
	sum    time.Duration
}

func (l *Latency) record(d time.Duration) { l.sorted, l.sum = append(l.sorted, d), l.sum+d }

// close prepares the latencies for reading.
func (l *Latency) close() *Latency {
	slices.Sort(l.sorted)
	return l
}

// Count is the number of latencies.
func (l *Latency) Count() int64 { return int64(len(l.sorted)) }

// Mean is their mean; false when there are none.
func (l *Latency) Mean() (time.Duration, bool) {
	if len(l.sorted) == 0 {
		return 0, false
	}
	return l.sum / time.Duration(len(l.sorted)), true
}

// Quantile is the latency that a share q (0 to 1) of them does not exceed; false when there are none.
func (l *Latency) Quantile(q float64) (time.Duration, bool) {
	if len(l.sorted) == 0 {
		return 0, false
	}
	return stats.NearestRank(l.sorted, min(max(q, 0), 1)), true
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
