// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Predict predicts the co-located figures of each tenant of a group on one GPU, under time-slicing or MPS, in the order
// of the group. A group of one gives the mechanism's own cost. The error names every unpredictable tenant, with the
// reason. Predict is safe for concurrent use.
func (p *Predictor) Predict(mechanism sharing.Mechanism, group []profile.Solo, method Method) ([]Prediction, error) {
	return p.predict(mechanism, group, method, nil)
}

// predict is Predict with a cache of isolated simulations; nil is none.
func (p *Predictor) predict(mechanism sharing.Mechanism, group []profile.Solo, method Method,
	known *isolatedCache) ([]Prediction, error) {
	if p.Version == 0 {
		return nil, errors.New("predict: the predictor is empty (make one with NewPredictor)")
	}
	if !slices.Contains(profile.Mechanisms[:], mechanism) {
		return nil, fmt.Errorf("predict: %s cannot be predicted from profiles of whole GPUs; use time-slicing or mps",
			mechanism)
	}
	if len(group) == 0 || len(group) > maxGroup {
		return nil, fmt.Errorf("predict: a group must have 1 to %d tenants, has %d", maxGroup, len(group))
	}
	at := make([]int, len(group)) // sorted by content, so that the order of the group changes nothing
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return compareSolos(&group[a], &group[b]) })
	models := make([]tenantModel, len(group))
	errs := make([]error, len(group))
	for i, k := range at {
		if err := p.model(mechanism, &group[k], &models[i]); err != nil {
			errs[k] = fmt.Errorf("tenants[%d]: %w", k, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.respond(mechanism, models)
	for i := range models {
		if len(models) > 1 {
			models[i].learned = p.found(learnsAs(models[i].base), mechanism)
		}
	}
	if mechanism == sharing.MechanismTimeSlicing {
		p.nextToLarger(models)
	} else {
		doubtNeighbours(models)
	}
	out := make([]Prediction, len(group))
	if method == MethodClosedForm || len(models) == 1 { // the latter's are those of its profile
		p.closedForm(mechanism, models, out)
	} else if err := p.simulate(mechanism, models, out, known); err != nil {
		return nil, err
	}
	ordered := make([]Prediction, len(out))
	for i, k := range at {
		if i > 0 && sameSolo(&group[at[i-1]], &group[k]) { // equal but for the chance in simulations
			out[i] = out[i-1]
		}
		ordered[k] = out[i]
	}
	return ordered, nil
}

func sameSolo(a, b *profile.Solo) bool {
	return a.TimeSlicing == b.TimeSlicing && a.MPS == b.MPS && a.Server == b.Server && a.Load == b.Load
}

// compareSolos orders measured workloads.
func compareSolos(a, b *profile.Solo) int {
	s, t, l, m := &a.Server, &b.Server, &a.Load, &b.Load
	return cmp.Or(cmp.Compare(s.Model, t.Model), cmp.Compare(s.Variant, t.Variant),
		cmp.Compare(s.Slots.Or(0), t.Slots.Or(0)),
		cmp.Compare(s.SMPercent.Or(0), t.SMPercent.Or(0)), cmp.Compare(l.Concurrency, m.Concurrency),
		cmp.Compare(l.Rate, m.Rate), cmp.Compare(l.Prompt, m.Prompt), cmp.Compare(l.Output, m.Output))
}

// doubtNeighbours widens the intervals of tenants under MPS without measured responses by the uncertainty of the
// neighbours' shares of the SMs.
func doubtNeighbours(models []tenantModel) {
	for i := range models {
		if models[i].level == responded {
			continue
		}
		worst := 0.0
		for j := range models {
			if j != i {
				worst = max(worst, models[j].smsError)
			}
		}
		models[i].widen = math.Hypot(models[i].widen, worst)
	}
}
