// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"math"
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

// joined are members, which are in the order of their workloads, with n more replicas of one.
func joined(members []Member, w, n int) []Member {
	at, found := slices.BinarySearchFunc(members, w, func(m Member, w int) int { return m.Workload - w })
	if !found {
		return slices.Insert(members, at, Member{w, n})
	}
	members[at].Replicas += n
	return members
}

// busiest is the largest number of tenants on one of some GPUs.
func busiest(gpus []GPU) (n int) {
	for i := range gpus {
		n = max(n, gpus[i].n)
	}
	return n
}

// newGPU is a GPU with tenants; those of MIG have no instances yet.
func (pl *Planner) newGPU(key GroupKey, members []Member, size int) GPU {
	s := &pl.sites[key.Pool]
	g := GPU{bin: bin{limit: math.MaxInt}, GroupKey: key, Size: size, domain: pl.domain(s, key.Mechanism, members)}
	firm := func(m Member) bool { return !pl.Workloads[m.Workload].Workload().Spot }
	g.Spot = s.spot && !slices.ContainsFunc(members, firm)
	for _, m := range members {
		if key.Mechanism == sharing.MechanismExclusive || traits.Of(key.Mechanism).Sliced {
			g.Members, g.n = members, g.n+m.Replicas
		} else {
			pl.put(&g.bin, m.Workload, pl.Choice(m.Workload, key), m.Replicas)
		}
	}
	return g
}

// put adds replicas of a workload to the tenants of a GPU without slices.
func (pl *Planner) put(b *bin, w int, c *Choice, n int) {
	b.limit = min(b.limit, c.Tenants)
	b.n += n
	b.memory += pl.MemoryOf(w, c.Mechanism) * sharing.Bytes(n)
	b.Members = joined(b.Members, w, n)
}

// Units are the placement units of the tenants' MIG instances; nil without slices.
func (g *GPU) Units() (out []int) {
	for _, in := range g.Layout.Instances {
		out = append(out, in.Size)
	}
	return out
}

func (pl *Planner) model(pool int) *mig.Model { return pl.Pools[pool].Target().Model() }

// Chosen is the choice of most of a workload's replicas; nil where none has a place.
func (pl *Planner) Chosen(w int) *Choice {
	if len(pl.Places[w]) == 0 {
		return nil
	}
	return pl.Places[w][0].Choice
}

// Choice is workload w's choice of a group, or nil.
func (pl *Planner) Choice(w int, key GroupKey) *Choice {
	for i := range pl.Choices[w] {
		if c := &pl.Choices[w][i]; c.Pool == key.Pool && c.Mechanism == key.Mechanism {
			return c
		}
	}
	return nil
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
	total := float64(pl.Pools[p].Memory) * (1 - pl.Opt.Driver)
	if !traits.Of(m).Holds {
		total /= 1 + pl.Opt.Fragmentation
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
