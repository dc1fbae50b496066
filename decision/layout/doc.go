// SPDX-License-Identifier: Apache-2.0

// Package layout holds a placement: nodes, their devices and MIG instances, and the replicas of workloads that hold
// them. The planner makes a layout, discovery reads one, manifests are written from one, a migration is the difference
// between two, and a scheduler adds replicas to one.
//
// A [Cluster] is immutable: [Cluster.Assign], [Cluster.Release], [Cluster.WithNode] and [Cluster.WithoutNode] return a
// new one that shares all nodes except the changed one. [Observe] refuses no node: a device that is over-full, lost,
// unhealthy or contradictory takes no more tenants, and is reported as a [Problem]. [Err] turns problems into one
// error, and [Cluster.Check] finds those of a planned layout.
//
//	cluster, problems := layout.Observe(nodes)
//	replica := layout.Assignment{Key: "ml/bert-0", Workload: bert, Device: 2, Memory: need}
//	cluster, err := cluster.Assign("node-1", replica)
//	for n := range cluster.Nodes() { fmt.Println(n.Name, n.Devices[0].Free()) }
//	data, err := json.Marshal(cluster) // json.Unmarshal reads it into a Cluster
//
// A replica has a key that is unique in the cluster, such as namespace and name of a pod, and an [Assignment] for each
// of its devices or instances, on one node. A device with [Device.Mode] None is open: it takes the mode of its first
// tenant. On a dynamic device MIG instances are created for the tenants that need them.
//
// A delivery restricts a node: for example, the device plugin shares all full GPUs by one mode with one number of
// slots, while DRA, HAMi and KAI share each device separately. [RulesOf] returns the restrictions that a planner needs,
// [Node.Check] checks all of them, with sources, and [Rules.Configure] configures a device as its delivery would.
//
// [Cluster.Cost] is the cost of the nodes in use, each as a whole; [Cluster.Findings] lists unused capacity that is
// paid for. [Diff] lists the changes between two layouts; [Match] first gives the replicas of a planned layout the keys
// of running ones. It is stable: its API, and the keys of its JSON, change incompatibly only with a new major version.
package layout
