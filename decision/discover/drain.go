// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision/fleet"
)

// other is a pod that holds no GPU, as far as it matters to draining its node.
type other struct {
	namespace, name string
	labels          stringMap
	daemon, owned   bool
	requests        map[string]int64
	rules           *fleet.Scheduling
	bound           string
}

// takeOther keeps a pod that holds no GPU.
func (c *Collector) takeOther(o *podObject) {
	if o.Spec.NodeName == "" || o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" {
		return
	}
	owner := o.Metadata.controller()
	_, static := o.Metadata.Annotations["kubernetes.io/config.mirror"] // the kubelet runs it from a file
	c.others[o.Spec.NodeName] = append(c.others[o.Spec.NodeName], other{o.Metadata.Namespace, o.Metadata.Name,
		o.Metadata.Labels, owner.Kind == "DaemonSet" || owner.Kind == "Node" || static, owner.Name != "",
		o.Spec.requests(), o.Spec.rules(), o.Spec.bound()})
}

// drains records the other pods of a node, and the obstacle to draining it.
func (n *node) drains(b *build, o *fleet.NodeObject) {
	for _, p := range b.c.others[n.name] {
		if p.daemon {
			continue
		}
		name := named(p.namespace, p.name)
		if len(o.Others) < mostNames {
			o.Others = append(o.Others, name)
		}
		if !p.owned {
			o.Keeps = cmp.Or(o.Keeps, fmt.Sprintf("pod %s runs there, which nothing starts again", name))
		}
		budgets := 0
		for _, budget := range b.c.budgets {
			if budget.Metadata.Namespace != p.namespace || !budget.matches(p.labels) {
				continue
			}
			if budgets++; budget.allowed() < 1 {
				o.Keeps = cmp.Or(o.Keeps, fmt.Sprintf("pod %s runs there, and its PodDisruptionBudget %s lets none be missing",
					name, budget.Metadata.Name))
			}
		}
		switch {
		case o.Keeps != "":
		case budgets > 1:
			o.Keeps = fmt.Sprintf("pod %s runs there, and no pod with several PodDisruptionBudgets is evicted", name)
		case p.bound != "":
			o.Keeps = fmt.Sprintf("pod %s runs there, and %s", name, p.bound)
		case !b.elsewhere(&p, n):
			o.Keeps = fmt.Sprintf("pod %s runs there, and no other node takes it", name)
		}
	}
}

// elsewhere reports whether another node takes a pod without GPUs.
func (b *build) elsewhere(p *other, but *node) bool {
	for name, n := range b.c.nodes {
		room, fits := b.rooms()[name], name != but.name && n.apart() == ""
		for key, amount := range p.requests {
			fits = fits && amount <= room[key]
		}
		if fits && p.rules.Allows(fleet.NodeObject{Labels: n.Metadata.Labels, Taints: n.Spec.Taints}) {
			return true
		}
	}
	return false
}

// mostPodsOfNode is the number of pods that a kubelet runs unless it is configured otherwise.
const mostPodsOfNode = 110

// roomOf returns the allocatable resources of a node that pods without GPUs leave, by resource.
func (b *build) roomOf(node string) map[string]int64 {
	o := b.c.nodes[node]
	if o == nil {
		return nil
	}
	room := map[string]int64{"pods": mostPodsOfNode}
	for key, text := range o.Status.Allocatable {
		room[key] = amountIn(key, text)
	}
	for _, p := range b.c.others[node] {
		take(room, p.requests)
	}
	return room
}

// take takes a pod's requests from a room.
func take(room, requests map[string]int64) {
	for key, amount := range requests {
		room[key] -= amount
	}
}

// rooms returns the resources of all nodes that no pod has requested, by node.
func (b *build) rooms() map[string]map[string]int64 {
	if b.left != nil {
		return b.left
	}
	b.left = map[string]map[string]int64{}
	for name := range b.c.nodes {
		b.left[name] = b.roomOf(name)
	}
	for _, p := range b.c.users {
		if room := b.left[p.node]; room != nil {
			take(room, p.requests)
		}
	}
	return b.left
}

// apart is the reason for which a node takes no more pods, empty without one.
func (o *nodeObject) apart() string {
	switch {
	case o.Spec.Unschedulable:
		return "cordoned"
	case !o.ready():
		return "not ready"
	case o.Metadata.Deleted != "":
		return "being deleted"
	}
	return ""
}

// quotas returns the amounts that one pod counts against quotas, GPUs left out.
func (s *podSpec) quotas() map[string]int64 {
	out := map[string]int64{"count/pods": 1}
	for key, amount := range s.requests() {
		out[key], out["requests."+key], out["limits."+key] = amount, amount, s.sum(key, false)
	}
	return out
}

// exceeded names a quota that lets no pod more like this be made, empty where there is none.
func (b *build) exceeded(p *pod) string {
	for _, q := range b.c.quotas {
		for _, key := range sortedKeys(q.Status.Hard) {
			kind := strings.TrimPrefix(strings.TrimPrefix(key, "requests."), "limits.")
			free := amountIn(kind, q.Status.Hard[key]) - amountIn(kind, q.Status.Used[key])
			if more := p.quotas[key]; q.Metadata.Namespace == p.namespace && more > 0 && more > free {
				return fmt.Sprintf("the quota of its namespace lets no pod more like it be made (%s)", key)
			}
		}
	}
	return ""
}
