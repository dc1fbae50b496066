package canary

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
)

// foreseen holds what is predicted of a plan's tenants.
type foreseen struct {
	solos []profile.Solo
	said  []predict.Prediction
}

// foresee predicts what the plan's tenants see beside one another, where its rows are to be learnt from.
func (p *Plan) foresee(l *problem.List) (f foreseen) {
	if p.Learned == "" {
		l.If(p.Profiles+p.Predictor != "", "learned", "name the file that rows are added to, or leave profiles and "+
			"predictor out", "missing")
		return f
	}
	l.If(strings.Contains(p.Learned, "@"), "learned", "leave the version out: rows are added", "%q", p.Learned)
	profiles, err := profile.LoadProfiles(p.Profiles)
	l.AddErr("profiles", err)
	learned := p.Learned
	if _, missing := os.Stat(learned); errors.Is(missing, fs.ErrNotExist) {
		learned = ""
	}
	predictor, predErr := predict.LoadPredictorWith(p.Predictor, learned)
	l.AddErr("learned", predErr)
	for i, t := range p.Tenants {
		at := fmt.Sprintf("tenants[%d].profile", i)
		if t.Profile == nil {
			l.Addf(at, "name its profile, or leave learned out", "nothing predicts it")
		} else if err == nil {
			solo, missing := profiles.Solo(t.Profile.Server, t.Profile.Load)
			l.AddErr(at, missing)
			f.solos = append(f.solos, solo)
		}
		l.If(!slices.ContainsFunc(t.Objectives, func(o Objective) bool { return o.learnt(&profile.Outcome{}) != nil }),
			fmt.Sprintf("tenants[%d].objectives", i), "add one of ttft, tpot, e2e or steps, or leave learned out",
			"predictions are of none of them")
	}
	if l.Len() == 0 {
		f.said, err = predictor.Predict(p.Mechanism, f.solos, predict.MethodClosedForm)
		l.AddErr("mechanism", err)
	}
	return f
}

// learnt returns where an outcome has what predictions say of the objective's metric; nil = they say nothing.
func (o *Objective) learnt(to *profile.Outcome) *profile.LatencyMS {
	return map[string]*profile.LatencyMS{"ttft": &to.TTFT, "tpot": &to.TPOT, "e2e": &to.E2E, steps: &to.Step}[o.Metric]
}

// coarse is the factor between two edges of a page's buckets beyond which a median between them says too little.
const coarse = 1.25

// median returns the median of what was observed, where it is known closely enough.
func (s *Sample) median() (float64, bool) {
	if s.size() < minRequests {
		return 0, false
	}
	if h := s.Histogram; h != nil {
		in, ok := h.Quantile(0.5)
		return math.Sqrt(in.Low * in.High), ok && in.High <= coarse*in.Low
	}
	return median(s.Values), true
}

// learn adds a row for each tenant to the plan's file: what was predicted, and what was seen since the newcomer came.
// They name the profiles' models, and nothing of the plan's.
func (r *runner) learn() error {
	if r.plan.Learned == "" {
		return nil
	}
	var models []string
	for i := range r.solos {
		models = append(models, r.solos[i].Server.Model)
	}
	var rows profile.Rows
	known := false
	for i := range r.solos {
		var seen profile.Outcome
		for k := range r.plan.Tenants[i].Objectives {
			o := &r.plan.Tenants[i].Objectives[k]
			to := o.learnt(&seen)
			v, ok := r.tenants[i].after[k].median()
			if to == nil || !ok || v <= 0 {
				continue
			}
			if known = true; o.Metric == steps {
				seen.StepsPerS, v = profile.Some(v), 1/v
			}
			to.P50 = profile.Some(1e3 * v)
		}
		row := r.said[i].Ended(strings.Join(models, "+"), &r.solos[i], len(r.solos), seen)
		row.Slice = r.plan.Slice
		rows = append(rows, row)
	}
	if !known {
		return nil
	}
	return predict.AppendRows(r.plan.Learned, rows)
}
