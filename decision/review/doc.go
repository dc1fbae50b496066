// SPDX-License-Identifier: Apache-2.0

// Package review answers an operator's first questions about a cluster: its workloads and their cost, its idle GPUs,
// the smallest change that saves most, and a checklist of the obstacles to further savings, each with the cost of the
// GPUs concerned and the key or command that removes it.
//
//	c := discover.New(discover.Options{})
//	err := c.ReadFile("cluster.json", nil) // kubectl get ... -o json
//	r, err := review.Make(ctx, c.Discover(), decision.Options{})
//	err = r.WriteText(os.Stdout, 100, false)
//
// A workload with too few figures is planned as needing everything that it has: it may move to another device of the
// same kind, but shares none that it does not share today. It remains open, on the checklist, unless its devices are
// measured to be too busy for others.
//
// The package does not access a cluster. Experimental: its API may change.
package review
