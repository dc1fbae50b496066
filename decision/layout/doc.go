// SPDX-License-Identifier: Apache-2.0

// Package layout holds a placement: nodes, their devices, the MIG instances on these, and the replicas of workloads
// that hold them. The planner makes a layout, discovery reads one, manifests are written from one, a migration is the
// difference of two, and a scheduler adds one replica after another to one.
//
// A [Cluster] is immutable: [Cluster.Assign], [Cluster.Release], [Cluster.WithNode] and [Cluster.WithoutNode] return
// another one that shares all but the node that changed. [Observe] refuses no node: a device that is over-full, lost,
// unhealthy or contradicts itself takes no more tenants, and is reported as a [Problem]. [Err] makes one error of all
// problems, and [Cluster.Check] reports those of a layout that was made here.
//
//	cluster, problems := layout.Observe(nodes)
//	replica := layout.Assignment{Key: "ml/bert-0", Workload: bert, Device: 2, Memory: need}
//	cluster, err := cluster.Assign("node-1", replica)
//	for n := range cluster.Nodes() { fmt.Println(n.Name, n.Devices[0].Free()) }
//	data, err := json.Marshal(cluster) // json.Unmarshal reads it into a Cluster
//
// A replica has a key that is unique in the cluster, such as namespace and name of a pod, and an [Assignment] for each
// of its devices or instances, on one node. A device whose [Device.Mode] is None is open: it has the mode of its
// tenants. A dynamic device gets its MIG instances with the tenants that need them.
//
// A delivery limits a node: the device plugin shares all full GPUs by one mode with one number of slots, DRA, HAMi or
// KAI device by device, and so on. [RulesOf] gives the limits that a planner needs, [Node.Check] checks all of them,
// with sources, and [Rules.Configure] sets a device as its delivery would.
//
// [Cluster.Cost] is the cost of the nodes in use, as whole nodes; [Cluster.Findings] lists unused capacity that is paid
// for. [Diff] lists the changes between two layouts; [Match] first gives the replicas of a planned layout the keys of
// those that run.
// It is stable: its API, and the keys of its JSON, change incompatibly only with a new major version.
package layout
