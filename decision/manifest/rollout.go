package manifest

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

// step is one step of a rollout. Commands stand in do, verify and back between backquotes.
type step struct {
	title  string
	do     []string
	verify []string
	back   []string // the way back
	needs  []string // rights
}

// rollout writes the rollout on one page of Markdown: a step for the cluster,
// one for each group, and one for the workloads.
func (b *builder) rollout() []byte {
	var out bytes.Buffer
	list := func(items []string) {
		for _, s := range items {
			fmt.Fprintf(&out, "- %s\n", inline(s))
		}
	}
	var cites sharing.Citations
	out.WriteString("# GPU sharing rollout\n\n")
	list(b.planNotes(&cites))
	for i, s := range b.steps() {
		fmt.Fprintf(&out, "\n## %d. %s\n\n", i+1, inline(s.title))
		list(s.do)
		for _, part := range []struct {
			name  string
			items []string
		}{{"Verify", s.verify}, {"Roll back", s.back}, {"Needs", s.needs}} {
			if len(part.items) > 0 {
				fmt.Fprintf(&out, "\n%s:\n", part.name)
				list(part.items)
			}
		}
	}
	b.writeChecks(&out)
	out.WriteString("\n## Sources\n\n")
	for _, id := range cites.IDs {
		source, _ := sharing.SourceByID(id)
		list([]string{fmt.Sprintf("%s: %s", id, source.Locator)})
	}
	return out.Bytes()
}

// checks are the traps that the input walks into, and each risk that the layout bears, once.
func (b *builder) checks() []decision.TrapHit {
	checks := slices.Clone(b.result.Traps)
	for i := range b.result.Decisions {
		d := &b.result.Decisions[i]
		for _, t := range d.Accepts {
			if !slices.ContainsFunc(checks, func(c decision.TrapHit) bool { return c.ID == t.ID }) {
				t.Message = d.Workload + ": " + t.Message
				checks = append(checks, t)
			}
		}
	}
	return checks
}

func (b *builder) writeChecks(out *bytes.Buffer) {
	for i, t := range b.checks() {
		if i == 0 {
			out.WriteString("\n## Check for these\n\n| severity | trap | what is true |\n|---|---|---|\n")
		}
		fmt.Fprintf(out, "| %v | %s | %s |\n", t.Severity, cell(t.ID), cell(t.Message))
	}
}

func inline(s string) string { return strings.Join(strings.Fields(s), " ") }

func cell(s string) string { return strings.ReplaceAll(inline(s), "|", "\\|") }

// planNotes lists the plan's remarks before its steps.
func (b *builder) planNotes(cites *sharing.Citations) []string {
	var notes []string
	if len(b.groups) == 0 {
		notes = append(notes, "Nothing can be rolled out: no workload fits.")
	} else {
		notes = append(notes, "Take one node of each group first and stop at the first check that fails; every step says "+
			"how to go back.",
			"NODE stands for each node of the step's group. The GPUs of a node share by one mechanism.")
		if b.uses(sharing.DeliveryDRA) {
			notes = append(notes, "`dra/` is the same by DRA claims, an alternative to `pods/` for nodes that the DRA driver "+
				"serves instead of the device plugin. Never let both hand out the same GPUs. The DRA driver's gates "+
				"TimeSlicingSettings and MPSSupport are alpha and off by default.")
		}
	}
	notes = slices.Concat(notes, b.opts.Notes, b.notes)
	for _, p := range b.result.Pools {
		if m := p.Migration; m != nil {
			notes = append(notes, fmt.Sprintf("Pool %s changes the MIG layouts that are there: %d instances stay, %d go (%d "+
				"of them busy: drain those first), %d are new. %s",
				p.Pool, m.Keep, m.Destroy, m.Busy, m.Create, strings.Join(m.Steps, "; ")))
		}
	}
	for _, p := range rolloutTable().Phases {
		notes = append(notes, fmt.Sprintf("%s, %s: %s. Check: %s.%s", p.When, p.Focus, strings.Join(p.Do, "; "),
			strings.Join(p.Check, "; "), cites.Ref(p.Source)))
	}
	return notes
}

func (b *builder) steps() []step {
	if len(b.groups) == 0 {
		return nil
	}
	ns := b.opts.OperatorNamespace
	steps := []step{{
		title: "Keep what is there",
		do: []string{
			"`kubectl get nodes -o yaml > before-nodes.yaml`",
			"`kubectl get configmaps -n " + ns + " -o yaml > before-configmaps.yaml`",
			"`helm get values -n " + ns + " gpu-operator > before-values.yaml`, where the GPU Operator is used",
		},
		verify: []string{"The files are not empty. They are the way back from every step below."},
	}}
	if s := b.clusterStep(); len(s.do) > 0 {
		steps = append(steps, s)
	}
	for _, g := range b.groups {
		steps = append(steps, b.groupStep(g))
	}
	if len(b.members) > 0 {
		steps = append(steps, b.workloadStep())
	}
	return steps
}

func (b *builder) clusterStep() step {
	ns := b.opts.OperatorNamespace
	s := step{
		title: "Put the configurations into the cluster",
		verify: []string{"`kubectl get pods -n " + ns +
			"`: all running. No node shares yet: without a label it has the configuration `exclusive`."},
		back:  []string{"`helm rollback -n " + ns + " gpu-operator`, and apply before-configmaps.yaml."},
		needs: []string{"Cluster administrator."},
	}
	if b.byPlugin() {
		s.do = append(s.do, "`kubectl apply -f device-plugin/configmap.yaml`")
	}
	if b.any(usesMIG) {
		s.do = append(s.do, "`kubectl apply -f mig-parted/configmap.yaml`")
	}
	if len(s.do) > 0 && b.uses(sharing.DeliveryGPUOperator) {
		s.do = append(s.do, "`helm upgrade -n "+ns+
			" gpu-operator nvidia/gpu-operator --reuse-values -f gpu-operator/values.yaml`")
	}
	return s
}

func (b *builder) groupStep(g *group) step {
	size := fmt.Sprintf("%d GPU(s)", g.GPUs)
	if n := g.nodes(); n > 0 {
		size += fmt.Sprintf(" on %d node(s)", n)
	}
	s := step{
		title: fmt.Sprintf("Group %s: %v, %s, %s", g.key, g.Mechanism, size, g.gpu.Name),
		do:    []string{"`kubectl cordon NODE && kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`"},
	}
	kinds := g.nodeKinds()
	for _, k := range kinds {
		on := ""
		if k.nodes > 0 && len(kinds) > 1 {
			on = fmt.Sprintf(", on %d node(s)", k.nodes)
		}
		s.do = append(s.do, "`kubectl patch node NODE --patch-file nodes/"+k.name+".yaml`"+on)
	}
	if isVGPU(g.Mechanism) {
		install, conf := "", "vgpu/"+g.key+".conf"
		if slices.ContainsFunc(b.Files, func(f File) bool { return f.Path == conf }) {
			install = "install " + conf + ", load the driver anew, and "
		}
		s.do = append(s.do, "In the hypervisor: "+install+"give each virtual machine one "+g.pool.VGPUType+".")
		s.verify = append(s.verify, "In the host, `nvidia-smi vgpu -ss` shows the scheduler; in a virtual machine, "+
			"`nvidia-smi` shows the type.")
	}
	s.verify = append(s.verify, b.groupChecks(g)...)
	s.verify = append(s.verify, "When all of it holds: `kubectl uncordon NODE`")
	s.back = []string{"Cordon and drain NODE; give the labels " + strings.Join(sortedKeys(b.nodeLabels(g, kinds[0])),
		", ") + " the values of before-nodes.yaml; uncordon."}
	for _, p := range Privileges(g.Mechanism) {
		s.needs = append(s.needs, fmt.Sprintf("%s%s: %s (%s).", strings.ToUpper(p.Who[:1]), p.Who[1:], p.What, p.Why))
	}
	return s
}

func (b *builder) groupChecks(g *group) []string {
	allocatable := "`kubectl get node NODE -o jsonpath='{.status.allocatable}'` shows "
	times := func(n int) string {
		if each, known := g.pool.GPUsPerNode.Get(); known {
			return fmt.Sprint(n * each)
		}
		if n == 1 {
			return "the node's GPUs"
		}
		return fmt.Sprintf("%d times the node's GPUs", n)
	}
	switch g.Mechanism {
	case sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation:
		out := []string{allocatable + "nvidia.com/gpu: " + times(g.clients()) + "."}
		if g.Mechanism != sharing.MechanismTimeSlicing {
			out = append(out, "NODE has the label nvidia.com/mps.capable=true, and with a pod running `echo ps | "+
				"nvidia-cuda-mps-control` in the daemon's pod lists its process. A process that is not listed runs without MPS "+
				"and without limits.")
		}
		return out
	case sharing.MechanismMIG, sharing.MechanismMIGWithMPS:
		out := []string{"`kubectl get node NODE -o jsonpath='{.metadata.labels.nvidia\\.com/mig\\.config\\.state}'` says " +
			"success, and `nvidia-smi -L` on the node lists the instances: the manager can report success for a " +
			"configuration that it did not apply."}
		if g.Mechanism == sharing.MechanismMIG {
			out = append(out, allocatable+"the nvidia.com/mig-... resources; restart the device plugin's pod on NODE if not.")
		}
		return out
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		return []string{allocatable + fmt.Sprintf("nvidia.com/gpu: %d times the node's GPUs", b.hamiSplit()) +
			"; in a pod, `nvidia-smi` shows the limit as the total memory."}
	case sharing.MechanismExclusive, sharing.MechanismInServer:
		return []string{allocatable + "nvidia.com/gpu: " + times(1) + "."}
	}
	return nil
}

func (b *builder) workloadStep() step {
	s := step{
		title: "Move the workloads",
		verify: []string{"Every pod is Running on a node of its group, and answers within its objective under load with " +
			"its neighbours busy."},
		back:  []string{"`kubectl rollout undo deployment/NAME`"},
		needs: []string{"Whoever may change the workloads' Deployments."},
	}
	for _, m := range b.members {
		by, folder := b.primary(m.group), "pods/"
		if by == sharing.DeliveryBare {
			s.do = append(s.do, fmt.Sprintf("%s: as its system's documentation says; nothing is written for %v.", m.name,
				m.Mechanism))
			continue
		}
		if by == sharing.DeliveryDRA {
			folder = "dra/pods/"
			if shared(m.Mechanism) {
				s.do = append(s.do, fmt.Sprintf("%s: first `kubectl apply -f dra/claims/%s.yaml`, into the namespace of the pods",
					m.name, m.group.key))
			}
		}
		verb := "`kubectl apply -f "
		if m.pod.Image == "" {
			verb = "merge into its Deployment: `"
		}
		s.do = append(s.do, fmt.Sprintf("%s: %s%s%s.yaml`", m.name, verb, folder, m.file()))
	}
	if b.any(usesMPS) {
		s.do = append(s.do, "Before a pod under MPS is deleted, end its work: a client killed in the middle of it can "+
			"take the others with it. Use a preStop hook that ends the server, or terminate_client.")
	}
	return s
}

// Privilege is a right that carrying out a mechanism needs.
type Privilege struct {
	Who    string // who or what must hold it
	What   string // the right
	Why    string
	Source sharing.SourceID
}

// phase is a step of a roll-out.
type phase struct {
	When, Focus string
	Do, Check   []string
	Source      sharing.SourceID
}

//go:embed rollout.yaml
var rolloutYAML []byte

var rolloutTable = sync.OnceValue(func() (all struct {
	Privileges []struct {
		Privilege `yaml:",inline"`
		Of        []sharing.Mechanism
	}
	Phases []phase
}) {
	_ = yaml.Unmarshal(rolloutYAML, &all) // a test reads the file that is built in
	return all
})

// Privileges lists what m needs beyond the right to create pods, in the order
// in which the rollout meets it. It is empty for a mechanism that needs none.
func Privileges(m sharing.Mechanism) (out []Privilege) {
	if m == sharing.MechanismExclusive || m == sharing.MechanismInServer {
		return nil
	}
	for _, p := range rolloutTable().Privileges {
		if slices.Contains(p.Of, m) || p.Of == nil && out == nil {
			out = append(out, p.Privilege)
		}
	}
	return out
}
