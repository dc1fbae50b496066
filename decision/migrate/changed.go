package migrate

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

var errUnknown = errors.New("migrate: unknown name")

// namespace is that of a workload's name, empty without one.
func namespace(workload string) string { return workload[:max(0, strings.IndexByte(workload, '/'))] }

// changed is the part of a decision that needs documents: the nodes that get another shape, whole, and the workloads
// whose pods go to them or ask for another device.
func (c *cluster) changed(loads []*load, seats map[string]seat, r *decision.Result) *decision.Result {
	out := *r
	out.Decisions, out.Pools = nil, nil
	groups := map[string]map[sharing.Mechanism]*decision.GroupResult{}
	on := map[string]*load{} // a new node of the workload
	for _, l := range loads {
		for w := range l.run {
			if l.fresh || on[w] == nil && (seats[w] != c.today[w] || c.of[w].Today == nil) {
				on[w] = l
			}
		}
		if !l.fresh {
			continue
		}
		m := l.shape.Mechanism
		if len(l.shape.Layouts) > 0 {
			m = sharing.MechanismMIG
		}
		if groups[l.node.Pool] == nil {
			groups[l.node.Pool] = map[sharing.Mechanism]*decision.GroupResult{}
		}
		g := groups[l.node.Pool][m]
		if g == nil {
			g = &decision.GroupResult{Mechanism: m}
			groups[l.node.Pool][m] = g
		}
		g.Layouts = append(g.Layouts, l.layouts(seats)...)
		g.GPUs = 0
		for _, layout := range g.Layouts {
			g.GPUs += layout.GPUs
		}
	}
	for _, w := range slices.Sorted(maps.Keys(on)) {
		d := decision.Decision{Workload: w, GPUs: max(1, c.of[w].GPUs)}
		if had := r.Decision(w); had != nil {
			d = *had
		}
		d.Pool, d.Mechanism, d.Profile = on[w].node.Pool, seats[w].mechanism, seats[w].profile
		out.Decisions = append(out.Decisions, d)
	}
	for _, p := range slices.Sorted(maps.Keys(groups)) {
		pool := decision.PoolResult{Pool: p}
		for _, m := range slices.Sorted(maps.Keys(groups[p])) {
			pool.Groups = append(pool.Groups, *groups[p][m])
		}
		out.Pools = append(out.Pools, pool)
	}
	return &out
}

// layouts are a new node's GPUs as a decision has them.
func (l *load) layouts(seats map[string]seat) []decision.LayoutResult {
	if len(l.shape.Layouts) == 0 {
		one := decision.LayoutResult{GPUs: l.node.GPUs}
		for _, w := range slices.Sorted(maps.Keys(l.run)) {
			one.Tenants = append(one.Tenants, decision.TenantResult{Workload: w, Replicas: 1})
		}
		if l.shape.Replicas > 1 { // as many seats as the node is to hand out
			one.Tenants = []decision.TenantResult{{Workload: one.Tenants[0].Workload, Replicas: l.shape.Replicas}}
		}
		return []decision.LayoutResult{one}
	}
	var out []decision.LayoutResult
	for _, gpu := range l.shape.Layouts {
		one := decision.LayoutResult{GPUs: 1}
		for _, p := range slices.Sorted(maps.Keys(gpu)) {
			for range gpu[p] {
				in := decision.InstanceResult{Profile: p, Replicas: 1}
				for w := range l.run {
					if seats[w].profile == p {
						in.Workload = w
					}
				}
				one.Instances = append(one.Instances, in)
			}
		}
		out = append(out, one)
	}
	return out
}
