// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// Predicted is a Predictor's estimate for one replica of a workload with its neighbours, with bounds at the requested
// confidence.
type Predicted struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Tenants   int               `json:"tenants"` // on the GPU it was predicted for, its slowest
	Basis     sharing.Basis     `json:"basis"`
	// Slowdown is against the workload alone on a whole GPU.
	Slowdown profile.Interval            `json:"slowdown"`
	Figures  map[string]profile.Interval `json:"figures"` // by metric
	Notes    []string                    `json:"notes,omitempty"`
}

func newPredicted(p *predict.Prediction, tenants int) *Predicted {
	out := &Predicted{Mechanism: p.Mechanism, Tenants: tenants, Basis: p.Basis, Slowdown: rounded(p.Slowdown),
		Figures: map[string]profile.Interval{}, Notes: p.Notes}
	for m, i := range p.All() {
		out.Figures[m.String()] = rounded(i)
	}
	return out
}

func rounded(i profile.Interval) profile.Interval {
	return profile.Interval{Value: round(i.Value, 3), Low: round(i.Low, 3), High: round(i.High, 3)}
}

// simulatedPredictor returns the assumption of predictors that were calibrated on a simulation and not on a GPU.
func (pl *answers) simulatedPredictor() []Assumption {
	e := pl.Evidence
	if e == nil || !slices.ContainsFunc(e.Solos, func(s *profile.Solo) bool { return s != nil }) {
		return nil
	}
	for _, q := range e.Predictor.Parameters.Named() {
		if q.Basis == sharing.BasisSimulated {
			return []Assumption{{What: fmt.Sprintf("real GPUs are like the %s that the predictor was calibrated on",
				e.Predictor.GPU), Why: "calibrate it on a real one (cotenant measure -real)"}}
		}
	}
	return nil
}

// strangers states the assumption about workloads that name no tenant, where there are several and the fleet does
// not say.
func (pl *answers) strangers() []Assumption {
	var names []string
	for _, cw := range pl.Workloads {
		if cw.Workload().Tenant == "" {
			names = append(names, cw.Workload().Name)
		}
	}
	if pl.Among == "all" || len(names) < 2 {
		return nil
	}
	slices.Sort(names)
	return []Assumption{{What: fmt.Sprintf("%s are strangers to one another", plaintext.Some(names, 4, len(names))),
		Why: "state tenant, or trust: all"}}
}
