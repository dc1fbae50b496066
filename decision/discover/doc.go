// SPDX-License-Identifier: Apache-2.0

// Package discover makes the fleet that package decision decides from the objects of a Kubernetes cluster, or from the
// driver of a machine.
//
// A [Collector] takes files as they are: Kubernetes objects as `kubectl get ... -o json` writes them, the output of
// nvidia-smi -q -x (or NVML's, [Collector.AddInventory]), and usage over time. It finds each file's kind from its
// content and joins them by node, GPU UUID and pod. [Collector.Discover] gives a [Discovery]: the fleet, the source of
// every field of it, how GPUs are shared today, contradictions, and unknown fields. Nothing unknown becomes a number: a
// field without a source is left out.
//
// Kinds of workloads are guessed by names of images, commands, labels and owners, and [Hints] override them. [Prices]
// come from the user.
//
// Secrets and environment variables are never read, and of labels, annotations and arguments only those about GPUs and
// scheduling are kept. Kubernetes objects are read one at a time, so that memory grows with the pods that use GPUs and
// not with the file. A Collector is not safe for concurrent use.
//
// UPSTREAM.md lists the formats of other projects that are read, with their versions. The package is experimental.
package discover
