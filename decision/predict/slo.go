package predict

import (
	"fmt"
	"iter"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// SLO is a set of latency limits; absent limits are not demanded.
type SLO struct {
	TTFTP99 *Duration `yaml:"ttft_p99"`
	TPOTP99 *Duration `yaml:"tpot_p99"`
	E2EP99  *Duration `yaml:"e2e_p99"`
}

// Limits ranges over the limits that are set, in the order TTFT, TPOT, E2E.
func (s SLO) Limits() iter.Seq2[Metric, time.Duration] {
	return func(yield func(Metric, time.Duration) bool) {
		for _, m := range [...]Metric{MetricTTFTP99, MetricTPOTP99, MetricE2EP99} {
			if limit, ok := s.Limit(m); ok && !yield(m, limit) {
				return
			}
		}
	}
}

// Limit is the limit of a metric, if there is one.
func (s SLO) Limit(m Metric) (time.Duration, bool) {
	limit := s.E2EP99
	switch m {
	case MetricTTFTP99:
		limit = s.TTFTP99
	case MetricTPOTP99:
		limit = s.TPOTP99
	case MetricE2EP99:
	default:
		limit = nil
	}
	if limit == nil {
		return 0, false
	}
	return time.Duration(*limit), true
}

// Validate names everything that is wrong with s in one error, or returns nil.
func (s SLO) Validate() error {
	var list problem.List
	keys := map[Metric]string{MetricTTFTP99: "ttft_p99", MetricTPOTP99: "tpot_p99", MetricE2EP99: "e2e_p99"}
	for m, limit := range s.Limits() {
		if limit <= 0 || limit > 7*24*time.Hour {
			list.Addf(keys[m], "write a positive duration, for example 500ms", "%v is out of range", limit)
		}
	}
	if s.E2EP99 != nil && s.TTFTP99 != nil && *s.E2EP99 < *s.TTFTP99 {
		list.Addf("e2e_p99", "end-to-end latency holds the time to first token", "%v is below ttft_p99 %v", *s.E2EP99, *s.TTFTP99)
	}
	return list.Err()
}

// Duration is a time.Duration written as in Go: "500ms", "2s".
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

// SLOCheck is a prediction held against one limit.
type SLOCheck struct {
	Metric    Metric
	LimitMS   float64
	Predicted Optional[Interval]
	// Meets is unknown when the limit lies within the interval, or nothing was
	// predicted.
	Meets sharing.Answer
	// Settle says which measurement would settle an unknown answer; else empty.
	Settle string
}

// CheckSLO holds a prediction against a workload's limits, in the order TTFT,
// TPOT, E2E; limits that are not set are left out.
func (p *Prediction) CheckSLO(s SLO) []SLOCheck {
	var out []SLOCheck
	for m, limit := range s.Limits() {
		c := SLOCheck{Metric: m, LimitMS: inMillis(limit)}
		if v, ok := p.Get(m); ok {
			c.Predicted, c.Meets = Some(v), v.Below(c.LimitMS)
		}
		if c.Meets == sharing.AnswerUnknown {
			c.Settle = fmt.Sprintf("measure %s under %s beside these neighbours; at least 100 requests for a P99", m, p.Mechanism)
		}
		out = append(out, c)
	}
	return out
}
