// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// Optional holds a value that may be missing, as the zero one's is: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero reports a missing value, Equal compares two; String writes "-" for it, JSON null, or omitzero nothing.
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }

// Metric is a figure that a Predictor predicts.
type Metric uint8

// The metrics; latencies are in milliseconds.
const (
	MetricTPOTP50 Metric = iota
	MetricTPOTP99
	MetricTTFTP50
	MetricTTFTP99
	MetricE2EP50
	MetricE2EP90
	MetricE2EP99
	MetricTokensPerSecond
	// Of tenants that serve no tokens, and do step after step.
	MetricStepP50
	MetricStepP99
	MetricStepsPerSecond
)

// MetricCount counts the metrics: range Metric(MetricCount). Those of servers come before MetricStepP50.
const MetricCount = 11

var metrics = enum.Of[Metric](sharing.ErrUnknownName, "metric",
	"tpot_ms_p50", "tpot_ms_p99", "ttft_ms_p50", "ttft_ms_p99", "e2e_ms_p50", "e2e_ms_p90", "e2e_ms_p99", "tokens_per_s",
	"step_ms_p50", "step_ms_p99", "steps_per_s")

// MainMetric returns the metric that judges a tenant of the kind first: the median of a token, or of a step where it
// serves none.
func (k Kind) MainMetric() Metric {
	if k != KindServer {
		return MetricStepP50
	}
	return MetricTPOTP50
}

// Title writes a metric for readers: "TPOT P50".
func (m Metric) Title() string {
	return strings.ToUpper(strings.NewReplacer("_ms", "", "_per_s", "/s", "_", " ").Replace(m.String()))
}

// Interval is a predicted value with the bounds within which the measured one
// is expected to lie with a probability of 90%.
type Interval struct {
	Value float64 `yaml:"value" json:"value"`
	Low   float64 `yaml:"low" json:"low"`
	High  float64 `yaml:"high" json:"high"`
}

// WidthFraction is the interval's width over its value.
func (i Interval) WidthFraction() float64 { return (i.High - i.Low) / i.Value }

// Contains reports whether v lies within the bounds.
func (i Interval) Contains(v float64) bool { return v >= i.Low && v <= i.High }

// Below answers whether the predicted figure will be at most limit; unknown
// when the limit lies within the interval, which only a measurement settles.
func (i Interval) Below(limit float64) sharing.Answer {
	switch {
	case i.High <= limit:
		return sharing.AnswerYes
	case i.Low > limit:
		return sharing.AnswerNo
	}
	return sharing.AnswerUnknown
}

// Kind is the unit in which a tenant makes progress.
type Kind uint8

// The kinds.
const (
	KindServer  Kind = iota // serves tokens to clients
	KindStepper             // does step after step: training, batches, simulations
	KindBurster             // does a step now and then: a notebook
)

var kinds = enum.Of[Kind](sharing.ErrUnknownName, "kind of tenant", "server", "stepper", "burster")
