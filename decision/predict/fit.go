// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// ErrNothingToFit is returned by Predictor.Fit without a measured co-located row.
var ErrNothingToFit = errors.New("predict: no measured co-located row to calibrate on")

// Fit returns p calibrated on files of measurements: the expected errors, the cost of MPS to an isolated tenant, and
// corrections for engines and tenants outside the models' calibration. The isolated rows of each file are the profiles
// of its co-located rows.
//
// Rows measured in one session on one machine form a series (Row.Series; a file without series is one). Series differ
// more than runs within a series, so few series widen the intervals (see [Residual]). Only rows of the predictor's GPU
// count, see [Predictor.On]; rows without a GPU count as rows of it.
func (p Predictor) Fit(method Method, files ...profile.Rows) (*Predictor, error) {
	s, err := newStudy(p, method, files)
	if err != nil {
		return nil, err
	}
	return s.calibrate(subset{gpu: oneName(p.GPU)})
}

// CrossValidate predicts every co-located row of the files by p calibrated without the row's series: on the other
// series of the same GPU if there are seven or more, or else on those of p's GPU, or else on all. A workload without an
// isolated row in its file is looked up in the others. The rows are in their order; Measured.Series names their series.
func (p Predictor) CrossValidate(method Method, files ...profile.Rows) ([]Measured, error) {
	s, err := newStudy(p, method, files)
	if err != nil {
		return nil, err
	}
	var out []Measured
	fitted := fittedTo{}
	for _, sc := range s.cases {
		out = append(out, fitted.of(s, s.without(sc)).predictCase(s.method, sc, s.known)...)
	}
	return out, nil
}

// Mix is a measured case of several tenants on one GPU, with the inputs of its prediction: the isolated profiles of
// each tenant and a predictor calibrated without its series.
type Mix struct {
	Series, GPU string
	Rows        profile.Rows
	Group       []profile.Solo // by row
	Predictor   *Predictor
	Err         error // why there is no prediction
}

// Mixes lists the co-located cases of files, each with the predictor that CrossValidate uses for it: p if the files
// hold no other series.
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
	p.TimeSlicing, p.MPS, p.Models, p.Engines, p.Learned = residuals{}, residuals{}, nil, nil, nil
	any := false
	for _, m := range profile.Mechanisms {
		to := p.residuals(m)
		maps.Copy(to, s.start.residuals(m))
		any = s.learn(m, u, to) || any
	}
	learned := s.engines(u)
	if !any && len(learned) == 0 {
		return nil, ErrNothingToFit
	}
	for _, sc := range s.cases {
		if !u.admits(sc) {
			continue
		}
		for _, r := range sc.Rows {
			if p.Models = append(p.Models, r.Server.Model); r.Engine != "" && r.Engine != calibrationEngine {
				p.Engines = append(p.Engines, r.Engine)
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

// fittedTo holds predictors by the subset of rows that they were calibrated on.
type fittedTo map[subset]*Predictor

func (f fittedTo) of(s *study, u subset) *Predictor {
	if f[u] == nil {
		there := *s // its predictions of the cases are the same
		if u.gpu != "" && u.gpu != oneName(s.start.GPU) {
			there.start = s.start.On(u.gpu, "")
		}
		p, err := there.calibrate(u)
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
		u := subset{gpu, sc.series}
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
	return subset{series: sc.series}
}
