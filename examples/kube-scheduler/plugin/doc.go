// SPDX-License-Identifier: Apache-2.0

// Package plugin is a Kubernetes scheduler plugin that decides which workloads share a GPU: it filters nodes with
// Cotenant's verdicts, scores them by one of its policies, reserves GPUs in memory and writes into each pod's
// annotations and events where it was placed and why.
//
// The present tenants of a node are read from the scheduler's own view of it and the pods' annotations, so a scheduler
// that starts afresh knows the decisions of the last one. The conversions are package kubegpu's; nothing here decides.
package plugin
