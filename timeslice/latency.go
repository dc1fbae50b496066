// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
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
