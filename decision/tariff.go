package decision

import (
	"slices"

	"github.com/cotenant/cotenant/cost"
)

// reservedWeight is the part of its price that a reserved GPU counts: it is paid for in any case, and left free it
// may serve others.
const reservedWeight = 1e-3

// rate is the price of a GPU where workload w has GPUs of its own.
func (pl *planner) rate(w int, p *CompiledPool) cost.Money {
	wl := pl.workloads[w].workload
	if n, price := p.spotOf(); n > 0 && wl.Spot {
		return price
	}
	if n, price := p.reservedOf(); n >= wl.replicas()*wl.gpus() {
		return price
	}
	return p.price
}

// interruptible says whether everybody on a GPU may lose it.
func (pl *planner) interruptible(members []member) bool {
	return !slices.ContainsFunc(members, func(m member) bool { return !pl.workloads[m.workload].workload.Spot })
}

// eachGPU visits a group's GPUs in order, several at once where they are one workload's alone.
func (pl *planner) eachGPU(g *group, visit func(members []member, units []int, gpus int)) {
	for _, m := range g.wholes {
		visit([]member{m}, nil, m.replicas*pl.workloads[m.workload].workload.gpus())
	}
	for i := range g.bins {
		visit(g.bins[i].members, nil, 1)
	}
	for i := range g.sliced {
		s := &g.sliced[i]
		units := make([]int, len(s.members))
		for k := range s.members {
			units[k] = s.layout.Instances[k].Size
		}
		visit(s.members, units, 1)
	}
}

// spotGPUs counts those of a group's GPUs that may be spot; 0 of none.
func (pl *planner) spotGPUs(g *group) int {
	n := 0
	if g == nil || g.pool.pool.Spot == nil {
		return 0
	}
	pl.eachGPU(g, func(members []member, _ []int, gpus int) {
		if pl.interruptible(members) {
			n += gpus
		}
	})
	return n
}

// used counts a pool's GPUs in use, and those of them that may be spot.
func (pl *planner) used(p int) (gpus, spot int) {
	for key, g := range pl.groups {
		if key.pool == p {
			gpus += g.gpus()
			spot += pl.spotGPUs(g)
		}
	}
	return gpus, spot
}

// tariff holds the prices of a pool's GPUs for an hour, as the search counts them.
type tariff struct {
	count, spot, reserved int
	price, cheap          float64
}

func (pl *planner) tariff(p int) tariff {
	cp := pl.pools[p]
	spot, cheap := cp.spotOf()
	reserved, _ := cp.reservedOf()
	return tariff{cp.pool.Count, spot, reserved, pl.counts(cp.price), pl.counts(cheap)}
}

// of returns the weight of n GPUs, spot of which everybody may lose: spot GPUs, reserved ones and then others.
func (t *tariff) of(n, spot int) float64 {
	if t.spot == 0 && t.reserved == 0 {
		return t.price * float64(n)
	}
	spot = min(spot, t.spot)
	n -= spot
	reserved := min(n, t.reserved)
	return t.cheap*float64(spot) + t.price*(float64(n-reserved)+reservedWeight*float64(reserved))
}

// costOfGPUs returns the count of n GPUs of a pool, spot of which everybody may lose.
func (pl *planner) costOfGPUs(p, n, spot int) float64 {
	t := pl.tariff(p)
	return t.of(n, spot)
}
