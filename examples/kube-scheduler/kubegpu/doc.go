// SPDX-License-Identifier: Apache-2.0

// Package kubegpu converts Kubernetes objects about GPUs into the terms of Cotenant's placement, and back.
//
// [ReadNode] reads a node as the NVIDIA device plugin, GPU Feature Discovery and HAMi write it, [ReadPod] a pod's
// requests, [NewState] puts the running pods on a node, and [State.Plan] returns whether and how the node takes a
// pod. An [Allocation] is the answer, and is kept in the pod's annotations, from which a scheduler that starts
// afresh rebuilds its state.
//
// The package imports API types only, no scheduler: any controller may embed it.
// Everything in it is deterministic, safe for concurrent use and free of I/O.
package kubegpu
