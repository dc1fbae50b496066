package predict

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
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

// PredictRows predicts every co-located row of a file from the lone rows of its series; a workload that was not
// measured alone in it is looked up in others. Outcomes of the co-located rows are not used. The rows keep their order.
func (p *Predictor) PredictRows(method Method, rows profile.Rows, others *profile.Profiles) ([]Measured, error) {
	cases, err := sharedCases(rows, others)
	if err != nil {
		return nil, err
	}
	var out []Measured
	known := &aloneCache{}
	for _, sc := range cases {
		out = append(out, p.predictCase(method, sc, known)...)
	}
	return out, nil
}

func (p *Predictor) predictCase(method Method, sc *sharedCase, known *aloneCache) []Measured {
	out := make([]Measured, len(sc.Rows))
	predictions, err := []Prediction(nil), sc.err
	if err == nil {
		predictions, err = p.predict(sc.Rows[0].Mechanism, sc.group, method, known)
	}
	for k := range sc.Rows {
		out[k] = Measured{Series: sc.series, Index: sc.At + k, Row: &sc.Rows[k], Err: err}
		if err == nil {
			out[k].Prediction = &predictions[k]
		}
	}
	return out
}

// sharedCase is a case of several tenants with what is known of each alone.
type sharedCase struct {
	profile.Case
	group []profile.Solo
	err   error // why it cannot be predicted
	// calibrates says that all its tenants are servers that launch steps as a whole.
	calibrates bool

	series, gpu string
	tried       []trialOf // by trial; see study
}

// sharedCases lists the cases of more than one tenant, each tenant with its profile in
// the same series, or else in the file, or else in others, which may be nil.
func sharedCases(rows profile.Rows, others *profile.Profiles) ([]*sharedCase, error) {
	own, err := seriesProfiles(rows)
	if err != nil {
		return nil, err
	}
	all, err := profile.NewProfiles(rows.Profiles()...)
	if err != nil {
		return nil, err
	}
	var out []*sharedCase
	for _, c := range rows.Cases() {
		if len(c.Rows) < 2 {
			continue
		}
		sc := &sharedCase{Case: c, group: make([]profile.Solo, len(c.Rows)), series: c.Rows[0].Series}
		var errs []error
		for k, r := range c.Rows {
			solo, err := own[sc.series].Solo(r.Server, r.Load)
			for _, ps := range []*profile.Profiles{all, others} {
				if err != nil {
					if elsewhere, err2 := ps.Solo(r.Server, r.Load); err2 == nil {
						solo, err = elsewhere, nil
					}
				}
				if solo.Elsewhere == nil {
					solo.Elsewhere = ps.Elsewhere(r.Server, r.Load)
				}
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("[%d]: %w", c.At+k, err))
			}
			sc.group[k] = solo
		}
		sc.err = errors.Join(errs...)
		out = append(out, sc)
	}
	return out, nil
}

func seriesProfiles(rows profile.Rows) (map[string]*profile.Profiles, error) {
	out := map[string]*profile.Profiles{}
	for i := range rows {
		r := &rows[i]
		if out[r.Series] == nil {
			out[r.Series] = &profile.Profiles{}
		}
		if r.Tenants != 1 {
			continue
		}
		if err := out[r.Series].Add(r.Profile()); err != nil {
			return nil, err
		}
	}
	return out, nil
}
