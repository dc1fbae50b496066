package decision

import (
	"context"
	"fmt"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/sharing"
)

// Seating is a GPU of a pool, or a MIG instance of one, and who runs on it.
type Seating struct {
	Pool      string
	Mechanism sharing.Mechanism
	Profile   string // of a MIG instance
	Tenants   []TenantResult
}

// Judge says of each workload that is seated whether it keeps its objectives beside its neighbours, by the
// evaluation that Decide uses: the worst of its seats counts. The answer is unknown where something would have to be
// assumed of it or of a neighbour, and no where the stated memory of all exceeds the GPU's.
func Judge(ctx context.Context, f *Fleet, seats []Seating, opt Options) (map[string]sharing.Answer, error) {
	if err := opt.Prepare(ctx, f); err != nil {
		return nil, err
	}
	pl, err := plan.NewPlan(f, opt, 0)
	if err != nil {
		return nil, err
	}
	pl.Prepare()
	workloads, pools := map[string]int{}, map[string]int{}
	for w, cw := range pl.Workloads {
		workloads[cw.Workload().Name] = w
	}
	for p, cp := range pl.Pools {
		pools[cp.Pool.Name] = p
	}
	out := map[string]sharing.Answer{}
	for i := range seats {
		s := &seats[i]
		pool, ok := pools[s.Pool]
		if !ok {
			return nil, fmt.Errorf("decision: there is no pool %q to judge", s.Pool)
		}
		at := plan.Site{GroupKey: plan.GroupKey{Pool: pool, Mechanism: s.Mechanism}}
		ground := pl.Pools[at.Pool].Ground()
		sliced := gate.TraitsOf(s.Mechanism).Sliced
		for k := range ground.Slices() {
			if v := &ground.Slices()[k]; sliced && v.Profile.Name == s.Profile {
				at.Slice = v
			}
		}
		var members []plan.Member
		for _, t := range s.Tenants {
			w, ok := workloads[t.Workload]
			if !ok {
				return nil, fmt.Errorf("decision: there is no workload %q to judge", t.Workload)
			}
			members = append(members, plan.Member{Workload: w, Replicas: t.Replicas})
		}
		plan.SortMembers(members)
		for k, answer := range pl.Standings(at, members, sliced && at.Slice == nil) {
			name := pl.Workloads[members[k].Workload].Workload().Name
			if had, seen := out[name]; !seen || had == sharing.AnswerYes || answer == sharing.AnswerNo {
				out[name] = answer
			}
		}
	}
	return out, opt.Err()
}
