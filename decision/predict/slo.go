package predict

import (
	"fmt"
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

// Limits returns the limits of TTFT, TPOT and E2E, in this order; nil where there
// is none.
func (s *SLO) Limits() [3]*Duration { return [3]*Duration{s.TTFTP99, s.TPOTP99, s.E2EP99} }

// Validate names everything that is wrong with s in one error, or returns nil.
func (s SLO) Validate() error {
	var list problem.List
	for _, l := range []struct {
		key string
		d   *Duration
	}{{"ttft_p99", s.TTFTP99}, {"tpot_p99", s.TPOTP99}, {"e2e_p99", s.E2EP99}} {
		if l.d != nil && (*l.d <= 0 || time.Duration(*l.d) > 7*24*time.Hour) {
			list.Addf(l.key, "write a positive duration, for example 500ms", "%v is out of range", *l.d)
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

// UnmarshalText reads a positive duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write for example 500ms or 2s", clip(string(b)))
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
	Predicted Interval // means nothing when Meets is Unknown for want of a prediction
	// Meets is Unknown when the limit lies within the interval, or nothing was
	// predicted.
	Meets sharing.Answer
	// Settle says which measurement would settle an unknown answer; else empty.
	Settle string
}

// CheckSLO holds a prediction against a workload's limits, in the order TTFT,
// TPOT, E2E; limits that are not set are left out.
func (p *Prediction) CheckSLO(s SLO) []SLOCheck {
	var out []SLOCheck
	for _, l := range []struct {
		m     Metric
		limit *Duration
	}{{TTFTP99, s.TTFTP99}, {TPOTP99, s.TPOTP99}, {E2EP99, s.E2EP99}} {
		if l.limit == nil {
			continue
		}
		c := SLOCheck{Metric: l.m, LimitMS: float64(*l.limit) / float64(time.Millisecond)}
		v, ok := p.Get(l.m)
		if ok {
			c.Predicted, c.Meets = v, v.Below(c.LimitMS)
		}
		if c.Meets == sharing.AnswerUnknown {
			c.Settle = fmt.Sprintf("measure %s under %s beside these neighbours; at least 100 requests for a P99", l.m, p.Mechanism)
		}
		out = append(out, c)
	}
	return out
}
