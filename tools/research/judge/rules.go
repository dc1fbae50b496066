// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

// rule is a rule of thumb that people follow, coded as it is written: it chooses a
// mechanism by a workload's visible properties.
type rule struct {
	name   string
	label  string // in the table
	choose func(s *scene, w, pool int) sharing.Mechanism
	most   int // tenants on a GPU where it shares without slices
}

var rules = []rule{
	{"never share", "never share", func(*scene, int, int) sharing.Mechanism { return sharing.MechanismExclusive }, 1},
	// https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html
	{"time-slicing, 4 replicas", "time-slicing by four",
		func(*scene, int, int) sharing.Mechanism { return sharing.MechanismTimeSlicing }, 4},
	{"smallest MIG slice that fits the memory", "smallest MIG slice", func(s *scene, _, pool int) sharing.Mechanism {
		if len(s.profiles[pool]) == 0 {
			return sharing.MechanismExclusive
		}
		return sharing.MechanismMIG
	}, 1},
	{"MPS for all inference", "MPS for all inference", func(s *scene, w, _ int) sharing.Mechanism {
		if s.shown.Workloads[w].Kind.Serves() {
			return sharing.MechanismMPS
		}
		return sharing.MechanismExclusive
	}, 16},
	// "GPU Sharing Performance Reality", a blog article. Strict objectives under two
	// seconds or a GPU with MIG: MIG; else cost decides, for time-slicing.
	{"five-step flow", "five-step flow",
		func(s *scene, w, pool int) sharing.Mechanism {
			wl := &s.shown.Workloads[w]
			hasMIG := len(s.profiles[pool]) > 0
			strict := wl.SLO != (decision.Workload{}).SLO
			switch {
			case hasMIG:
				return sharing.MechanismMIG
			case strict:
				return sharing.MechanismExclusive
			}
			return sharing.MechanismTimeSlicing
		}, 4},
	// "Why share a GPU?", AI Platform Engineering & MLOps. Training alone; inference by MPS among friends and by MIG among
	// strangers; notebooks in turns.
	{"three archetypes", "three archetypes",
		func(s *scene, w, pool int) sharing.Mechanism {
			wl := &s.shown.Workloads[w]
			hasMIG := len(s.profiles[pool]) > 0
			switch wl.Kind {
			case decision.KindTraining, decision.KindDistributedTraining, decision.KindHPC:
				return sharing.MechanismExclusive
			case decision.KindOnlineInference, decision.KindOfflineInference:
				if wl.Isolation.Memory == sharing.LevelHardware && hasMIG {
					return sharing.MechanismMIG
				}
				return sharing.MechanismMPS
			}
			return sharing.MechanismTimeSlicing
		}, 10},
}

// arrange follows the rule: each workload goes to the cheapest pool whose GPU holds it, GPUs are filled in order
// while stated memory and the number of tenants allow. It returns which workloads found a place.
func (r rule) arrange(s *scene) (arrangement, []bool) {
	var out arrangement
	placed := make([]bool, len(s.shown.Workloads))
	for w := range s.shown.Workloads {
		wl := &s.shown.Workloads[w]
		need := float64(wl.MemoryNeed().Total)
		pool := -1
		for p := range s.gpus {
			if need <= 0.95*float64(s.gpus[p].Memory.Value) && (pool < 0 || s.prices[p] < s.prices[pool]) {
				pool = p
			}
		}
		if pool < 0 {
			continue
		}
		how := r.choose(s, w, pool)
		profile := ""
		if how == sharing.MechanismMIG {
			how = sharing.MechanismExclusive
			for _, p := range s.profiles[pool] {
				if profileMemory(p) >= need {
					how, profile = sharing.MechanismMIG, p.Name
					break
				}
			}
		}
		placed[w] = true
		for range wl.Replicas.Max {
			if !put(s, out, w, pool, how, profile, r.most) {
				out = append(out, s.alone(w, pool, how, profile))
			}
		}
	}
	return out, placed
}

// put adds a replica to the first GPU of the arrangement that takes it.
func put(s *scene, a arrangement, w, pool int, how sharing.Mechanism, profile string, most int) bool {
	if how == sharing.MechanismExclusive {
		return false
	}
	for i := range a {
		p := &a[i]
		if p.pool != pool || p.mechanism != how {
			continue
		}
		if how == sharing.MechanismMIG {
			before := p.profiles[w]
			if before != "" && before != profile {
				continue
			}
			p.profiles[w] = profile
			p.counts[w]++
			if p.placeable(s.gpus[pool]) {
				return true
			}
			p.counts[w]--
			p.profiles[w] = before
			continue
		}
		memory := float64(s.shown.Workloads[w].MemoryNeed().Total)
		for k, n := range p.counts {
			memory += float64(n) * float64(s.shown.Workloads[k].MemoryNeed().Total)
		}
		if p.replicas() < most && memory <= float64(s.gpus[pool].Memory.Value) {
			p.counts[w]++
			return true
		}
	}
	return false
}
