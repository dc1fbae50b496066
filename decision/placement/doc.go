// Package placement places one request after another on nodes whose GPUs are
// already shared. It is the part of Cotenant that other schedulers embed.
//
// A [Snapshot] is the immutable state of a cluster; reserving and releasing return a new one that shares everything
// but one node. [Snapshot.Fit] filters with a reason of decision/gate, a [Scorer] scores a node under a [Policy],
// and a [Placer] does all of it for a request: it picks some nodes by what is left of all, filters and scores these,
// chooses and reserves.
//
// Policies: [BestFit], [Spread], [Random], [Fragmentation] (FGD), [Cotenant] (the one to use) and [Interference],
// which adds the work that neighbours are predicted to lose to any of them. The typical requests that Fragmentation
// and Cotenant look ahead with come as a [Mix]; predictions come from [Models] where workloads were measured alone,
// and are unknown, not zero, elsewhere.
//
// Everything is deterministic: equal snapshots, requests and policies give equal placements, whatever else runs at
// the same time. Snapshots, policies and scorers are safe for concurrent use, a Placer is not. Nothing here does
// I/O or needs a GPU.
//
// The package is experimental: its API may change between minor versions.
package placement
