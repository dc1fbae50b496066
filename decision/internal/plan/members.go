// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// has reports whether a workload is among members.
func has(members []Member, w int) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.Workload == w })
}

// joined are members with n more replicas of a workload.
func joined(members []Member, w, n int) []Member {
	at := slices.IndexFunc(members, func(m Member) bool { return m.Workload == w })
	if at < 0 {
		return append(members, Member{w, n})
	}
	members[at].Replicas += n
	return members
}

// SortMembers puts members in the order of their workloads, in place.
func SortMembers(ms []Member) {
	slices.SortFunc(ms, func(a, b Member) int { return a.Workload - b.Workload })
}

// GPUs counts the group's GPUs; of nil none.
func (g *Group) GPUs() int {
	if g == nil {
		return 0
	}
	return g.Whole + len(g.Bins) + len(g.Sliced)
}

// busiest is the largest number of tenants on one of the group's GPUs.
func (g *Group) busiest() int {
	n := 0
	for i := range g.Bins {
		n = max(n, g.Bins[i].n)
	}
	for i := range g.Sliced {
		n = max(n, len(g.Sliced[i].Members))
	}
	return n
}

func (g *Group) model() *mig.Model { return g.Pool.Target().Model() }

// Choice is workload w's choice of a group, or nil.
func (pl *Planner) Choice(w int, key GroupKey) *Choice {
	for i := range pl.Choices[w] {
		if c := &pl.Choices[w][i]; c.Pool == key.Pool && c.Mechanism == key.Mechanism {
			return c
		}
	}
	return nil
}

// ban rules a choice out.
func (pl *Planner) ban(w int, c *Choice, why filter.Reason) {
	if pl.Banned[w] == nil {
		pl.Banned[w] = map[GroupKey]filter.Reason{}
	}
	pl.Banned[w][c.GroupKey] = why
}

// Parts lists a workload and the parts that were formed of it.
func (pl *Planner) Parts(w int) []int {
	out := []int{w}
	for part := pl.Asked; part < len(pl.part); part++ {
		if pl.part[part] == w {
			out = append(out, part)
		}
	}
	return out
}

// united are members in the order of their workloads, with the parts of one together.
func (pl *Planner) united(members []Member) []Member {
	out := slices.Clone(members)
	for i := range out {
		out[i].Workload = pl.part[out[i].Workload]
	}
	SortMembers(out)
	n := 0
	for _, m := range out {
		if n > 0 && out[n-1].Workload == m.Workload {
			out[n-1].Replicas += m.Replicas
		} else {
			out[n], n = m, n+1
		}
	}
	return out[:n]
}

// Interruptible reports whether all members of a GPU may be interrupted.
func (pl *Planner) Interruptible(members []Member) bool {
	return !slices.ContainsFunc(members, func(m Member) bool { return !pl.Workloads[m.Workload].Workload().Spot })
}

// EachGPU visits a group's GPUs in order, several at once where one workload holds them.
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
	if g == nil || g.Pool.Spot.Count == 0 {
		return 0
	}
	pl.EachGPU(g, func(members []Member, _ []int, gpus int) {
		if pl.Interruptible(members) {
			n += gpus
		}
	})
	return n
}

// GroupKeys returns the keys of the groups there are, by pool and then by mechanism.
func (pl *Planner) GroupKeys() []GroupKey {
	return slices.SortedFunc(maps.Keys(pl.Groups), func(a, b GroupKey) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Mechanism, b.Mechanism))
	})
}

// MemoryOf returns the memory that a replica takes of a GPU or slice, with its context.
func (pl *Planner) MemoryOf(w int, m sharing.Mechanism) sharing.Bytes {
	cw := pl.Workloads[w]
	need := cw.Demand().Memory.Under(m)
	if cw.Demand().Memory.Context == 0 && !traits.Of(m).Limited && m != sharing.MechanismExclusive {
		need += filter.ContextMemory * sharing.Bytes(cw.Demand().Processes)
	}
	return need
}

// Usable is the memory of a pool's GPU that tenants may fill under a mechanism.
func (pl *Planner) Usable(p int, m sharing.Mechanism) sharing.Bytes {
	total := float64(pl.Pools[p].Memory) * (1 - pl.Opt.Headroom.Driver)
	if !traits.Of(m).Holds {
		total /= 1 + pl.Opt.Headroom.Fragmentation
	}
	return sharing.Bytes(total)
}

// slots counts the tenants like w that a GPU takes whatever they do: those that the mechanism offers, within the
// limit of MPS clients.
func (pl *Planner) slots(w int, c *Choice) int {
	n := pl.Pools[c.Pool].Target().Slots(c.Mechanism)
	if traits.Of(c.Mechanism).Clients {
		n = max(1, n/max(1, pl.Workloads[w].Demand().Processes))
	}
	return min(n, mostTogether)
}
