package decision

import (
	"slices"
	"strings"
)

// trustClasses groups workloads whose trust is the same, so that who may stand
// beside whom is worked out for classes and not for workloads.
type trustClasses struct {
	of       []int // workload -> class
	classes  []trustClass
	byTenant map[string][]int // tenant -> its classes
	anywhere int              // shareable replicas that are not pinned
	pinned   map[string]int   // pool -> shareable replicas pinned to it
}

type trustClass struct {
	tenant string
	trust  []string // sorted
	pin    string
	// shareable counts the replicas that could stand beside another.
	shareable int
}

func classify(workloads []*CompiledWorkload) *trustClasses {
	t := &trustClasses{of: make([]int, len(workloads)), byTenant: map[string][]int{}, pinned: map[string]int{}}
	index := map[string]int{}
	for i, w := range workloads {
		trust := slices.Clone(w.workload.Trust)
		slices.Sort(trust)
		tenant, pin := w.workload.Tenant, w.workload.Pool
		key := tenant + "\x00" + pin + "\x00" + strings.Join(trust, "\x00")
		c, ok := index[key]
		if !ok {
			c = len(t.classes)
			index[key] = c
			t.classes = append(t.classes, trustClass{tenant: tenant, trust: trust, pin: pin})
			t.byTenant[tenant] = append(t.byTenant[tenant], c)
		}
		t.of[i] = c
		if !w.shareable() {
			continue
		}
		n := w.workload.replicas()
		t.classes[c].shareable += n
		if pin == "" {
			t.anywhere += n
		} else {
			t.pinned[pin] += n
		}
	}
	return t
}

func (c *trustClass) names(tenant string) bool {
	_, ok := slices.BinarySearch(c.trust, tenant)
	return ok
}

// trusts says whether two workloads may share: one tenant, or each names the
// other's.
func (t *trustClasses) trusts(a, b int) bool {
	x, y := &t.classes[t.of[a]], &t.classes[t.of[b]]
	return x.tenant == y.tenant || x.names(y.tenant) && y.names(x.tenant)
}

// shareable: a replica that may have neighbours at all.
func (w *CompiledWorkload) shareable() bool {
	return !w.arch.NeverShares && w.workload.gpus() == 1
}

// neighbours counts who could stand beside workload w in a pool.
func (t *trustClasses) neighbours(w int, self *CompiledWorkload, pool string) Neighbours {
	own := &t.classes[t.of[w]]
	trusted := t.trustedOf(own, own.tenant, pool)
	for _, tenant := range own.trust {
		trusted += t.trustedOf(own, tenant, pool)
	}
	nb := Neighbours{Trusted: trusted, Untrusted: t.anywhere + t.pinned[pool] - trusted}
	if self.shareable() && (own.pin == "" || own.pin == pool) {
		nb.Trusted--
	}
	return nb
}

// trustedOf counts a tenant's replicas that trust own and may run in the pool.
func (t *trustClasses) trustedOf(own *trustClass, tenant, pool string) int {
	n := 0
	for _, i := range t.byTenant[tenant] {
		c := &t.classes[i]
		if (c.pin == "" || c.pin == pool) && (tenant == own.tenant || c.names(own.tenant)) {
			n += c.shareable
		}
	}
	return n
}
