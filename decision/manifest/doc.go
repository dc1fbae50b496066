// SPDX-License-Identifier: Apache-2.0

// Package manifest writes the configuration that carries a decision out: documents of the device plugin, the GPU
// Operator and mig-parted, DRA claims, each workload's request with its environment and its framework's memory
// fraction, values for HAMi and Volcano, and plan.md, which describes the rollout and is to be read first.
//
// [Build] takes a fleet and the result of [decision.Decide] for it, and returns a [Folder] of documents in memory;
// [Folder.Write] puts it on disk, all or none. [Migration] does the same for the steps of a plan of package migrate.
// Settings that are legal and have another effect than they seem to are returned as a [sharing.Warning].
//
// Files are written from [decision.Result.Layout]: nodes that are configured alike are a [Group], with one node label,
// one device-plugin configuration and one MIG layout. A layout that breaks the rules of its delivery is refused. A
// workload's document is of the kind of object that was read from the cluster, or that suits it.
//
// An online language model with several replicas gets a router: the InferencePool of the Gateway API inference
// extension with the configuration of llm-d's endpoint picker, and values of llm-d's chart.
//
// A service with objectives that comes to share a GPU gets a canary: a plan for cotenant canary, an AnalysisTemplate of
// Argo Rollouts, and the analysis of a Flagger Canary.
//
// The package neither talks to a cluster nor decides anything. It is experimental.
package manifest
