// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// today counts GPUs and tenants by pool and mechanism.
func (b *build) today() {
	for _, p := range b.pools {
		rows := map[sharing.Mechanism]*Sharing{}
		for _, m := range sharing.Mechanisms() {
			rows[m] = &Sharing{Pool: p.Name, Mechanism: m}
		}
		for _, n := range p.nodes {
			rows[sharing.MechanismMIG].GPUs += max(0, n.inMIG)
			rows[n.mechanism].GPUs += n.whole()
			held := map[string]sharing.Mechanism{} // that claims share, by device
			for _, pod := range n.pods {
				for _, m := range b.mechanisms(pod, n) {
					rows[m].Tenants++
				}
				for _, h := range pod.held {
					if h.device != "" && h.profile == "" && n.mechanism == sharing.MechanismExclusive &&
						(h.mechanism == sharing.MechanismTimeSlicing || h.mechanism == sharing.MechanismMPS) {
						held[h.device] = h.mechanism
					}
				}
			}
			shared := min(len(held), n.whole())
			for _, device := range sortedKeys(held)[:shared] {
				rows[held[device]].GPUs++
			}
			rows[n.mechanism].GPUs -= shared
			for _, in := range n.inside {
				if mig := rows[sharing.MechanismMIG]; !slices.Contains(mig.Inside, in) {
					mig.Inside = append(mig.Inside, in)
				}
			}
		}
		for _, m := range sharing.Mechanisms() {
			if r := rows[m]; r.GPUs+r.Tenants > 0 {
				b.Today = append(b.Today, *r)
			}
		}
	}
	b.Today = slices.Clip(b.Today)
}

// cluster writes the state of the cluster: its nodes with their assignments, and the limits on a change.
func (b *build) cluster() {
	t := &fleet.Cluster{Nodes: []layout.Node{}}
	b.Fleet.Today = t
	nodes := slices.DeleteFunc(slices.Clone(b.nodes), func(n *node) bool { return b.poolOf[n] == nil })
	at := map[*node]int{}
	for i, n := range nodes {
		at[n] = i
		t.Nodes = append(t.Nodes, b.nodeToday(n))
	}
	for _, w := range b.workloads {
		b.workloadToday(w, at)
	}
	keys, resources := b.ruleKeys()
	for _, n := range nodes {
		o := b.objectOf(n, keys, resources)
		if len(o.Labels)+len(o.Resources)+len(o.Taints)+len(o.Others) > 0 {
			t.Objects = append(t.Objects, o)
		}
	}
	for _, q := range b.c.quotas {
		for _, key := range sortedKeys(q.Status.Hard) {
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

func (b *build) nodeToday(n *node) layout.Node {
	out := layout.Node{Name: n.name, Pool: b.poolOf[n].Name, Delivery: n.delivery}
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
		room := b.room[n.name]
		if out.Memory = sharing.Bytes(max(0, room["memory"])); amountIn("cpu", n.meta.Status.Allocatable["cpu"]) > 0 {
			out.CPUMilli = max(1, room["cpu"])
		}
		slots := 0
		for i := range out.Devices {
			slots += max(len(out.Devices[i].Instances), int(out.Devices[i].Slots))
		}
		if pods := b.left[n.name]["pods"]; pods < int64(slots) {
			out.Closed = cmp.Or(out.Closed, fmt.Sprintf("one that runs at most %d pods more", max(0, pods)))
		}
	}
	if !ok {
		out.Closed = cmp.Or(out.Closed, "one of which it is not known where its MIG instances are")
	}
	return out
}

// workloadToday writes the assignments of a workload, its budgets and its autoscaler.
func (b *build) workloadToday(w *workload, nodes map[*node]int) {
	t := b.Fleet.Today
	for _, p := range w.pods {
		if i, ok := nodes[p.at]; ok && p.running {
			t.Nodes[i].Assignments = append(t.Nodes[i].Assignments, p.assignments(w.Name, &t.Nodes[i])...)
		}
	}
	if profile := w.first.ask.profile; w.Today == nil && profile != "" { // all of its pods wait
		w.Today = &fleet.Today{Mechanism: sharing.MechanismMIG, Profile: profile}
		b.note(w.at+".today", declared("%s", w.first.ask.resource))
	}
	if w.Today == nil {
		w.Today = &fleet.Today{Mechanism: sharing.MechanismExclusive, MayWeaken: true}
		b.note(w.at+".today", guessed("it asks for whole GPUs, as the device plugin hands them out; may_weaken: "+
			"false keeps it on them"))
	}
	w.Today.Object, w.Today.Container = w.key.kind, w.first.container
	w.Scheduling, w.Today.Stays = w.first.rules, b.staysWhy(w)
	if a, ok := b.c.autoscalers[w.key.owner]; ok {
		a.Workload = w.Name
		t.Autoscalers = append(t.Autoscalers, a)
	}
	for _, o := range b.c.budgets {
		if o.matches(w.first.namespace, w.first.labels) {
			t.Budgets = append(t.Budgets, fleet.Budget{Name: o.Metadata.Name, Workload: w.Name, Allowed: o.allowed()})
		}
	}
}

// assignments returns a pod's devices or instances on a node; mostly it is not known which they are.
func (p *pod) assignments(workload string, n *layout.Node) (out []layout.Assignment) {
	of := &layout.Workload{Name: workload}
	a := layout.Assignment{Key: named(p.namespace, p.name), Workload: of}
	for _, h := range p.held {
		if a.Device = int16(n.DeviceByUUID(h.device)); a.Device < 0 || h.profile != "" {
			a.Device = layout.UnknownDevice
		}
		if a.Profile = nil; h.profile != "" {
			a.Profile = p.at.profile(h.profile)
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

// objectOf returns a node's object without its GPUs, with only the labels and resources that something depends on.
func (b *build) objectOf(n *node, keys, resources map[string]bool) fleet.NodeObject {
	o := fleet.NodeObject{Name: n.name}
	if n.meta == nil {
		return o
	}
	o.Labels = only(n.meta.Metadata.Labels, keys)
	o.Resources = only(b.room[n.name], resources)
	o.Taints = n.meta.Spec.Taints
	n.drains(b, &o)
	return o
}

// ruleKeys are the labels of nodes that workloads or the plan depend on, and the resources that workloads request.
func (b *build) ruleKeys() (keys, resources map[string]bool) {
	keys, resources = map[string]bool{labelPlugin: true, labelMIG: true}, map[string]bool{}
	for _, w := range b.workloads {
		s := cmp.Or(w.Scheduling, &fleet.Scheduling{})
		for key := range s.NodeSelector {
			keys[key] = true
		}
		for key := range s.Resources {
			resources[key] = true
		}
		for _, term := range s.NodeAffinity {
			for _, r := range term.Labels {
				keys[r.Key] = true
			}
		}
	}
	return keys, resources
}
