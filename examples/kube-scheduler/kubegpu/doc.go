// Package kubegpu turns what Kubernetes knows of GPUs into what Cotenant's placement decides on, and back.
//
// [ReadNode] reads a node as the NVIDIA device plugin, GPU Feature Discovery and HAMi write it, [ReadPod] what a
// pod asks for, [NewState] puts what runs on a node on it, and [State.Plan] says whether and how the node takes a
// pod. An [Allocation] is the answer, and is kept in the pod's annotations, from which a scheduler that starts
// afresh rebuilds its state.
//
// The package imports API types only, no scheduler: any controller may embed it.
// Everything in it is deterministic, safe for concurrent use and free of I/O.
package kubegpu
