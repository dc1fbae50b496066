package predict

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// Errors of predictions, to be tested for with errors.Is.
var (
	// ErrOtherGPU says that a profile was taken on a GPU to which the predictor's
	// parameters do not carry over from the one that it was calibrated on.
	ErrOtherGPU = errors.New("predict: the profile is of another GPU than the predictor")
	// ErrUnpredictable says that a profile lacks what a prediction needs.
	ErrUnpredictable = errors.New("predict: the profile does not allow a prediction")
)

// Prediction holds the figures that one tenant of a group will see.
type Prediction struct {
	Mechanism sharing.Mechanism
	Evidence  Evidence
	// Basis is BasisFitted for a predictor calibrated on measurements, else
	// BasisPrior; BasisTransferred where those are of another GPU.
	Basis     sharing.Basis
	value     [profile.MetricCount]profile.Interval // the zero Interval where nothing was predicted
	rateAlone float64                               // steps a second of a tenant that serves no tokens
	// Slowdown is the predicted TPOT over that of the workload alone without MPS,
	// where that was measured; else over the profile used.
	Slowdown profile.Interval
	// Turns is the number of time slices that a decode step takes; missing for MPS. OtherTurns is another number
	// that it may be, so that the prediction may be off by a round: where the turns were counted beside a spinning
	// neighbour, one that was counted nearly as often, or that the step's length says, since neighbours that leave
	// gaps spare it a turn; else that of a step within 8% of this one's length.
	Turns, OtherTurns profile.Optional[int]
	// Notes say why the intervals are wider than usual.
	Notes []string
}

// Get returns a metric's interval, and whether it was predicted.
func (p *Prediction) Get(m profile.Metric) (profile.Interval, bool) {
	if int(m) >= profile.MetricCount {
		return profile.Interval{}, false
	}
	return p.value[m], p.value[m].Value > 0
}

// All ranges over the metrics that were predicted, in order.
func (p *Prediction) All() iter.Seq2[profile.Metric, profile.Interval] { return profile.Known(p.Get) }

func (p *Prediction) set(m profile.Metric, value, halfWidth float64) {
	if value > 0 && !math.IsInf(value, 0) {
		p.value[m] = profile.Interval{Value: value, Low: value * math.Exp(-halfWidth), High: value * math.Exp(halfWidth)}
	}
}

func (p *Prediction) include(m profile.Metric, v float64) {
	if i := &p.value[m]; i.Value > 0 && v > 0 {
		i.Low, i.High = min(i.Low, v), max(i.High, v)
	}
}

// Method names a way to compute a prediction.
type Method uint8

// The methods.
const (
	// MethodSimulated runs the tenants' engines, client by client and step by step,
	// on a simulated GPU: the more accurate, in tens of milliseconds. Default.
	MethodSimulated Method = iota
	// MethodClosedForm averages over what the neighbours are doing (decoding,
	// prefilling, nothing): explainable, in microseconds.
	MethodClosedForm
)

var methods = enum.Of[Method](profile.ErrUnknownName, "method", "simulated", "closed-form")

// MaxGroup bounds a group; MPS itself admits 48 clients on driver 580.
const MaxGroup = 64

// Predict predicts what each tenant of a group sees beside the others on one GPU, under time-slicing or MPS, in the
// order of the group. A group of one predicts what the mechanism costs a lone tenant. The error names every tenant
// that cannot be predicted, with the reason. Predict only reads p and may be called concurrently.
func (p *Predictor) Predict(mechanism sharing.Mechanism, group []profile.Solo, method Method) ([]Prediction, error) {
	return p.predict(mechanism, group, method, nil)
}

// predict is Predict; it looks up and keeps in known, unless that is nil, what workloads do alone.
func (p *Predictor) predict(mechanism sharing.Mechanism, group []profile.Solo, method Method,
	known *aloneCache) ([]Prediction, error) {
	if p.Version == 0 {
		return nil, errors.New("predict: the predictor is empty (make one with NewPredictor)")
	}
	if !slices.Contains(profile.Mechanisms[:], mechanism) {
		return nil, fmt.Errorf("predict: %s cannot be predicted from profiles of whole GPUs; use time-slicing or mps, "+
			"and SliceSlowdown for MIG", mechanism)
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
	p.respond(mechanism, models)
	for i := range models {
		if len(models) > 1 {
			models[i].learned = p.Found(learnsAs(models[i].base), mechanism)
		}
	}
	if mechanism == sharing.MechanismTimeSlicing {
		p.besideLarger(models)
	} else {
		doubtNeighbours(models)
	}
	out := make([]Prediction, len(group))
	if method == MethodClosedForm {
		p.closedForm(mechanism, models, out)
	} else if err := p.simulate(mechanism, models, out, known); err != nil {
		return nil, err
	}
	return out, nil
}

// doubtNeighbours widens the intervals of tenants under MPS without measured responses by the uncertainty of the
// neighbours' shares of the SMs.
func doubtNeighbours(models []tenantModel) {
	for i := range models {
		if models[i].evidence == EvidenceResponse {
			continue
		}
		worst := 0.0
		for j := range models {
			if j != i {
				worst = max(worst, models[j].smsError)
			}
		}
		models[i].widen = math.Hypot(models[i].widen, worst)
	}
}

// raise lifts every predicted percentile of a latency to its floor, in seconds.
func (p *Prediction) raise(floor [costs.LatencyCount]float64) {
	for m := range p.All() {
		k := costs.LatencyE2E
		switch m {
		case profile.MetricTPOTP50, profile.MetricTPOTP99:
			k = costs.LatencyTPOT
		case profile.MetricTTFTP50, profile.MetricTTFTP99:
			k = costs.LatencyTTFT
		case profile.MetricTokensPerSecond:
			continue
		}
		raise(&p.value[m], 1e3*floor[k])
	}
}

// Predictor predicts co-location from profiles. It is a value: copy it, write it as JSON, read it back with
// ParsePredictor. Make one with NewPredictor, and calibrate it with Fit.
type Predictor struct {
	costs.Calibration
}

// NewPredictor returns the predictor for an H200 with driver 580 as measured for this project.
func NewPredictor() Predictor { return Predictor{Calibration: costs.H200()} }

// ParsePredictor reads a predictor that was written as JSON, strictly: the error names every problem with its path.
// One of another version is refused by its version alone.
func ParsePredictor(data []byte) (*Predictor, error) {
	var head struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &head) == nil && head.Version > 0 && head.Version != costs.CalibrationVersion {
		why, remedy := "the models have other parameters since", "calibrate again on the measurements that it was "+
			"calibrated on"
		if head.Version > costs.CalibrationVersion {
			why, remedy = "a later version of the package wrote it", "update the package"
		}
		var list problem.List
		list.Addf("version", remedy, "is %d, and this package reads %d: %s", head.Version, costs.CalibrationVersion, why)
		return nil, list.Err()
	}
	var p Predictor
	if err := strictyaml.Decode(data, &p, strictyaml.Options{}); err != nil {
		return nil, err
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &p, nil
}

// LoadPredictor reads a file that [ParsePredictor] takes.
func LoadPredictor(path string) (*Predictor, error) { return profile.ReadFile(path, ParsePredictor) }
