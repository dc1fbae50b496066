// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/cotenant/cotenant/sharing"
)

// Change is one difference between two layouts: a node that is added, removed or reconfigured, or a replica (Key) that
// starts, stops or moves.
type Change struct {
	Node string // the node; for a replica the one on which it starts or to which it moves
	From string // node that a replica leaves
	Key  string // of a replica; empty for a change of the node itself
	// After are a replica's assignments on Node.
	After []Assignment
}

// bare is the node without tenants: an open device has no mode then, and a dynamic one no instances made for tenants.
func (n *Node) bare() *Node {
	out := *n
	out.Assignments, out.Devices = nil, slices.Clone(n.Devices)
	for i := range out.Devices {
		d := &out.Devices[i]
		if d.Open {
			d.Mode = sharing.MechanismNone
		}
		d.Instances = slices.DeleteFunc(slices.Clone(d.Instances), func(in Instance) bool { return in.made })
	}
	out.recount()
	return &out
}

// sameNode reports whether two nodes are alike except for their tenants.
func sameNode(a, b *Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, err := a.bare().MarshalJSON()
	y, err2 := b.bare().MarshalJSON()
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// Diff lists the differences between two layouts: nodes by name, then replicas by key. Use Match first if the layouts
// have different keys.
func Diff(from, to *Cluster) []Change {
	var out []Change
	for n := range to.Nodes() {
		if was := from.Node(n.Name); was != n && !sameNode(was, n) {
			out = append(out, Change{Node: n.Name})
		}
		for key := range n.keys() {
			c := Change{Key: key, Node: n.Name, After: n.Replica(key)}
			if was := from.Find(key); was == n {
				continue
			} else if was != nil {
				if c.From = was.Name; c.From == c.Node && slices.EqualFunc(was.Replica(key), c.After, sameAssignment) {
					continue
				}
			}
			out = append(out, c)
		}
	}
	for n := range from.Nodes() {
		if to.Node(n.Name) == nil {
			out = append(out, Change{Node: n.Name})
		}
		for key := range n.keys() {
			if to.Find(key) == nil {
				out = append(out, Change{Key: key, From: n.Name})
			}
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Node, b.Node), cmp.Compare(a.From, b.From))
	})
	return out
}

func sameAssignment(a, b Assignment) bool {
	x, y := a.Workload, b.Workload
	a.Workload, b.Workload, a.Assumed, b.Assumed = nil, nil, false, false
	return a == b && (x == y || x.Name == y.Name && x.Tenant == y.Tenant && slices.Equal(x.Trusts, y.Trusts) &&
		x.Objective == y.Objective)
}

// Replica returns the assignments of a replica on the node, ordered by device and start.
func (n *Node) Replica(key string) (out []Assignment) {
	for _, a := range n.Assignments {
		if a.Key == key {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, compareAssignments)
	return out
}

func compareAssignments(a, b Assignment) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Key, b.Key))
}
