// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// Evaluator reports whether workloads meet their objectives in a given layout, by the same method as Decide. Use it for
// other layouts, such as the present one. It is not safe for concurrent use.
type Evaluator struct {
	plan             *plan.Planner
	workloads, pools map[string]int
	known            map[string]map[string]sharing.Answer // by the tenants of a device
}

// NewEvaluator prepares the evaluation of a fleet's workloads; its errors are those of Decide.
func NewEvaluator(ctx context.Context, f *Fleet, opt Options) (*Evaluator, error) {
	planned, err := opt.prepare(ctx, f)
	if err != nil {
		return nil, err
	}
	pl, err := plan.NewPlan(f, planned, 0)
	if err != nil {
		return nil, err
	}
	pl.Prepare()
	e := &Evaluator{pl, map[string]int{}, map[string]int{}, map[string]map[string]sharing.Answer{}}
	for w, cw := range pl.Workloads {
		e.workloads[cw.Workload().Name] = w
	}
	for p, cp := range pl.Pools {
		e.pools[cp.Pool.Name] = p
	}
	return e, nil
}

// Nodes answers for each workload on the nodes, by its worst place. The answer is unknown if the workload or a
// neighbour depends on an assumption, and no if the stated memory of the tenants exceeds the GPU's. Replicas on an
// unknown device are left out.
func (e *Evaluator) Nodes(nodes iter.Seq[*layout.Node]) (map[string]sharing.Answer, error) {
	out := map[string]sharing.Answer{}
	for n := range nodes {
		pool, ok := e.pools[n.Pool]
		if !ok {
			return nil, fmt.Errorf("decision: the fleet has no pool %q", n.Pool)
		}
		for i := range n.Devices {
			for _, tenants := range sharers(n, i) {
				all, err := e.tenants(pool, n.Devices[i].Mode, tenants)
				if err != nil {
					return nil, err
				}
				for name, answer := range all {
					if had, seen := out[name]; !seen || had == sharing.AnswerYes || answer == sharing.AnswerNo {
						out[name] = answer
					}
				}
			}
		}
	}
	return out, e.plan.Opt.Err()
}

// sharers parts the assignments on a device into those that share something.
func sharers(n *layout.Node, device int) (out [][]*layout.Assignment) {
	for a := range n.On(device) {
		i := slices.IndexFunc(out, func(of []*layout.Assignment) bool {
			return of[0].Profile == a.Profile && of[0].Start == a.Start
		})
		if i < 0 {
			out = append(out, []*layout.Assignment{a})
		} else {
			out[i] = append(out[i], a)
		}
	}
	return out
}

// tenants answers for the tenants of a device, or of one of its instances.
func (e *Evaluator) tenants(pool int, m sharing.Mechanism, all []*layout.Assignment) (map[string]sharing.Answer,
	error) {
	count := map[int]int{}
	for _, a := range all {
		w, ok := e.workloads[a.Workload.Name]
		if !ok {
			return nil, fmt.Errorf("decision: the fleet has no workload %q", a.Workload.Name)
		}
		count[w]++
	}
	var members []plan.Member
	for w, n := range count {
		members = append(members, plan.Member{Workload: w, Replicas: n})
	}
	slices.SortFunc(members, func(a, b plan.Member) int { return cmp.Compare(a.Workload, b.Workload) })
	at, sliced := plan.Site{GroupKey: plan.GroupKey{Pool: pool, Mechanism: m}}, traits.Of(m).Sliced
	profile := ""
	if all[0].Profile != nil {
		profile = all[0].Profile.Name
	}
	key := fmt.Sprint(pool, m, profile, members)
	if known, ok := e.known[key]; ok {
		return known, nil
	}
	target := e.plan.Pools[pool].Target()
	for k := range target.Slices() {
		if v := &target.Slices()[k]; sliced && v.Profile.Name == profile {
			at.Slice = v
		}
	}
	out := map[string]sharing.Answer{}
	for k, answer := range e.plan.AnswersAt(at, members, sliced && at.Slice == nil) {
		out[e.plan.Workloads[members[k].Workload].Workload().Name] = answer
	}
	e.known[key] = out
	return out, nil
}
