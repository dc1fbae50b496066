// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/sharing"
)

// runPlan writes the documents of a plan.
func (b *builder) runPlan() {
	for _, g := range b.groups {
		g.planned = true
		b.nodeFile(g)
	}
	if b.byPlugin() {
		b.pluginFiles()
	}
	if b.hasEntries() {
		b.partedFiles()
	}
	if _, _, there := b.pluginConfigs(); b.byPlugin() && !there {
		// A node without a label keeps its configuration: there is no default.
		values := operatorValues{Plugin: true}
		if b.any(usesMIG) && !slices.ContainsFunc(b.fleet.Today.Nodes, partitioned) {
			values.Strategy = "mixed"
		}
		b.document("gpu-operator/values.yaml", "Helm values", "operator", values)
	}
	for i := range b.plan.Steps {
		if s := &b.plan.Steps[i]; s.Action == "move" && !b.waits(s) {
			b.patch(s)
		}
	}
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		name, _, _ := strings.Cut(s.Device, " ")
		var m sharing.Mechanism
		if s.Action == "move" && m.UnmarshalText([]byte(name)) == nil {
			b.canary(b.workload(s), m, b.plan.After)
		}
	}
	b.page("plan", "the steps: read it first", b.planPage())
}

func patchFile(workload string) string {
	return "pods/" + strings.ReplaceAll(workload, "/", ".") + ".yaml"
}

// patch writes the patch of a workload's object: the nodes that its pods may be on, and where it changes the device
// that they ask for. A Deployment starts each pod before it stops another.
func (b *builder) patch(s *migrate.Step) {
	w := b.workload(s)
	namespace, name := spaced(w.Name)
	object := b.kindOf(s)
	header := []string{s.Title() + "."}
	if rolls(object) {
		header = append(header, fmt.Sprintf("kubectl patch %s %s%s --patch-file %s", strings.ToLower(object), name,
			in(namespace), patchFile(w.Name)))
	}
	v := patchOf{Kind: object, Version: cmp.Or(versions[object], "batch/v1"), Name: name, Space: namespace}
	v.Required, v.Preferred = b.affinity(w, s)
	if k := slices.IndexFunc(b.members, func(m *member) bool { return m.Workload == w.Name }); k >= 0 && (s.Request ||
		w.Today == nil) {
		m := b.members[k]
		p := b.newPod(m)
		b.pluginPod(p, m)
		if len(p.Args) > 0 {
			header = append(header, "Its arguments need "+strings.Join(p.Args, " ")+
				": add args with them and those that it has, as a patch replaces the list.")
		}
		v.Container, v.Env, v.Limits = name, p.Env, p.Limits
		if w.Today != nil && w.Today.Container != "" {
			v.Container = w.Today.Container
		} else {
			header = append(header, "Write the name of its container with the GPUs in the place of "+name+".")
		}
		if w.Today != nil {
			had := gpuResource
			if w.Today.Mechanism == sharing.MechanismMIG {
				had = b.resource(w.Today.Profile)
			}
			if p.Limits[had] == "" {
				v.Had = had
			}
		}
	}
	b.document(patchFile(w.Name), w.Name, "patch", v, header...)
}

// patchOf is the patch of a workload's object. Had is a resource that its pods request today and no longer.
type patchOf struct {
	Kind, Version, Name, Space, Container, Had string
	Env                                        []variable
	Limits                                     map[string]string
	Required                                   []nodeTerm
	Preferred                                  []preference
}

// preference is a term that nodes had better meet.
type preference struct {
	Weight int      `json:"weight"`
	Term   nodeTerm `json:"preference"`
}

// affinity lets pods onto the nodes that the plan has for them and, should those be lost, onto whole GPUs of as much
// memory, wherever there is such a MIG instance, or onto any card of HAMi's: no pod waits for a node that is gone, and
// none shares with others than planned. Nodes that it leaves and the plan changes are left out. The workload's own
// terms hold in each, as a patch replaces the lists. Nodes are named by metadata.name, since the label
// kubernetes.io/hostname may differ from it.
func (b *builder) affinity(w *decision.Workload, s *migrate.Step) (required []nodeTerm, preferred []preference) {
	on := func(n string) []requirement { return []requirement{{"metadata.name", "In", []string{n}}} }
	hami := sharing.MechanismHAMi.String()
	nodes := nodesOf(b.plan.After, w.Name)
	var other, away []requirement
	switch {
	case s.Device == hami:
		other = append(other, requirement{"gpu", "In", []string{"on"}}) // HAMi's nodes
	case !strings.HasPrefix(s.Device, sharing.MechanismMIG.String()):
		other = append(other, requirement{"nvidia.com/gpu.sharing-strategy", "In", []string{"none"}})
	}
	for _, p := range b.fleet.Pools {
		if gpu, err := sharing.LookupGPU(p.GPU); err == nil && p.Name == s.Pool && s.Device != hami {
			memory, _ := gpu.Memory.Get() // the label has the driver's figure, up to a twentieth less
			least := fmt.Sprint(int64(memory) * 19 / 20 >> 20)
			other = append(other, requirement{"nvidia.com/gpu.memory", "Gt", []string{least}})
		}
	}
	for i := range b.plan.Steps {
		n := b.plan.Steps[i].Node
		leaves := slices.ContainsFunc(s.From, func(p migrate.Place) bool { return p.Node == n }) ||
			s.Device == hami && b.plan.Steps[i].Action == "free" // its scheduler heeds no preference
		if leaves && !slices.Contains(nodes, n) {
			away = append(away, requirement{"metadata.name", "NotIn", []string{n}})
		}
	}
	own := []fleet.NodeTerm{{}}
	if r := w.Scheduling; r != nil {
		if len(r.NodeAffinity) > 0 {
			own = r.NodeAffinity
		}
		for _, t := range r.Preferred {
			preferred = append(preferred, preference{t.Weight, nodeTerm{Labels: requirements(t.Labels)}})
		}
	}
	for _, t := range own {
		labels := requirements(t.Labels)
		for _, n := range nodes {
			required = append(required, nodeTerm{labels, on(n)})
		}
		required = append(required, nodeTerm{slices.Concat(labels, other), away})
	}
	for _, n := range nodes {
		preferred = append(preferred, preference{100, nodeTerm{Fields: on(n)}})
	}
	return required, preferred
}

// requirements are those of a term of the workload's own.
func requirements(all []fleet.NodeRequirement) (out []requirement) {
	for _, r := range all {
		out = append(out, requirement(r))
	}
	return out
}

// kindOf is the kind of a step's object. One that runs and was not read is taken for a Deployment.
func (b *builder) kindOf(s *migrate.Step) string {
	if w := b.workload(s); w.Today == nil && s.Object == "" {
		return objectOf(w)
	}
	return cmp.Or(s.Object, "Deployment")
}

// nodesOf are the nodes that a workload has replicas on in a layout.
func nodesOf(l *layout.Cluster, workload string) (names []string) {
	for n := range l.Nodes() {
		if slices.ContainsFunc(n.Assignments, func(a layout.Assignment) bool { return a.Workload.Name == workload }) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// planPage is the page of a plan.
type planPage struct {
	Parts             []planPart // of the plan's lines
	Notes             []string
	Steps             []planStep
	Nodes             []string // of the steps
	Groups, MIG       bool     // there are configurations, of MIG among them
	Namespace, Config string   // of the ConfigMap of the device plugin's
	There             bool     // it is in the cluster
	Checks            []decision.TrapHit
}

type planPart struct {
	Title string
	Items []string
}

// planStep is a step with its commands' operands.
type planStep struct {
	*migrate.Step
	Labels string    // of a node that is configured, before
	Group  groupPage // likewise
	Rolls  bool      // its object brings its pods to another template by itself
	Waits  bool      // its pods start by themselves
	// Of a workload: its object as kubectl takes it, the patch, and the nodes that keep off its pods on the way back.
	Kind, Of, In, File string
	Name, Before       string   // of the object, and the file with it as it was
	Drained            []string // pods without GPUs that a drain moves
	Autoscalers        []fleet.Autoscaler
	Others             []string
}

func (b *builder) planPage() *planPage {
	p := &planPage{Notes: b.notes, Groups: len(b.groups) > 0, MIG: b.hasEntries(), Checks: b.checks()}
	p.Namespace, p.Config, p.There = b.pluginConfigs()
	for _, line := range b.plan.Lines(true) {
		if strings.HasPrefix(line, "STEPS") {
			break // each has a section of its own
		}
		if !strings.HasPrefix(line, " ") {
			p.Parts = append(p.Parts, planPart{Title: line})
			continue
		}
		part := &p.Parts[len(p.Parts)-1]
		part.Items = append(part.Items, line)
	}
	p.Parts = slices.DeleteFunc(p.Parts, func(part planPart) bool { return len(part.Items) == 0 })
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if s.Node != "" {
			p.Nodes = append(p.Nodes, s.Node)
		}
		p.Steps = append(p.Steps, b.planStep(s))
	}
	return p
}

func (b *builder) planStep(s *migrate.Step) planStep {
	out := planStep{Step: s, Drained: b.fleet.Today.Object(s.Node).Others}
	if s.Action == "configure" {
		g := b.groups[slices.IndexFunc(b.groups, func(g *group) bool { return g.has(s.Node) })]
		out.Labels, out.Group = b.labelsBefore(s, g), b.groupPage(g, s.Node)
	}
	if s.Action != "move" {
		return out
	}
	namespace, name := spaced(s.Workload)
	out.In, out.File, out.Name = in(namespace), patchFile(s.Workload), name
	out.Before = "before-" + strings.TrimPrefix(out.File, "pods/")
	object := b.kindOf(s)
	out.Kind, out.Of, out.Rolls = object, strings.ToLower(object)+"/"+name+out.In, rolls(object)
	out.Waits = b.waits(s)
	for _, a := range b.fleet.Today.Autoscalers {
		if a.Workload == s.Workload {
			out.Autoscalers = append(out.Autoscalers, a)
		}
	}
	t := b.workload(s).Today
	if t == nil {
		return out
	}
	// Other nodes may offer the resource that the old pods request, shared.
	had := nodesOf(b.plan.Today, s.Workload)
	for n := range b.plan.Today.Nodes() {
		to := slices.ContainsFunc(s.To, func(p migrate.Place) bool { return p.Node == n.Name })
		shares := slices.ContainsFunc(n.Devices, func(d layout.Device) bool {
			return d.Mode == sharing.MechanismTimeSlicing || d.Mode == sharing.MechanismMPS
		})
		if n.Closed == "" && !slices.Contains(had, n.Name) && (to || shares && t.Mechanism == sharing.MechanismExclusive) {
			out.Others = append(out.Others, n.Name)
		}
	}
	return out
}

// waits reports whether a step's pods are pending with the right request: a new template would stop those that run.
func (b *builder) waits(s *migrate.Step) bool {
	return len(s.From) == 0 && !s.Request && b.workload(s).Today != nil
}

// workload is the one that a step moves.
func (b *builder) workload(s *migrate.Step) *decision.Workload {
	i := slices.IndexFunc(b.fleet.Workloads, func(w decision.Workload) bool { return w.Name == s.Workload })
	return &b.fleet.Workloads[i]
}

// labelsBefore are the labels of a node as they were, as kubectl label takes them.
func (b *builder) labelsBefore(s *migrate.Step, g *group) string {
	labels := b.fleet.Today.Object(s.Node).Labels
	had := map[string]string{pluginLabel: labels[pluginLabel],
		migLabel: cmp.Or(labels[migLabel], allDisabled)} // the MIG manager heeds no label that goes
	var out []string
	for _, key := range sortedKeys(b.nodeLabels(g)) {
		if had[key] != "" {
			out = append(out, shell(key+"="+had[key]))
		} else {
			out = append(out, key+"-")
		}
	}
	return strings.Join(out, " ")
}
