package predict

import (
	"errors"
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Errors of predictions, to be tested for with errors.Is.
var (
	// ErrNoProfile says that a workload was not measured alone.
	ErrNoProfile = errors.New("predict: no profile of the workload alone")
	// ErrOtherGPU says that a profile was taken on another GPU than the
	// predictor was calibrated on.
	ErrOtherGPU = errors.New("predict: the profile is of another GPU than the predictor")
	// ErrUnpredictable says that a profile lacks what a prediction needs.
	ErrUnpredictable = errors.New("predict: the profile does not allow a prediction")
	// ErrUnknownName says that a text names no value of an enumeration.
	ErrUnknownName = errors.New("predict: unknown name")
)

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
)

// MetricCount is the number of metrics.
const MetricCount = 8

var metricNames = []string{"tpot_ms_p50", "tpot_ms_p99", "ttft_ms_p50", "ttft_ms_p99", "e2e_ms_p50", "e2e_ms_p90", "e2e_ms_p99", "tokens_per_s"}

// Metrics lists the metrics in order.
func Metrics() []Metric {
	ms := make([]Metric, MetricCount)
	for i := range ms {
		ms[i] = Metric(i)
	}
	return ms
}

// String returns the metric's name with its unit, for example "tpot_ms_p50".
func (m Metric) String() string { return enum.String(metricNames, int(m)) }

// MarshalText returns the metric's name.
func (m Metric) MarshalText() ([]byte, error) {
	return enum.Text(ErrUnknownName, "metric", metricNames, int(m))
}

// UnmarshalText reads a metric's name.
func (m *Metric) UnmarshalText(b []byte) error { return parse(metricNames, b, "metric", m) }

// parse reads one of names.
func parse[T ~uint8](names []string, b []byte, what string, v *T) error {
	i, err := enum.Parse(ErrUnknownName, what, names, b)
	if err == nil {
		*v = T(i)
	}
	return err
}

// Interval is a predicted value with the bounds within which the measured one
// is expected to lie with a probability of 90%.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// WidthFraction is the interval's width over its value.
func (i Interval) WidthFraction() float64 { return (i.High - i.Low) / i.Value }

// Contains says whether v lies within the bounds.
func (i Interval) Contains(v float64) bool { return v >= i.Low && v <= i.High }

// Below answers whether the predicted figure will be at most limit; Unknown
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

// Prediction is what one tenant of a group will see.
type Prediction struct {
	Mechanism sharing.Mechanism
	// Basis is BasisFitted for a predictor calibrated on measurements, else
	// BasisPrior.
	Basis sharing.Basis
	known uint
	value [MetricCount]Interval
	// Slowdown is the predicted TPOT (E2E for one-token answers) over that of
	// the workload alone without MPS, where that was measured; else over the
	// profile used.
	Slowdown Interval
	// Turns is the number of time slices that a decode step takes, and
	// OtherTurns another number that a step within 8% of this one's length
	// would take, or 0: the prediction may be off by a round. Both are 0 for
	// MPS.
	Turns, OtherTurns int
	// Notes say why the intervals are wider than usual.
	Notes []string
}

// Get returns a metric's interval, and whether it was predicted.
func (p *Prediction) Get(m Metric) (Interval, bool) {
	if int(m) >= MetricCount {
		return Interval{}, false
	}
	return p.value[m], p.known&(1<<m) != 0
}

// Figures are the metrics that were predicted.
func (p *Prediction) Figures() map[Metric]Interval { return figures(p.Get) }

func figures[T any](get func(Metric) (T, bool)) map[Metric]T {
	out := map[Metric]T{}
	for _, m := range Metrics() {
		if v, ok := get(m); ok {
			out[m] = v
		}
	}
	return out
}

func (p *Prediction) set(m Metric, value, halfWidth float64) {
	if !(value > 0) || math.IsInf(value, 0) {
		return
	}
	p.known |= 1 << m
	p.value[m] = Interval{value, value * math.Exp(-halfWidth), value * math.Exp(halfWidth)}
}

// include widens a metric's interval so that it holds v.
func (p *Prediction) include(m Metric, v float64) {
	if p.known&(1<<m) == 0 || !(v > 0) {
		return
	}
	p.value[m].Low, p.value[m].High = min(p.value[m].Low, v), max(p.value[m].High, v)
}

// Method is how a prediction is computed.
type Method uint8

// The methods.
const (
	// Simulated runs the tenants' engines, client by client and step by step,
	// on a simulated GPU: the more accurate, in milliseconds. Default.
	MethodSimulated Method = iota
	// ClosedForm averages over what the neighbours are doing (decoding,
	// prefilling, nothing): explainable, in microseconds.
	MethodClosedForm
)

var methodNames = []string{"simulated", "closed-form"}

// String returns "simulated" or "closed-form".
func (m Method) String() string { return enum.String(methodNames, int(m)) }

// MarshalText returns the method's text.
func (m Method) MarshalText() ([]byte, error) {
	return enum.Text(ErrUnknownName, "method", methodNames, int(m))
}

// UnmarshalText reads a method's text.
func (m *Method) UnmarshalText(b []byte) error { return parse(methodNames, b, "method", m) }

// Predict predicts what each tenant of a group sees beside the others on one
// GPU, under time-slicing or MPS, in the order of the group. A group of one
// predicts what the mechanism costs a lone tenant. The error names every tenant
// that cannot be predicted, with the reason. Predict only reads p and may be
// called concurrently.
func (p *Predictor) Predict(mechanism sharing.Mechanism, group []Solo, method Method) ([]Prediction, error) {
	if mechanism != sharing.MechanismTimeSlicing && mechanism != sharing.MechanismMPS {
		return nil, fmt.Errorf("predict: %s cannot be predicted from profiles of whole GPUs; use time-slicing or mps, and FitSlice for MIG", mechanism)
	}
	if len(group) == 0 || len(group) > MaxGroup {
		return nil, fmt.Errorf("predict: a group must have 1 to %d tenants, has %d", MaxGroup, len(group))
	}
	models := make([]tenantModel, len(group))
	var errs []error
	for i := range group {
		if err := p.model(mechanism, &group[i], &models[i]); err != nil {
			errs = append(errs, fmt.Errorf("tenants[%d]: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	out := make([]Prediction, len(group))
	if method == MethodClosedForm {
		p.closedForm(mechanism, models, out)
		return out, nil
	}
	if err := p.simulate(mechanism, models, out); err != nil {
		return nil, err
	}
	return out, nil
}

// MaxGroup bounds a group; MPS itself admits 48 clients on driver 580.
const MaxGroup = 64
