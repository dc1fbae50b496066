// SPDX-License-Identifier: Apache-2.0

// Package manifest writes the configuration that carries a decision out: the device plugin's and the GPU Operator's
// documents, mig-parted's, DRA claims, each workload's own request with its environment and its framework's memory
// fraction, and what belongs to no mechanism's package (HAMi, Volcano, KAI), with a one-page plan for the rollout.
//
// [Build] takes a fleet and what package decision decided for it, and gives a [Folder] of documents in memory;
// [Folder.Write] puts it on disk, all or none. The same decision gives the same bytes. Every document is checked by
// the rules of the program that will read it before it is returned; what is legal there and does not do what it
// looks like comes back as a [sharing.Warning] with its source.
//
// [ParseConfig] reads the documents by which the device plugin shares GPUs, and says what they do otherwise than they
// look.
//
// A service with objectives that comes to share a GPU gets a canary: a plan for cotenant canary, an AnalysisTemplate of
// Argo Rollouts, and the analysis of a Flagger Canary.
//
// A service of a language model with several replicas gets a router: the pool of the Gateway API inference extension
// and values of llm-d's chart.
//
// Files are written from [decision.Result.Layout] and nothing else: nodes that are configured alike are a [Group],
// with one node label, one device-plugin configuration and one MIG layout, and a layout that breaks the rules of its
// delivery is refused. A workload's document is of the kind of object that was read from the cluster, or that suits
// it. MPS limits hold for each client process, not for each container.
//
// The package neither talks to a cluster nor decides anything. It is experimental.
package manifest
