// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"iter"
	"strings"

	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Outcome holds the latencies measured by one tenant's clients, or the step times of a tenant without clients.
type Outcome struct {
	TokensPerS sharing.Optional[float64] `yaml:"tokens_per_s" json:"tokens_per_s,omitzero"`
	TTFT       LatencyMS                 `yaml:"ttft_ms,null" json:"ttft_ms,omitzero"`
	TPOT       LatencyMS                 `yaml:"tpot_ms,null" json:"tpot_ms,omitzero"`
	ITL        LatencyMS                 `yaml:"itl_ms,null" json:"itl_ms,omitzero"`
	E2E        LatencyMS                 `yaml:"e2e_ms,null" json:"e2e_ms,omitzero"`
	Step       LatencyMS                 `yaml:"step_ms,null" json:"step_ms,omitzero"`
	StepsPerS  sharing.Optional[float64] `yaml:"steps_per_s" json:"steps_per_s,omitzero"`
}

// LatencyMS are statistics of a latency in milliseconds.
type LatencyMS struct {
	P50  sharing.Optional[float64] `yaml:"p50" json:"p50,omitzero"`
	P90  sharing.Optional[float64] `yaml:"p90" json:"p90,omitzero"`
	P95  sharing.Optional[float64] `yaml:"p95" json:"p95,omitzero"`
	P99  sharing.Optional[float64] `yaml:"p99" json:"p99,omitzero"`
	Mean sharing.Optional[float64] `yaml:"mean" json:"mean,omitzero"`
}

// Figures are values of the metrics, 0 if missing.
type Figures [MetricCount]float64

// Figures returns the measured metrics, 0 if missing.
func (o *Outcome) Figures() (f Figures) {
	for m, v := range [MetricCount]sharing.Optional[float64]{o.TPOT.P50, o.TPOT.P99, o.TTFT.P50, o.TTFT.P99,
		o.E2E.P50, o.E2E.P90, o.E2E.P99, o.TokensPerS,
		o.Step.P50, o.Step.P99, o.StepsPerS} {
		f[m], _ = optional.Positive(v)
	}
	return f
}

// Metric returns a measured metric, and whether it was measured.
func (o *Outcome) Metric(m Metric) (float64, bool) {
	if m >= MetricCount {
		return 0, false
	}
	v := o.Figures()[m]
	return v, v > 0
}

// All returns an iterator over the measured metrics, in order.
func (o *Outcome) All() iter.Seq2[Metric, float64] {
	return func(yield func(Metric, float64) bool) {
		for m, v := range o.Figures() {
			if v > 0 && !yield(Metric(m), v) {
				return
			}
		}
	}
}

// Average returns the mean, or the median if only that is known.
func (l *LatencyMS) Average() float64 {
	v, ok := optional.Positive(l.Mean)
	if !ok {
		v, _ = optional.Positive(l.P50)
	}
	return v
}

func (o *Outcome) check(list *problem.List, path string) {
	if v := o.TokensPerS.Or(0); !(v >= 0 && v <= 1e9) {
		list.Addf(problem.Join(path, "tokens_per_s"), "", "must lie between 0 and 1e9, is %v", v)
	}
	if v := o.StepsPerS.Or(0); !(v >= 0 && v <= 1e9) {
		list.Addf(problem.Join(path, "steps_per_s"), "", "must lie between 0 and 1e9, is %v", v)
	}
	for _, l := range []struct {
		name string
		l    *LatencyMS
	}{{"ttft_ms", &o.TTFT}, {"tpot_ms", &o.TPOT}, {"itl_ms", &o.ITL}, {"e2e_ms", &o.E2E}, {"step_ms", &o.Step}} {
		l.l.check(list, problem.Join(path, l.name))
	}
}

func (l *LatencyMS) check(list *problem.List, path string) {
	last, lastName := 0.0, ""
	for _, s := range []struct {
		name string
		v    sharing.Optional[float64]
	}{{"p50", l.P50}, {"p90", l.P90}, {"p95", l.P95}, {"p99", l.P99}, {"mean", l.Mean}} {
		v, ok := s.v.Get()
		switch {
		case !ok:
		case !(v >= 0 && v <= 1e9):
			list.Addf(path+"."+s.name, "", "must lie between 0 and 1e9 ms, is %v", v)
		case s.name == "mean":
		case v < last:
			list.Addf(path+"."+s.name, "swap them or measure again", "%v is below %s, %v", v, lastName, last)
			fallthrough
		default:
			last, lastName = v, s.name
		}
	}
}

// checkFraction holds a share of a whole against 0 and 1, or 100 for percent; counters overshoot a little.
func checkFraction(list *problem.List, path string, v sharing.Optional[float64], whole float64) {
	if f, ok := v.Get(); ok && !(f >= 0 && f <= 1.02*whole) {
		list.Addf(path, "", "must lie between 0 and %v, is %v", whole, f)
	}
}

// ServingFit holds the parts of a model server's work that its counters under several loads determine. Intervals are at
// 90%; a zero one is unknown.
type ServingFit struct {
	// A decode step of n sequences takes Step + n*StepSequence; a prefill of p uncached tokens takes Prefill +
	// p/1000*PrefillToken in addition to concurrent steps. In ms.
	Step         Interval `yaml:"step_ms" json:"step_ms,omitzero"`
	StepSequence Interval `yaml:"step_sequence_ms" json:"step_sequence_ms,omitzero"`
	Prefill      Interval `yaml:"prefill_ms" json:"prefill_ms,omitzero"`
	PrefillToken Interval `yaml:"prefill_ms_per_1k" json:"prefill_ms_per_1k,omitzero"`
	// StepAt and PrefillAt are the times at the observed means, Batch sequences and Prompt tokens.
	StepAt    Interval              `yaml:"step_at_mean_ms" json:"step_at_mean_ms,omitzero"`
	PrefillAt Interval              `yaml:"prefill_at_mean_ms" json:"prefill_at_mean_ms,omitzero"`
	Batch     float64               `yaml:"batch" json:"batch"`
	Prompt    float64               `yaml:"prompt" json:"prompt"`
	Slots     sharing.Optional[int] `yaml:"slots" json:"slots,omitzero"`      // sequences beyond which requests waited
	Windows   int                   `yaml:"windows" json:"windows"`           // pairs of pages behind it
	Unknown   []string              `yaml:"unknown" json:"unknown,omitempty"` // undetermined figures, with the reason
}

func (f *ServingFit) check(list *problem.List, path string) {
	for _, i := range []struct {
		name string
		v    Interval
	}{{"step_ms", f.Step}, {"step_sequence_ms", f.StepSequence}, {"prefill_ms", f.Prefill},
		{"prefill_ms_per_1k", f.PrefillToken}, {"step_at_mean_ms", f.StepAt}, {"prefill_at_mean_ms", f.PrefillAt}} {
		list.If(!(i.v.Low >= 0 && i.v.Low <= i.v.Value && i.v.Value <= i.v.High && i.v.High <= costs.LongestPart),
			problem.Join(path, i.name), "", "must be low <= value <= high, 0 to %g, is %v", costs.LongestPart, i.v)
	}
	list.If(!(f.Batch >= 0 && f.Batch <= 1<<20 && f.Prompt >= 0 && f.Prompt <= 1<<24), path, "",
		"has a mean batch of %v and prompts of %v tokens", f.Batch, f.Prompt)
}

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
	// Of tenants without tokens, which work in steps.
	MetricStepP50
	MetricStepP99
	MetricStepsPerSecond
)

// MetricCount is the number of metrics: range Metric(MetricCount). Those of servers come before MetricStepP50.
const MetricCount = 11

var metrics = enum.Of[Metric](sharing.ErrUnknownName, "metric",
	"tpot_ms_p50", "tpot_ms_p99", "ttft_ms_p50", "ttft_ms_p99", "e2e_ms_p50", "e2e_ms_p90", "e2e_ms_p99", "tokens_per_s",
	"step_ms_p50", "step_ms_p99", "steps_per_s")

// MainMetric returns the main metric of a tenant of the kind: the median TPOT, or the median step for tenants without
// tokens.
func (k Kind) MainMetric() Metric {
	if k != KindServer {
		return MetricStepP50
	}
	return MetricTPOTP50
}

// Title returns the metric's title: "TPOT P50".
func (m Metric) Title() string {
	return strings.ToUpper(strings.NewReplacer("_ms", "", "_per_s", "/s", "_", " ").Replace(m.String()))
}

// Interval is a predicted value with bounds that should contain the measured value with a probability of 90%.
type Interval struct {
	Value float64 `yaml:"value" json:"value"`
	Low   float64 `yaml:"low" json:"low"`
	High  float64 `yaml:"high" json:"high"`
}

// WidthFraction is the interval's width over its value.
func (i Interval) WidthFraction() float64 { return (i.High - i.Low) / i.Value }

// Contains reports whether v lies within the bounds.
func (i Interval) Contains(v float64) bool { return v >= i.Low && v <= i.High }

// Below answers whether the predicted figure will be at most limit; unknown if the limit lies within the interval, so
// that only a measurement can decide.
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
	KindBurster             // does a step from time to time: a notebook
)

var kinds = enum.Of[Kind](sharing.ErrUnknownName, "kind of tenant", "server", "stepper", "burster")
