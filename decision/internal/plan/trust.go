// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/sharing"
)

func classify(workloads []*score.CompiledWorkload, among fleet.Trust) *trustClasses {
	t := &trustClasses{of: make([]int, len(workloads)), byTenant: map[string][]int{}, pinned: map[string]int{},
		domains: map[string]int{}}
	index := map[string]int{}
	for i, w := range workloads {
		trust := slices.Sorted(slices.Values(w.Workload().Trust))
		tenant, pin := w.Workload().Tenant, w.Workload().Pool
		if tenant == "" && among != "all" {
			tenant = "\x00" + w.Workload().Name // a stranger to all others
		}
		key := tenant + "\x00" + pin + "\x00" + strings.Join(trust, "\x00")
		c, ok := index[key]
		if !ok {
			c = len(t.classes)
			index[key] = c
			t.classes = append(t.classes, trustClass{tenant: tenant, trusts: trust, pin: pin})
			t.byTenant[tenant] = append(t.byTenant[tenant], c)
		}
		t.of[i] = c
		if !w.Shareable() {
			continue
		}
		n := w.Workload().ReplicaCount()
		t.classes[c].shareable += n
		if need := w.Demand().Memory.Total; need > 0 && (t.least == 0 || need < t.least) {
			t.least = need
		}
		if pin == "" {
			t.anywhere += n
		} else {
			t.pinned[pin] += n
		}
	}
	for i := range t.classes {
		own := &t.classes[i]
		tenants := slices.DeleteFunc(append(slices.Clone(own.trusts), own.tenant), func(tenant string) bool {
			return tenant != own.tenant && !slices.ContainsFunc(t.byTenant[tenant], func(c int) bool {
				return slices.Contains(t.classes[c].trusts, own.tenant)
			})
		})
		slices.Sort(tenants)
		own.trusted = strings.Join(slices.Compact(tenants), "\x00")
	}
	return t
}

// trusts reports whether two workloads may share: one tenant, or each names the other's.
func (t *trustClasses) trusts(a, b int) bool {
	x, y := &t.classes[t.of[a]], &t.classes[t.of[b]]
	return x.tenant == y.tenant || slices.Contains(x.trusts, y.tenant) && slices.Contains(y.trusts, x.tenant)
}

// domain numbers the trust domain of a GPU's tenants, where the GPUs of a node must go to tenants that all trust one
// another: GPUs of equal numbers may be on one node. 0 = any may be.
func (pl *Planner) domain(s *sites, m sharing.Mechanism, members []Member) int {
	if !s.apart[m] || len(members) == 0 {
		return 0
	}
	var sets []string
	for _, m := range members {
		sets = append(sets, pl.Trust.classes[pl.Trust.of[m.Workload]].trusted)
	}
	slices.Sort(sets)
	key := strings.Join(slices.Compact(sets), "\x01")
	if pl.Trust.domains[key] == 0 {
		pl.Trust.domains[key] = 1 + len(pl.Trust.domains)
	}
	return pl.Trust.domains[key]
}

// Neighbours counts the replicas that could share a GPU of pool p with one of workload w's, both by index.
func (pl *Planner) Neighbours(w, p int) filter.Neighbours {
	t, pool := pl.Trust, pl.Pools[p].Pool.Name
	own := &t.classes[t.of[w]]
	trusted := t.trustedOf(own, own.tenant, pool)
	for _, tenant := range own.trusts {
		trusted += t.trustedOf(own, tenant, pool)
	}
	nb := filter.Neighbours{Trusted: trusted, Untrusted: t.anywhere + t.pinned[pool] - trusted, Least: t.least}
	if pl.Workloads[w].Shareable() && (own.pin == "" || own.pin == pool) {
		nb.Trusted--
	}
	return nb
}

// trustedOf counts a tenant's replicas that trust own and may run in the pool.
func (t *trustClasses) trustedOf(own *trustClass, tenant, pool string) int {
	n := 0
	for _, i := range t.byTenant[tenant] {
		c := &t.classes[i]
		if (c.pin == "" || c.pin == pool) && (tenant == own.tenant || slices.Contains(c.trusts, own.tenant)) {
			n += c.shareable
		}
	}
	return n
}
