package manifest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// ForResult writes the configuration of a decision: Build over [FleetOf], with
// the decision's traps and roll-out in plan.md. Workloads that fit nowhere are
// named there and have no documents. Nothing is written to disk.
func ForResult(f *decision.Fleet, r *decision.Result, opt Options) ([]File, []sharing.Warning, error) {
	fleet, notes := FleetOf(f, r)
	opt.PlanNotes = append(slices.Clone(opt.PlanNotes), notes...)
	for _, p := range r.Pools {
		if m := p.Migration; m != nil {
			opt.PlanNotes = append(opt.PlanNotes, fmt.Sprintf("Pool %s changes the MIG layouts that are there: %d instances stay, %d go (%d of them busy: drain those first), %d are new. %s",
				p.Pool, m.Keep, m.Destroy, m.Busy, m.Create, strings.Join(m.Steps, "; ")))
		}
	}
	for _, phase := range decision.Rollout() {
		opt.PlanNotes = append(opt.PlanNotes, fmt.Sprintf("%s, %s: %s. Check: %s. [%s]", phase.When, phase.Focus, strings.Join(phase.Do, "; "), strings.Join(phase.Check, "; "), phase.Source))
	}
	for _, t := range r.Traps {
		opt.Traps = append(opt.Traps, PlanTrap{ID: t.ID, Severity: t.Severity.String(), Message: t.Message})
	}
	if len(fleet.Groups) == 0 {
		plan := Plan{Title: "GPU sharing rollout", Notes: append([]string{"Nothing can be rolled out: no workload fits."}, opt.PlanNotes...), Traps: opt.Traps}
		return []File{{Path: "plan.md", Data: plan.Markdown(), Note: "why there is nothing to apply"}}, nil, nil
	}
	return Build(fleet, opt)
}

// FleetOf turns a decision into the groups and workloads that Build takes, and
// says what is left out. Names that Kubernetes would refuse are folded to
// lower-case letters, digits and dashes.
func FleetOf(f *decision.Fleet, r *decision.Result) (Fleet, []string) {
	c := converter{names: map[string]string{}, taken: map[string]bool{}, pools: map[string]*decision.Pool{}}
	for i := range f.Pools {
		c.pools[f.Pools[i].Name] = &f.Pools[i]
	}
	workloads := map[string]*decision.Workload{}
	for i := range f.Workloads {
		workloads[f.Workloads[i].Name] = &f.Workloads[i]
	}
	// Names that can stay do, whatever comes first.
	for _, p := range f.Pools {
		if dnsLabel.MatchString(p.Name) {
			c.name("pool", p.Name)
		}
	}
	for _, w := range f.Workloads {
		if dnsLabel.MatchString(w.Name) {
			c.name("workload", w.Name)
		}
	}
	var out Fleet
	for _, p := range r.Pools {
		for _, g := range p.Groups {
			if group, ok := c.group(p, g); ok {
				out.Groups = append(out.Groups, group)
			}
		}
	}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		if d.Mechanism == sharing.MechanismNone {
			c.notes = append(c.notes, fmt.Sprintf("%s fits nowhere and has no documents.", d.Workload))
			continue
		}
		if w := workloads[d.Workload]; w != nil && slices.ContainsFunc(out.Groups, func(g Group) bool {
			return g.Pool == c.name("pool", d.Pool) && g.Mechanism == d.Mechanism
		}) {
			out.Workloads = append(out.Workloads, c.workload(d, w, c.pools[d.Pool].GPU))
		}
	}
	return out, c.notes
}

// sliceFraction is the share of a MIG slice that a need is, rounded up to
// hundredths, or 0 where the slice's memory is not known.
func sliceFraction(gpu, profile string, need sharing.Bytes) float64 {
	model, err := mig.Lookup(gpu)
	if err != nil {
		return 0
	}
	p, err := model.Profile(profile)
	if err != nil {
		return 0
	}
	memory, known := p.Memory.Get()
	if !known || memory <= 0 {
		return 0
	}
	return min(1, math.Ceil(100*float64(need)/float64(memory))/100)
}

type converter struct {
	names map[string]string // kind and name to folded name
	taken map[string]bool
	pools map[string]*decision.Pool
	notes []string
}

// name folds a name to a DNS label, the same each time, and unlike every other
// of its kind.
func (c *converter) name(kind, name string) string {
	key := kind + "\x00" + name
	if folded, ok := c.names[key]; ok {
		return folded
	}
	folded := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
	if folded == "" {
		folded = kind
	}
	base := folded
	for i := 2; c.taken[kind+"\x00"+folded]; i++ {
		folded = fmt.Sprintf("%s-%d", base, i)
	}
	c.names[key], c.taken[kind+"\x00"+folded] = folded, true
	if folded != name {
		c.notes = append(c.notes, fmt.Sprintf("The %s %q is called %s in the documents.", kind, name, folded))
	}
	return folded
}

func (c *converter) group(p decision.PoolResult, g decision.GroupResult) (Group, bool) {
	out := Group{Pool: c.name("pool", p.Pool), Mechanism: g.Mechanism, GPU: p.GPU, GPUs: g.GPUs}
	pool := c.pools[p.Pool]
	if pool != nil {
		out.GPUsPerNode = pool.GPUsPerNode
	}
	if g.Mechanism == sharing.MechanismVGPU || g.Mechanism == sharing.MechanismMIGBackedVGPU {
		if pool == nil || pool.VGPUType == "" {
			c.notes = append(c.notes, fmt.Sprintf("Pool %s shares by %s, and its vgpu_type is not given: its documents are left out.", p.Pool, g.Mechanism))
			return Group{}, false
		}
		out.VGPUType = pool.VGPUType
	}
	for _, l := range g.Layouts {
		layout := Layout{GPUs: l.GPUs}
		tenants := map[string]int{}
		var order []string
		add := func(workload string, replicas int) {
			if tenants[workload] == 0 {
				order = append(order, workload)
			}
			tenants[workload] += replicas
		}
		for _, in := range l.Instances {
			if layout.Instances == nil {
				layout.Instances = map[string]int{}
			}
			layout.Instances[in.Profile]++
			add(in.Workload, in.Replicas)
			out.Replicas = max(out.Replicas, in.Replicas)
		}
		for _, t := range l.Tenants {
			add(t.Workload, t.Replicas)
		}
		for _, w := range order {
			layout.Tenants = append(layout.Tenants, Tenant{Workload: c.name("workload", w), Replicas: tenants[w]})
		}
		if g.Mechanism == sharing.MechanismMIGBackedVGPU {
			layout.Instances = nil
		}
		out.Layouts = append(out.Layouts, layout)
	}
	if g.Mechanism != sharing.MechanismMIGWithMPS {
		out.Replicas = 0
	}
	return out, true
}

func (c *converter) workload(d *decision.Decision, w *decision.Workload, gpu string) Workload {
	out := Workload{Name: c.name("workload", d.Workload), Pool: c.name("pool", d.Pool), Mechanism: d.Mechanism,
		Replicas: d.Replicas, GPUs: d.GPUs, Profile: d.Profile}
	tenants := 1
	for _, cand := range d.Candidates {
		if cand.Chosen {
			tenants = max(1, cand.Tenants)
		}
	}
	if d.Mechanism != sharing.MechanismExclusive {
		out.Memory = (w.MemoryNeed().Total + sharing.MiB - 1) / sharing.MiB * sharing.MiB
	}
	switch d.Mechanism {
	case sharing.MechanismMPS, sharing.MechanismMIGWithMPS, sharing.MechanismHAMiWithMPS, sharing.MechanismMIGLikeEmulation:
		// Allocation stops that much below an MPS limit.
		out.Memory += gate.ContextMemory
	}
	switch d.Mechanism {
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		out.ComputePercent = float64(100 / tenants)
	case sharing.MechanismMIGLikeEmulation:
		out.ComputePercent = 100 / float64(tenants)
	}
	if fw := w.Framework; fw != nil {
		out.Framework = Framework{Name: fw.Name, Processes: fw.Processes}
		if fw.CUDAGraphs != nil {
			out.Framework.CUDAGraphs = sharing.AnswerOf(*fw.CUDAGraphs)
		}
		// Only on a GPU or slice of its own does the fraction stand; a share
		// needs another.
		if fw.MemoryFraction != nil && (d.Mechanism == sharing.MechanismExclusive || d.Mechanism == sharing.MechanismMIG) {
			out.Framework.MemoryFraction = max(*fw.MemoryFraction, sliceFraction(gpu, d.Profile, out.Memory))
		}
	}
	if d.Mechanism == sharing.MechanismMIGBackedVGPU {
		out.Profile = ""
	}
	return out
}
