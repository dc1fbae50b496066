// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// Measured is a co-located row with its prediction.
type Measured struct {
	Series     string // of the row, or else of its file
	Index      int    // of the row in its file
	Row        *profile.Row
	Prediction *Prediction // nil when it could not be predicted
	Err        error       // why not
}

// PredictRows predicts every co-located row of a file from the isolated rows of its series, or from others for a
// workload without one. Outcomes of the co-located rows are not used. The rows are in their order.
func (p *Predictor) PredictRows(method Method, rows profile.Rows, others *profile.Profiles) ([]Measured, error) {
	cases, err := sharedCases(rows, others)
	if err != nil {
		return nil, err
	}
	var out []Measured
	known := &isolatedCache{}
	for _, sc := range cases {
		out = append(out, p.predictCase(method, sc, known)...)
	}
	return out, nil
}

func (p *Predictor) predictCase(method Method, sc *sharedCase, known *isolatedCache) []Measured {
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

// sharedCase is a case of several tenants with the profiles of each.
type sharedCase struct {
	profile.Case
	group []profile.Solo
	err   error // why it cannot be predicted
	// calibrates is true if all its tenants are servers that launch steps as a whole.
	calibrates bool

	series, gpu string
	predictions []Prediction // see study.predictions
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
				elsewhere, err2 := ps.Solo(r.Server, r.Load)
				if err != nil && err2 == nil {
					solo, err = elsewhere, nil
				}
				solo.Elsewhere = cmp.Or(solo.Elsewhere, elsewhere.Elsewhere)
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
	for _, r := range rows {
		if out[r.Series] == nil {
			out[r.Series] = &profile.Profiles{}
		}
		if err := out[r.Series].Add(profile.Rows{r}.Profiles()...); err != nil {
			return nil, err
		}
	}
	return out, nil
}
