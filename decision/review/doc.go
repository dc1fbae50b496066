// SPDX-License-Identifier: Apache-2.0

// Package review answers an operator's first questions about a cluster: its workloads and their cost, its idle GPUs,
// the smallest change that frees most, and a checklist of the obstacles to further savings, each with the cost of the
// GPUs that it concerns and the key or command that resolves it.
//
//	c := discover.New(discover.Options{})
//	err := c.ReadFile("cluster.json", nil) // kubectl get ... -o json
//	r, err := review.Make(ctx, c.Discover(), decision.Options{})
//	err = r.WriteText(os.Stdout, 100, false)
//
// A workload of which not enough is known is planned as one that needs all that it was given: it may move to another
// device of the same kind, and shares none that it does not share today. It stays open, on the checklist, unless its
// devices are measured to be too busy for others.
//
// Nothing here talks to a cluster. Experimental: its API may change.
package review
