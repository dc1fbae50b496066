// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// fitted is the one parameter that is fitted for a mechanism, what resuming a slice costs for time-slicing and the
// queue share for MPS, and the values that are tried of it. The grid is coarse: the models are physical, and constants
// fitted more finely do worse on what they have not seen.
func fitted(p *costs.Parameters, m sharing.Mechanism) (q *costs.Parameter, trials []float64) {
	if m == sharing.MechanismMPS {
		return &p.QueueShare, queueTrials
	}
	return &p.SliceLoss, lossTrials
}

var queueTrials, lossTrials = []float64{0.06, 0.09, 0.12, 0.15, 0.18}, []float64{0, 0.015, 0.03, 0.045, 0.06}

// pull is the mean error that a step of the grid away from the starting point must save of so many figures: a few rows
// say little of what resuming a slice costs.
func pull(m sharing.Mechanism, figures int) float64 {
	const few = 150
	if m == sharing.MechanismMPS {
		return table.Fit.Pull.Value
	}
	return table.Fit.Pull.Value * max(1, few/float64(max(figures, 1)))
}

// study is a set of cases with what each trial predicts for them.
type study struct {
	start, bare Predictor // bare is start without usual errors
	method      Method
	alone       []soloSeries
	cases       []*sharedCase
	known       *aloneCache
}

type soloSeries struct {
	series, gpu string
	profiles    *profile.Profiles
}

// trialOf holds a trial's predictions for a case, with intervals that hold nothing but what the predictions themselves
// add to the usual error, and its distance from what was measured: the sum of figures logarithms.
type trialOf struct {
	predictions []Prediction
	distance    float64
	figures     int
}

func newStudy(start Predictor, method Method, files []profile.Rows) (*study, error) {
	s := &study{start: start, method: method, known: &aloneCache{}}
	bare := costs.Residuals{}
	for _, m := range profile.Metrics() {
		bare[m] = costs.Residual{HalfWidth: 1e-12}
	}
	s.bare = start
	s.bare.Models, s.bare.TimeSlicing, s.bare.MPS = nil, bare, bare
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
			s.alone = append(s.alone, soloSeries{seriesName(name, i), s.gpuOf(&rows[k]), own[name]})
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

// gpuOf is the GPU that a row is of; one that does not say is of the predictor's.
func (s *study) gpuOf(r *profile.Row) string { return oneName(cmp.Or(r.GPUName, s.start.GPU)) }

func oneName(gpu string) string {
	if g, err := sharing.LookupGPU(gpu); err == nil {
		return g.Name
	}
	return gpu
}

// subset are the cases of a GPU, "" of any, without those of up to two series, two cases and a model, "" for none.
type subset struct {
	gpu          string
	series, name [2]string
	model        string
}

func (u *subset) of(gpu, series string) bool {
	return (u.gpu == "" || u.gpu == gpu) && !slices.Contains(u.series[:], series)
}

func (u *subset) admits(sc *sharedCase) bool { return sc.calibrates && u.holds(sc) }

// holds reports whether a case is of the subset, whether or not the models' parameters are fitted to its like.
func (u *subset) holds(sc *sharedCase) bool {
	return u.of(sc.gpu, sc.series) && !slices.Contains(u.name[:], sc.Rows[0].Case) &&
		(u.model == "" || !slices.ContainsFunc(sc.Rows, func(r profile.Row) bool { return r.Server.Model == u.model }))
}

// try returns what trial k predicts for a case.
func (s *study) try(sc *sharedCase, k int) *trialOf {
	m := sc.Rows[0].Mechanism
	p := s.bare
	p.GPU = sc.gpu // nothing is carried over to the GPU that its series calibrate
	q, trials := fitted(&p.Parameters, m)
	if sc.tried == nil {
		sc.tried = make([]trialOf, len(trials))
	}
	t := &sc.tried[k]
	if t.predictions != nil || sc.err != nil {
		return t
	}
	q.Value = trials[k]
	if t.predictions, sc.err = p.predict(m, sc.group, s.method, s.known); sc.err != nil {
		return t
	}
	for j := range t.predictions {
		for _, metric := range []profile.Metric{profile.MetricTPOTP50, profile.MetricTokensPerSecond} {
			v, ok := t.predictions[j].Get(metric)
			if got, ok2 := sc.Rows[j].Compared(metric); ok && ok2 {
				t.distance += math.Abs(math.Log(v.Value / got))
				t.figures++
			}
		}
	}
	return t
}

// best is the trial that predicts the TPOT and the throughput of a subset best, as
// one walks to it from the starting point; that where the subset is empty.
func (s *study) best(m sharing.Mechanism, u subset) int {
	q, trials := fitted(&s.start.Parameters, m)
	step := trials[1] - trials[0]
	score := func(k int) float64 {
		sum, figures := 0.0, 0
		for _, sc := range s.cases {
			if sc.Rows[0].Mechanism == m && u.admits(sc) {
				t := s.try(sc, k)
				sum, figures = sum+t.distance, figures+t.figures
			}
		}
		return sum/float64(max(figures, 1)) + pull(m, figures)*math.Abs(trials[k]-q.Value)/step
	}
	best := min(max(int(math.Round((q.Value-trials[0])/step)), 0), len(trials)-1)
	least := score(best)
	for _, way := range []int{-1, 1} {
		for k := best + way; k >= 0 && k < len(trials); k += way {
			v := score(k)
			if v >= least {
				break
			}
			best, least = k, v
		}
	}
	return best
}

// fitLoneCost takes what MPS costs a lone tenant from workloads that were measured with and without it in one
// series: the median difference of a decode step.
func (s *study) fitLoneCost(p *Predictor, u subset) {
	var costs []float64
	for _, a := range s.alone {
		if !u.of(a.gpu, a.series) {
			continue
		}
		for mps := range a.profiles.All() {
			ts := a.profiles.Find(sharing.MechanismTimeSlicing, mps.Server, mps.Load)
			if mps.Mechanism != sharing.MechanismMPS || ts == nil || u.model != "" && mps.Server.Model == u.model {
				continue
			}
			with, ok := profile.Positive(mps.ITL.P50)
			without, ok2 := profile.Positive(ts.ITL.P50)
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
	c.Basis, c.Source = sharing.BasisFitted, fmt.Sprintf("%d workloads measured alone with and without MPS", len(costs))
}
