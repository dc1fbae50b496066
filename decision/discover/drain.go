package discover

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// other is a pod that holds no GPU, as far as it matters to draining its node.
type other struct {
	namespace, name string
	labels          stringMap
	daemon, owned   bool
	cpu             int
	memory          sharing.Bytes
	rules           *fleet.Scheduling
	bound           string
}

// takeOther keeps a pod that holds no GPU.
func (c *Collector) takeOther(o *podObject) {
	if o.Spec.NodeName == "" || o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" {
		return
	}
	owner := o.Metadata.controller()
	milli, memory := o.Spec.requests()
	_, static := o.Metadata.Annotations["kubernetes.io/config.mirror"] // the kubelet runs it from a file
	c.others[o.Spec.NodeName] = append(c.others[o.Spec.NodeName], other{o.Metadata.Namespace, o.Metadata.Name,
		o.Metadata.Labels, owner.Kind == "DaemonSet" || owner.Kind == "Node" || static, owner.Name != "", milli, memory,
		o.Spec.rules(), o.Spec.bound()})
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
		if r := b.rooms()[name]; name != but.name && n.apart() == "" && p.cpu <= r.cpu && p.memory <= r.memory &&
			r.pods > 0 && p.rules.Allows(fleet.NodeObject{Labels: n.Metadata.Labels, Taints: n.Spec.Taints}) {
			return true
		}
	}
	return false
}

// room is the free capacity of a node.
type room struct {
	cpu, pods int
	memory    sharing.Bytes
}

// mostPodsOfNode is the number of pods that a kubelet runs unless it is configured otherwise.
const mostPodsOfNode = 110

// rooms are those of all nodes, by name.
func (b *build) rooms() map[string]*room {
	if b.left != nil {
		return b.left
	}
	b.left = map[string]*room{}
	for name, o := range b.c.nodes {
		all := o.Status.Allocatable
		b.left[name] = &room{milliOf(all["cpu"]), cmp.Or(count(all["pods"]), mostPodsOfNode), bytesOf(all["memory"])}
	}
	takes := func(node string, cpu int, memory sharing.Bytes) {
		if r := b.left[node]; r != nil {
			r.cpu, r.pods, r.memory = r.cpu-cpu, r.pods-1, r.memory-memory
		}
	}
	for name, all := range b.c.others {
		for _, p := range all {
			takes(name, p.cpu, p.memory)
		}
	}
	for _, p := range b.c.users {
		r := cmp.Or(p.rules, &fleet.Scheduling{})
		takes(p.node, r.CPUMilli, r.Memory)
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

// quotas returns the amounts that one pod counts against quotas of pods, CPU and memory.
func (s *podSpec) quotas() map[string]int64 {
	out := map[string]int64{"pods": 1, "count/pods": 1}
	for _, key := range []string{"cpu", "memory"} {
		out[key], out["limits."+key] = s.sum(key, true), s.sum(key, false)
		out["requests."+key] = out[key]
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
