// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

type nodeTerm struct {
	Labels []fleet.NodeRequirement `json:"matchExpressions"`
	Fields []fleet.NodeRequirement `json:"matchFields"`
}

// labelSelector selects pods by their labels.
type labelSelector struct {
	MatchLabels      map[string]string       `json:"matchLabels"`
	MatchExpressions []fleet.NodeRequirement `json:"matchExpressions"`
}

// podTerm is a rule about the pods that a pod may be with.
type podTerm struct {
	Selector   *labelSelector  `json:"labelSelector"`
	Namespaces []string        `json:"namespaces"`
	Any        *labelSelector  `json:"namespaceSelector"`
	Topology   string          `json:"topologyKey"`
	More       json.RawMessage `json:"matchLabelKeys"`
}

// scheduling holds the placement rules of a pod's spec.
type scheduling struct {
	NodeSelector map[string]string `json:"nodeSelector"`
	Affinity     struct {
		Node struct {
			Required struct {
				Terms []nodeTerm `json:"nodeSelectorTerms"`
			} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			Preferred []struct {
				Weight     int      `json:"weight"`
				Preference nodeTerm `json:"preference"`
			} `json:"preferredDuringSchedulingIgnoredDuringExecution"`
		} `json:"nodeAffinity"`
		Pod  podRules `json:"podAffinity"`
		Anti podRules `json:"podAntiAffinity"`
	} `json:"affinity"`
	Tolerations []struct {
		fleet.Toleration
		Seconds *int64 `json:"tolerationSeconds"`
	} `json:"tolerations"`
	Spread []struct {
		When string `json:"whenUnsatisfiable"`
	} `json:"topologySpreadConstraints"`
	Scheduler string            `json:"schedulerName"`
	Gates     []json.RawMessage `json:"schedulingGates"`
	Volumes   []struct {
		Name      string          `json:"name"`
		Claim     json.RawMessage `json:"persistentVolumeClaim"`
		Ephemeral json.RawMessage `json:"ephemeral"`
		Host      json.RawMessage `json:"hostPath"`
	} `json:"volumes"`
	HostNetwork bool `json:"hostNetwork"`
}

type podRules struct {
	Required []podTerm `json:"requiredDuringSchedulingIgnoredDuringExecution"`
}

// bound names a rule of the pod that plans do not support, so that it stays in place; empty where there is none.
func (s *podSpec) bound() string {
	for _, v := range s.Volumes {
		if v.Claim != nil || v.Ephemeral != nil {
			return fmt.Sprintf("its volume %.60q may be bound to a node or a zone", v.Name)
		}
		if v.Host != nil {
			return fmt.Sprintf("its volume %.60q is a folder of its node", v.Name)
		}
	}
	ports, spread := s.HostNetwork, false
	for _, c := range s.Spread {
		spread = spread || c.When != "ScheduleAnyway"
	}
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		for _, p := range c.Ports {
			ports = ports || p.Host > 0
		}
	}
	terms := slices.Clone(s.Affinity.Node.Required.Terms)
	for _, p := range s.Affinity.Node.Preferred {
		terms = append(terms, p.Preference)
	}
	switch {
	case len(s.Affinity.Pod.Required) > 0:
		return "it must be near other pods (podAffinity), which is not planned from here"
	case len(s.Affinity.Anti.Required) > 0:
		return "it must be away from other pods (podAntiAffinity), which is not planned from here"
	case spread:
		return "its pods must be spread (topologySpreadConstraints), which is not planned from here"
	case slices.ContainsFunc(terms, func(t nodeTerm) bool { return len(t.Fields) > 0 }):
		return "its node affinity names nodes (matchFields), which is not planned from here"
	case s.Scheduler != "" && s.Scheduler != "default-scheduler" && s.Scheduler != "hami-scheduler":
		return fmt.Sprintf("the scheduler %.60q places it, whose rules are not known", s.Scheduler)
	case len(s.Gates) > 0:
		return "its pods have scheduling gates"
	case ports:
		return "it takes ports of its node"
	}
	return ""
}

// rules returns the requirements of a pod's spec on its nodes, nil where it has none.
func (s *podSpec) rules() *fleet.Scheduling {
	out := &fleet.Scheduling{NodeSelector: s.NodeSelector}
	for _, t := range s.Affinity.Node.Required.Terms {
		out.NodeAffinity = append(out.NodeAffinity, fleet.NodeTerm{Labels: t.Labels})
	}
	for _, t := range s.Affinity.Node.Preferred {
		out.Preferred = append(out.Preferred, fleet.PreferredTerm{Weight: t.Weight, Labels: t.Preference.Labels})
	}
	for _, t := range s.Tolerations {
		if t.Seconds == nil { // else only for so long
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

// amountIn reads an amount of a resource: thousandths of a CPU, bytes of memory or storage, a number of others; 0 where
// the text is no amount.
func amountIn(key, text string) int64 {
	end := strings.LastIndexAny(text, "0123456789.") + 1
	v, err := strconv.ParseFloat(text[:end], 64)
	if v *= quantityScales[text[end:]]; key == "cpu" {
		v *= 1000
	}
	if err != nil || !(v >= 0 && v < 1<<60) {
		return 0
	}
	return int64(math.Round(v))
}

// quantityScales are the suffixes of Kubernetes' quantities.
var quantityScales = map[string]float64{"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"P": 1e15, "E": 1e18, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}

// selects reports whether a selector matches a pod's labels. An empty one matches all.
func (s *labelSelector) selects(labels stringMap) bool {
	has := func(k, v string) bool {
		_, ok := labels[hashed(k, v)]
		return ok || labels[k] == v && v != ""
	}
	for k, v := range s.MatchLabels {
		if !has(k, v) {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		_, hashedKey := labels[hashed("", r.Key)]
		_, kept := labels[r.Key]
		there, in := hashedKey || kept, slices.ContainsFunc(r.Values, func(v string) bool { return has(r.Key, v) })
		holds := map[string]bool{"In": in, "NotIn": !in, "Exists": there, "DoesNotExist": !there}
		if is, known := holds[r.Operator]; known && !is { // an unknown operator is taken to select
			return false
		}
	}
	return true
}

// takeRepellers keeps the rules by which a pod keeps others off.
func (c *Collector) takeRepellers(o *podObject) {
	for _, t := range o.Spec.Affinity.Anti.Required {
		if t.Selector != nil {
			c.repels = append(c.repels, repeller{o.Metadata.Namespace, o.Metadata.Name, t})
		}
	}
}

// repeller is a pod that keeps off those that its term selects.
type repeller struct {
	namespace, name string
	term            podTerm
}

// repelled names a pod that keeps a pod of a workload off, empty where none does.
func (c *Collector) repelled(p *pod) string {
	for i := range c.repels {
		r := &c.repels[i]
		there := r.term.Any != nil || slices.Contains(r.term.Namespaces, p.namespace) ||
			len(r.term.Namespaces) == 0 && r.namespace == p.namespace
		if there && r.term.Selector.selects(p.labels) {
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

// objectOf returns a node's object without its GPUs, with only the labels and resources that something depends on.
func (b *build) objectOf(n *node, keys, resources map[string]bool) fleet.NodeObject {
	o := fleet.NodeObject{Name: n.name}
	if n.meta == nil {
		return o
	}
	o.Labels = only(n.meta.Metadata.Labels, keys)
	o.Resources = only(b.roomOf(n.name), resources)
	o.Taints = n.meta.Spec.Taints
	n.drains(b, &o)
	return o
}

// only returns the entries of some keys.
func only[M ~map[string]V, V any](all M, keys map[string]bool) M {
	out := maps.Clone(all)
	if maps.DeleteFunc(out, func(key string, _ V) bool { return !keys[key] }); len(out) == 0 {
		return nil
	}
	return out
}

// ruleKeys are the labels of nodes that workloads or the plan depend on, and the resources that workloads request.
func (b *build) ruleKeys() (keys, resources map[string]bool) {
	keys, resources = map[string]bool{labelPlugin: true, labelMIG: true}, map[string]bool{}
	for i := range b.Fleet.Workloads {
		s := b.Fleet.Workloads[i].Scheduling
		if s == nil {
			continue
		}
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

// holdsOf returns the setting of a Deployment or StatefulSet that keeps its pods from following a patch.
func (o *controllerObject) holdsOf(kind string) string {
	u, s := &o.Spec.Update, &o.Spec.Strategy
	switch {
	case o.Spec.Paused:
		return "its rollout is paused"
	case kind == "Deployment" && s.Type == "Recreate":
		return "its strategy is Recreate: all of its pods stop before one starts"
	case u.Type == "OnDelete":
		return "its updateStrategy is OnDelete: a patch replaces no pod"
	case u.Rolling.Partition > 0:
		return "its updateStrategy has a partition: a patch replaces only some of its pods"
	case o.Status.Updated < o.Status.Replicas || o.Status.Observed < o.Metadata.Generation:
		return "its rollout is under way"
	case len(o.Spec.Volumes) > 0:
		return "its volumes may be bound to a node or a zone"
	}
	return ""
}
