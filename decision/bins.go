package decision

import (
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// member is a number of replicas of one workload on one GPU.
type member struct {
	workload int // index into the sorted workloads
	replicas int
}

// bin is one GPU that several replicas share without slices.
type bin struct {
	members []member
	n       int
	memory  sharing.Bytes
	busy    float64
	limit   int // the fewest tenants that any member was judged with
}

// group is the GPUs of one pool that run one mechanism.
type group struct {
	pool      *CompiledPool
	mechanism sharing.Mechanism
	whole     int      // exclusive: GPUs
	wholes    []member // exclusive: who has them
	bins      []bin    // sharing without slices
	sliced    []sliced // MIG: one a GPU
	bound     int      // MIG: proven lower bound of GPUs
}

// sliced is one GPU cut into MIG instances.
type sliced struct {
	layout  mig.Layout
	members []member // in the order of the layout's instances where replicas are 1
}

func (g *group) gpus() int { return g.whole + len(g.bins) + len(g.sliced) }

// item is what a workload asks of a bin, for one replica.
type item struct {
	workload int
	memory   sharing.Bytes
	busy     float64
	tenants  int // the most on one GPU, as the gates judged
}

func itemOf(w int, cw *CompiledWorkload, c *choice) item {
	d := &cw.demand
	return item{workload: w, memory: d.Memory.Under(c.mechanism), busy: d.Busy, tenants: c.tenants}
}

// room is how many replicas of it fit beside the members of b.
func (g *group) room(b *bin, it item, trusts func(a, b int) bool) int {
	t := gate.TraitsOf(g.mechanism)
	n := min(it.tenants, b.limit) - b.n
	n = min(n, gate.Fit(it.memory, g.pool.memory-b.memory, it.busy, t.Capacity-b.busy))
	if n <= 0 {
		return 0
	}
	if t.Trusting {
		for _, m := range b.members {
			if !trusts(m.workload, it.workload) {
				return 0
			}
		}
	}
	return n
}

func (b *bin) put(it item, n int) {
	if len(b.members) == 0 {
		b.limit = it.tenants
	}
	b.limit = min(b.limit, it.tenants)
	b.members = append(b.members, member{it.workload, n})
	b.n += n
	b.memory += it.memory * sharing.Bytes(n)
	b.busy += it.busy * float64(n)
}

// fill puts replicas into the open bins in order, then into new ones, and
// returns how many bins it opened. With commit unset nothing changes.
func (g *group) fill(it item, replicas int, trusts func(a, b int) bool, commit bool) int {
	for i := range g.bins {
		if replicas == 0 {
			return 0
		}
		n := min(replicas, g.room(&g.bins[i], it, trusts))
		if n > 0 && commit {
			g.bins[i].put(it, n)
		}
		replicas -= n
	}
	each := max(1, g.room(&bin{limit: it.tenants}, it, trusts))
	opened := (replicas + each - 1) / each
	if commit {
		for replicas > 0 {
			var b bin
			b.put(it, min(each, replicas))
			g.bins = append(g.bins, b)
			replicas -= min(each, replicas)
		}
	}
	return opened
}

// repack puts the same items again, largest first, and keeps the result where
// it takes fewer GPUs.
func (g *group) repack(items map[int]item, trusts func(a, b int) bool) {
	if len(g.bins) < 2 {
		return
	}
	count := map[int]int{}
	var order []int
	for _, b := range g.bins {
		for _, m := range b.members {
			if count[m.workload] == 0 {
				order = append(order, m.workload)
			}
			count[m.workload] += m.replicas
		}
	}
	size := func(w int) float64 {
		it := items[w]
		s := it.busy / gate.TraitsOf(g.mechanism).Capacity
		if g.pool.memory > 0 {
			s = max(s, float64(it.memory)/float64(g.pool.memory))
		}
		return max(s, 1/float64(max(1, it.tenants)))
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch sa, sb := size(a), size(b); {
		case sa > sb:
			return -1
		case sa < sb:
			return 1
		}
		return a - b
	})
	again := group{pool: g.pool, mechanism: g.mechanism}
	for _, w := range order {
		again.fill(items[w], count[w], trusts, true)
	}
	if len(again.bins) < len(g.bins) {
		g.bins = again.bins
	}
}
