// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/plaintext"
)

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
	if w.key.owner.kind == "Deployment" { // which starts a pod before it stops another
		why = cmp.Or(why, b.exceeded(w.first))
	}
	if len(made) > 1 {
		why = cmp.Or(why, "its rollout is under way: its pods are of several templates")
	}
	if k := b.c.controllers[w.key.owner.kind+"/"+w.key.namespace+"/"+w.key.owner.name]; k != nil {
		if k.pod != nil {
			why = cmp.Or(why, k.pod.bound, w.first.lacks(k.pod, "its template"))
		}
		why = cmp.Or(why, k.holds)
	}
	if len(lost) > 0 {
		return fmt.Sprintf("it runs on %s too, of which nothing was read that can be planned with",
			plaintext.Some(lost, mostNames, len(lost)))
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
