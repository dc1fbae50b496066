// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/telemetry/serving"
)

// A Snapshot holds the observations since the one before.
type Snapshot struct {
	// At is the time since the newcomer was placed, by a clock that does not jump. Before that it is negative:
	// such snapshots are the neighbours' baseline.
	At      time.Duration
	Tenants []Seen // in the order of the plan
}

// Seen holds the observations of one tenant.
type Seen struct {
	// Missing is the reason for which nothing can be concluded from this snapshot: it is counted neither for nor against.
	Missing string
	// Load is the demand on the tenant, such as requests a second: a limit from before the newcomer came holds for a
	// load like the one then. Missing where it is not known.
	Load    serving.Optional[float64]
	Metrics []Sample // in the order of Tenant.Objectives
}

// A Sample holds the observations of a metric: single values, or a histogram of the time since the snapshot before.
type Sample struct {
	Values    []float64
	Histogram *serving.Histogram
}

// size returns the number of observations.
func (s *Sample) size() int {
	if s.Histogram != nil {
		return int(s.Histogram.Count)
	}
	return len(s.Values)
}

// count counts observations beyond a limit that is not known exactly: Most is of those beyond the strict end of it,
// Least of those beyond the lax one. A bucket of a histogram that the limit parts is in Most and not in Least.
func (o *Objective) count(s *Sample, strict, lax float64) bin {
	slow := o.scale(lax, slowFactor)
	if h := s.Histogram; h != nil {
		within, _ := h.AtMost(strict)
		_, perhaps := h.AtMost(lax)
		_, notSlow := h.AtMost(slow)
		n := int32(h.Count)
		return bin{N: n, Most: n - int32(within), Least: n - int32(perhaps), Slow: n - int32(notSlow)}
	}
	b := bin{N: int32(len(s.Values))}
	for _, v := range s.Values {
		beyond := func(limit float64) int32 {
			if v > limit && !o.AtLeast || v < limit && o.AtLeast {
				return 1
			}
			return 0
		}
		b.Most, b.Least, b.Slow = b.Most+beyond(strict), b.Least+beyond(lax), b.Slow+beyond(slow)
	}
	return b
}

// merge adds observations.
func (s *Sample) merge(o *Sample) {
	s.Values = append(s.Values, o.Values...)
	switch a, b := s.Histogram, o.Histogram; {
	case b == nil:
	case a == nil:
		s.Histogram = &serving.Histogram{Buckets: slices.Clone(b.Buckets), Count: b.Count, Sum: b.Sum}
	case len(a.Buckets) == len(b.Buckets):
		a.Count, a.Sum = a.Count+b.Count, a.Sum+b.Sum
		for i := range b.Buckets {
			a.Buckets[i].Count += b.Buckets[i].Count
		}
	}
}

// wrong returns the reason not to believe the observations; "" = none.
func (s *Seen) wrong(t *Tenant) string {
	if s.Missing != "" {
		return s.Missing
	}
	if len(s.Metrics) != len(t.Objectives) {
		return fmt.Sprintf("%d metrics for %d objectives", len(s.Metrics), len(t.Objectives))
	}
	for k := range s.Metrics {
		m := &s.Metrics[k]
		if m.Histogram != nil && t.Objectives[k].AtLeast {
			return "a histogram of a metric with a lower limit"
		}
		if slices.ContainsFunc(m.Values, func(v float64) bool { return math.IsNaN(v) || v < 0 }) {
			return t.Objectives[k].Metric + " is negative or no number"
		}
	}
	return ""
}
