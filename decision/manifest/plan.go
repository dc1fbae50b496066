package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// Plan is a rollout on one page.
type Plan struct {
	Title string
	Notes []string // what to know before starting
	Steps []Step   // in order
	Traps []PlanTrap
}

// Step is one step of a rollout. Commands stand in Do, Verify and Rollback
// between backquotes.
type Step struct {
	Title      string
	Do         []string
	Verify     []string
	Rollback   []string
	Privileges []string // the rights that the step needs
}

// PlanTrap is something to check because it looks right and fails.
type PlanTrap struct {
	ID       string
	Severity string
	Message  string
}

// Markdown writes the plan.
func (p Plan) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", inline(p.Title))
	list := func(items []string) {
		for _, s := range items {
			fmt.Fprintf(&b, "- %s\n", inline(s))
		}
	}
	if len(p.Notes) > 0 {
		b.WriteByte('\n')
		list(p.Notes)
	}
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "\n## %d. %s\n\n", i+1, inline(s.Title))
		list(s.Do)
		for _, part := range []struct {
			name  string
			items []string
		}{{"Verify", s.Verify}, {"Roll back", s.Rollback}, {"Needs", s.Privileges}} {
			if len(part.items) > 0 {
				fmt.Fprintf(&b, "\n%s:\n", part.name)
				list(part.items)
			}
		}
	}
	if len(p.Traps) > 0 {
		b.WriteString("\n## Check for these\n\n| severity | trap | what is true |\n|---|---|---|\n")
		for _, t := range p.Traps {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(t.Severity), cell(t.ID), cell(t.Message))
		}
	}
	return b.Bytes()
}

func inline(s string) string { return strings.Join(strings.Fields(s), " ") }

func cell(s string) string { return strings.ReplaceAll(inline(s), "|", "\\|") }

// RolloutPlan is the plan that Build writes: one step for the cluster, one for
// each group, in the order of the fleet, and one for the workloads.
func RolloutPlan(f Fleet, opt Options) Plan {
	b := builder{fleet: &f, opt: opt, deliveries: opt.deliveries()}
	p := Plan{Title: "GPU sharing rollout", Notes: b.planNotes()}
	p.Steps = append(p.Steps, Step{
		Title: "Keep what is there",
		Do: []string{
			"`kubectl get nodes -o yaml > before-nodes.yaml`",
			"`kubectl get configmaps -n " + opt.namespace() + " -o yaml > before-configmaps.yaml`",
			"`helm get values -n " + opt.namespace() + " gpu-operator > before-values.yaml`, where the GPU Operator is used",
		},
		Verify: []string{"The files are not empty. They are the way back from every step below."},
	})
	if s, ok := b.clusterStep(); ok {
		p.Steps = append(p.Steps, s)
	}
	for i := range f.Groups {
		p.Steps = append(p.Steps, b.groupStep(&f.Groups[i]))
	}
	if len(f.Workloads) > 0 {
		p.Steps = append(p.Steps, b.workloadStep())
	}
	return p
}

func (b *builder) planNotes() []string {
	notes := []string{"Take one node of each group first and stop at the first check that fails; every step says how to go back.",
		"NODE stands for each node of the step's group. The GPUs of a node share by one mechanism."}
	if b.uses(sharing.DeliveryDRA) {
		notes = append(notes, "`dra/` is the same by DRA claims, an alternative to `pods/` for nodes that the DRA driver serves instead of the device plugin. Never let both hand out the same GPUs. The DRA driver's gates TimeSlicingSettings and MPSSupport are alpha and off by default.")
	}
	return notes
}

func (b *builder) clusterStep() (Step, bool) {
	hasMIG := slices.ContainsFunc(b.fleet.Groups, func(g Group) bool { return usesMIG(g.Mechanism) })
	ns := b.opt.namespace()
	s := Step{Title: "Put the configurations into the cluster", Privileges: []string{"Cluster administrator."}}
	if b.byPlugin() {
		s.Do = append(s.Do, "`kubectl apply -f device-plugin/configmap.yaml`")
	}
	if hasMIG {
		s.Do = append(s.Do, "`kubectl apply -f mig-parted/configmap.yaml`")
	}
	if len(s.Do) == 0 {
		return Step{}, false
	}
	if b.uses(sharing.DeliveryGPUOperator) {
		s.Do = append(s.Do, "`helm upgrade -n "+ns+" gpu-operator nvidia/gpu-operator --reuse-values -f gpu-operator/values.yaml`")
	}
	s.Verify = []string{"`kubectl get pods -n " + ns + "`: all running. No node shares yet: without a label it has the configuration `exclusive`."}
	s.Rollback = []string{"`helm rollback -n " + ns + " gpu-operator`, and apply before-configmaps.yaml."}
	return s, true
}

func (b *builder) groupStep(g *Group) Step {
	size := fmt.Sprintf("%d GPU(s)", g.GPUs)
	if n := g.nodes(); n > 0 {
		size += fmt.Sprintf(" on %d node(s)", n)
	}
	if g.GPU != "" {
		size += ", " + g.GPU
	}
	s := Step{Title: fmt.Sprintf("Group %s: %v, %s", g.Key(), g.Mechanism, size)}
	patches := []string{"`kubectl patch node NODE --patch-file nodes/" + g.Key() + ".yaml`"}
	if usesMIG(g.Mechanism) {
		kinds, _ := g.nodeKinds()
		patches = patches[:0]
		for _, k := range kinds {
			on := ""
			if k.nodes > 0 && len(kinds) > 1 {
				on = fmt.Sprintf(", on %d node(s)", k.nodes)
			}
			patches = append(patches, "`kubectl patch node NODE --patch-file nodes/"+k.label+".yaml`"+on)
		}
	}
	s.Do = []string{"`kubectl cordon NODE && kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`"}
	s.Do = append(s.Do, patches...)
	if isVGPU(g.Mechanism) {
		s.Do = append(s.Do, "In the hypervisor: install vgpu/"+g.Key()+".conf, load the driver anew, and give each virtual machine one "+g.VGPUType+".")
		s.Verify = append(s.Verify, "In the host, `nvidia-smi vgpu -ss` shows the scheduler; in a virtual machine, `nvidia-smi` shows the type.")
	}
	s.Verify = append(s.Verify, b.groupChecks(g)...)
	s.Verify = append(s.Verify, "When all of it holds: `kubectl uncordon NODE`")
	s.Rollback = []string{"Cordon and drain NODE; give the labels " + strings.Join(b.labelNames(g), ", ") + " the values of before-nodes.yaml; uncordon."}
	for _, p := range Privileges(g.Mechanism) {
		s.Privileges = append(s.Privileges, fmt.Sprintf("%s: %s (%s).", upperFirst(p.Who), p.What, p.Why))
	}
	return s
}

func (b *builder) labelNames(g *Group) []string {
	migLabel := ""
	if usesMIG(g.Mechanism) {
		migLabel = g.Key()
	}
	return sortedKeys(g.nodeLabels(primary(b.delivers(g)), migLabel))
}

func (b *builder) groupChecks(g *Group) []string {
	allocatable := "`kubectl get node NODE -o jsonpath='{.status.allocatable}'` shows "
	perNode := "the node's GPUs"
	if g.GPUsPerNode > 0 {
		perNode = fmt.Sprint(g.GPUsPerNode)
	}
	switch g.Mechanism {
	case sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation:
		n := fmt.Sprintf("%d times the node's GPUs", g.clients())
		if g.GPUsPerNode > 0 {
			n = fmt.Sprint(g.clients() * g.GPUsPerNode)
		}
		out := []string{allocatable + "nvidia.com/gpu: " + n + "."}
		if g.Mechanism != sharing.MechanismTimeSlicing {
			out = append(out, "NODE has the label nvidia.com/mps.capable=true, and with a pod running `echo ps | nvidia-cuda-mps-control` in the daemon's pod lists its process. A process that is not listed runs without MPS and without limits.")
		}
		return out
	case sharing.MechanismMIG, sharing.MechanismMIGWithMPS:
		out := []string{"`kubectl get node NODE -o jsonpath='{.metadata.labels.nvidia\\.com/mig\\.config\\.state}'` says success, and `nvidia-smi -L` on the node lists the instances: the manager can report success for a configuration that it did not apply."}
		if g.Mechanism == sharing.MechanismMIG {
			out = append(out, allocatable+"the nvidia.com/mig-... resources; restart the device plugin's pod on NODE if not.")
		}
		return out
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		return []string{allocatable + fmt.Sprintf("nvidia.com/gpu: %d times the node's GPUs", b.fleet.hamiSplit()) + "; in a pod, `nvidia-smi` shows the limit as the total memory."}
	case sharing.MechanismExclusive, sharing.MechanismInServer:
		return []string{allocatable + "nvidia.com/gpu: " + perNode + "."}
	}
	return nil
}

func (b *builder) workloadStep() Step {
	s := Step{Title: "Move the workloads", Privileges: []string{"Whoever may change the workloads' Deployments."}}
	for i := range b.fleet.Workloads {
		w := &b.fleet.Workloads[i]
		ds := b.delivers(b.fleet.group(w))
		folder := "pods/"
		switch {
		case len(ds) == 0:
			s.Do = append(s.Do, fmt.Sprintf("%s: as its system's documentation says; nothing is written for %v.", w.Name, w.Mechanism))
			continue
		case ds[0] == sharing.DeliveryDRA:
			folder = "dra/pods/"
		}
		verb := "`kubectl apply -f "
		if folder == "dra/pods/" && shared(w.Mechanism) {
			s.Do = append(s.Do, fmt.Sprintf("%s: first `kubectl apply -f dra/claims/%s.yaml`, into the namespace of the pods", w.Name, b.fleet.group(w).Key()))
		}
		if w.Image == "" {
			verb = "merge into its Deployment: `"
		}
		s.Do = append(s.Do, fmt.Sprintf("%s: %s%s%s.yaml`", w.Name, verb, folder, w.file()))
	}
	s.Verify = []string{"Every pod is Running on a node of its group, and answers within its objective under load with its neighbours busy."}
	s.Rollback = []string{"`kubectl rollout undo deployment/NAME`"}
	if slices.ContainsFunc(b.fleet.Groups, func(g Group) bool { return usesMPS(g.Mechanism) }) {
		s.Do = append(s.Do, "Before a pod under MPS is deleted, end its work: a client killed in the middle of it can take the others with it. Use a preStop hook that ends the server, or terminate_client.")
	}
	return s
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
