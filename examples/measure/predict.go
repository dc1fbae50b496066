package main

import (
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// predictionFile is predictions.json: what was predicted for a mode's cases,
// from which runs and by what, before any of them ran.
type predictionFile struct {
	Basis     sharing.Basis     `json:"basis"` // of the runs alone
	Mode      mode              `json:"mode"`
	Written   time.Time         `json:"written_at"`
	From      []string          `json:"from_runs"`
	Cases     []prediction      `json:"cases"`
	Predictor predict.Predictor `json:"predictor"`
}

// prediction is what a case's tenants are expected to see, or why nothing can
// be said.
type prediction struct {
	Mode    mode               `json:"mode"`
	Case    string             `json:"case"`
	Tenants []tenantPrediction `json:"tenants,omitempty"`
	Problem string             `json:"problem,omitempty"`

	written time.Time
}

type tenantPrediction struct {
	Load      string                              `json:"load"`
	Basis     sharing.Basis                       `json:"basis"`
	Predicted map[predict.Metric]predict.Interval `json:"predicted"`
	// Slowdown is TPOT over that alone under time-slicing, where that was run.
	Slowdown predict.Interval `json:"slowdown_factor"`
	Turns    int              `json:"time_slices_per_step,omitempty"`
	// OtherTurns is another number of slices that the step nearly takes.
	OtherTurns int      `json:"or_time_slices_per_step,omitempty"`
	Notes      []string `json:"notes,omitempty"`
}

func (f *flow) predictCase(m mode, c casePlan, profiles *predict.Profiles) prediction {
	out := prediction{Mode: m, Case: c.Name}
	var group []predict.Solo
	for _, name := range c.Loads {
		l := f.plan.load(name)
		solo, err := profiles.Solo(f.serverOf(m, l), f.loadOf(l))
		if err != nil {
			out.Problem = err.Error()
			return out
		}
		group = append(group, solo)
	}
	ps, err := f.config.predictor.Predict(m.mechanism(), group, predict.MethodSimulated)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	for i := range ps {
		p := &ps[i]
		t := tenantPrediction{Load: c.Loads[i], Basis: p.Basis, Predicted: map[predict.Metric]predict.Interval{},
			Slowdown: p.Slowdown, Turns: p.Turns, OtherTurns: p.OtherTurns, Notes: p.Notes}
		for _, metric := range predict.Metrics() {
			if v, ok := p.Get(metric); ok {
				t.Predicted[metric] = v
			}
		}
		out.Tenants = append(out.Tenants, t)
	}
	return out
}

// predicted finds what was predicted for a load in a case; nil when nothing was.
func (f *flow) predicted(m mode, name, load string) (*tenantPrediction, time.Time) {
	for i := range f.predictions {
		p := &f.predictions[i]
		if p.Mode != m || p.Case != name {
			continue
		}
		for j := range p.Tenants {
			if p.Tenants[j].Load == load {
				return &p.Tenants[j], p.written
			}
		}
	}
	return nil, time.Time{}
}
