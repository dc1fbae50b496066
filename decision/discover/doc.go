// SPDX-License-Identifier: Apache-2.0

// Package discover makes a fleet for package decision from the objects of a Kubernetes cluster, or from the driver of a
// machine.
//
// A [Collector] reads files as they are: Kubernetes objects written by `kubectl get ... -o json`, the output of
// nvidia-smi -q -x (or NVML's, [Collector.AddInventory]), and usage over time. It detects each file's kind by its
// content and joins them by node, GPU UUID and pod. [Collector.Discover] returns a [Discovery]: the fleet, the source
// of each of its fields, the present sharing of GPUs, contradictions, and unknown fields. A field without a source is
// left out.
//
// Kinds of workloads are guessed from images, commands, labels and owners, and [Hints] override them. [Prices] come
// from the user.
//
// Secrets and environment variables are never read; only labels, annotations and arguments about GPUs and scheduling
// are kept. Kubernetes objects are read one at a time, so that memory grows with the pods on GPUs and not with the
// file. A Collector is not safe for concurrent use.
//
// UPSTREAM.md lists the supported formats of other projects, with their versions. The package is experimental.
package discover
