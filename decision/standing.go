package decision

import (
	"context"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
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
	opt.ctx = ctx
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if opt.Confidence == 0 {
		opt.Confidence = DefaultConfidence
	}
	if opt.Headroom == nil {
		opt.Headroom = &DefaultHeadroom
	}
	pl, err := newPlan(f, opt, 0)
	if err != nil {
		return nil, err
	}
	pl.prepare()
	workloads, pools := map[string]int{}, map[string]int{}
	for w, cw := range pl.workloads {
		workloads[cw.workload.Name] = w
	}
	for p, cp := range pl.pools {
		pools[cp.pool.Name] = p
	}
	out := map[string]sharing.Answer{}
	for i := range seats {
		s := &seats[i]
		at := site{pool: pools[s.Pool], mechanism: s.Mechanism}
		ground := pl.pools[at.pool].ground
		sliced := gate.TraitsOf(s.Mechanism).Sliced
		for k := range ground.Slices() {
			if v := &ground.Slices()[k]; sliced && v.Profile.Name == s.Profile {
				at.slice = v
			}
		}
		var members []member
		for _, t := range s.Tenants {
			w, ok := workloads[t.Workload]
			if !ok {
				return nil, fmt.Errorf("decision: there is no workload %q to judge", t.Workload)
			}
			members = append(members, member{w, t.Replicas})
		}
		sortMembers(members)
		for k, answer := range pl.standings(at, members, sliced && at.slice == nil) {
			name := pl.workloads[members[k].workload].workload.Name
			if had, seen := out[name]; !seen || had == sharing.AnswerYes || answer == sharing.AnswerNo {
				out[name] = answer
			}
		}
	}
	return out, opt.err()
}

// standings are the answers of a site's members; unknown says that nothing is known of the site.
func (pl *planner) standings(at site, members []member, unknown bool) []sharing.Answer {
	out := slices.Repeat([]sharing.Answer{sharing.AnswerUnknown}, len(members))
	var memory sharing.Bytes
	for _, m := range members {
		d := &pl.workloads[m.workload].demand
		memory += d.Memory.Total * sharing.Bytes(m.replicas)
		unknown = unknown || d.Memory.Unknown || !pl.complete(m.workload, at.pool, at.mechanism)
	}
	total := pl.pools[at.pool].memory
	if at.slice != nil {
		total, _ = at.slice.Memory()
	}
	if total > 0 && memory > total {
		return slices.Repeat([]sharing.Answer{sharing.AnswerNo}, len(members))
	}
	if unknown {
		return out
	}
	p := pl.prospectsOf(at, members)
	for k := range p.outcomes {
		out[k] = p.outcomes[k].Kept(&pl.outlookOf(members[k].workload, at.pool, at.mechanism).demand)
	}
	return out
}
