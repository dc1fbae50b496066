// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// Cluster is the state of a cluster: its GPU nodes with their tenants, and the limits of changes.
type Cluster struct {
	// Nodes are the GPU nodes with the delivery and the replicas of their GPUs. [Fleet.Layout] completes them.
	Nodes []layout.Node `yaml:"nodes,required"`
	// Objects lists the known Kubernetes objects of nodes.
	Objects     []NodeObject `yaml:"node_objects"`
	Autoscalers []Autoscaler `yaml:"autoscalers"`
	Budgets     []Budget     `yaml:"budgets"`
	Quotas      []Quota      `yaml:"quotas"`
	// PluginConfigs is the ConfigMap (namespace/name) from which nodes choose a configuration of the device plugin; empty
	// if there is none yet.
	PluginConfigs string `yaml:"plugin_configs"`
}

// Object returns the Kubernetes data of a node; the zero NodeObject if none was read.
func (c *Cluster) Object(node string) NodeObject {
	if i := slices.IndexFunc(c.Objects, func(o NodeObject) bool { return o.Name == node }); i >= 0 {
		return c.Objects[i]
	}
	return NodeObject{Name: node}
}

// Autoscaler bounds the number of a workload's replicas, which it sets.
type Autoscaler struct {
	Workload string `yaml:"workload,required"`
	Min      int    `yaml:"min"`
	Max      int    `yaml:"max,required"`
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	Name     string `yaml:"name,required"`
	Workload string `yaml:"workload,required"`
	Allowed  int    `yaml:"allowed,required"` // replicas that may be down at once
}

// Quota limits further requests for a resource in a namespace.
type Quota struct {
	Namespace string `yaml:"namespace,required"`
	Resource  string `yaml:"resource,required"` // nvidia.com/gpu
	Free      int    `yaml:"free,required"`
}

// Scheduling holds the node requirements of a workload's pods, in Kubernetes' terms.
type Scheduling struct {
	NodeSelector map[string]string `yaml:"node_selector"`
	// NodeAffinity has the required terms, at least one of which must match; Preferred has the preferred terms.
	NodeAffinity []NodeTerm      `yaml:"node_affinity"`
	Preferred    []PreferredTerm `yaml:"preferred_node_affinity"`
	Tolerations  []Toleration    `yaml:"tolerations"`
	// CPUMilli and Memory are a pod's requests, all containers together.
	CPUMilli int           `yaml:"cpu_milli"`
	Memory   sharing.Bytes `yaml:"memory"`
	// Resources are its other requests except GPUs, such as ephemeral-storage in bytes.
	Resources map[string]int64 `yaml:"resources"`
}

// NodeTerm matches a node that meets all of its requirements.
type NodeTerm struct {
	Labels []NodeRequirement `yaml:"labels"`
}

// PreferredTerm is a term with its weight.
type PreferredTerm struct {
	Weight int               `yaml:"weight,required"`
	Labels []NodeRequirement `yaml:"labels"`
}

// NodeRequirement is a requirement on a node's label: In, NotIn, Exists, DoesNotExist, Gt or Lt.
type NodeRequirement struct {
	Key      string   `yaml:"key,required"`
	Operator string   `yaml:"operator,required"`
	Values   []string `yaml:"values"`
}

// Toleration allows pods on nodes with matching taints.
type Toleration struct {
	Key      string `yaml:"key"`      // empty with Exists: every taint
	Operator string `yaml:"operator"` // Equal, the default, or Exists
	Value    string `yaml:"value"`
	Effect   string `yaml:"effect"` // empty: every effect
}

// Taint keeps pods that do not tolerate it off a node.
type Taint struct {
	Key    string `yaml:"key,required"`
	Value  string `yaml:"value"`
	Effect string `yaml:"effect,required"` // NoSchedule, NoExecute or PreferNoSchedule
}

// NodeObject is a node as Kubernetes sees it.
type NodeObject struct {
	Name   string            `yaml:"name,required"`
	Labels map[string]string `yaml:"labels"` // those that placement depends on
	Taints []Taint           `yaml:"taints"`
	// Resources are the allocatable resources less the requests of pods without GPUs, as in [Scheduling.Resources].
	Resources map[string]int64 `yaml:"resources"`
	// Others are pods without GPUs on the node, some by name, which move when the node is drained. Keeps is the reason why
	// it must not be drained; empty if it may.
	Others []string `yaml:"other_pods"`
	Keeps  string   `yaml:"keeps"`
}

// Allows reports whether a node's labels and taints allow the pods. An unknown node has neither.
func (s *Scheduling) Allows(o NodeObject) bool {
	if s == nil {
		s = &Scheduling{}
	}
	for key, value := range s.NodeSelector {
		if had, ok := o.Labels[key]; !ok || had != value {
			return false
		}
	}
	fails := func(r NodeRequirement) bool { return !r.holds(o.Labels) }
	if len(s.NodeAffinity) > 0 && !slices.ContainsFunc(s.NodeAffinity, func(t NodeTerm) bool {
		return len(t.Labels) > 0 && !slices.ContainsFunc(t.Labels, fails) // one without any holds nowhere
	}) {
		return false
	}
	return !slices.ContainsFunc(o.Taints, func(t Taint) bool {
		return t.Effect != "PreferNoSchedule" && !slices.ContainsFunc(s.Tolerations, func(l Toleration) bool {
			return (l.Effect == "" || l.Effect == t.Effect) && (l.Key == "" || l.Key == t.Key) &&
				(l.Operator == "Exists" || l.Key != "" && l.Value == t.Value)
		})
	})
}

func (r *NodeRequirement) holds(labels map[string]string) bool {
	value, there := labels[r.Key]
	switch r.Operator {
	case "In":
		return there && slices.Contains(r.Values, value)
	case "NotIn":
		return !there || !slices.Contains(r.Values, value)
	case "Exists":
		return there
	case "DoesNotExist":
		return !there
	case "Gt", "Lt":
		have, err := strconv.ParseInt(value, 10, 64)
		if !there || err != nil || len(r.Values) != 1 {
			return false
		}
		limit, err := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil && (r.Operator == "Gt" && have > limit || r.Operator == "Lt" && have < limit)
	}
	return false
}
