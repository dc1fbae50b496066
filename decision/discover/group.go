// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// claims counts the holders of each device of the DRA driver, and sorts the devices by node.
func (b *build) claims() {
	for _, pool := range sortedKeys(b.c.devices) {
		for _, name := range sortedKeys(b.c.devices[pool]) {
			node := b.c.poolNode[pool]
			b.devices[node] = append(b.devices[node], b.c.devices[pool][name])
		}
	}
	for _, p := range b.c.users {
		for a := range b.allocations(p) {
			b.heldBy[a]++
		}
	}
	for _, k := range b.c.claims {
		for _, a := range k.allocated {
			if d := b.device(a.deviceID); d != nil {
				b.heldDevices[d] = true
			}
		}
	}
}

// group puts pods of one owner together.
func (b *build) group() {
	byKey := map[workloadKey]*workload{}
	add := func(p *pod) *workload {
		o := b.root(p.namespace, p.owner)
		if b.resolve(p); p.ask.gpus == 0 {
			return nil // its claims and resources are for something else
		}
		key := workloadKey{p.namespace, o, p.signature}
		w := byKey[key]
		if w == nil {
			w = &workload{key: key, first: p}
			byKey[key] = w
			b.workloads = append(b.workloads, w)
		}
		return w
	}
	for _, p := range b.c.users {
		if w := add(p); w != nil {
			w.pods = append(w.pods, p)
			w.all++
			if p.node != "" && w.first.node == "" {
				w.first = p
			}
		}
	}
	// Owners without pods in the input.
	for _, name := range slices.Sorted(maps.Keys(b.c.controllers)) {
		k := b.c.controllers[name]
		if k.pod == nil || k.replicas == 0 || k.owner.name != "" &&
			b.c.controllers[k.owner.kind+"/"+k.namespace+"/"+k.owner.name] != nil {
			continue
		}
		o := b.root(k.namespace, owner{k.kind, k.name})
		if slices.ContainsFunc(b.workloads, func(w *workload) bool {
			return w.key.namespace == k.namespace && w.key.owner == o && len(w.pods) > 0
		}) {
			continue
		}
		if w := add(k.pod); w != nil {
			w.all = k.replicas
		}
	}
	slices.SortFunc(b.workloads, func(x, y *workload) int {
		return cmp.Or(cmp.Compare(x.key.namespace, y.key.namespace), cmp.Compare(x.key.owner.name, y.key.owner.name),
			cmp.Compare(x.key.owner.kind, y.key.owner.kind), cmp.Compare(y.all, x.all),
			cmp.Compare(x.key.signature, y.key.signature))
	})
	b.attach()
}

// attach names the workloads, and puts their pods on the nodes.
func (b *build) attach() {
	taken := map[string]bool{}
	for _, w := range b.workloads {
		base := workloadName(w.key.namespace, w.key.owner.name)
		w.name = unique(taken, base, base+"-"+strings.ToLower(w.key.owner.kind))
		for _, p := range w.pods {
			for a, k := range b.allocations(p) {
				if d := b.device(a); d != nil && d.uuid != "" && k.pods <= 1 {
					b.byDevice[d.uuid] = w
				}
			}
			p.of, p.at = w, b.byName[p.node]
			if p.at != nil && p.running {
				p.at.take(p)
			}
		}
	}
	for _, n := range b.nodes {
		n.placed()
	}
}

var cronName = regexp.MustCompile(`-\d{7,10}$`)

// root follows owners up: the Deployment of a ReplicaSet, the CronJob of a Job.
func (b *build) root(namespace string, o owner) owner {
	for range 8 {
		k := b.c.controllers[o.kind+"/"+namespace+"/"+o.name]
		if k == nil || k.owner.name == "" {
			break
		}
		o = k.owner
	}
	if o.kind == "Job" {
		if base := cronName.ReplaceAllString(o.name, ""); base != o.name {
			return owner{"CronJob", base}
		}
	}
	return o
}

// take notes that a pod runs on the node.
func (n *node) take(p *pod) {
	n.pods = append(n.pods, p)
	made := map[string]int{} // instances that are created when a pod requests them
	for _, h := range p.held {
		switch {
		case h.delivery == sharing.DeliveryKAI:
			n.closed = cmp.Or(n.closed, "one on which KAI gives pods parts of GPUs")
		case h.role == roleAmount:
			if name := named(p.namespace, p.name); !slices.Contains(n.opaque[h.resource], name) {
				n.opaque[h.resource] = append(n.opaque[h.resource], name)
			}
		case h.profile == "" || h.mechanism != sharing.MechanismMIG || h.delivery == sharing.DeliveryDRA:
		case h.granted || !strings.HasPrefix(h.resource, migPrefix):
			made[h.profile] += h.gpus
		}
	}
	for profile, k := range made {
		n.instances[profile] += k
	}
}

// placed writes the layouts of the GPUs on which HAMi placed MIG instances.
func (n *node) placed() {
	model := n.model()
	on := map[string][]mig.Instance{}
	for _, p := range n.pods {
		for _, h := range p.held {
			if model == nil || h.size == 0 {
				continue
			}
			if prof, err := model.Profile(h.profile); err == nil {
				on[h.device] = append(on[h.device], mig.Instance{Profile: prof, Busy: true,
					Placement: mig.Placement{Start: h.start, Size: h.size}})
			}
		}
	}
	for _, gpu := range sortedKeys(on) {
		if l := mig.NewLayout(model, on[gpu]...); l.Validate() == nil {
			n.layouts = append(n.layouts, l.String())
		}
	}
}
