package decision

import (
	"slices"
	"strings"
)

// trustClasses groups workloads whose trust is the same, so that who may stand
// beside whom is worked out once for each pair of classes.
type trustClasses struct {
	of      []int // workload -> class
	classes []trustClass
	trusts  [][]bool // symmetric
}

type trustClass struct {
	tenant string
	trust  []string // sorted
	pin    string
	// shareable counts the replicas that could stand beside another.
	shareable int
}

func classify(workloads []*CompiledWorkload) *trustClasses {
	t := &trustClasses{of: make([]int, len(workloads))}
	index := map[string]int{}
	for i, w := range workloads {
		trust := slices.Clone(w.workload.Trust)
		slices.Sort(trust)
		key := w.workload.Tenant + "\x00" + w.workload.Pool + "\x00" + strings.Join(trust, "\x00")
		c, ok := index[key]
		if !ok {
			c = len(t.classes)
			index[key] = c
			t.classes = append(t.classes, trustClass{tenant: w.workload.Tenant, trust: trust, pin: w.workload.Pool})
		}
		t.of[i] = c
		if w.shareable() {
			t.classes[c].shareable += w.workload.replicas()
		}
	}
	t.trusts = make([][]bool, len(t.classes))
	for i := range t.classes {
		t.trusts[i] = make([]bool, len(t.classes))
		for j := range t.classes {
			t.trusts[i][j] = t.classes[i].tenant == t.classes[j].tenant ||
				t.classes[i].names(t.classes[j].tenant) && t.classes[j].names(t.classes[i].tenant)
		}
	}
	return t
}

func (c *trustClass) names(tenant string) bool {
	_, ok := slices.BinarySearch(c.trust, tenant)
	return ok
}

// shareable: a replica that may have neighbours at all.
func (w *CompiledWorkload) shareable() bool {
	return !w.arch.NeverShares && w.workload.gpus() == 1
}

// neighbours counts who could stand beside workload w in a pool.
func (t *trustClasses) neighbours(w int, self *CompiledWorkload, pool string) Neighbours {
	var nb Neighbours
	own := t.of[w]
	for c := range t.classes {
		if pin := t.classes[c].pin; pin != "" && pin != pool {
			continue
		}
		if t.trusts[own][c] {
			nb.Trusted += t.classes[c].shareable
		} else {
			nb.Untrusted += t.classes[c].shareable
		}
	}
	if self.shareable() && (self.workload.Pool == "" || self.workload.Pool == pool) {
		nb.Trusted--
	}
	return nb
}
