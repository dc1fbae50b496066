package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// ErrNothingToFit says that there is no measured co-located row to calibrate
// on.
var ErrNothingToFit = errors.New("predict: no measured co-located row to calibrate on")

// Fit returns p calibrated on files of measurements: its parameters, within
// their plausible ranges, and the errors to expect, with each model left out
// where there are several. Each file's lone rows are the profiles of its
// co-located rows.
func (p Predictor) Fit(method Method, files ...Rows) (*Predictor, error) {
	s, err := newStudy(p, method, files)
	if err != nil {
		return nil, err
	}
	fitted, err := s.calibrate(func(*sharedCase) bool { return true }, "")
	if err != nil {
		return nil, err
	}
	for _, e := range ErrorsOf(s.validate(SplitLeaveOneModelOut)) {
		residuals := fitted.residuals(e.Mechanism)
		if r := residuals[e.Metric]; r.Points > 0 {
			r.Mean, r.P95 = Some(e.MeanFraction), Some(e.P95Fraction)
			residuals[e.Metric] = r
		}
	}
	return fitted, nil
}

// Split is how measurements are divided into those that a predictor is
// calibrated on and those that it predicts.
type Split uint8

// The splits.
const (
	// SplitLeaveOneCaseOut predicts each case by a predictor calibrated on all other
	// cases.
	SplitLeaveOneCaseOut Split = iota
	// SplitLeaveOneModelOut predicts each tenant by a predictor calibrated on the
	// cases in which the tenant's model does not occur.
	SplitLeaveOneModelOut
)

var splits = enum.Of[Split](ErrUnknownName, "split", "leave-one-case-out", "leave-one-model-out")

// String returns "leave-one-case-out" or "leave-one-model-out".
func (s Split) String() string { return splits.String(s) }

// MarshalText returns the split's text.
func (s Split) MarshalText() ([]byte, error) { return splits.Text(s) }

// UnmarshalText reads a split's text.
func (s *Split) UnmarshalText(b []byte) error { return splits.Parse(s, b) }

// CrossValidate predicts every co-located row of a file by predictors that were
// calibrated, from p, on the part of the file that the split leaves them. The
// rows keep their order.
func (p Predictor) CrossValidate(method Method, split Split, rows Rows) ([]Measured, error) {
	s, err := newStudy(p, method, []Rows{rows})
	if err != nil {
		return nil, err
	}
	return s.validate(split), nil
}

// PredictRows predicts every co-located row of a file from the file's lone rows;
// a workload that the file does not hold alone is looked up in others. Outcomes
// of the co-located rows are not used. The rows keep their order.
func (p *Predictor) PredictRows(method Method, rows Rows, others *Profiles) ([]Measured, error) {
	ps, err := NewProfiles(rows.Profiles()...)
	if err != nil {
		return nil, err
	}
	var out []Measured
	for _, sc := range rows.shared(ps, others) {
		out = append(out, p.predictCase(method, sc)...)
	}
	return out, nil
}

func (p *Predictor) predictCase(method Method, sc *sharedCase) []Measured {
	out := make([]Measured, len(sc.rows))
	predictions, err := []Prediction(nil), sc.err
	if err == nil {
		predictions, err = p.Predict(sc.rows[0].Mechanism, sc.group, method)
	}
	for k := range sc.rows {
		out[k] = Measured{Index: sc.at + k, Row: &sc.rows[k], Err: err}
		if err == nil {
			out[k].Prediction = &predictions[k]
		}
	}
	return out
}

// sharedCase is a case of several tenants with what is known of each alone.
type sharedCase struct {
	rowCase
	group []Solo
	err   error          // why it cannot be predicted
	tried [][]Prediction // by trial; see study
}

// shared lists the cases of more than one tenant, each tenant with the first of
// the profiles that know it; nil ones know nobody.
func (rows Rows) shared(sets ...*Profiles) []*sharedCase {
	var out []*sharedCase
	for _, c := range rows.cases() {
		if len(c.rows) < 2 {
			continue
		}
		sc := &sharedCase{rowCase: c, group: make([]Solo, len(c.rows))}
		var errs []error
		for k, r := range c.rows {
			var missing error
			for _, ps := range sets {
				solo, err := ps.Solo(r.Server, r.Load)
				if err == nil {
					sc.group[k], missing = solo, nil
					break
				}
				if missing == nil {
					missing = fmt.Errorf("[%d]: %w", c.at+k, err)
				}
			}
			errs = append(errs, missing)
		}
		sc.err = errors.Join(errs...)
		out = append(out, sc)
	}
	return out
}

// fitted is the one parameter that is fitted for a mechanism, a prefill's
// catch-up for time-slicing and the queue share for MPS, and the values that are
// tried of it. SMBlocking is not fitted: the data cannot tell the two apart. The
// grid is coarse: the models are physical, and constants fitted more finely do
// worse on what they have not seen.
func (p *Parameters) fitted(m sharing.Mechanism) (q *Parameter, trials []float64) {
	if m == sharing.MechanismMPS {
		return &p.QueueShare, []float64{0.03, 0.045, 0.06, 0.075, 0.09}
	}
	return &p.PrefillCatchUp, []float64{0.55, 0.65, 0.75, 0.85, 0.95}
}

// pull is the mean error that a step of the grid away from the starting point
// must save.
const pull = 0.001

// study is a set of cases with what each trial predicts for them.
type study struct {
	start    Predictor
	method   Method
	profiles Profiles // of all files
	cases    []*sharedCase
}

func newStudy(start Predictor, method Method, files []Rows) (*study, error) {
	s := &study{start: start, method: method}
	for _, rows := range files {
		profiles := rows.Profiles()
		ps, err := NewProfiles(profiles...)
		if err == nil {
			err = s.profiles.Add(profiles...)
		}
		if err != nil {
			return nil, err
		}
		s.cases = append(s.cases, rows.shared(ps)...)
	}
	return s, nil
}

// try returns what trial k predicts for a case; nil when nothing can.
func (s *study) try(sc *sharedCase, k int) []Prediction {
	m := sc.rows[0].Mechanism
	p := s.start
	q, trials := p.Parameters.fitted(m)
	if sc.tried == nil {
		sc.tried = make([][]Prediction, len(trials))
	}
	if sc.tried[k] == nil && sc.err == nil {
		q.Value = trials[k]
		sc.tried[k], sc.err = p.Predict(m, sc.group, s.method)
	}
	return sc.tried[k]
}

// calibrate fits a predictor to the cases that use admits, and to the profiles
// of all models but one.
func (s *study) calibrate(use func(*sharedCase) bool, butModel string) (*Predictor, error) {
	p := s.start
	p.TimeSlicing, p.MPS, p.Models = Residuals{}, Residuals{}, nil
	any := false
	for _, m := range mechanisms {
		q, trials := p.Parameters.fitted(m)
		from, to, start := s.start.residuals(m), p.residuals(m), q.Value
		var errs [metricCount][]float64
		best := math.Inf(1)
		for k, trial := range trials {
			e, tenants := s.errors(m, k, use)
			scored := slices.Concat(e[MetricTPOTP50], e[MetricTokensPerSecond])
			if len(scored) == 0 {
				break
			}
			score := pull * math.Abs(trial-start) / (trials[1] - trials[0])
			for _, e := range scored {
				score += e / float64(len(scored))
			}
			if score < best {
				any, best, errs = true, score, e
				q.Value, q.Basis, q.Source = trial, sharing.BasisFitted, fmt.Sprintf("%d co-located tenants", tenants)
			}
		}
		for metric, e := range errs {
			to[Metric(metric)] = from[Metric(metric)].learn(e)
		}
	}
	if !any {
		return nil, ErrNothingToFit
	}
	for _, sc := range s.cases {
		for i := range sc.rows {
			if use(sc) {
				p.Models = append(p.Models, sc.rows[i].Server.Model)
			}
		}
	}
	slices.Sort(p.Models)
	p.Models = slices.Compact(p.Models)
	s.fitLoneCost(&p, butModel)
	return &p, nil
}

// errors are the distances of trial k's predictions from what was measured, on
// the scale of logarithms, and the number of tenants they are of.
func (s *study) errors(m sharing.Mechanism, k int, use func(*sharedCase) bool) (errs [metricCount][]float64, tenants int) {
	for _, sc := range s.cases {
		if sc.rows[0].Mechanism != m || !use(sc) {
			continue
		}
		for j, p := range s.try(sc, k) {
			tenants++
			for metric, v := range p.All() {
				if got, ok := sc.rows[j].compared(metric); ok {
					errs[metric] = append(errs[metric], math.Abs(math.Log(v.Value/got)))
				}
			}
		}
	}
	return errs, tenants
}

// priorWeight is the number of measurements that a prior half-width counts for.
const priorWeight = 8

// learn weighs the half-width against errors that were seen, if any were.
func (r Residual) learn(errs []float64) Residual {
	if len(errs) == 0 {
		return r
	}
	slices.Sort(errs)
	n, q := float64(len(errs)), stats.NearestRank(errs, 0.9)
	return Residual{Points: len(errs), HalfWidth: math.Sqrt((n*q*q + priorWeight*r.HalfWidth*r.HalfWidth) / (n + priorWeight))}
}

// fitLoneCost takes what MPS costs a lone tenant from workloads that were
// measured with and without it: the median difference of a decode step.
func (s *study) fitLoneCost(p *Predictor, butModel string) {
	var costs []float64
	for _, mps := range s.profiles.order {
		ts := s.profiles.find(sharing.MechanismTimeSlicing, mps.Server, mps.Load)
		if mps.Mechanism != sharing.MechanismMPS || ts == nil || butModel != "" && mps.Server.Model == butModel {
			continue
		}
		a, ok := positive(mps.ITL.P50)
		b, ok2 := positive(ts.ITL.P50)
		if ok && ok2 {
			costs = append(costs, a-b)
		}
	}
	if len(costs) < 2 {
		return
	}
	slices.Sort(costs)
	c := &p.Parameters.LoneStepCost
	c.Value = min(max(stats.NearestRank(costs, 0.5), c.Low), c.High)
	c.Basis, c.Source = sharing.BasisFitted, fmt.Sprintf("%d workloads measured alone with and without MPS", len(costs))
}

// validate predicts each case by predictors calibrated on what the split
// leaves; where that is nothing, by what was known before.
func (s *study) validate(split Split) []Measured {
	var out []Measured
	fitted := map[string]*Predictor{} // by the case or model that was left out
	for _, sc := range s.cases {
		predicted := map[string][]Measured{}
		for k := range sc.rows {
			name, model := sc.rows[k].Case, ""
			use := func(o *sharedCase) bool { return o.rows[0].Case != name }
			if split == SplitLeaveOneModelOut {
				name, model = "", sc.rows[k].Server.Model
				use = func(o *sharedCase) bool {
					return !slices.ContainsFunc(o.rows, func(r Row) bool { return r.Server.Model == model })
				}
			}
			left := name + model
			if fitted[left] == nil {
				fitted[left] = &s.start
				if p, err := s.calibrate(use, model); err == nil {
					fitted[left] = p
				}
			}
			if predicted[left] == nil {
				predicted[left] = fitted[left].predictCase(s.method, sc)
			}
			out = append(out, predicted[left][k])
		}
	}
	return out
}
