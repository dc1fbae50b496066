// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// plan describes one GPU's tenants: replicas by workload, and under MIG the profile of each workload's replicas.
type plan struct {
	pool      int
	mechanism sharing.Mechanism
	counts    []int
	profiles  []string
}

func (p *plan) key() string {
	return fmt.Sprint(p.pool, p.mechanism, p.counts, strings.Join(p.profiles, ","))
}

func (p *plan) replicas() int { return sum(p.counts) }

// arrangement is a plan for every GPU that is used.
type arrangement []plan

func (a arrangement) cost(s *scene) float64 {
	sum := 0.0
	for i := range a {
		sum += s.prices[a[i].pool]
		for w, n := range a[i].counts {
			sum += float64(n) * s.longer(w, a[i].pool)
		}
	}
	return sum
}

// longer is the added cost of a replica of work that ends: what its share of a GPU costs for the time that it takes
// beyond that on the fleet's fastest GPU. Work is compared by its cost to finish, not by the hour.
func (s *scene) longer(w, pool int) float64 {
	wl := &s.full.Workloads[w]
	if wl.Kind != decision.KindTraining && wl.Kind != decision.KindBatch {
		return 0
	}
	most := 0.0
	for _, g := range s.gpus {
		most = max(most, timesOn(wl, s.gpus[pool], 0.5)/timesOn(wl, g, 0.5))
	}
	busy := wl.GPUBusy.Or(0)
	there := busy * timesOn(wl, s.gpus[pool], 0.5)
	share := max(there/(there+1-busy), float64(wl.MemoryNeed().Total)/float64(s.gpus[pool].Memory.Value))
	return s.prices[pool] * share * busy * (most - 1)
}

// words lists the arrangement's GPUs, with equal ones grouped.
func (a arrangement) words(s *scene) string {
	var keys []string
	counts := map[string]int{}
	for i := range a {
		p := &a[i]
		var who []string
		for w, n := range p.counts {
			if n == 0 {
				continue
			}
			name := fmt.Sprintf("%d %s", n, s.full.Workloads[w].Name)
			if p.profiles != nil {
				name += " " + p.profiles[w]
			}
			who = append(who, name)
		}
		k := fmt.Sprintf("%s %s [%s]", s.gpus[p.pool].Name, p.mechanism, strings.Join(who, " | "))
		if counts[k]++; counts[k] == 1 {
			keys = append(keys, k)
		}
	}
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%d x %s", counts[k], k)
	}
	return strings.Join(keys, ", ")
}

// share returns what GPUs cost by the part of their tenants that are of the set: what others ask for is not its cost.
func (a arrangement) share(s *scene, in []bool) (cost float64) {
	for i := range a {
		of := 0
		for w, n := range a[i].counts {
			if in[w] {
				of += n
				cost += float64(n) * s.longer(w, a[i].pool)
			}
		}
		cost += s.prices[a[i].pool] * float64(of) / float64(a[i].replicas())
	}
	return cost
}

// carrying is the part of the arrangement whose GPUs carry one of the workloads.
func (a arrangement) carrying(in []bool) arrangement {
	var out arrangement
	for _, p := range a {
		for w, n := range p.counts {
			if n > 0 && in[w] {
				out = append(out, p)
				break
			}
		}
	}
	return out
}

// arrangementOf converts the layout of a decision.
func arrangementOf(s *scene, r *decision.Result) arrangement {
	index := map[string]int{}
	for i := range s.shown.Workloads {
		index[s.shown.Workloads[i].Name] = i
	}
	pools := map[string]int{}
	for i := range s.shown.Pools {
		pools[s.shown.Pools[i].Name] = i
	}
	var out arrangement
	for _, pool := range r.Pools {
		for _, g := range pool.Groups {
			for _, l := range g.Layouts {
				p := plan{pool: pools[pool.Pool], mechanism: g.Mechanism, counts: make([]int, len(index))}
				if len(l.Instances) > 0 {
					p.profiles = make([]string, len(index))
				}
				for _, in := range l.Instances {
					w := index[in.Workload]
					p.counts[w] += in.Replicas
					p.profiles[w] = in.Profile
				}
				for _, t := range l.Tenants {
					p.counts[index[t.Workload]] += t.Replicas
				}
				for range l.GPUs {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// tenants returns the plan's replicas with their properties in a world.
func (p *plan) tenants(s *scene, w *world) ([]*tenant, way) {
	how := way{mechanism: p.mechanism}
	var model *mig.Model
	if p.mechanism == sharing.MechanismMIG {
		model, _ = mig.Lookup(s.gpus[p.pool].Name)
	}
	var out []*tenant
	for i, n := range p.counts {
		for range n {
			out = append(out, w.tenantOf(s.full, i, s.gpus[p.pool]))
			if model != nil {
				at := slices.IndexFunc(model.Profiles, func(prof *mig.Profile) bool { return prof.Name == p.profiles[i] })
				how.slices = append(how.slices, sliceOf(model, model.Profiles[at]))
			}
		}
	}
	return out, how
}

// overcommits reports whether the plan's tenants take more memory in a world than there is.
func (p *plan) overcommits(s *scene, w *world, tenants []*tenant) bool {
	g := s.gpus[p.pool]
	total := float64(g.Memory.Value) * (1 - w.fleet["driver_reserve"])
	if p.mechanism == sharing.MechanismMIG {
		model, _ := mig.Lookup(g.Name)
		for _, t := range tenants {
			prof, err := model.Profile(p.profiles[t.workload])
			if err != nil || t.memory > profileMemory(prof) {
				return true
			}
		}
		return false
	}
	// Who is alone gives back what its allocator holds before it fails; neighbours do not give back theirs.
	sum := 0.0
	for _, t := range tenants {
		sum += t.memory
		if len(tenants) > 1 {
			sum += t.loose
		}
	}
	return sum > total
}

// allowed reports whether isolation and trust let the workloads of a plan meet.
func (p *plan) allowed(s *scene) bool {
	if p.replicas() < 2 || p.mechanism == sharing.MechanismMIG {
		return true
	}
	first := -1
	for i, n := range p.counts {
		switch {
		case n == 0:
		case s.shown.Workloads[i].Isolation.Memory == sharing.LevelHardware, first >= 0 && !trusts(s.shown, first, i):
			return false
		case first < 0:
			first = i
		}
	}
	return true
}

func trusts(f *decision.Fleet, a, b int) bool {
	ta, tb := f.Workloads[a].Tenant, f.Workloads[b].Tenant
	if ta == "" && tb == "" {
		return f.Trust == "all"
	}
	return ta == tb
}

// profilesOf lists the MIG profiles of a pool's GPU, smallest first; none where there is no MIG.
func profilesOf(g *sharing.GPU) []*mig.Profile {
	var out []*mig.Profile
	if model, err := mig.Lookup(g.Name); err == nil {
		for _, p := range model.Profiles {
			if !strings.Contains(p.Name, "+") && !strings.Contains(p.Name, "-") {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b *mig.Profile) int {
		return cmp.Or(cmp.Compare(a.PlacementUnits, b.PlacementUnits), cmp.Compare(a.ComputeSlices, b.ComputeSlices))
	})
	return out
}

// placeable reports whether the plan's instances stand together on one GPU.
func (p *plan) placeable(g *sharing.GPU) bool {
	model, err := mig.Lookup(g.Name)
	if err != nil {
		return false
	}
	var counts []mig.Count
	for i, n := range p.counts {
		if n > 0 {
			counts = append(counts, mig.Count{Profile: p.profiles[i], N: n})
		}
	}
	_, err = model.Place(counts, mig.Layout{})
	return err == nil
}

// profileMemory returns the memory of a profile's instance in bytes, 0 if unknown.
func profileMemory(p *mig.Profile) float64 {
	m, _ := p.Memory.Get()
	return float64(m)
}
