// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// ChangeKind is the kind of a change.
type ChangeKind uint8

// The kinds of changes, in the order in which Diff lists them.
const (
	ChangeAddNode         ChangeKind = iota + 1
	ChangeRemoveNode                 // with its assignments
	ChangeConfigureNode              // something of the node itself, or its number of devices
	ChangeConfigureDevice            // mode, slots, limit, instances or health
	ChangeStart                      // a replica comes
	ChangeStop                       // a replica goes
	ChangeMove                       // a replica is elsewhere
)

var changeNames = enum.Of[ChangeKind](errUnknownName, "change", "", "add-node", "remove-node", "configure-node",
	"configure-device", "start", "stop", "move")

// Change is one thing that differs between two layouts.
type Change struct {
	Kind   ChangeKind
	Node   string // of the change; where a replica goes, comes or stays
	From   string // node that a replica leaves, of ChangeMove and ChangeStop
	Device int    // of ChangeConfigureDevice
	Key    string // of a replica
	// Old and New are the node without assignments; nil where there is none.
	Old, New *Node
	// Before and After are a replica's assignments.
	Before, After []Assignment
}

// String writes the change on a line: "configure-device node-1 2: mps with 4 slots, was exclusive".
func (c Change) String() string {
	switch c.Kind {
	case ChangeConfigureDevice:
		return fmt.Sprintf("%v %s %d: %s, was %s", c.Kind, c.Node, c.Device, c.New.Devices[c.Device].config(),
			c.Old.Devices[c.Device].config())
	case ChangeStart:
		return fmt.Sprintf("%v %s on %s", c.Kind, c.Key, c.Node)
	case ChangeStop:
		return fmt.Sprintf("%v %s on %s", c.Kind, c.Key, c.From)
	case ChangeMove:
		return fmt.Sprintf("%v %s from %s to %s", c.Kind, c.Key, c.From, c.Node)
	}
	return fmt.Sprintf("%v %s", c.Kind, c.Node)
}

// config returns a device's configuration in words: "mps with 4 slots of 19.9GiB", "mig 3g.40gb@0,3g.40gb@4".
func (d *Device) config() string {
	var b strings.Builder
	b.WriteString(d.Mode.String())
	for i, in := range d.Instances {
		sep := ","
		if i == 0 {
			sep = " "
		}
		fmt.Fprintf(&b, "%s%s@%d", sep, in.Profile.Name, in.Start)
	}
	if d.Slots > 1 {
		fmt.Fprintf(&b, " with %d slots", d.Slots)
	}
	if d.Limit > 0 {
		fmt.Fprintf(&b, " of %v", d.Limit)
	}
	return b.String()
}

// bare is the device without its tenants: an open one has no mode then, a dynamic one no instances of theirs.
func (d *Device) bare() Device {
	out := *d
	if out.Open {
		out.Mode = sharing.MechanismNone
	}
	out.Instances = slices.DeleteFunc(slices.Clone(d.Instances), func(in Instance) bool { return in.made })
	return out
}

// sameConfig reports whether two devices are set alike.
func sameConfig(a, b *Device) bool {
	x, y := a.bare(), b.bare()
	if !slices.Equal(x.Instances, y.Instances) || !sameGPU(x.GPU, y.GPU) {
		return false
	}
	x.Instances, y.Instances, x.GPU, y.GPU = nil, nil, nil, nil
	return x.UUID == y.UUID && x.Mode == y.Mode && x.Open == y.Open && x.Slots == y.Slots && x.Limit == y.Limit &&
		x.Dynamic == y.Dynamic && x.Health == y.Health && x.Link == y.Link && x.NUMA == y.NUMA
}

func sameGPU(a, b *GPU) bool { return a == b || a != nil && b != nil && *a == *b }

// bare is the node without its assignments.
func (n *Node) bare() *Node {
	out := *n
	out.Assignments, out.Devices = nil, make([]Device, len(n.Devices))
	for i := range out.Devices {
		out.Devices[i] = n.Devices[i].bare()
	}
	out.recount()
	return &out
}

// sameNode reports whether two nodes are alike except for the modes of devices and the assignments.
func sameNode(a, b *Node) bool {
	return a.Pool == b.Pool && a.Delivery == b.Delivery && a.MIGStrategy == b.MIGStrategy &&
		a.Consumable == b.Consumable && a.Spot == b.Spot && a.Closed == b.Closed && a.CPUMilli == b.CPUMilli &&
		a.Memory == b.Memory && len(a.Devices) == len(b.Devices)
}

// Diff lists the differences between two layouts: nodes by name, devices by their index, replicas by their keys. The
// order is that of kinds, then of names. Use Match first where the keys of one layout are not those of the other.
func Diff(from, to *Cluster) []Change {
	var out []Change
	for n := range to.Nodes() {
		was := from.Node(n.Name)
		if was == nil {
			out = append(out, Change{Kind: ChangeAddNode, Node: n.Name, New: n.bare()})
			continue
		}
		if was == n {
			continue
		}
		if !sameNode(was, n) {
			out = append(out, Change{Kind: ChangeConfigureNode, Node: n.Name, Old: was.bare(), New: n.bare()})
			if len(was.Devices) != len(n.Devices) {
				continue
			}
		}
		for i := range n.Devices {
			if !sameConfig(&was.Devices[i], &n.Devices[i]) {
				out = append(out, Change{Kind: ChangeConfigureDevice, Node: n.Name, Device: i, Old: was.bare(), New: n.bare()})
			}
		}
	}
	for n := range from.Nodes() {
		gone := to.Node(n.Name)
		if gone == nil {
			out = append(out, Change{Kind: ChangeRemoveNode, Node: n.Name, Old: n.bare()})
		}
		if gone == n {
			continue
		}
		for key := range n.keys() {
			if to.Find(key) == nil {
				out = append(out, Change{Kind: ChangeStop, Key: key, From: n.Name, Before: n.Replica(key)})
			}
		}
	}
	for n := range to.Nodes() {
		for key := range n.keys() {
			c := Change{Kind: ChangeStart, Key: key, Node: n.Name, After: n.Replica(key)}
			if was := from.Find(key); was != nil {
				if was == n {
					continue
				}
				c.Kind, c.From, c.Before = ChangeMove, was.Name, was.Replica(key)
				if was.Name == n.Name && slices.EqualFunc(c.Before, c.After, sameAssignment) {
					continue
				}
			}
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Device, b.Device),
			cmp.Compare(a.Key, b.Key), cmp.Compare(a.From, b.From))
	})
	return out
}

func sameAssignment(a, b Assignment) bool {
	x, y := a.Workload, b.Workload
	a.Workload, b.Workload, a.Assumed, b.Assumed = nil, nil, false, false
	return a == b && (x == y || x.Name == y.Name && x.Tenant == y.Tenant && slices.Equal(x.Trusts, y.Trusts) &&
		x.Objective == y.Objective)
}

// Replica returns the assignments of a replica on the node, by device and start.
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
