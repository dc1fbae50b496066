// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"github.com/cotenant/cotenant/decision/layout"
)

// Cluster is the state of a cluster: its GPU nodes with their tenants, and the bounds of a change of that.
type Cluster struct {
	// Nodes are the GPU nodes, how each hands out its GPUs, and the replicas that have them. [Fleet.Layout] completes
	// them.
	Nodes []layout.Node `yaml:"nodes,required"`
	// Objects lists the Kubernetes objects of nodes, as far as they are known.
	Objects     []NodeObject `yaml:"node_objects"`
	Autoscalers []Autoscaler `yaml:"autoscalers"`
	Budgets     []Budget     `yaml:"budgets"`
	Quotas      []Quota      `yaml:"quotas"`
	// PluginConfigs is the ConfigMap (namespace/name) from which nodes choose a configuration of the device plugin;
	// empty where there is none yet.
	PluginConfigs string `yaml:"plugin_configs"`
}

// Object returns the Kubernetes data of a node; the zero one where nothing was read.
func (c *Cluster) Object(node string) NodeObject {
	if i := slices.IndexFunc(c.Objects, func(o NodeObject) bool { return o.Name == node }); i >= 0 {
		return c.Objects[i]
	}
	return NodeObject{Name: node}
}

// Autoscaler bounds the replicas of a workload; it sets their number.
type Autoscaler struct {
	Workload string `yaml:"workload,required"`
	Min      int    `yaml:"min"`
	Max      int    `yaml:"max,required"`
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	Name     string `yaml:"name,required"`
	Workload string `yaml:"workload,required"`
	Allowed  int    `yaml:"allowed,required"` // replicas that may be missing at once
}

// Quota limits the further requests of a namespace for a resource.
type Quota struct {
	Namespace string `yaml:"namespace,required"`
	Resource  string `yaml:"resource,required"` // nvidia.com/gpu
	Free      int    `yaml:"free,required"`
}
