package fleet

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Cluster is the state of a cluster: its GPU nodes, and what bounds a change of what runs on them. Who runs where
// stands with each workload, in its today.
type Cluster struct {
	Nodes       []Node       `yaml:"nodes,required"`
	Autoscalers []Autoscaler `yaml:"autoscalers"`
	Budgets     []Budget     `yaml:"budgets"`
	Quotas      []Quota      `yaml:"quotas"`
	// PluginConfigs is the ConfigMap (namespace/name) from which nodes choose a configuration of the device plugin;
	// empty where there is none yet.
	PluginConfigs string `yaml:"plugin_configs"`
}

// Node is a node with GPUs and the way in which it hands them out.
type Node struct {
	Name      string            `yaml:"name,required"`
	Pool      string            `yaml:"pool,required"`
	GPUs      int               `yaml:"gpus,required"`
	Mechanism sharing.Mechanism `yaml:"mechanism"`                // of the GPUs outside MIG mode; none = exclusive
	Replicas  int               `yaml:"replicas_per_gpu,nonzero"` // pods to one of them; 0 = 1
	InMIG     int               `yaml:"gpus_in_mig,nonzero"`
	Instances map[string]int    `yaml:"instances"` // MIG instances by profile
	// Config and MIGConfig are the labels nvidia.com/device-plugin.config and nvidia.com/mig.config.
	Config    string `yaml:"config"`
	MIGConfig string `yaml:"mig_config"`
	Closed    string `yaml:"closed"` // why it takes no new pods, such as "cordoned"
}

// Autoscaler bounds the replicas of a workload, whose number it sets.
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

// Quota limits what a namespace may still ask for of a resource.
type Quota struct {
	Namespace string `yaml:"namespace,required"`
	Resource  string `yaml:"resource,required"` // nvidia.com/gpu
	Free      int    `yaml:"free,required"`
}

// Place is a node on which replicas of a workload run.
type Place struct {
	Node     string `yaml:"node,required" json:"node"`
	Replicas int    `yaml:"replicas,required" json:"replicas"`
}

// today checks the state of the cluster against the pools and workloads.
func (c *checker) today(f *Fleet, pools map[string]*Pool) {
	nodes, workloads, gpus := map[string]bool{}, map[string]bool{}, map[string]int{}
	for i := range f.Today.Nodes {
		n, path := &f.Today.Nodes[i], fmt.Sprintf("today.nodes[%d]", i)
		c.If(nodes[n.Name] || n.Name == "", path+".name", "name each node once", "%q is empty or stands twice",
			problem.Clip(n.Name))
		if pools[n.Pool] == nil {
			c.noPool(path+".pool", n.Pool, f.Pools)
		}
		c.within(path+".gpus", n.GPUs, 1, 1024)
		c.within(path+".gpus_in_mig", n.InMIG, 0, max(n.GPUs, 0))
		c.within(path+".replicas_per_gpu", n.Replicas, 0, 10_000)
		nodes[n.Name] = true
		gpus[n.Pool] += n.GPUs
	}
	for i := range f.Pools {
		p := &f.Pools[i]
		c.If(gpus[p.Name] > p.Count, fmt.Sprintf("pools[%d].count", i), "count the GPUs of today.nodes",
			"%d is less than the %d of its nodes", p.Count, gpus[p.Name])
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		workloads[w.Name] = true
		if w.Today == nil {
			continue
		}
		for k, on := range w.Today.On {
			c.If(!nodes[on.Node], fmt.Sprintf("workloads[%d].today.places[%d].node", i, k), "name one of today.nodes",
				"there is no node %q", problem.Clip(on.Node))
		}
	}
	known := func(path, name string) {
		c.If(!workloads[name], path+".workload", "name one of the workloads", "there is no workload %q", problem.Clip(name))
	}
	for i, a := range f.Today.Autoscalers {
		path := fmt.Sprintf("today.autoscalers[%d]", i)
		known(path, a.Workload)
		c.If(a.Min < 0 || a.Max < max(1, a.Min), path, "min is at most max", "%d to %d make no range", a.Min, a.Max)
	}
	for i, b := range f.Today.Budgets {
		known(fmt.Sprintf("today.budgets[%d]", i), b.Workload)
	}
}
