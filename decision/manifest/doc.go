// SPDX-License-Identifier: Apache-2.0

// Package manifest writes the configuration that implements a decision: documents of the device plugin, the GPU
// Operator and mig-parted, DRA claims, each workload's request with its environment and its framework's memory
// fraction, values for HAMi and Volcano, and plan.md, which describes the rollout and should be read first.
//
// [Build] takes a fleet and the result of [decision.Decide] for it, and returns a [Folder] of documents in memory;
// [Folder.Write] writes it to disk, all or nothing. [Migration] does the same for the steps of a plan of package
// migrate. Legal settings with an unexpected effect are returned as a [sharing.Warning].
//
// Files are written from [decision.Result.Layout]: nodes with the same configuration form a [Group], with one node
// label, one device-plugin configuration and one MIG layout. A layout that breaks the rules of its delivery is refused.
// A workload's document has the kind of object that was read from the cluster, or a suitable one.
//
// An online language model with several replicas gets a router: the InferencePool of the Gateway API inference
// extension with the configuration of llm-d's endpoint picker, and values of llm-d's chart.
//
// A service with objectives that will newly share a GPU gets a canary: a plan for cotenant canary, an AnalysisTemplate
// of Argo Rollouts, and the analysis of a Flagger Canary.
//
// The package neither accesses a cluster nor makes decisions. It is experimental: its API may change.
package manifest
