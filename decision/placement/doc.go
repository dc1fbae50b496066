// SPDX-License-Identifier: Apache-2.0

// Package placement places one request after another on a layout: nodes whose GPUs are already shared. It is the part
// of Cotenant that other schedulers embed.
//
//	scorer := placement.NewScorer(placement.BestFit, nil)
//	placer := placement.NewPlacer(scorer)
//	offer, ok := placer.Best(cluster, request) // the best by scorer.Filter and scorer.Score
//	cluster, placed, err := scorer.Assign(cluster, request, offer)
//
// A [Scorer] works node by node: [Scorer.Filter] answers whether one takes a request, with a reason of decision/filter,
// and [Scorer.Score] makes the best [Offer] of a node under a [Policy]. [Scorer.Assign] carries an offer out on a
// layout that may be newer than the one it was made on: it checks everything again, objectives too. A [Placer] does all
// of it for a request: an index picks candidate nodes, the scorer filters and scores these, and the best is assigned.
//
// [Scorer.Explain] gives each node's reason to refuse, the replicas in the way and the remedy, [Placer.Group] places
// requests all or none, and [Placer.Consolidate] finds a few moves that let a request in.
//
// A request that states no mechanism gets whole GPUs, or the MIG instance that it names, and is never co-located
// on a shared GPU. Memory and compute of a GPU are separate: a request takes the amounts that it states.
//
// Policies: [NewCotenant] makes the one to use where the typical requests are known; [BestFit] needs nothing. With a
// [Forecaster], scores of either are lower by the work that neighbours are predicted to lose. Predictions come from
// [NewModels] for workloads with a solo measurement, and are unknown, not zero, elsewhere.
//
// Everything is deterministic: equal layouts, requests and policies give equal placements, whatever else runs at the
// same time. Layouts, policies and scorers are safe for concurrent use, a Placer is not. Nothing here does I/O or
// needs a GPU. It is stable: its API changes incompatibly only with a new major version.
package placement
