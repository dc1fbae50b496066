package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/enum"
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
	fitted, err := s.calibrate(func(*studyCase) bool { return true }, "")
	if err != nil {
		return nil, err
	}
	unseen, err := s.validate(SplitLeaveOneModelOut)
	if err != nil {
		return nil, err
	}
	for _, e := range ErrorsOf(unseen) {
		residuals := fitted.residuals(e.Mechanism)
		if r := residuals[e.Metric]; r.Points > 0 {
			mean, p95 := e.MeanFraction, e.P95Fraction
			r.Mean, r.P95 = &mean, &p95
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
	// LeaveOneCaseOut predicts each case by a predictor calibrated on all other
	// cases.
	SplitLeaveOneCaseOut Split = iota
	// LeaveOneModelOut predicts each tenant by a predictor calibrated on the
	// cases in which the tenant's model does not occur.
	SplitLeaveOneModelOut
)

var splitNames = []string{"leave-one-case-out", "leave-one-model-out"}

// String returns "leave-one-case-out" or "leave-one-model-out".
func (s Split) String() string { return enum.String(splitNames, int(s)) }

// MarshalText returns the split's text.
func (s Split) MarshalText() ([]byte, error) {
	return enum.Text(ErrUnknownName, "split", splitNames, int(s))
}

// UnmarshalText reads a split's text.
func (s *Split) UnmarshalText(b []byte) error { return parse(splitNames, b, "split", s) }

// Measured is a co-located row with its prediction.
type Measured struct {
	Index      int // of the row in its file
	Row        *Row
	Prediction *Prediction // nil when it could not be predicted
	Err        error       // why not
}

// CrossValidate predicts every co-located row of a file by predictors that were
// calibrated, from p, on the part of the file that the split leaves them. The
// rows keep their order.
func (p Predictor) CrossValidate(method Method, split Split, rows Rows) ([]Measured, error) {
	s, err := newStudy(p, method, []Rows{rows})
	if err != nil {
		return nil, err
	}
	return s.validate(split)
}

// PredictRows predicts every co-located row of a file from the file's lone rows;
// a workload that the file does not hold alone is looked up in others. Outcomes
// of the co-located rows are not used. The rows keep their order.
func (p *Predictor) PredictRows(method Method, rows Rows, others *Profiles) ([]Measured, error) {
	profiles, err := rows.Profiles()
	if err != nil {
		return nil, err
	}
	var ps Profiles
	if err := ps.Add(profiles...); err != nil {
		return nil, err
	}
	var out []Measured
	for _, c := range rows.Cases() {
		if len(c.Rows) < 2 {
			continue
		}
		group, err := rows.group(c, &ps, others)
		out = append(out, p.predictCase(method, rows, c, group, err)...)
	}
	return out, nil
}

func (p *Predictor) predictCase(method Method, rows Rows, c Case, group []Solo, err error) []Measured {
	out := make([]Measured, len(c.Rows))
	var predictions []Prediction
	if err == nil {
		predictions, err = p.Predict(c.Mechanism, group, method)
	}
	for k, i := range c.Rows {
		out[k] = Measured{Index: i, Row: &rows[i], Err: err}
		if err == nil {
			out[k].Prediction = &predictions[k]
		}
	}
	return out
}

// group looks a case's tenants up, in the first set of profiles that has them.
func (rows Rows) group(c Case, sets ...*Profiles) ([]Solo, error) {
	var errs []error
	group := make([]Solo, len(c.Rows))
	for k, i := range c.Rows {
		var first error
		found := false
		for _, ps := range sets {
			if ps == nil || found {
				continue
			}
			solo, err := ps.Solo(rows[i].Server, rows[i].Load)
			if err == nil {
				group[k], found = solo, true
			} else if first == nil {
				first = err
			}
		}
		if !found {
			errs = append(errs, fmt.Errorf("[%d]: %w", i, first))
		}
	}
	return group, errors.Join(errs...)
}

// trial is a value of the one parameter that is fitted for a mechanism: a
// prefill's catch-up for time-slicing, the queue share for MPS. SMBlocking is
// not fitted: the data cannot tell the two apart.
type trial float64

// trialsOf is the grid over which a mechanism's parameters are fitted. It is
// small and coarse: the models are physical, and constants fitted more finely
// do worse on what they have not seen.
func trialsOf(m sharing.Mechanism) []trial {
	if m == sharing.MechanismMPS {
		return []trial{0.03, 0.045, 0.06, 0.075, 0.09}
	}
	return []trial{0.55, 0.65, 0.75, 0.85, 0.95}
}

// fitted is the parameter that is fitted for a mechanism, and a step of it that
// is worth a mean error of pull.
func (p *Parameters) fitted(m sharing.Mechanism) (q *Parameter, step float64) {
	if m == sharing.MechanismMPS {
		return &p.QueueShare, 0.015
	}
	return &p.PrefillCatchUp, 0.1
}

// pull is the mean error that a step away from the starting point must save.
const pull = 0.001

// study is a set of cases with what each trial predicts for them.
type study struct {
	start    Predictor
	method   Method
	profiles []SoloProfile
	cases    []*studyCase
}

type studyCase struct {
	rows  Rows
	c     Case
	group []Solo
	err   error // why it cannot be predicted
	tried [][]Prediction
}

func newStudy(start Predictor, method Method, files []Rows) (*study, error) {
	s := &study{start: start, method: method}
	for _, rows := range files {
		profiles, err := rows.Profiles()
		if err != nil {
			return nil, err
		}
		s.profiles = append(s.profiles, profiles...)
		var ps Profiles
		if err := ps.Add(profiles...); err != nil {
			return nil, err
		}
		for _, c := range rows.Cases() {
			if len(c.Rows) > 1 {
				sc := &studyCase{rows: rows, c: c}
				sc.group, sc.err = rows.group(c, &ps)
				s.cases = append(s.cases, sc)
			}
		}
	}
	return s, nil
}

// try returns what trial k predicts for a case; nil when nothing can.
func (s *study) try(sc *studyCase, k int) []Prediction {
	trials := trialsOf(sc.c.Mechanism)
	if sc.tried == nil {
		sc.tried = make([][]Prediction, len(trials))
	}
	if sc.tried[k] == nil && sc.err == nil {
		p := s.start
		q, _ := p.Parameters.fitted(sc.c.Mechanism)
		q.Value = float64(trials[k])
		sc.tried[k], sc.err = p.Predict(sc.c.Mechanism, sc.group, s.method)
	}
	return sc.tried[k]
}

// calibrate fits a predictor to the cases that use admits, and to the profiles
// of all models but one.
func (s *study) calibrate(use func(*studyCase) bool, butModel string) (*Predictor, error) {
	p := s.start
	p.TimeSlicing, p.MPS, p.Models = Residuals{}, Residuals{}, nil
	any := false
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		best, bestScore, points := -1, 0.0, 0
		for k, t := range trialsOf(m) {
			score, n := s.score(m, k, use)
			if n == 0 {
				break
			}
			q, step := s.start.Parameters.fitted(m)
			score += pull * math.Abs(float64(t)-q.Value) / step
			if best < 0 || score < bestScore {
				best, bestScore, points = k, score, n
			}
		}
		to := p.residuals(m)
		if best >= 0 {
			any = true
			q, _ := p.Parameters.fitted(m)
			q.Value, q.Basis, q.Source = float64(trialsOf(m)[best]), sharing.BasisFitted, fmt.Sprintf("%d co-located tenants", points)
		}
		s.spread(m, best, use, to)
	}
	if !any {
		return nil, ErrNothingToFit
	}
	for _, sc := range s.cases {
		for _, i := range sc.c.Rows {
			if m := sc.rows[i].Server.Model(); use(sc) && !slices.Contains(p.Models, m) {
				p.Models = append(p.Models, m)
			}
		}
	}
	slices.Sort(p.Models)
	s.fitLoneCost(&p, butModel)
	return &p, nil
}

// score is the mean error of TPOT and, in closed loops, of throughput, on the
// scale of logarithms, and the number of tenants it is taken over.
func (s *study) score(m sharing.Mechanism, k int, use func(*studyCase) bool) (mean float64, tenants int) {
	sum, n := 0.0, 0
	s.each(m, k, use, func(r *Row, p *Prediction) {
		tenants++
		for _, metric := range []Metric{MetricTPOTP50, MetricTokensPerSecond} {
			if got, ok := r.Metric(metric); ok && (metric == MetricTPOTP50 || r.Load.Closed()) {
				if v, ok := p.Get(metric); ok {
					sum += logRatio(v.Value, got)
					n++
				}
			}
		}
	})
	if n == 0 {
		return 0, 0
	}
	return sum / float64(n), tenants
}

func (s *study) each(m sharing.Mechanism, k int, use func(*studyCase) bool, f func(*Row, *Prediction)) {
	for _, sc := range s.cases {
		if sc.c.Mechanism != m || !use(sc) {
			continue
		}
		for j, p := range s.try(sc, k) {
			f(&sc.rows[sc.c.Rows[j]], &p)
		}
	}
}

// priorWeight is the number of measurements that a prior half-width counts for.
const priorWeight = 8

// spread sets the half-widths of the intervals from the errors of trial k,
// weighed against those of the start; k < 0 takes the start's.
func (s *study) spread(m sharing.Mechanism, k int, use func(*studyCase) bool, to Residuals) {
	errs := [MetricCount][]float64{}
	if k >= 0 {
		s.each(m, k, use, func(r *Row, p *Prediction) {
			for i := range errs {
				metric := Metric(i)
				got, ok := r.Metric(metric)
				v, ok2 := p.Get(metric)
				if ok && ok2 && (metric != MetricTokensPerSecond || r.Load.Closed()) {
					errs[i] = append(errs[i], logRatio(v.Value, got))
				}
			}
		})
	}
	from := s.start.residuals(m)
	for i, e := range errs {
		r := from[Metric(i)]
		if n := len(e); n > 0 {
			slices.Sort(e)
			q := nearestRank(e, 0.9)
			r = Residual{Points: n, HalfWidth: math.Sqrt((float64(n)*q*q + priorWeight*r.HalfWidth*r.HalfWidth) / float64(n+priorWeight))}
		}
		to[Metric(i)] = r
	}
}

// fitLoneCost takes what MPS costs a lone tenant from workloads that were
// measured with and without it: the median difference of a decode step.
func (s *study) fitLoneCost(p *Predictor, butModel string) {
	var ps Profiles
	if err := ps.Add(s.profiles...); err != nil {
		return // they were valid when they were read
	}
	var costs []float64
	for _, mps := range ps.order {
		ts := ps.find(sharing.MechanismTimeSlicing, mps.Server, mps.Load)
		if mps.Mechanism != sharing.MechanismMPS || ts == nil || butModel != "" && mps.Server.Model() == butModel {
			continue
		}
		a, ok := mps.ITL.p50()
		b, ok2 := ts.ITL.p50()
		if ok && ok2 {
			costs = append(costs, a-b)
		}
	}
	if len(costs) < 2 {
		return
	}
	slices.Sort(costs)
	c := &p.Parameters.LoneStepCost
	c.Value = min(max(nearestRank(costs, 0.5), c.Low), c.High)
	c.Basis, c.Source = sharing.BasisFitted, fmt.Sprintf("%d workloads measured alone with and without MPS", len(costs))
}

// validate predicts each case by predictors calibrated on what the split
// leaves.
func (s *study) validate(split Split) ([]Measured, error) {
	var out []Measured
	byModel := map[string]*Predictor{}
	for _, sc := range s.cases {
		if split == SplitLeaveOneCaseOut {
			p, err := s.calibrate(func(o *studyCase) bool { return o.c.Name != sc.c.Name }, "")
			if err != nil {
				p = &s.start
			}
			out = append(out, p.predictCase(s.method, sc.rows, sc.c, sc.group, sc.err)...)
			continue
		}
		predicted := map[string][]Measured{}
		for k, i := range sc.c.Rows {
			model := sc.rows[i].Server.Model()
			if byModel[model] == nil {
				p, err := s.calibrate(func(o *studyCase) bool { return !o.holds(model) }, model)
				if err != nil {
					p = &s.start // nothing is left: what was known before
				}
				byModel[model] = p
			}
			if predicted[model] == nil {
				predicted[model] = byModel[model].predictCase(s.method, sc.rows, sc.c, sc.group, sc.err)
			}
			out = append(out, predicted[model][k])
		}
	}
	return out, nil
}

func (sc *studyCase) holds(model string) bool {
	return slices.ContainsFunc(sc.c.Rows, func(i int) bool { return sc.rows[i].Server.Model() == model })
}
