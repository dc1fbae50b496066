// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/internal/score"
)

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

// Used counts a pool's GPUs in use, and those of them that may be spot.
func (pl *Planner) Used(p int) (gpus, spot int) {
	for key, group := range pl.Groups {
		for i := 0; key.Pool == p && i < len(group); i++ {
			if gpus += group[i].Size; group[i].Spot {
				spot += group[i].Size
			}
		}
	}
	return gpus, spot
}

// nodesUsed counts a pool's nodes in use, and those of them that may be spot; GPUs where the size of a node is not
// stated.
func (pl *Planner) nodesUsed(p int) (nodes, spot int) {
	for _, n := range pl.onNodes(p) {
		if nodes += n.size; n.spot {
			spot += n.size
		}
	}
	return nodes / pl.sites[p].each, spot / pl.sites[p].each
}

// pricing holds the prices of a pool's GPUs for an hour, as the search counts them.
type pricing struct {
	*score.CompiledPool
	sites        *sites
	price, cheap float64
	unused       float64 // the part of its price that is taken off for a GPU which is bought with its node and left free
	left         float64 // likewise the part of its price that a used reserved one counts
}

func (pl *Planner) pricing(p int) pricing {
	cp, sunk := pl.Pools[p], 0.0 // factor on the price of GPUs that are paid for in any case
	if pl.Opt.Running {
		sunk = 1e-3
	}
	return pricing{cp, &pl.sites[p], pl.Counts(cp.Price), pl.Counts(cp.Spot.PricePerGPUHour), sunk, sunk}
}

// of returns the weight of a load.
func (t *pricing) of(l *load) float64 {
	nodes, spot := t.sites.count(l)
	return t.weight(int(l.gpus), nodes, spot)
}

// weight is the price of the nodes that are bought for so many GPUs in use.
func (t *pricing) weight(gpus, nodes, spot int) float64 {
	charged := t.sites.charged(nodes, spot)
	if t.Reserved.Count%t.sites.each != 0 && gpus <= t.Reserved.Count { // of nodes that others pay for
		charged.OnDemand, charged.Spot = 0, 0
	}
	free := charged.GPUs() - max(gpus, charged.Reserved)
	return t.cheap*(float64(charged.Spot)-t.unused*float64(free)) +
		t.price*(float64(charged.OnDemand)+t.left*float64(min(gpus, charged.Reserved)))
}

// Charged returns the GPUs of a pool that are paid for.
func (pl *Planner) Charged(p int) score.Paid { return pl.sites[p].charged(pl.nodesUsed(p)) }

// Before counts the nodes of a pool (its GPUs where the size of a node is not stated) that its replicas would take if
// each were isolated, and those that replicas without a place could hold: in their pool, or the one that suits best.
func (pl *Planner) Before(p int) (nodes, held int) {
	st := &pl.sites[p]
	sizes, waiting := make([]int32, st.each+1), 0
	for w, cw := range pl.Workloads {
		size := cw.Workload().GPUCount()
		for _, at := range pl.Places[w] {
			switch {
			case at.Pool != p:
			case st.each == 1:
				nodes += size * at.Replicas
			default:
				sizes[size] += int32(at.Replicas)
			}
		}
		if left := pl.Wanted[w] - pl.Placed[w]; left > 0 && pl.home(w) == p {
			waiting += size * left
		}
	}
	nodes += bestFit(make([]int32, st.each+1), sizes)
	return nodes, (waiting + st.each - 1) / st.each
}

// CountsGPUs reports whether a pool shares its GPUs by several modes or among several trust domains, of which its
// delivery lets a node have one, and does not say which GPUs are a node's.
func (pl *Planner) CountsGPUs(p int) bool {
	own, groups := false, 0
	for key, gpus := range pl.Groups {
		if key.Pool == p {
			class, domains := pl.sites[p].class[key.Mechanism], byDomain(spans(gpus))
			own, groups = own || class == classTimeSliced || class == classLimited, groups+max(1, len(domains))
		}
	}
	return own && groups > 1 && !pl.sites[p].stated
}

// Longer is the added cost for an hour of work that takes longer than on the fleet's fastest GPU.
func (pl *Planner) Longer() (sum float64) {
	for _, places := range pl.Places {
		for _, p := range places {
			sum += p.Longer * float64(p.Replicas)
		}
	}
	return sum
}

// home returns the pool in which a workload is most likely today; -1 where it is unknown.
func (pl *Planner) home(w int) int {
	switch pin := pl.Workloads[w].Workload().Pool; {
	case pin != "":
		return slices.IndexFunc(pl.Pools, func(p *score.CompiledPool) bool { return p.Pool.Name == pin })
	case pl.Chosen(w) != nil:
		return pl.Chosen(w).Pool
	case len(pl.Choices[w]) > 0:
		return pl.Choices[w][0].Pool
	case len(pl.Pools) == 1:
		return 0
	}
	return -1
}

// charged returns the GPUs that are paid for where so many nodes are in use, some of them interruptible: the reserved
// GPUs in any case, which nodes that must not be interrupted use first.
func (s *sites) charged(nodes, spot int) score.Paid {
	reserved := s.pool.Reserved.Count
	spot = min(spot, s.pool.Spot.Count/s.each)
	firm := (nodes - spot) * s.each
	return score.Paid{Reserved: reserved, OnDemand: max(0, firm-reserved),
		Spot: max(0, spot*s.each-max(0, reserved-firm))}
}

func cheaper(cost, than float64) bool { return cost < than-1e-9*max(1, math.Abs(than)) }

// compareCosts is negative where a is cheaper than b, and 0 where they differ by rounding at most.
func compareCosts(a, b float64) int {
	if cheaper(a, b) || cheaper(b, a) {
		return cmp.Compare(a, b)
	}
	return 0
}

// Counts returns the weight of a GPU of the price: 1 where any pool has no price.
func (pl *Planner) Counts(price cost.Money) float64 {
	if slices.ContainsFunc(pl.Pools, func(p *score.CompiledPool) bool { return !p.Priced }) {
		return 1
	}
	return float64(price.Micros()) / 1e6
}
