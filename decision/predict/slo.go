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

// Limit is a bound of a metric.
type Limit struct {
	Metric Metric
	At     time.Duration
}

// Limits lists what is demanded, in the order TTFT, TPOT, E2E.
func (s SLO) Limits() []Limit {
	var out []Limit
	for _, l := range []struct {
		m  Metric
		at *Duration
	}{{MetricTTFTP99, s.TTFTP99}, {MetricTPOTP99, s.TPOTP99}, {MetricE2EP99, s.E2EP99}} {
		if l.at != nil {
			out = append(out, Limit{l.m, time.Duration(*l.at)})
		}
	}
	return out
}

// Validate names everything that is wrong with s in one error, or returns nil.
func (s SLO) Validate() error {
	var list problem.List
	keys := map[Metric]string{MetricTTFTP99: "ttft_p99", MetricTPOTP99: "tpot_p99", MetricE2EP99: "e2e_p99"}
	for _, l := range s.Limits() {
		if l.At <= 0 || l.At > 7*24*time.Hour {
			list.Addf(keys[l.Metric], "write a positive duration, for example 500ms", "%v is out of range", l.At)
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
	for _, l := range s.Limits() {
		c := SLOCheck{Metric: l.Metric, LimitMS: float64(l.At) / float64(time.Millisecond)}
		v, ok := p.Get(l.Metric)
		if ok {
			c.Predicted, c.Meets = v, v.Below(c.LimitMS)
		}
		if c.Meets == sharing.AnswerUnknown {
			c.Settle = fmt.Sprintf("measure %s under %s beside these neighbours; at least 100 requests for a P99", l.Metric, p.Mechanism)
		}
		out = append(out, c)
	}
	return out
}
