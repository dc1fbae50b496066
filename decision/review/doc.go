// Package review answers an operator's first questions about a cluster: what runs and what it costs, what is idle, the
// smallest change that frees most, and what stands in the way of more, each item with the money that hangs on it and
// the key or command that settles it.
//
//	c := discover.New(discover.Options{})
//	err := c.ReadFile("cluster.json", nil) // kubectl get ... -o json
//	r, err := review.Make(ctx, c.Discover(), decision.Options{})
//	err = r.WriteText(os.Stdout, review.TextOptions{})
//
// A workload of which not enough is known is planned as one that needs all that it was given: it may move to another
// device of the same kind, and shares none that it does not share today. It stays open, on the checklist, unless what
// was measured of its devices leaves no room for others.
//
// Nothing here talks to a cluster. Experimental: its API may change.
package review
