// SPDX-License-Identifier: Apache-2.0

// Package layout holds a placement: nodes, their devices, the MIG instances on these, and the replicas of workloads
// that hold them. The planner makes a layout, discovery reads one, manifests are written from one, a migration is the
// difference of two, and a scheduler adds one replica after another to one.
//
// # Reading and changing a layout
//
// A [Cluster] is immutable: [Cluster.Assign], [Cluster.Release], [Cluster.WithNode] and [Cluster.WithoutNode] return
// another one that shares everything but the node that changed, so keeping an old one costs next to nothing.
// [Observe] takes nodes as they are found and refuses none. A device that is over-full, lost, unhealthy or contradicts
// itself stays as it is, takes no more tenants, and is reported as a [Problem]; [Err] makes one error of all problems,
// for callers that want an input without any, and [Cluster.Check] reports them for a layout that was made here.
//
//	cluster, problems := layout.Observe(nodes)
//	replica := layout.Assignment{Key: "ml/bert-0", Workload: bert, Device: 2, Memory: need}
//	cluster, err := cluster.Assign("node-1", replica)
//	for n := range cluster.Nodes() { fmt.Println(n.Name, n.Devices[0].Free()) }
//	data, err := json.Marshal(cluster) // json.Unmarshal reads it into a Cluster
//
// A replica has a key that is unique in the cluster, such as namespace and name of a pod. A replica on several devices
// or instances has one [Assignment] for each, all under its key and on one node. A device whose [Device.Mode] is None
// is open: it takes the mode of its first tenant and is free of it when the last one leaves. A dynamic device gets its
// MIG instances with the tenants that need them; one that is not has those that are listed and no others.
//
// # Limits of a delivery
//
// [RulesOf] lists the limits of a node by its delivery, each rule with its source: under the device plugin one
// sharing mode and one number of slots for all full GPUs, under DRA, HAMi or KAI device by device, and so on.
// [Node.Check] checks a node against them. [Rules.Configure] sets a device as its delivery would, with the memory limit
// that follows from the slots. A planner that makes devices by Configure and nodes that pass Check plans nothing that
// cannot be delivered.
//
// # Money and differences
//
// [Cluster.Cost] is the cost of the nodes in use, as whole nodes, with reserved and spot prices;
// [Cluster.Findings] lists unused capacity that is paid for. [Diff] lists the changes between two layouts, by the
// keys of replicas; [Match] first gives the replicas of a planned layout the keys of those that run, as many as can
// stay where they are.
//
// It is stable: its API changes incompatibly only with a new major version. So do the keys of
// its JSON.
package layout
