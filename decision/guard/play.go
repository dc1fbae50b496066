package guard

import (
	"cmp"
	"context"
	"time"

	"github.com/cotenant/cotenant/decision"
)

// DayReport compares a simulated day under the guard with the same day left alone.
type DayReport struct {
	Simulated bool          `json:"simulated"` // always
	Seed      uint64        `json:"seed"`
	GPUs      int           `json:"gpus"`
	Tenants   int           `json:"tenants"`
	Watched   time.Duration `json:"watched_ns"`
	// Misses are windows in which an online tenant missed its objective.
	MissesAlone   int `json:"objective_misses_left_alone"`
	MissesGuarded int `json:"objective_misses_guarded"`
	// IdleGPUHours could be taken back by an oracle that knows from an idle time's first minute how long it lasts,
	// and takes those that the policy would end and whose owner consented. PolicyGPUHours is what the policy allows
	// of it: idle time after its notice and its waiting time.
	IdleGPUHours   float64 `json:"oracle_gpu_hours"`
	PolicyGPUHours float64 `json:"policy_gpu_hours"`
	ReapedGPUHours float64 `json:"reaped_gpu_hours"`
	ReapedPercent  float64 `json:"reaped_percent_of_oracle"`
	// OnBadData are actions on a GPU whose telemetry was stale or contradicted itself at that moment.
	OnBadData int            `json:"actions_on_bad_data"`
	FaultyGPU float64        `json:"gpu_hours_of_bad_data"`
	Proposed  map[Action]int `json:"proposed"`
	Done      map[Action]int `json:"done"`
	Withheld  int            `json:"withheld"`
	// Disturbed are the tenants that pushed another beyond its objective, Named those of them that the guard named;
	// Wrong are names of tenants that did nothing unusual then.
	Disturbed int        `json:"disturbances"`
	Named     int        `json:"disturbances_named"`
	Wrong     int        `json:"wrongly_named"`
	Proposals []Proposal `json:"proposals,omitempty"`
}

// DayOptions choose the simulated day.
type DayOptions struct {
	Seed  uint64
	GPUs  int   // 0 is 200
	Rules Rules // the window is a minute whatever they say
	// Progress is called before each window, a minute of the day; nil = nobody.
	Progress func(window int)
}

// PlayDay takes a simulated cluster through a day, once guarded and once left alone. Its users are made up. It
// stops early when ctx ends and reports what was until then.
func PlayDay(ctx context.Context, o DayOptions) (DayReport, error) {
	gpus := cmp.Or(o.GPUs, dayGPUs)
	r := o.Rules
	r.Window = dayWindow
	guarded, err := newDay(o.Seed, gpus)
	if err != nil {
		return DayReport{}, err
	}
	alone, err := newDay(o.Seed, gpus)
	if err != nil {
		return DayReport{}, err
	}
	g, err := New(r, guarded.Config)
	if err != nil {
		return DayReport{}, err
	}
	rep := DayReport{
		Simulated: true, Seed: o.Seed, GPUs: gpus, Tenants: len(guarded.Tenants),
		Proposed: map[Action]int{}, Done: map[Action]int{},
	}
	named, disturbed := map[int]bool{}, map[int]bool{}
	w := 0
	for ; w < dayWindows && ctx.Err() == nil; w++ {
		if o.Progress != nil {
			o.Progress(w)
		}
		for i := range guarded.Tenants {
			if guarded.gone[i] && guarded.hidden[i].activity[w] > 0 {
				guarded.gone[i] = false // the owner is back and asks for a GPU again
			}
		}
		for _, p := range g.Step(guarded.observe(w)) {
			rep.Proposed[p.Action]++
			rep.Proposals = append(rep.Proposals, p)
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
			case p.Action == ActionNotice:
				g.Done(&p)
			case p.Action.Acts():
				rep.Done[p.Action]++
				if guarded.misled(p.home, w) {
					rep.OnBadData++
				}
				guarded.carry(&p)
				g.Done(&p)
			}
		}
		for i := range guarded.Tenants {
			t := &guarded.Tenants[i]
			if guarded.gone[i] {
				rep.ReapedGPUHours += t.Holds * dayWindow.Hours()
			}
			if !t.Online() {
				continue
			}
			if guarded.truth(i, w) > t.LimitMS {
				rep.MissesGuarded++
			}
			if alone.truth(i, w) > t.LimitMS {
				rep.MissesAlone++
				for k := range alone.Tenants {
					if alone.home[k] == alone.home[i] && alone.wild(k, w) {
						disturbed[k] = true
					}
				}
			}
		}
		for i := range guarded.GPUs {
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

// oracle returns the GPU-hours that could be taken back until a window: by
// somebody who knows the future, and by the policy with perfect data.
func (d *day) oracle(r Rules, until int) (all, policy float64) {
	for i := range d.Tenants {
		t := &d.Tenants[i]
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
