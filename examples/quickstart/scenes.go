package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// scene is one GPU as the decision fills it: who shares it, and how.
type scene struct {
	Name        string            `json:"scene"`
	Pool        string            `json:"pool"`
	GPU         string            `json:"gpu"`
	Recommended sharing.Mechanism `json:"recommended"`
	Tenants     []sceneTenant     `json:"tenants"` // one a replica
	Note        string            `json:"note,omitempty"`

	gpu *sharing.GPU
}

type sceneTenant struct {
	Workload string `json:"workload"`
	Profile  string `json:"profile,omitempty"` // MIG, where recommended

	sim *simulated
}

// notRun is what is not simulated, and why.
type notRun struct {
	Scene     string             `json:"scene,omitempty"`
	Workload  string             `json:"workload,omitempty"`
	Mechanism *sharing.Mechanism `json:"mechanism,omitempty"`
	Reason    string             `json:"reason"`
}

// What this machine can be asked to run at once: scenes, replicas on a GPU, and
// events a second.
const (
	mostScenes, mostTenants = 6, 24
	mostEvents              = 10000.0
	mostAlone               = 3 // replicas of a workload that wanted a GPU of its own, tried together
)

// scenes picks GPUs of the decision's layouts until each workload that can be
// simulated is on one. Workloads that get GPUs of their own are put together as
// the rejected mechanisms would have them.
func scenes(fleet *decision.Fleet, result *decision.Result, profiles *predict.Profiles, seconds float64) (out []scene, missing []notRun, err error) {
	sims := map[string]*simulated{}
	taken := map[string]bool{}
	skip := func(workload, reason string) {
		if !taken[workload] {
			missing = append(missing, notRun{Workload: workload, Reason: reason})
		}
		taken[workload] = true
	}
	events := 0.0
	add := func(s scene) {
		need := 0.0
		for _, t := range s.Tenants {
			need += t.sim.eventsPerS()
		}
		why := ""
		switch {
		case len(s.Tenants) > mostTenants:
			why = fmt.Sprintf("%d replicas on a GPU: up to %d are simulated", len(s.Tenants), mostTenants)
		case len(out) == mostScenes:
			why = fmt.Sprintf("%d other GPUs are simulated: give a fleet of fewer workloads", mostScenes)
		case events+need > mostEvents:
			why = fmt.Sprintf("its clients would take this machine beyond %.0f events/s: give a fleet of fewer workloads", mostEvents)
		}
		for _, t := range s.Tenants {
			if why != "" {
				skip(t.Workload, why)
			}
			taken[t.Workload] = true
		}
		if why == "" {
			events += need
			out = append(out, s)
		}
	}
	for _, d := range result.Decisions {
		if d.Mechanism == sharing.MechanismNone {
			skip(d.Workload, "it fits nowhere")
			continue
		}
		i := slices.IndexFunc(fleet.Pools, func(p decision.Pool) bool { return p.Name == d.Pool })
		gpu, err := sharing.LookupGPU(fleet.Pools[i].GPU)
		if err != nil {
			return nil, nil, err
		}
		i = slices.IndexFunc(fleet.Workloads, func(w decision.Workload) bool { return w.Name == d.Workload })
		sim, why := simulate(&fleet.Workloads[i], gpu, profiles)
		if why == "" && sim.alone().Seconds() > seconds/4 {
			why = fmt.Sprintf("a request takes %v alone, too long for runs of %v s: raise -seconds", sim.alone().Round(time.Millisecond), seconds)
		}
		if why != "" {
			skip(d.Workload, why)
			continue
		}
		sims[d.Workload] = sim
	}
	for _, p := range result.Pools {
		gpu, err := sharing.LookupGPU(p.GPU)
		if err != nil {
			return nil, nil, err
		}
		named := 0
		fill := func(m sharing.Mechanism, note string, tenants []sceneTenant) {
			named++
			add(scene{Name: fmt.Sprintf("%s-%d", p.Pool, named), Pool: p.Pool, GPU: p.GPU, Recommended: m, Tenants: tenants, Note: note, gpu: gpu})
		}
		var alone []sceneTenant // single replicas with a GPU of their own
		for _, g := range p.Groups {
			for _, l := range g.Layouts {
				tenants, fresh := sceneTenants(l, sims, taken)
				switch {
				case !fresh:
				case g.Mechanism != sharing.MechanismExclusive:
					fill(g.Mechanism, "", tenants)
				case result.Decision(tenants[0].Workload).Replicas > 1:
					n := min(result.Decision(tenants[0].Workload).Replicas, mostAlone)
					fill(g.Mechanism, "as if its replicas shared a GPU", slices.Repeat(tenants[:1], n))
				default:
					taken[tenants[0].Workload] = true
					alone = append(alone, tenants[0])
				}
			}
		}
		for len(alone) > 0 {
			n := min(len(alone), mostAlone)
			note := ""
			if n > 1 {
				note = "as if they shared a GPU"
			}
			fill(sharing.MechanismExclusive, note, alone[:n])
			alone = alone[n:]
		}
	}
	for _, d := range result.Decisions {
		if !taken[d.Workload] {
			skip(d.Workload, "it shares its GPU with a workload that is not simulated")
		}
	}
	return out, missing, nil
}

// sceneTenants are a layout's replicas, and whether one of them is of a workload
// that no scene has. A layout with a replica that is not simulated gives none.
func sceneTenants(l decision.LayoutResult, sims map[string]*simulated, taken map[string]bool) (out []sceneTenant, fresh bool) {
	put := func(workload, profile string, replicas int) bool {
		sim := sims[workload]
		fresh = fresh || sim != nil && !taken[workload]
		out = append(out, slices.Repeat([]sceneTenant{{workload, profile, sim}}, replicas)...)
		return sim != nil
	}
	for _, in := range l.Instances {
		if !put(in.Workload, in.Profile, in.Replicas) {
			return nil, false
		}
	}
	for _, t := range l.Tenants {
		if !put(t.Workload, "", t.Replicas) {
			return nil, false
		}
	}
	return out, fresh
}

// workloads lists the scene's workloads in order.
func (s *scene) workloads() []string {
	var out []string
	for _, t := range s.Tenants {
		if !slices.Contains(out, t.Workload) {
			out = append(out, t.Workload)
		}
	}
	return out
}

// busy is the share of a whole GPU that the scene's replicas ask for together.
func (s *scene) busy() float64 {
	sum := 0.0
	for _, t := range s.Tenants {
		sum += t.sim.busy()
	}
	return sum
}

// slices are the MIG profiles of the scene's tenants: the layout's, or else the
// ones that the decision names for each workload, where one GPU has room for all.
func (s *scene) slices(result *decision.Result) (profiles []*mig.Profile, why string) {
	m, err := mig.Lookup(s.GPU)
	if err != nil {
		return nil, "this GPU has no MIG"
	}
	var demand []mig.Count
	for _, t := range s.Tenants {
		name := t.Profile
		if name == "" {
			name = candidate(result, t.Workload, s.Pool, sharing.MechanismMIG).Profile
		}
		p, err := m.Profile(name)
		if name == "" || err != nil {
			return nil, "the decision names no slice for " + t.Workload
		}
		profiles = append(profiles, p)
		i := slices.IndexFunc(demand, func(c mig.Count) bool { return c.Profile == p.Name })
		if i < 0 {
			i = len(demand)
			demand = append(demand, mig.Count{Profile: p.Name})
		}
		demand[i].N++
	}
	if packing, err := m.Pack(demand); err != nil || packing.GPUs != 1 {
		return nil, "the slices that the decision names do not fit one GPU together"
	}
	return profiles, ""
}

// impossible are the reasons against a mechanism that leave nothing to run.
var impossible = []gate.Code{gate.CodeGPUMemory, gate.CodeMemoryForTwo, gate.CodeMemorySlice, gate.CodeSliceTooSmall, gate.CodeHardware, gate.CodeNotAllowedInPool}

// runnable says why the scene is not run under a mechanism; "" means it is.
func (s *scene) runnable(m sharing.Mechanism, result *decision.Result) string {
	switch m {
	case sharing.MechanismExclusive:
		return ""
	case sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismMIGLikeEmulation:
	default:
		return notSimulated(m)
	}
	for _, w := range s.workloads() {
		for _, r := range candidate(result, w, s.Pool, m).Reasons {
			if r.Verdict == gate.VerdictReject && slices.Contains(impossible, r.Code) {
				return fmt.Sprintf("rejected and not run: %s: %s", w, r.Message)
			}
		}
	}
	if m == sharing.MechanismMIG {
		_, why := s.slices(result)
		return why
	}
	if len(s.Tenants) < 2 {
		return "there is nobody to share the GPU with"
	}
	var need sharing.Bytes
	for _, t := range s.Tenants {
		need += t.sim.workload.MemoryNeed().Total
	}
	if has, ok := s.gpu.Memory.Get(); ok && need > has {
		return fmt.Sprintf("not run for want of memory: the %d replicas need %v of %v", len(s.Tenants), need, has)
	}
	return ""
}

// candidate finds what the decision says of a mechanism for a workload on a
// pool; the zero Candidate where it says nothing.
func candidate(result *decision.Result, workload, pool string, m sharing.Mechanism) decision.Candidate {
	for _, c := range result.Decision(workload).Candidates {
		if c.Mechanism == m && c.Pool == pool {
			return c
		}
	}
	return decision.Candidate{Mechanism: m}
}

// notSimulated says why a mechanism is not.
func notSimulated(m sharing.Mechanism) string {
	switch m {
	case sharing.MechanismMIGWithMPS:
		return "not simulated: the simulated GPU has slices or MPS, not MPS within slices"
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		return "not simulated: what a preloaded library's throttling does to kernels is not known"
	case sharing.MechanismVGPU, sharing.MechanismMIGBackedVGPU:
		return "not simulated: the hypervisor's scheduler is not known"
	case sharing.MechanismInServer:
		return "not simulated: one process multiplexes its own requests; there is nothing to share"
	}
	return "not simulated: research systems differ too much"
}
