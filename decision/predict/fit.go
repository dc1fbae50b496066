// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// ErrNothingToFit says that there is no measured co-located row to calibrate on.
var ErrNothingToFit = errors.New("predict: no measured co-located row to calibrate on")

// Fit returns p calibrated on files of measurements: its parameters, within their plausible ranges, and the errors
// to expect. Each file's lone rows are the profiles of its co-located rows.
//
// What was measured in one go on one machine is a series (Row.Series; a file whose rows do not say is one): two of
// them differ by more than two runs in one do. So the errors are those of each series by a predictor calibrated on
// the others. Of one series alone they are those of each case by the other cases, wider by what series were seen to
// differ ([costs.Residual]). Only rows of p's GPU count, see [Predictor.On]; rows that name none are taken for such.
func (p Predictor) Fit(method Method, files ...profile.Rows) (*Predictor, error) {
	s, err := newStudy(p, method, files)
	if err != nil {
		return nil, err
	}
	return s.calibrate(subset{gpu: oneName(p.GPU)})
}

// Split divides measurements into those that a predictor is calibrated on and those that it predicts.
type Split uint8

// The splits.
const (
	// SplitLeaveOneCaseOut predicts each case by a predictor calibrated on all other cases.
	SplitLeaveOneCaseOut Split = iota
	// SplitLeaveOneModelOut predicts each tenant by a predictor calibrated on the
	// cases in which the tenant's model does not occur.
	SplitLeaveOneModelOut
	// SplitLeaveOneSeriesOut predicts each series by a predictor calibrated on the other series of the same GPU where
	// there are seven or more, or else on those of the GPU of the predictor that it starts from, or else on all.
	SplitLeaveOneSeriesOut
)

var splits = enum.Of[Split](profile.ErrUnknownName, "split", "leave-one-case-out", "leave-one-model-out",
	"leave-one-series-out")

// CrossValidate predicts every co-located row of the files by predictors that were calibrated, from p, on the part
// of the files that the split leaves them. A workload that a file does not hold alone is looked up in the others.
// The rows keep their order; Measured.Series tells them apart.
func (p Predictor) CrossValidate(method Method, split Split, files ...profile.Rows) ([]Measured, error) {
	s, err := newStudy(p, method, files)
	if err != nil {
		return nil, err
	}
	return s.validate(split), nil
}

// Mix is a measured case of several tenants on one GPU, with what predicts it: the
// profiles of each tenant alone and a predictor that never saw its series.
type Mix struct {
	Series, GPU string
	Rows        profile.Rows
	Group       []profile.Solo // by row
	Predictor   *Predictor
	Err         error // why nothing predicts it
}

// Mixes lists the co-located cases of files, each with the predictor that
// SplitLeaveOneSeriesOut gives it. Where the files hold no other series, that is p.
func (p Predictor) Mixes(method Method, files ...profile.Rows) ([]Mix, error) {
	s, err := newStudy(p, method, files)
	if err != nil {
		return nil, err
	}
	fitted := fittedTo{}
	out := make([]Mix, len(s.cases))
	for i, sc := range s.cases {
		out[i] = Mix{sc.series, sc.gpu, sc.Rows, sc.group, fitted.of(s, s.without(sc)), sc.err}
	}
	return out, nil
}

// calibrate fits a predictor to a subset, and to its profiles.
func (s *study) calibrate(u subset) (*Predictor, error) {
	p := s.start
	p.TimeSlicing, p.MPS, p.Models, p.Engines = costs.Residuals{}, costs.Residuals{}, nil, nil
	p.Learned = nil
	any := false
	for _, m := range profile.Mechanisms {
		from, to := s.start.Residuals(m), p.Residuals(m)
		maps.Copy(to, from)
		k := s.best(m, u)
		tenants, series := 0, map[string]bool{}
		for _, sc := range s.cases {
			if sc.Rows[0].Mechanism == m && u.admits(sc) && s.try(sc, k).figures > 0 {
				tenants += len(sc.Rows)
				series[sc.series] = true
			}
		}
		if tenants == 0 {
			continue
		}
		any = true
		q, trials := fitted(&p.Parameters, m)
		q.Value, q.Basis, q.Source = trials[k], sharing.BasisFitted, fmt.Sprintf("%d co-located tenants in %d series",
			tenants, len(series))
		s.learn(m, u, to)
	}
	learned := s.engines(&p, u)
	if !any && len(learned) == 0 {
		return nil, ErrNothingToFit
	}
	for _, sc := range s.cases {
		for i := range sc.Rows {
			if u.admits(sc) {
				p.Models = append(p.Models, sc.Rows[i].Server.Model)
				if engine := sc.Rows[i].Engine; engine != "" && engine != calibrationEngine {
					p.Engines = append(p.Engines, engine)
				}
			}
		}
	}
	slices.Sort(p.Models)
	slices.Sort(p.Engines)
	p.Models, p.Engines = slices.Compact(p.Models), slices.Compact(p.Engines)
	s.fitLoneCost(&p, u)
	p.Learned = learned
	return &p, nil
}

// validate predicts each case by predictors calibrated on the rows that the split leaves, or else by the initial one.
func (s *study) validate(split Split) []Measured {
	var out []Measured
	fitted := fittedTo{}
	for _, sc := range s.cases {
		predicted := map[subset][]Measured{}
		for k := range sc.Rows {
			u := subset{gpu: oneName(s.start.GPU)}
			switch split {
			case SplitLeaveOneModelOut:
				u.model = sc.Rows[k].Server.Model
			case SplitLeaveOneSeriesOut:
				u = s.without(sc)
			default:
				u.name[0] = sc.Rows[k].Case
			}
			if predicted[u] == nil {
				predicted[u] = fitted.of(s, u).predictCase(s.method, sc, s.known)
			}
			out = append(out, predicted[u][k])
		}
	}
	return out
}

// fittedTo holds predictors by the subset of rows that they were calibrated on.
type fittedTo map[subset]*Predictor

func (f fittedTo) of(s *study, u subset) *Predictor {
	if f[u] == nil {
		p, err := s.on(u.gpu).calibrate(u)
		if err != nil {
			p = &s.start
		}
		f[u] = p
	}
	return f[u]
}

// without are the other series of a case's GPU where there are enough to tell how much series differ, or else those
// of the predictor's, from which the parameters carry over, or else all.
func (s *study) without(sc *sharedCase) subset {
	for _, gpu := range []string{sc.gpu, oneName(s.start.GPU)} {
		u := subset{gpu: gpu, series: [2]string{sc.series}}
		others := map[string]bool{}
		for _, o := range s.cases {
			if u.admits(o) && o.Rows[0].Mechanism == sc.Rows[0].Mechanism {
				others[o.series] = true
			}
		}
		if n := len(others); n >= int(table.Fit.FewSeries.Value) || n > 0 && gpu == oneName(s.start.GPU) {
			return u
		}
	}
	return subset{series: [2]string{sc.series}}
}

// on returns the study of a predictor for another GPU; the trials predict the same.
func (s *study) on(gpu string) *study {
	if gpu == "" || gpu == oneName(s.start.GPU) {
		return s
	}
	there := *s
	there.start = s.start.On(gpu, "")
	return &there
}
