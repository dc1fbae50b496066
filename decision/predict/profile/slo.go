// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"iter"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// SLO is a set of latency limits; missing ones are not checked. Compare a prediction with one by [Interval.Below].
type SLO struct {
	TTFTP99 sharing.Optional[Duration] `yaml:"ttft_p99"`
	TPOTP50 sharing.Optional[Duration] `yaml:"tpot_p50"`
	TPOTP99 sharing.Optional[Duration] `yaml:"tpot_p99"`
	E2EP99  sharing.Optional[Duration] `yaml:"e2e_p99"`
}

// At returns a pointer to a metric's limit; nil for a metric that SLOs do not limit.
func (s *SLO) At(m Metric) *sharing.Optional[Duration] {
	switch m {
	case MetricTTFTP99:
		return &s.TTFTP99
	case MetricTPOTP50:
		return &s.TPOTP50
	case MetricTPOTP99:
		return &s.TPOTP99
	case MetricE2EP99:
		return &s.E2EP99
	}
	return nil
}

// Limits returns an iterator over the limits that are set, in the order TTFT, TPOT's median, TPOT, E2E.
func (s *SLO) Limits() iter.Seq2[Metric, time.Duration] {
	return func(yield func(Metric, time.Duration) bool) {
		for _, m := range [...]Metric{MetricTTFTP99, MetricTPOTP50, MetricTPOTP99, MetricE2EP99} {
			if limit, ok := s.At(m).Get(); ok && !yield(m, time.Duration(limit)) {
				return
			}
		}
	}
}

// Validate returns an error that names every problem of s, or nil.
func (s *SLO) Validate() error {
	var list problem.List
	keys := map[Metric]string{MetricTTFTP99: "ttft_p99", MetricTPOTP50: "tpot_p50",
		MetricTPOTP99: "tpot_p99", MetricE2EP99: "e2e_p99"}
	for m, limit := range s.Limits() {
		list.If(limit <= 0 || limit > 7*24*time.Hour, keys[m], "write a positive duration, for example 500ms",
			"%v is out of range", limit)
	}
	ttft, ok := s.TTFTP99.Get()
	if e2e, ok2 := s.E2EP99.Get(); ok && ok2 && e2e < ttft {
		list.Addf("e2e_p99", "end-to-end latency holds the time to first token", "%v is below ttft_p99 %v", e2e, ttft)
	}
	p50, ok := s.TPOTP50.Get()
	if p99, ok2 := s.TPOTP99.Get(); ok && ok2 && p99 < p50 {
		list.Addf("tpot_p99", "a 99th percentile is at least the median", "%v is below tpot_p50 %v", p99, p50)
	}
	return list.Err()
}

// Duration is a time.Duration with a text form as in Go: "500ms", "2s".
type Duration time.Duration

// MarshalText writes the duration as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write for example 500ms or 2s", problem.Clip(string(b)))
	}
	*d = Duration(v)
	return nil
}

// Seconds returns the duration in seconds.
func (d Duration) Seconds() float64 { return float64(d) / 1e9 }

// String returns the duration's text.
func (d Duration) String() string { return time.Duration(d).String() }
