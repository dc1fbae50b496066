// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
