// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// traps finds the traps that workloads walk into as they run today.
func (b *build) traps() {
	pools := map[string]*decision.CompiledPool{}
	for i := range b.Fleet.Pools {
		p, err := decision.CompilePool(&b.Fleet.Pools[i])
		if err == nil {
			pools[b.Fleet.Pools[i].Name] = p
		}
	}
	hits, names := map[string]decision.TrapHit{}, map[string][]string{}
	for _, w := range b.workloads {
		v := &b.Fleet.Workloads[w.index]
		if v.Request == nil {
			continue
		}
		n, _ := b.home(w)
		var at *decision.CompiledPool
		if p := b.poolOf[n]; p != nil {
			at = pools[p.name]
		}
		here := 0 // the most on any of its nodes
		for _, p := range w.pods {
			if p.at != nil && p.running {
				here = max(here, p.at.tenantsOfOne())
			}
		}
		for _, t := range decision.TrapsToday(decision.CompileWorkload(v), at, here) {
			key := fmt.Sprint(t.ID, t.Severity) // one that is there is worse than one to come
			if names[key] = append(names[key], w.name); len(names[key]) == 1 {
				hits[key] = t
			}
		}
	}
	for key, t := range hits {
		source := append(slices.Clone(t.Sources), "")[0]
		b.find("trap-"+t.ID, t.Severity, "workload "+plaintext.Some(names[key], 1, len(names[key])), string(source), "%s",
			t.Message)
	}
}

// budgetObject is a PodDisruptionBudget.
type budgetObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Selector *labelSelector `json:"selector"`
	} `json:"spec"`
	Status struct {
		Allowed  int   `json:"disruptionsAllowed"`
		Observed int64 `json:"observedGeneration"`
	} `json:"status"`
}

// allowed is the number of pods that may be missing: none as long as its status is older than its spec.
func (o *budgetObject) allowed() int {
	if o.Status.Observed < o.Metadata.Generation {
		return 0
	}
	return max(0, o.Status.Allowed)
}

// matches reports whether a budget counts a pod of its namespace with labels.
func (o *budgetObject) matches(labels stringMap) bool {
	return o.Spec.Selector != nil && o.Spec.Selector.selects(labels)
}

// quotaObject is a ResourceQuota.
type quotaObject struct {
	Metadata metadata `json:"metadata"`
	Status   struct {
		Hard quantities `json:"hard"`
		Used quantities `json:"used"`
	} `json:"status"`
}

// hashed is a hash in the place of a label's key and value, so that selectors match without keeping either.
func hashed(key, value string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s=%s", key, value)
	return fmt.Sprintf("#%x", h.Sum64())
}

// cluster writes the state of the cluster: its nodes with their assignments, and the limits on a change.
func (b *build) cluster() {
	t := &fleet.Cluster{Nodes: []layout.Node{}}
	b.Fleet.Today = t
	at := map[*node]int{}
	for _, n := range b.nodes {
		if b.poolOf[n] == nil {
			continue
		}
		at[n] = len(t.Nodes)
		t.Nodes = append(t.Nodes, b.nodeToday(n))
	}
	for _, w := range b.workloads {
		b.workloadToday(w, at)
	}
	keys, resources := b.ruleKeys()
	for _, n := range b.nodes {
		if b.poolOf[n] == nil {
			continue
		}
		o := b.objectOf(n, keys, resources)
		if len(o.Labels)+len(o.Resources)+len(o.Taints)+len(o.Others) > 0 {
			t.Objects = append(t.Objects, o)
		}
	}
	for _, q := range b.c.quotas {
		for _, key := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			if !begins(key, quotaResources) {
				continue
			}
			resource := strings.TrimPrefix(key, "requests.")
			t.Quotas = append(t.Quotas, fleet.Quota{Namespace: q.Metadata.Namespace, Resource: resource,
				Free: max(0, count(q.Status.Hard[key])-count(q.Status.Used[key]))})
		}
	}
	for _, o := range t.Objects {
		for _, c := range b.c.plugins[o.Labels[labelPlugin]] {
			t.PluginConfigs = cmp.Or(t.PluginConfigs, strings.TrimPrefix(c.object, "ConfigMap "))
		}
	}
}

// nodeToday is a node with its GPUs as it hands them out.
func (b *build) nodeToday(n *node) layout.Node {
	out := layout.Node{Name: n.name, Pool: b.poolOf[n].name, Delivery: n.delivery}
	var ok bool
	out.Devices, ok = n.handsOut(layout.GPUOf(n.gpu.Name))
	switch {
	case n.meta == nil:
	case n.single != "":
		out.Closed = `under the MIG strategy "single", under which instances have no names of their own`
	case n.meta.apart() != "":
		out.Closed = n.meta.apart()
	case b.c.ending[n.name] != "":
		out.Closed = fmt.Sprintf("one on which pod %s ends: plan again when it has gone", b.c.ending[n.name])
	default:
		out.Closed = n.closed
	}
	if n.meta != nil {
		room := b.roomOf(n.name)
		if out.Memory = sharing.Bytes(max(0, room["memory"])); amountIn("cpu", n.meta.Status.Allocatable["cpu"]) > 0 {
			out.CPUMilli = max(1, room["cpu"])
		}
		slots := 0
		for i := range out.Devices {
			slots += max(len(out.Devices[i].Instances), int(out.Devices[i].Slots))
		}
		if pods := b.rooms()[n.name]["pods"]; pods < int64(slots) {
			out.Closed = cmp.Or(out.Closed, fmt.Sprintf("one that runs at most %d pods more", max(0, pods)))
		}
	}
	if !ok {
		out.Closed = cmp.Or(out.Closed, "one of which it is not known where its MIG instances are")
	}
	return out
}

// handsOut lists the node's GPUs as it hands them out, those in MIG mode last; ok reports that all MIG instances have a
// place.
func (n *node) handsOut(kind *layout.GPU) (devices []layout.Device, ok bool) {
	devices = make([]layout.Device, n.gpus)
	rules, full := layout.RulesOf(n.delivery), n.gpus-min(n.inMIG, n.gpus)
	instances, ok := n.instancesOf(kind.MIG, n.gpus-full)
	for i := range devices {
		d := &devices[i]
		if d.GPU = kind; len(n.uuids) == n.gpus {
			d.UUID = n.uuids[i]
		}
		if i < full {
			rules.Configure(d, n.mechanism, int32(n.sharers()))
			continue
		}
		rules.Configure(d, sharing.MechanismMIG, 0)
		d.Instances = instances[i-full]
	}
	return devices, ok
}

// instancesOf spreads a node's MIG instances over its GPUs in MIG mode: the recorded ones in place, then the others,
// largest first, each on the GPU with the fewest instances that has room. ok reports that all have a place.
func (n *node) instancesOf(model *mig.Model, gpus int) (out [][]layout.Instance, ok bool) {
	out = make([][]layout.Instance, gpus)
	left := maps.Clone(n.instances)
	made := make([]mig.Layout, gpus)
	for i := range made {
		if made[i].Model = model; model == nil || i >= len(n.layouts) {
			continue
		}
		if l, err := model.ParseLayout(n.layouts[i]); err == nil {
			made[i] = l
			for _, in := range l.Instances {
				left[in.Profile.Name]--
			}
		}
	}
	ok = model != nil || len(left) == 0
	names := sortedKeys(left)
	slices.SortStableFunc(names, func(x, y string) int { return map[bool]int{true: -1}[larger(x, y)] })
	for _, name := range names {
		for range max(0, left[name]) {
			ok = model != nil && spread(model, made, name) && ok
		}
	}
	for i := range made {
		for _, in := range made[i].Instances {
			out[i] = append(out[i], layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
		}
	}
	return out, ok
}

// spread adds an instance to the layout with fewest that takes it.
func spread(model *mig.Model, made []mig.Layout, profile string) bool {
	best, at := mig.Layout{}, -1
	for i := range made {
		next, err := model.Place([]mig.Count{{Profile: profile, N: 1}}, made[i])
		if err == nil && (at < 0 || len(made[i].Instances) < len(made[at].Instances)) {
			best, at = next, i
		}
	}
	if at >= 0 {
		made[at] = best
	}
	return at >= 0
}

// ready reports whether a node's condition Ready is true; one without conditions is taken to be.
func (o *nodeObject) ready() bool {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return true
}

// workloadToday writes the assignments of a workload, its budgets and its autoscaler.
func (b *build) workloadToday(w *workload, nodes map[*node]int) {
	t, v := b.Fleet.Today, &b.Fleet.Workloads[w.index]
	at := fmt.Sprintf("workloads[%d].today", w.index)
	for _, p := range w.pods {
		if i, ok := nodes[p.at]; ok && p.running {
			t.Nodes[i].Assignments = append(t.Nodes[i].Assignments, p.assignments(v.Name, &t.Nodes[i])...)
		}
	}
	if profile := w.first.ask.profile; v.Today == nil && profile != "" { // all of its pods wait
		v.Today = &fleet.Today{Mechanism: sharing.MechanismMIG, Profile: profile}
		b.note(at, declared("%s", w.first.ask.resource))
	}
	if v.Today == nil {
		v.Today = &fleet.Today{Mechanism: sharing.MechanismExclusive, MayWeaken: true}
		b.note(at, guessed("it asks for whole GPUs, as the device plugin hands them out; may_weaken: false keeps it on them"))
	}
	v.Today.Object, v.Today.Container = w.key.owner.kind, w.first.container
	v.Scheduling, v.Today.Stays = w.first.rules, b.staysWhy(w)
	if a, ok := b.c.autoscalers[w.key.owner.kind+"/"+w.key.namespace+"/"+w.key.owner.name]; ok {
		t.Autoscalers = append(t.Autoscalers, fleet.Autoscaler{Workload: v.Name, Min: a.min, Max: max(a.max, a.min, 1)})
	}
	for _, o := range b.c.budgets {
		if o.Metadata.Namespace == w.first.namespace && o.matches(w.first.labels) {
			t.Budgets = append(t.Budgets, fleet.Budget{Name: o.Metadata.Name, Workload: v.Name, Allowed: o.allowed()})
		}
	}
}

// assignments returns a pod's devices or instances on a node; mostly it is not known which they are.
func (p *pod) assignments(workload string, n *layout.Node) (out []layout.Assignment) {
	of := &layout.Workload{Name: workload}
	a := layout.Assignment{Key: named(p.namespace, p.name), Workload: of}
	for i := range p.held {
		h := &p.held[i]
		if a.Device = int16(n.DeviceByUUID(h.device)); a.Device < 0 || h.profile != "" {
			a.Device = layout.UnknownDevice
		}
		if a.Profile = nil; h.profile != "" {
			a.Profile = profileOn(n, h.profile)
		}
		for range h.gpus {
			out = append(out, a)
		}
	}
	if len(out) > 0 && p.rules != nil && n.CPUMilli > 0 {
		out[0].CPUMilli, out[0].HostMemory = int32(p.rules.CPUMilli), p.rules.Memory
	}
	if len(out) == 0 { // a process on a machine
		a.Device = layout.UnknownDevice
		out = slices.Repeat([]layout.Assignment{a}, max(1, p.ask.gpus))
	}
	return out
}

// profileOn is a profile of a node's GPUs by its name; nil where they have none such.
func profileOn(n *layout.Node, name string) *mig.Profile {
	for i := range n.Devices {
		if model := n.Devices[i].GPU.MIG; model != nil {
			p, _ := model.Profile(name)
			return p
		}
	}
	return nil
}
