// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// bound names a rule of the pod that plans do not support, so that it stays in place; empty where there is none.
func (s *podSpec) bound() string {
	for _, v := range s.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return fmt.Sprintf("its volume %.60q may be bound to a node or a zone", v.Name)
		}
		if v.HostPath != nil {
			return fmt.Sprintf("its volume %.60q is a folder of its node", v.Name)
		}
	}
	ports, spread := s.HostNetwork, false
	for _, c := range s.TopologySpreadConstraints {
		spread = spread || c.WhenUnsatisfiable != "ScheduleAnyway"
	}
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		for _, p := range c.Ports {
			ports = ports || p.HostPort > 0
		}
	}
	terms := slices.Clone(s.Affinity.NodeAffinity.Required.NodeSelectorTerms)
	for _, p := range s.Affinity.NodeAffinity.Preferred {
		terms = append(terms, p.Preference)
	}
	switch {
	case len(s.Affinity.PodAffinity.Required) > 0:
		return "it must be near other pods (podAffinity), which is not planned from here"
	case len(s.Affinity.PodAntiAffinity.Required) > 0:
		return "it must be away from other pods (podAntiAffinity), which is not planned from here"
	case spread:
		return "its pods must be spread (topologySpreadConstraints), which is not planned from here"
	case slices.ContainsFunc(terms, func(t nodeTerm) bool { return len(t.MatchFields) > 0 }):
		return "its node affinity names nodes (matchFields), which is not planned from here"
	case s.SchedulerName != "" && s.SchedulerName != "default-scheduler" && s.SchedulerName != "hami-scheduler":
		return fmt.Sprintf("the scheduler %.60q places it, whose rules are not known", s.SchedulerName)
	case len(s.SchedulingGates) > 0:
		return "its pods have scheduling gates"
	case ports:
		return "it takes ports of its node"
	}
	return ""
}

// rules returns the requirements of a pod's spec on its nodes, nil where it has none.
func (s *podSpec) rules() *fleet.Scheduling {
	out := &fleet.Scheduling{NodeSelector: s.NodeSelector}
	for _, t := range s.Affinity.NodeAffinity.Required.NodeSelectorTerms {
		out.NodeAffinity = append(out.NodeAffinity, fleet.NodeTerm{Labels: t.MatchExpressions})
	}
	for _, t := range s.Affinity.NodeAffinity.Preferred {
		out.Preferred = append(out.Preferred, fleet.PreferredTerm{Weight: t.Weight, Labels: t.Preference.MatchExpressions})
	}
	for _, t := range s.Tolerations {
		if t.TolerationSeconds == nil { // else only for so long
			out.Tolerations = append(out.Tolerations, t.Toleration)
		}
	}
	all := s.requests()
	out.CPUMilli, out.Memory = int(all["cpu"]), sharing.Bytes(all["memory"])
	maps.DeleteFunc(all, func(key string, _ int64) bool { return key == "cpu" || key == "memory" || key == "pods" })
	if len(all) > 0 {
		out.Resources = all
	}
	if len(out.NodeSelector)+len(out.NodeAffinity)+len(out.Preferred)+len(out.Tolerations)+out.CPUMilli+len(all) == 0 &&
		out.Memory == 0 {
		return nil
	}
	return out
}

// requests returns the requests of a pod by resource, GPUs and parts of GPUs left out.
func (s *podSpec) requests() map[string]int64 {
	out := map[string]int64{"pods": 1}
	lists := []quantities{s.Overhead, s.Resources.Requests, s.Resources.Limits}
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		lists = append(lists, c.Resources.Requests, c.Resources.Limits)
	}
	for _, list := range lists {
		for key := range list {
			if v := s.sum(key, true); v > 0 && (ordinary(key) || useOf(key).role == roleUnknown) {
				out[key] = v
			}
		}
	}
	return out
}

// sum is the request or the limit of a pod for a resource, in the unit of amountIn. A missing request is the limit.
func (s *podSpec) sum(key string, requests bool) int64 {
	one := func(r *resources) int64 {
		if text := r.Requests[key]; requests && text != "" {
			return amountIn(key, text)
		}
		return amountIn(key, r.Limits[key])
	}
	var all, most int64
	for i := range s.InitContainers { // sidecars stay, and others run with those before them
		c := &s.InitContainers[i]
		most = max(most, all+one(&c.Resources))
		if c.RestartPolicy == "Always" {
			all += one(&c.Resources)
		}
	}
	for i := range s.Containers {
		all += one(&s.Containers[i].Resources)
	}
	return cmp.Or(one(&s.Resources), max(most, all)) + amountIn(key, s.Overhead[key])
}

// quotas returns the amounts that one pod counts against quotas, GPUs left out.
func (s *podSpec) quotas() map[string]int64 {
	out := map[string]int64{"count/pods": 1}
	for key, amount := range s.requests() {
		out[key], out["requests."+key], out["limits."+key] = amount, amount, s.sum(key, false)
	}
	return out
}

// drains records the other pods of a node, and the obstacle to draining it.
func (n *node) drains(b *build, o *fleet.NodeObject) {
	for _, p := range b.c.others[n.name] {
		if p.controller.Kind == "DaemonSet" || p.controller.Kind == "Node" {
			continue // it goes with its node
		}
		name := named(p.namespace, p.name)
		if len(o.Others) < mostNames {
			o.Others = append(o.Others, name)
		}
		if p.controller.Name == "" {
			o.Keeps = cmp.Or(o.Keeps, fmt.Sprintf("pod %s runs there, which nothing starts again", name))
		}
		budgets := 0
		for _, budget := range b.c.budgets {
			if !budget.matches(p.namespace, p.labels) {
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
		case !b.elsewhere(p, n):
			o.Keeps = fmt.Sprintf("pod %s runs there, and no other node takes it", name)
		}
	}
}

// elsewhere reports whether another node takes a pod without GPUs.
func (b *build) elsewhere(p *pod, but *node) bool {
	for name, n := range b.c.nodes {
		room, fits := b.left[name], name != but.name && n.apart() == ""
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

// rooms finds the allocatable resources of each node that pods without GPUs leave, and those that no pod has requested.
func (b *build) rooms() {
	for name, o := range b.c.nodes {
		room := map[string]int64{"pods": mostPodsOfNode}
		for key, text := range o.Status.Allocatable {
			room[key] = amountIn(key, text)
		}
		take(room, b.c.others[name])
		b.room[name], b.left[name] = room, maps.Clone(room)
	}
	for _, p := range b.c.users {
		take(b.left[p.node], []*pod{p})
	}
}

func take(room map[string]int64, pods []*pod) {
	for _, p := range pods {
		for key, amount := range p.requests {
			if room != nil { // of a node that is known
				room[key] -= amount
			}
		}
	}
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

// repelled names a pod that keeps a pod of a workload off, empty where none does.
func (c *Collector) repelled(p *pod) string {
	for _, r := range c.repels {
		there := r.term.NamespaceSelector != nil || slices.Contains(r.term.Namespaces, p.namespace) ||
			len(r.term.Namespaces) == 0 && r.namespace == p.namespace
		if there && r.term.LabelSelector.selects(p.labels) {
			return fmt.Sprintf("pod %s keeps pods like it off (podAntiAffinity), which is not planned from here",
				named(r.namespace, r.name))
		}
	}
	return ""
}

// staysWhy is the reason for which a workload must not be moved, empty where nothing that was read speaks against it.
func (b *build) staysWhy(w *workload) string {
	var lost []string
	for _, p := range w.pods {
		if p.running && b.poolOf[p.at] == nil && p.node != "" && !slices.Contains(lost, p.node) {
			lost = append(lost, p.node)
		}
	}
	why, made := "", map[string]bool{}
	for _, p := range w.pods {
		why = cmp.Or(why, p.bound, b.c.repelled(p), b.notOffered(p), w.first.lacks(p, "other pods of it"))
		made[p.labels["pod-template-hash"]+p.labels["controller-revision-hash"]] = true
	}
	if w.key.kind == "Deployment" { // which starts a pod before it stops another
		why = cmp.Or(why, b.exceeded(w.first))
	}
	if len(made) > 1 {
		why = cmp.Or(why, "its rollout is under way: its pods are of several templates")
	}
	if k := b.c.controllers[w.key.String()]; k != nil {
		if k.pod != nil {
			why = cmp.Or(why, k.pod.bound, w.first.lacks(k.pod, "its template"))
		}
		why = cmp.Or(why, k.holds)
	}
	if len(lost) > 0 {
		return fmt.Sprintf("it runs on %s too, of which nothing was read that can be planned with", some(lost))
	}
	return why
}

// lacks names a resource of which a pod requests less than another of its workload, as after a resize in place.
func (p *pod) lacks(than *pod, of string) string {
	for _, key := range sortedKeys(than.requests) {
		if than.requests[key] > p.requests[key] {
			return fmt.Sprintf("pod %s requests less %s than %s", named(p.namespace, p.name), key, of)
		}
	}
	return ""
}

// notOffered names a resource that a pod requests and its node does not have, empty where there is none.
func (b *build) notOffered(p *pod) string {
	n := b.c.nodes[p.node]
	if n == nil || p.rules == nil {
		return ""
	}
	for _, key := range sortedKeys(p.rules.Resources) {
		if n.Status.Allocatable[key] == "" {
			return fmt.Sprintf("it requests %.60q, which is not in the allocatable resources of its node", key)
		}
	}
	return ""
}
