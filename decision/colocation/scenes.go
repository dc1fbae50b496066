package colocation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// scene is one GPU as the decision fills it: its tenants and their mechanism.
type scene struct {
	Name        string            `json:"scene"`
	Pool        string            `json:"pool"`
	GPU         string            `json:"gpu"`
	Recommended sharing.Mechanism `json:"recommended"`
	Tenants     []tenant          `json:"tenants"`   // one a replica
	Busy        float64           `json:"busy_gpus"` // GPUs that the replicas keep busy together
	Note        string            `json:"note,omitempty"`

	gpu *sharing.GPU
}

type tenant struct {
	Workload string `json:"workload"`
	Profile  string `json:"profile,omitempty"` // MIG, where recommended

	sim *replica
}

// Bounds of one simulation on this machine: scenes, replicas on a GPU, and events a second.
const (
	mostScenes, mostTenants = 6, 24
	mostEvents              = 10000.0
	mostAlone               = 3 // replicas with a GPU each that are tried on one together
)

// sceneSet selects GPUs of the decision's layouts until each workload that can be simulated is on one. Workloads
// with GPUs of their own are put together as the rejected mechanisms would have them.
type sceneSet struct {
	scenes  []scene
	missing []notRun

	sims   map[string]*replica
	taken  map[string]bool // workloads that are in a scene, or missing
	events float64         // a second
}

func newSceneSet(fleet *decision.Fleet, result *decision.Result, profiles *profile.Profiles,
	seconds float64) (*sceneSet, error) {
	set := &sceneSet{sims: map[string]*replica{}, taken: map[string]bool{}}
	for _, d := range result.Decisions {
		if d.Mechanism == sharing.MechanismNone {
			set.skip(d.Workload, "it fits nowhere")
			continue
		}
		pool := slices.IndexFunc(fleet.Pools, func(p decision.Pool) bool { return p.Name == d.Pool })
		gpu, err := sharing.LookupGPU(fleet.Pools[pool].GPU)
		if err != nil {
			return nil, err
		}
		w := slices.IndexFunc(fleet.Workloads, func(w decision.Workload) bool { return w.Name == d.Workload })
		sim, why := newReplica(&fleet.Workloads[w], gpu, profiles)
		if why == "" && sim.alone().Seconds() > seconds/4 {
			why = fmt.Sprintf("a request takes %v alone, too long for runs of %v s: raise -seconds",
				sim.alone().Round(time.Millisecond), seconds)
		}
		if why != "" {
			set.skip(d.Workload, why)
			continue
		}
		set.sims[d.Workload] = sim
	}
	for i := range result.Pools {
		if err := set.addPool(&result.Pools[i], result); err != nil {
			return nil, err
		}
	}
	for _, d := range result.Decisions {
		set.skip(d.Workload, "it shares its GPU with a workload that is not simulated")
	}
	return set, nil
}

// skip records the reason for not simulating a workload, unless it is in a scene or has one already.
func (set *sceneSet) skip(workload, reason string) {
	if !set.taken[workload] {
		set.missing = append(set.missing, notRun{Workload: workload, Reason: reason})
	}
	set.taken[workload] = true
}

// addPool makes scenes of a pool's layouts.
func (set *sceneSet) addPool(p *decision.PoolResult, result *decision.Result) error {
	gpu, err := sharing.LookupGPU(p.GPU)
	if err != nil {
		return err
	}
	named := 0
	add := func(m sharing.Mechanism, note string, tenants []tenant) {
		named++
		set.add(scene{Name: fmt.Sprintf("%s-%d", p.Pool, named), Pool: p.Pool, GPU: p.GPU, Recommended: m, Tenants: tenants,
			Note: note, gpu: gpu})
	}
	var alone []tenant // single replicas with a GPU of their own
	for _, g := range p.Groups {
		for _, l := range g.Layouts {
			tenants, fresh := set.tenants(l)
			if !fresh {
				continue
			}
			replicas := result.Decision(tenants[0].Workload).Replicas
			switch {
			case g.Mechanism != sharing.MechanismExclusive:
				add(g.Mechanism, "", tenants)
			case replicas > 1:
				add(g.Mechanism, "as if its replicas shared a GPU", slices.Repeat(tenants[:1], min(replicas, mostAlone)))
			default:
				set.taken[tenants[0].Workload] = true
				alone = append(alone, tenants[0])
			}
		}
	}
	for some := range slices.Chunk(alone, mostAlone) {
		note := ""
		if len(some) > 1 {
			note = "as if they shared a GPU"
		}
		add(sharing.MechanismExclusive, note, some)
	}
	return nil
}

// tenants are a layout's replicas, and whether one of them is of a workload that
// no scene has. A layout with a replica that is not simulated gives none.
func (set *sceneSet) tenants(l decision.LayoutResult) (out []tenant, fresh bool) {
	for _, in := range l.Instances {
		out = append(out, slices.Repeat([]tenant{{in.Workload, in.Profile, nil}}, in.Replicas)...)
	}
	for _, t := range l.Tenants {
		out = append(out, slices.Repeat([]tenant{{t.Workload, "", nil}}, t.Replicas)...)
	}
	for i := range out {
		t := &out[i]
		if t.sim = set.sims[t.Workload]; t.sim == nil {
			return nil, false
		}
		fresh = fresh || !set.taken[t.Workload]
	}
	return out, fresh
}

// add adds a scene, if this machine can run it beside the others.
func (set *sceneSet) add(s scene) {
	why := ""
	switch {
	case len(s.Tenants) > mostTenants:
		why = fmt.Sprintf("%d replicas on a GPU: up to %d are simulated", len(s.Tenants), mostTenants)
	case len(set.scenes) == mostScenes:
		why = fmt.Sprintf("%d other GPUs are simulated: give a fleet of fewer workloads", mostScenes)
	case set.events+s.eventsPerS() > mostEvents:
		why = fmt.Sprintf("its clients would take this machine beyond %.0f events/s: give a fleet of fewer workloads",
			mostEvents)
	}
	for _, t := range s.Tenants {
		if s.Busy += t.sim.busy(); why != "" {
			set.skip(t.Workload, why)
		}
		set.taken[t.Workload] = true
	}
	if why == "" {
		set.events += s.eventsPerS()
		set.scenes = append(set.scenes, s)
	}
}

// assumed lists what was assumed, once a workload.
func (set *sceneSet) assumed() []assumption {
	of := map[string]assumption{}
	for i := range set.scenes {
		for _, sim := range set.scenes[i].workloads() {
			of[sim.workload.Name] = assumption{sim.workload.Name, sim.assumed}
		}
	}
	return slices.SortedFunc(maps.Values(of), func(a, b assumption) int { return cmp.Compare(a.Workload, b.Workload) })
}

// workloads lists the scene's workloads in order, a replica of each.
func (s *scene) workloads() []*replica {
	var out []*replica
	for _, t := range s.Tenants {
		if !slices.Contains(out, t.sim) {
			out = append(out, t.sim)
		}
	}
	return out
}

func (s *scene) eventsPerS() (sum float64) {
	for _, t := range s.Tenants {
		sum += t.sim.eventsPerS()
	}
	return sum
}

// percent is the active thread percentage of each tenant: under mig-like-emulation equal parts, else none.
func (s *scene) percent(how sharing.Mechanism) float64 {
	if how != sharing.MechanismMIGLikeEmulation {
		return 0
	}
	return float64(100 / len(s.Tenants))
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
		name := cmp.Or(t.Profile, candidate(result, t.Workload, s.Pool, sharing.MechanismMIG).Profile)
		p, err := m.Profile(name)
		if name == "" || err != nil {
			return nil, "the decision names no slice for " + t.Workload
		}
		profiles = append(profiles, p)
		demand = append(demand, mig.Count{Profile: p.Name, N: 1})
	}
	if packing, err := m.Pack(demand); err != nil || packing.GPUs != 1 {
		return nil, "the slices that the decision names do not fit one GPU together"
	}
	return profiles, ""
}

// smShare is a slice's share of the whole GPU's SMs.
func (s *scene) smShare(p *mig.Profile) float64 {
	of, ok := p.SMs.Get()
	all, ok2 := s.gpu.SMs.Get()
	if ok && ok2 {
		return min(1, float64(of)/float64(all))
	}
	return float64(p.ComputeSlices) / float64(p.Model().ComputeSlices)
}

// impossible are the reasons against a mechanism that leave nothing to run.
var impossible = []gate.Code{gate.CodeGPUMemory, gate.CodeMemoryForTwo, gate.CodeMemorySlice, gate.CodeSliceTooSmall,
	gate.CodeHardware, gate.CodeNotAllowedInPool}

// runnable returns the reason against running the scene under a mechanism, "" if none.
func (s *scene) runnable(m sharing.Mechanism, result *decision.Result) string {
	switch m {
	case sharing.MechanismExclusive:
		return ""
	case sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismMIGLikeEmulation:
	default:
		return notSimulated(m)
	}
	for _, sim := range s.workloads() {
		for _, r := range candidate(result, sim.workload.Name, s.Pool, m).Reasons {
			if r.Verdict == gate.VerdictReject && slices.Contains(impossible, r.Code) {
				return fmt.Sprintf("rejected and not run: %s: %s", sim.workload.Name, r.Message)
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
