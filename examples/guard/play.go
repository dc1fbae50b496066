package main

import (
	"context"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision"
)

// dayReport is what a day was like, guarded or left alone.
type dayReport struct {
	Simulated bool          `json:"simulated"`
	Seed      uint64        `json:"seed"`
	GPUs      int           `json:"gpus"`
	Tenants   int           `json:"tenants"`
	Watched   time.Duration `json:"watched_ns"`
	// Misses are windows in which an online tenant missed its objective.
	MissesAlone   int `json:"objective_misses_left_alone"`
	MissesGuarded int `json:"objective_misses_guarded"`
	// IdleGPUHours could be taken back by an oracle that knows from an idle
	// time's first minute how long it lasts, and takes those that the policy
	// would end and whose owner consented. PolicyGPUHours is what the policy
	// allows of it: idle time after its notice and its waiting time.
	IdleGPUHours   float64 `json:"oracle_gpu_hours"`
	PolicyGPUHours float64 `json:"policy_gpu_hours"`
	ReapedGPUHours float64 `json:"reaped_gpu_hours"`
	ReapedPercent  float64 `json:"reaped_percent_of_oracle"`
	// OnBadData are actions on a GPU whose telemetry was stale or contradicted
	// itself at that moment.
	OnBadData int            `json:"actions_on_bad_data"`
	FaultyGPU float64        `json:"gpu_hours_of_bad_data"`
	Proposed  map[action]int `json:"proposed"`
	Done      map[action]int `json:"done"`
	Withheld  int            `json:"withheld"`
	// Disturbed are the tenants that pushed another beyond its objective, Named
	// those of them that the guard named; Wrong are names of tenants that did
	// nothing unusual then.
	Disturbed int        `json:"disturbances"`
	Named     int        `json:"disturbances_named"`
	Wrong     int        `json:"wrongly_named"`
	Proposals []proposal `json:"proposals,omitempty"`
}

// playDay takes the simulated cluster through a day. It stops early when ctx
// ends and reports what was until then.
func playDay(ctx context.Context, seed uint64, r rules, keep bool, progress func(window int)) (dayReport, error) {
	guarded, err := newDay(seed)
	if err != nil {
		return dayReport{}, err
	}
	alone, err := newDay(seed)
	if err != nil {
		return dayReport{}, err
	}
	g := newGuard(r, guarded.gpus, slices.Clone(guarded.tenants), guarded.profiles, guarded.predictor)
	rep := dayReport{Simulated: true, Seed: seed, GPUs: len(guarded.gpus), Tenants: len(guarded.tenants),
		Proposed: map[action]int{}, Done: map[action]int{}}
	named, disturbed := map[int]bool{}, map[int]bool{}
	w := 0
	for ; w < dayWindows && ctx.Err() == nil; w++ {
		progress(w)
		for i := range guarded.tenants {
			if guarded.gone[i] && guarded.hidden[i].activity[w] > 0 {
				guarded.gone[i] = false // the owner is back and asks for a GPU again
			}
		}
		for _, p := range g.step(guarded.observe(w)) {
			rep.Proposed[p.Action]++
			if keep {
				rep.Proposals = append(rep.Proposals, p)
			}
			if p.victim >= 0 && p.target >= 0 {
				if guarded.wild(p.target, w) {
					named[p.target] = true
				} else {
					rep.Wrong++
				}
			}
			switch {
			case p.Withheld != "":
				rep.Withheld++
			case p.Action.acts():
				rep.Done[p.Action]++
				if guarded.misled(p.GPU, w) {
					rep.OnBadData++
				}
				guarded.carry(&p)
				g.done(&p)
			}
		}
		for i := range guarded.tenants {
			t := &guarded.tenants[i]
			if guarded.gone[i] {
				rep.ReapedGPUHours += t.Holds * dayWindow.Hours()
			}
			if !t.online() {
				continue
			}
			if guarded.truth(i, w) > t.LimitMS {
				rep.MissesGuarded++
			}
			if alone.truth(i, w) > t.LimitMS {
				rep.MissesAlone++
				for k := range alone.tenants {
					if alone.home[k] == alone.home[i] && alone.wild(k, w) {
						disturbed[k] = true
					}
				}
			}
		}
		for i := range guarded.gpus {
			if guarded.misled(i, w) {
				rep.FaultyGPU += dayWindow.Hours()
			}
		}
	}
	rep.Watched = time.Duration(w) * dayWindow
	rep.IdleGPUHours, rep.PolicyGPUHours = alone.oracle(r, w)
	if rep.IdleGPUHours > 0 {
		rep.ReapedPercent = 100 * rep.ReapedGPUHours / rep.IdleGPUHours
	}
	rep.Disturbed = len(disturbed)
	for k := range disturbed {
		if named[k] {
			rep.Named++
		}
	}
	return rep, nil
}

// oracle is what could be taken back until a window: by somebody who knows the
// future, and by the policy with perfect data.
func (d *day) oracle(r rules, until int) (all, policy float64) {
	for i := range d.tenants {
		t := &d.tenants[i]
		if t.Kind != decision.KindNotebook && t.Kind != decision.KindTraining || !t.MayReap {
			continue
		}
		from := -1
		for w := 0; w <= until; w++ {
			if w < until && d.hidden[i].activity[w] < idleBelow {
				if from < 0 {
					from = w
				}
				continue
			}
			if from >= 0 {
				if length := time.Duration(w-from) * dayWindow; length > r.Policy.ReapAfter {
					all += t.Holds * length.Hours()
					policy += t.Holds * (length - r.Policy.ReapAfter).Hours()
				}
			}
			from = -1
		}
	}
	return all, policy
}
