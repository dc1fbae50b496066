// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// study is a set of measured cases with predictions of them.
type study struct {
	start, bare Predictor // bare is start without calibration
	method      Method
	isolated    []soloSeries
	cases       []*sharedCase
	known       *isolatedCache
}

type soloSeries struct {
	series, gpu string
	profiles    *profile.Profiles
}

func newStudy(start Predictor, method Method, files []profile.Rows) (*study, error) {
	s := &study{start: start, method: method, known: &isolatedCache{}}
	bare := residuals{}
	for m := range profile.Metric(profile.MetricCount) {
		bare[m] = Residual{HalfWidth: 1e-12}
	}
	s.bare = start
	s.bare.Models, s.bare.Engines, s.bare.Learned, s.bare.TimeSlicing, s.bare.MPS = nil, nil, nil, bare, bare
	var all profile.Profiles
	for i, rows := range files {
		own, err := seriesProfiles(rows)
		if err == nil {
			err = all.Add(rows.Profiles()...)
		}
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(own)) {
			k := slices.IndexFunc(rows, func(r profile.Row) bool { return r.Series == name })
			s.isolated = append(s.isolated, soloSeries{seriesName(name, i), s.gpuOf(&rows[k]), own[name]})
		}
	}
	for i, rows := range files {
		cases, err := sharedCases(rows, &all)
		if err != nil {
			return nil, err
		}
		for _, sc := range cases {
			sc.series, sc.gpu = seriesName(sc.series, i), s.gpuOf(&sc.Rows[0])
			sc.calibrates = !slices.ContainsFunc(sc.group, gapsOf)
		}
		s.cases = append(s.cases, cases...)
	}
	return s, nil
}

// seriesName names a series of a file, after the file where its rows do not.
func seriesName(name string, file int) string { return cmp.Or(name, fmt.Sprintf("file %d", file+1)) }

// gpuOf is the GPU of a row; without a name it is the predictor's.
func (s *study) gpuOf(r *profile.Row) string { return oneName(cmp.Or(r.GPUName, s.start.GPU)) }

func oneName(gpu string) string {
	if g, err := sharing.LookupGPU(gpu); err == nil {
		return g.Name
	}
	return gpu
}

// subset is the cases of a GPU, "" of any, without those of a series, "" for none.
type subset struct{ gpu, series string }

func (u *subset) of(gpu, series string) bool {
	return (u.gpu == "" || u.gpu == gpu) && (u.series == "" || u.series != series)
}

// holds reports whether a case is of the subset, and admits whether its tenants are such as the models were made for.
func (u *subset) holds(sc *sharedCase) bool  { return u.of(sc.gpu, sc.series) }
func (u *subset) admits(sc *sharedCase) bool { return sc.calibrates && u.holds(sc) }

// predictions returns the predictions of the uncalibrated predictor for a case, nil where there are none. Intervals
// hold only the own additions of predictions to the usual error, and nothing is carried over to another GPU.
func (s *study) predictions(sc *sharedCase) []Prediction {
	if sc.predictions == nil && sc.err == nil {
		p := s.bare
		p.GPU = sc.gpu
		sc.predictions, sc.err = p.predict(sc.Rows[0].Mechanism, sc.group, s.method, s.known)
	}
	return sc.predictions
}

// fitLoneCost fits the cost of MPS to a lone tenant on workloads that were measured with and without MPS in one series:
// the median difference of a decode step.
func (s *study) fitLoneCost(p *Predictor, u subset) {
	var costs []float64
	for _, a := range s.isolated {
		if !u.of(a.gpu, a.series) {
			continue
		}
		for mps := range a.profiles.All() {
			solo, err := a.profiles.Solo(mps.Server, mps.Load)
			ts := solo.TimeSlicing
			if err != nil || mps.Mechanism != sharing.MechanismMPS || ts == nil || ts.Server != mps.Server {
				continue
			}
			with, ok := optional.Positive(mps.ITL.P50)
			without, ok2 := optional.Positive(ts.ITL.P50)
			if ok && ok2 {
				costs = append(costs, with-without)
			}
		}
	}
	if len(costs) < 2 {
		return
	}
	slices.Sort(costs)
	c := &p.Parameters.LoneStepCost
	c.Value = min(max(stats.NearestRank(costs, 0.5), c.Low), c.High)
	c.Basis, c.Source = sharing.BasisFitted, fmt.Sprintf("%d workloads measured isolated with and without MPS", len(costs))
}
