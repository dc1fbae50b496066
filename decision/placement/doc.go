// SPDX-License-Identifier: Apache-2.0

// Package placement places one request after another on a layout of nodes with shared GPUs. It is the part of Cotenant
// for embedding in schedulers.
//
//	scorer := placement.NewScorer(placement.BestFit, nil)
//	placer := placement.NewPlacer(scorer)
//	offer, ok := placer.Best(cluster, request) // the best by scorer.Filter and scorer.Score
//	cluster, placed, err := scorer.Assign(cluster, request, offer)
//
// A [Scorer] works node by node: [Scorer.Filter] answers whether a node takes a request, with a reason of
// decision/filter, and [Scorer.Score] makes the best [Offer] of a node under a [Policy]. [Scorer.Assign] applies an
// offer to a layout that may be newer than the offer: it checks everything again, including objectives. A [Placer]
// combines these for a request: an index selects candidates, the scorer filters and scores them, and the best is
// assigned.
//
// [Scorer.Explain] returns each node's reason to refuse, the replicas in the way and the remedy, [Placer.Group] places
// all requests or none, and [Placer.Consolidate] finds a few moves that make room for a request.
//
// A request without a mechanism gets whole GPUs, or the MIG instance that it names, and is never co-located on a shared
// GPU. Memory and compute of a GPU are independent: a request takes the stated amount of each.
//
// Use the policy of [NewCotenant] if the typical requests are known; [BestFit] needs no such data. A [Forecaster]
// lowers scores by the work that neighbours are predicted to lose. [NewModels] predicts workloads that were measured in
// isolation; for others predictions are unknown, not zero.
//
// Everything is deterministic: equal layouts, requests and policies give equal placements. Layouts, policies and
// scorers are safe for concurrent use, a Placer is not. The package does no I/O and needs no GPU. It is stable: its API
// changes incompatibly only with a new major version.
package placement
