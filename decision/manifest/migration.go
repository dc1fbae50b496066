package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/sharing/driverconf"
)

// Migration writes a plan's steps for a cluster that runs: plan.md with each step's commands, check and way back, and
// the files that the steps name, no others. Objects are patched as the kinds that they are, without a number of
// replicas, which stays with whoever sets it. Nodes that do not change are in no file. Of the options the Operator's
// namespace and the notes count.
func Migration(p *migrate.Plan, opts Options) (*Folder, error) {
	if opts.OperatorNamespace == "" {
		opts.OperatorNamespace = "gpu-operator"
	}
	opts = Options{OperatorNamespace: opts.OperatorNamespace, Notes: opts.Notes,
		Deliveries: []sharing.Delivery{sharing.DeliveryGPUOperator}}
	b := builder{result: p.Result, opts: opts, deliveries: opts.deliveries(), plan: p, taken: map[string]bool{}}
	if b.result == nil {
		b.result = &decision.Result{}
	}
	for _, n := range p.Fleet.Today.Nodes {
		b.taken[n.Config], b.taken[n.MIGConfig] = true, true
	}
	return b.build(p.Fleet)
}

// runPlan writes the documents of a plan.
func (b *builder) runPlan() error {
	for _, g := range b.groups {
		g.planned = true
		if err := b.nodeFiles(g); err != nil {
			return err
		}
	}
	if b.byPlugin() {
		if err := b.pluginFiles(); err != nil {
			return err
		}
	}
	if b.any(usesMIG) {
		if err := b.partedFiles(); err != nil {
			return err
		}
	}
	if _, _, there := b.pluginConfigs(); b.byPlugin() && !there {
		if err := b.planValues(); err != nil {
			return err
		}
	}
	for i := range b.plan.Steps {
		if s := &b.plan.Steps[i]; s.Action == migrate.ActionMove {
			if err := b.patch(s); err != nil {
				return err
			}
		}
	}
	b.add("plan.md", "the steps: read it first", b.planPage())
	return nil
}

// planValues points the Operator to the new configurations. It sets no default: a node without a label keeps what it
// has.
func (b *builder) planValues() error {
	var strategy any
	cut := func(n decision.Node) bool { return n.InMIG > 0 }
	if b.any(usesMIG) && !slices.ContainsFunc(b.plan.Fleet.Today.Nodes, cut) {
		strategy = yamlnode.Map("strategy", "mixed")
	}
	return b.encode("gpu-operator/values.yaml", "Helm values", []string{"Values for the GPU Operator's Helm chart."},
		yamlnode.Map("mig", strategy, "devicePlugin", yamlnode.Map("config", yamlnode.Map("name", pluginConfigMap))))
}

func patchFile(workload string) string {
	return "pods/" + strings.ReplaceAll(workload, "/", ".") + ".yaml"
}

// patch writes the patch of a workload's object: the nodes that its pods may be on, and where it changes the device
// that they ask for. A Deployment starts each pod before it stops another.
func (b *builder) patch(s *migrate.Step) error {
	i := slices.IndexFunc(b.plan.Fleet.Workloads, func(w decision.Workload) bool { return w.Name == s.Workload })
	w := &b.plan.Fleet.Workloads[i]
	namespace, name := spaced(w.Name)
	header := []string{s.Title() + ".", fmt.Sprintf("kubectl patch %s %s -n %s --patch-file %s",
		strings.ToLower(kindOf(s)), name, namespace, patchFile(w.Name))}
	var strategy, containers any
	if kindOf(s) == "Deployment" {
		strategy = yamlnode.Map("type", "RollingUpdate", "rollingUpdate", yamlnode.Map("maxUnavailable", 0, "maxSurge", 1))
	}
	if k := slices.IndexFunc(b.members, func(m *member) bool { return m.Workload == w.Name }); k >= 0 && (s.Request ||
		w.Today == nil) {
		m := b.members[k]
		p := b.newPod(m)
		if err := b.pluginPod(p, m); err != nil {
			return invalid(err)
		}
		if len(p.args) > 0 {
			header = append(header, "Its arguments need "+strings.Join(p.args, " ")+
				": add args with them and those that it has, as a patch replaces the list.")
		}
		container := name
		if w.Today != nil && w.Today.Container != "" {
			container = w.Today.Container
		} else {
			header = append(header, "Write the name of its container with the GPUs in the place of "+name+".")
		}
		amounts := yamlnode.Map()
		if w.Today != nil { // what it asks for today goes
			had := driverconf.GPU
			if w.Today.Mechanism == sharing.MechanismMIG {
				var err error
				if had, err = mig.ResourceName(w.Today.Profile); err != nil {
					return invalid(err)
				}
			}
			if p.limits[had] == "" {
				amounts.Content = append(amounts.Content, yamlnode.Text(had), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null",
					Value: "null"})
			}
		}
		for _, key := range sortedKeys(p.limits) {
			amounts.Content = append(amounts.Content, yamlnode.Text(key), yamlnode.Quoted(p.limits[key]))
		}
		containers = yamlnode.List(yamlnode.Map("name", container, "env", p.env,
			"resources", yamlnode.Map("limits", amounts, "requests", amounts)))
	}
	update := yamlnode.Map("spec", yamlnode.Map("affinity", b.affinity(w, s), "containers", containers))
	return b.encode(patchFile(w.Name), w.Name, header, yamlnode.Map("apiVersion", "apps/v1", "kind", kindOf(s),
		"metadata", labelled(name, namespace, nil), "spec", yamlnode.Map("strategy", strategy, "template", update)))
}

// affinity lets pods onto the nodes that the plan has for them and, should those be lost, onto whole GPUs of as much
// memory, or wherever there is such a MIG instance: nothing waits for a node that is gone, and nothing is shared with
// others than planned. Nodes that the plan empties are left out.
func (b *builder) affinity(w *decision.Workload, s *migrate.Step) *yaml.Node {
	const hostname = "kubernetes.io/hostname"
	is := func(key, operator string, values ...string) *yaml.Node {
		return yamlnode.Map("key", key, "operator", operator, "values", values)
	}
	nodes := b.nodesAfter(w, s)
	var other []*yaml.Node
	if !strings.HasPrefix(s.Seat, sharing.MechanismMIG.String()) {
		other = append(other, is("nvidia.com/gpu.sharing-strategy", "In", "none"))
	}
	for _, p := range b.plan.Fleet.Pools {
		if gpu, err := sharing.LookupGPU(p.GPU); err == nil && p.Name == s.Pool {
			memory, _ := gpu.Memory.Get() // the label has what the driver reports, which is up to a twentieth less
			other = append(other, is("nvidia.com/gpu.memory", "Gt", fmt.Sprint(int64(memory)*19/20>>20)))
		}
	}
	var emptied []string
	for i := range b.plan.Steps {
		if n := b.plan.Steps[i].Node; n != "" && !slices.Contains(nodes, n) {
			emptied = append(emptied, n)
		}
	}
	if len(emptied) > 0 {
		other = append(other, is(hostname, "NotIn", emptied...))
	}
	planned := yamlnode.Map("matchExpressions", yamlnode.List(is(hostname, "In", nodes...)))
	return yamlnode.Map("nodeAffinity", yamlnode.Map(
		"requiredDuringSchedulingIgnoredDuringExecution", yamlnode.Map("nodeSelectorTerms",
			yamlnode.List(planned, yamlnode.Map("matchExpressions", yamlnode.List(other...)))),
		"preferredDuringSchedulingIgnoredDuringExecution",
		yamlnode.List(yamlnode.Map("weight", 100, "preference", planned))))
}

func kindOf(s *migrate.Step) string { return cmp.Or(s.Object, "Deployment") }

// nodesAfter are the nodes that a workload is on once its step is taken.
func (b *builder) nodesAfter(w *decision.Workload, s *migrate.Step) []string {
	on := map[string]int{}
	if w.Today != nil {
		for _, p := range w.Today.On {
			on[p.Node] += p.Replicas
		}
	}
	for _, p := range s.From {
		on[p.Node] -= p.Replicas
	}
	for _, p := range s.To {
		on[p.Node] += p.Replicas
	}
	return slices.DeleteFunc(sortedKeys(on), func(n string) bool { return on[n] == 0 })
}

// planPage writes plan.md.
func (b *builder) planPage() []byte {
	var out bytes.Buffer
	out.WriteString("# From today to the plan\n")
	list := func(title string, items ...string) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(&out, "\n%s\n\n", title)
		for _, s := range items {
			fmt.Fprintf(&out, "- %s\n", inline(s))
		}
	}
	title := ""
	var items []string
	for _, line := range b.plan.Lines() {
		if strings.HasPrefix(line, "STEPS") {
			break // each has a section of its own
		}
		if !strings.HasPrefix(line, " ") {
			list(title, items...)
			title, items = line, nil
			continue
		}
		items = append(items, cell(line))
	}
	list(title, items...)
	list("Notes", slices.Concat(b.opts.Notes, b.notes)...)
	if len(b.plan.Steps) > 0 {
		out.WriteString("\nTake the steps in this order, and stop at the first check that fails. The way back from any " +
			"step is " +
			"its own and then those before it, the last first.\n")
		b.before(list)
	}
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		fmt.Fprintf(&out, "\n## %d. %s\n", i+1, inline(s.Title()))
		do, check, back := b.commands(s)
		list("Do:", do...)
		list("Check:", check...)
		list("Way back:", back...)
	}
	b.writeChecks(&out)
	return out.Bytes()
}

// before writes what comes before the first step: keeping what is there, and the configurations.
func (b *builder) before(list func(string, ...string)) {
	var nodes []string
	for _, s := range b.plan.Steps {
		if s.Node != "" {
			nodes = append(nodes, s.Node)
		}
	}
	var do []string
	if len(nodes) > 0 {
		do = append(do, "`kubectl get nodes "+strings.Join(nodes, " ")+" -o yaml > before-nodes.yaml`")
	}
	ns, config, there := b.pluginConfigs()
	var check, back []string
	if len(b.groups) > 0 {
		do = append(do, fmt.Sprintf("`kubectl get configmaps -n %s -o yaml > before-configmaps.yaml`", ns))
		if config == "NAME" {
			do = append(do, "Nodes choose from a ConfigMap that was not read: write the name that `kubectl get "+
				"clusterpolicies.nvidia.com -o jsonpath='{.items[*].spec.devicePlugin.config.name}'` says for NAME, here and in "+
				"device-plugin/configmap.yaml.")
		}
		if there {
			do = append(do, fmt.Sprintf("`kubectl patch configmap %s -n %s --type merge --patch-file "+
				"device-plugin/configmap.yaml`: it adds keys and changes none", config, ns))
		} else {
			do = append(do, fmt.Sprintf("`helm get values -n %s gpu-operator > before-values.yaml`", ns),
				"`kubectl apply -f device-plugin/configmap.yaml`",
				fmt.Sprintf("`helm upgrade -n %s gpu-operator nvidia/gpu-operator --reuse-values -f gpu-operator/values.yaml`", ns))
			back = append(back, fmt.Sprintf("`helm rollback -n %s gpu-operator`", ns))
		}
		if b.any(usesMIG) {
			do = append(do, "Add the entries of mig-parted/config.yaml under mig-configs in the MIG manager's ConfigMap "+
				"(`kubectl edit configmap -n "+ns+"`, the one that migManager.config.name says): those that are there stay.")
		}
		check = append(check, fmt.Sprintf("`kubectl get pods -n %s`: all running. No node changes by this: none has the new "+
			"labels yet.", ns))
		back = append(back, "`kubectl apply -f before-configmaps.yaml`")
	}
	list("Before the first step:", do...)
	list("Check:", check...)
	list("Way back:", back...)
}

// commands are a step's commands, how to check it, and its way back.
func (b *builder) commands(s *migrate.Step) (do, check, back []string) {
	switch s.Action {
	case migrate.ActionConfigure:
		g, kind := b.groupOf(s)
		do = []string{
			fmt.Sprintf("`kubectl cordon %s && kubectl drain %s --ignore-daemonsets --delete-emptydir-data`", s.Node, s.Node),
			fmt.Sprintf("`kubectl patch node %s --patch-file nodes/%s.yaml`", s.Node, kind.name),
		}
		for _, c := range b.groupChecks(g) {
			check = append(check, strings.ReplaceAll(c, "NODE", s.Node))
		}
		check = append(check, fmt.Sprintf("When all of it holds: `kubectl uncordon %s`", s.Node))
		back = []string{fmt.Sprintf("`kubectl cordon %s && kubectl drain %s --ignore-daemonsets --delete-emptydir-data`",
			s.Node, s.Node), "`kubectl label node " + s.Node + " --overwrite " + b.labelsBefore(s, g, kind) + "`",
			fmt.Sprintf("When it hands out %s again: `kubectl uncordon %s`", s.Was, s.Node)}
		return do, check, back
	case migrate.ActionFree:
		return []string{"`kubectl cordon " + s.Node + "`, and give it back where it was rented"},
			[]string{"`kubectl get pods -A --field-selector spec.nodeName=" + s.Node + "` lists no pod that asks for a GPU."},
			[]string{"`kubectl uncordon " + s.Node + "`, as long as it is there"}
	}
	namespace, name := spaced(s.Workload)
	object := strings.ToLower(kindOf(s)) + "/" + name + " -n " + namespace
	do = []string{fmt.Sprintf("`kubectl patch %s --patch-file %s`", object, patchFile(s.Workload))}
	for _, a := range b.plan.Fleet.Today.Autoscalers {
		if a.Workload == s.Workload {
			do = append(do, fmt.Sprintf("Its HorizontalPodAutoscaler (%d to %d) stays in charge of the number of replicas.",
				a.Min, a.Max))
		}
	}
	var to, others []string
	for _, p := range s.To {
		to = append(to, p.Node)
	}
	i := slices.IndexFunc(b.plan.Fleet.Workloads, func(w decision.Workload) bool { return w.Name == s.Workload })
	if t := b.plan.Fleet.Workloads[i].Today; t != nil {
		for _, n := range b.plan.Fleet.Today.Nodes {
			shares := n.Mechanism == sharing.MechanismTimeSlicing || n.Mechanism == sharing.MechanismMPS
			if n.Closed == "" && (slices.Contains(to, n.Name) || shares && t.Mechanism == sharing.MechanismExclusive) &&
				!slices.ContainsFunc(t.On, func(p decision.Place) bool { return p.Node == n.Name }) {
				others = append(others, n.Name)
			}
		}
	}
	check = []string{"`kubectl rollout status " + object + " --timeout=30m`",
		"`kubectl get pods -n " + namespace + " -o wide`: its new pods are on " + strings.Join(to, " ") + ", as they prefer.",
		"It answers within its objectives, under load and with its neighbours busy."}
	back = []string{"`kubectl rollout undo " + object + "`, and its rollout status again"}
	if nodes := strings.Join(others, " "); nodes != "" { // they may hand out what the old pods ask for, shared
		back = []string{"`kubectl cordon " + nodes + "`, which keeps the old pods off", back[0],
			"`kubectl uncordon " + nodes + "`"}
	}
	return do, check, back
}

// groupOf is the group of a node that is configured, and its kind of nodes.
func (b *builder) groupOf(s *migrate.Step) (*group, nodeKind) {
	m := s.Gets.Mechanism
	if len(s.Gets.Layouts) > 0 {
		m = sharing.MechanismMIG
	}
	for _, g := range b.groups {
		if g.pool.Name != s.Pool || g.Mechanism != m {
			continue
		}
		kinds := g.nodeKinds()
		entries := nodeEntries(s.Gets.Layouts, g.pool.GPUsPerNode.Or(1))
		for _, k := range kinds {
			if reflect.DeepEqual(k.entries, entries) {
				return g, k
			}
		}
		return g, kinds[0]
	}
	return nil, nodeKind{}
}

// labelsBefore are the labels of a node as they were, as kubectl label takes them.
func (b *builder) labelsBefore(s *migrate.Step, g *group, k nodeKind) string {
	had := map[string]string{}
	for _, n := range b.plan.Fleet.Today.Nodes {
		if n.Name == s.Node {
			had["nvidia.com/device-plugin.config"] = n.Config
			had["nvidia.com/mig.config"] = cmp.Or(n.MIGConfig, allDisabled) // the MIG manager heeds no label that goes
		}
	}
	var out []string
	for _, key := range sortedKeys(b.nodeLabels(g, k)) {
		if had[key] != "" {
			out = append(out, key+"="+had[key])
		} else {
			out = append(out, key+"-")
		}
	}
	return strings.Join(out, " ")
}
