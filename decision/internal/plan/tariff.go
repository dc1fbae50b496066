package plan

import (
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/score"
)

// sunkWeight is the part of its price that a GPU counts which is paid for in any case, being reserved or in a node that
// others need: left free it may serve others.
const sunkWeight = 1e-3

// Rate is the price of a GPU where workload w has GPUs of its own.
func (pl *Planner) Rate(w int, p *score.CompiledPool) cost.Money {
	wl := pl.Workloads[w].Workload()
	if p.Spot.Count > 0 && wl.Spot {
		return p.Spot.PricePerGPUHour
	}
	if p.Reserved.Count >= wl.ReplicaCount()*wl.GPUCount() {
		return p.Reserved.PricePerGPUHour
	}
	return p.Price
}

// Interruptible says whether everybody on a GPU may lose it.
func (pl *Planner) Interruptible(members []Member) bool {
	return !slices.ContainsFunc(members, func(m Member) bool { return !pl.Workloads[m.Workload].Workload().Spot })
}

// EachGPU visits a group's GPUs in order, several at once where they are one workload's alone.
func (pl *Planner) EachGPU(g *Group, visit func(members []Member, units []int, gpus int)) {
	for _, m := range g.Wholes {
		visit([]Member{m}, nil, m.Replicas*pl.Workloads[m.Workload].Workload().GPUCount())
	}
	for i := range g.Bins {
		visit(g.Bins[i].Members, nil, 1)
	}
	for i := range g.Sliced {
		s := &g.Sliced[i]
		units := make([]int, len(s.Members))
		for k := range s.Members {
			units[k] = s.Layout.Instances[k].Size
		}
		visit(s.Members, units, 1)
	}
}

// SpotGPUs counts those of a group's GPUs that may be spot; 0 of none.
func (pl *Planner) SpotGPUs(g *Group) (n int) {
	if g == nil || g.Pool.Pool.Spot == nil {
		return 0
	}
	pl.EachGPU(g, func(members []Member, _ []int, gpus int) {
		if pl.Interruptible(members) {
			n += gpus
		}
	})
	return n
}

// Used counts a pool's GPUs in use, and those of them that may be spot.
func (pl *Planner) Used(p int) (gpus, spot int) {
	for key, g := range pl.Groups {
		if key.Pool == p {
			gpus += g.GPUs()
			spot += pl.SpotGPUs(g)
		}
	}
	return gpus, spot
}

// tariff holds the prices of a pool's GPUs for an hour, as the search counts them.
type tariff struct {
	*score.CompiledPool
	price, cheap float64
	unused       float64 // the part of its price that is taken off for a GPU which is bought with its node and left free
}

func (pl *Planner) tariff(p int) tariff {
	cp := pl.Pools[p]
	return tariff{cp, pl.Counts(cp.Price), pl.Counts(cp.Spot.PricePerGPUHour), pl.unused}
}

// of returns the weight of n GPUs, spot of which everybody may lose: of what is bought for them, and of what they take
// of the reserved ones.
func (t *tariff) of(n, spot int) float64 {
	paid := t.Paid(n, spot)
	free := paid.GPUs() - max(n, paid.Reserved)
	return t.cheap*(float64(paid.Spot)-t.unused*float64(free)) +
		t.price*(float64(paid.OnDemand)+sunkWeight*float64(min(n, paid.Reserved)))
}
