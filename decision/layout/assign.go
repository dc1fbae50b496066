// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Assign puts a replica on devices of a node: one assignment for each device or instance, all of one key. It checks the
// layout's own data (health, mode, slots, memory, compute, instances, CPU, the rules of the delivery), but neither
// trust nor objectives: package placement checks them. The error is an ErrNodeGone, or an ErrConflict that names the
// obstacle. c does not change.
func (c *Cluster) Assign(node string, assignments ...Assignment) (*Cluster, error) {
	at := c.position(node)
	if at < 0 {
		return nil, fmt.Errorf("%w: %s", ErrNodeGone, node)
	}
	conflict := func(format string, args ...any) (*Cluster, error) {
		return nil, fmt.Errorf("%w: node %s: %s", ErrConflict, node, fmt.Sprintf(format, args...))
	}
	if len(assignments) == 0 {
		return conflict("nothing is to be assigned")
	}
	key := assignments[0].Key
	if key == "" {
		return conflict("a replica needs a key")
	}
	if on := c.Find(key); on != nil {
		return conflict("%s is assigned to node %s already", key, on.Name)
	}
	n := c.At(at).clone()
	if n.Closed != "" {
		return conflict("it takes no replicas: %s", n.Closed)
	}
	for i := range assignments {
		a := assignments[i]
		a.Workload = cmp.Or(a.Workload, nobody)
		if a.Key != key {
			return conflict("%s and %s are two keys", key, a.Key)
		}
		if why := n.add(a); why != "" {
			return conflict("%s: %s", key, why)
		}
	}
	out := c.set(at, n)
	out.keys = out.keys.own()
	out.keys.set(key, int32(at))
	return out, nil
}

// Release removes a replica, and reports whether it was there.
func (c *Cluster) Release(key string) (*Cluster, bool) {
	at := c.keyAt(key, "")
	if at < 0 {
		return c, false
	}
	n := c.At(int(at)).clone()
	n.remove(key)
	n.recount()
	out := c.set(int(at), n)
	out.keys = out.keys.own()
	out.keys.unset(key, at)
	return out, true
}

// clone copies a node for changes.
func (n *Node) clone() *Node {
	out := *n
	out.Devices = slices.Clone(n.Devices)
	out.Assignments = n.Assignments[:len(n.Assignments):len(n.Assignments)]
	return &out
}

// remove takes away the assignments of a key, with the instances that were made for them.
func (n *Node) remove(key string) {
	var gone []Assignment
	kept := make([]Assignment, 0, len(n.Assignments))
	for _, a := range n.Assignments {
		if a.Key == key {
			gone = append(gone, a)
		} else {
			kept = append(kept, a)
		}
	}
	n.Assignments = kept
	for _, a := range gone {
		if a.Device < 0 || a.Profile == nil {
			continue
		}
		d := &n.Devices[a.Device]
		i := d.instance(a.Profile, a.Start)
		if i >= 0 && d.Instances[i].made && !slices.ContainsFunc(kept, func(b Assignment) bool {
			return b.Device == a.Device && b.Profile == a.Profile && b.Start == a.Start
		}) {
			if d.Instances = slices.Delete(slices.Clone(d.Instances), i, i+1); len(d.Instances) == 0 {
				d.Instances = nil
			}
		}
	}
}

// add puts one more assignment on a node that is not shared yet, or returns the reason why the node does not take it,
// as recount finds it. The node must not be used then.
func (n *Node) add(a Assignment) (why string) {
	if a.Device != NoDevice {
		if why = n.refuses(&a); why != "" {
			return why
		}
		n.hold(&a, false)
	}
	n.Assignments = append(n.Assignments, a)
	n.recount()
	switch {
	case n.free.CPUMilli < 0 && a.CPUMilli > 0:
		return fmt.Sprintf("needs %dm CPU, %dm are free", a.CPUMilli, n.free.CPUMilli+int64(a.CPUMilli))
	case n.free.Memory < 0 && a.HostMemory > 0:
		return fmt.Sprintf("needs %v of the host's memory, %v are free", a.HostMemory, n.free.Memory+a.HostMemory)
	case a.Device >= 0 && n.Devices[a.Device].fault != faultNone:
		return fmt.Sprintf("device %d has no room: %s", a.Device, n.Devices[a.Device].faultText())
	}
	return ""
}

// refuses returns the reason why a device does not take an assignment whatever is free of it.
func (n *Node) refuses(a *Assignment) string {
	switch {
	case a.Device < 0 || int(a.Device) >= len(n.Devices):
		return fmt.Sprintf("there is no device %d", a.Device)
	case a.Compute < 0 || a.Memory < 0 || a.CPUMilli < 0 || a.HostMemory < 0:
		return "it asks for less than nothing"
	}
	d := &n.Devices[a.Device]
	where := fmt.Sprintf("device %d", a.Device)
	mode := cmp.Or(a.Mode, d.Mode)
	switch {
	case d.fault != faultNone:
		return where + " takes nobody: " + d.faultText()
	case mode == sharing.MechanismNone:
		return where + " has no mode yet, and the replica names none"
	case d.Mode != sharing.MechanismNone && mode != d.Mode:
		return fmt.Sprintf("%s runs %v, not %v", where, d.Mode, mode)
	case d.Mode == sharing.MechanismNone && !n.Carries(int(a.Device), mode):
		return fmt.Sprintf("%s can't run %v: its hardware, its delivery (%v) or the node's other devices do not allow it",
			where, mode, n.Delivery)
	case slices.ContainsFunc(n.Assignments, func(b Assignment) bool {
		return b.Key == a.Key && b.Device == a.Device && (b.Profile == nil || b.Start == a.Start)
	}):
		return where + " has the replica already"
	case a.Memory > 0 && d.GPU.Memory == 0 && !Sliced(mode):
		return where + " has a memory that is not known"
	case d.Limit > 0 && a.Memory > d.Limit && !Sliced(mode):
		return fmt.Sprintf("%s limits a tenant to %v, and it needs %v", where, d.Limit, a.Memory)
	case a.Profile == nil:
		return ""
	}
	if b, known := a.Profile.Memory.Get(); known && a.Memory+d.GPU.context() > b {
		return fmt.Sprintf("%s has %v on %s, not %v", where, b, a.Profile.Name, a.Memory+d.GPU.context())
	}
	if i := d.instance(a.Profile, a.Start); i >= 0 && d.full>>i&1 != 0 {
		return fmt.Sprintf("%s has no room on %s at %d", where, a.Profile.Name, a.Start)
	}
	return ""
}

// Room returns, as bits, the starts at which a device has, or can create, an instance of a profile for one more tenant.
// It does not allocate.
func (d *Device) Room(p *mig.Profile) (starts uint32) {
	if d.fault != faultNone || d.model() != p.Model() {
		return 0
	}
	for i := range d.Instances {
		in := &d.Instances[i]
		if in.Profile == p && d.full>>i&1 == 0 {
			starts |= 1 << in.Start
		}
	}
	if d.Dynamic {
		slice := d.Occupied()
		for _, at := range p.Placements {
			if _, ok := slice.With(p, at.Start); ok {
				starts |= 1 << at.Start
			}
		}
	}
	return starts
}

// faults are the reasons without figures.
var faults = [...]string{
	faultUnknownGPU: "what it is, is not known",
	faultModes:      "its tenants run under two mechanisms",
	faultInstances:  "its MIG instances do not fit together",
	faultNoMIG:      "it has no MIG, or where its instances may be is not known",
	faultNoInstance: "a tenant is on a MIG instance that is not there",
	faultTenants:    "more tenants than slots are on it",
}

// faultText is the reason why a device takes no tenant whatever is free of it; empty where there is none.
func (d *Device) faultText() string {
	switch d.fault {
	case faultHealth:
		return "it is " + d.Health
	case faultMemory:
		return fmt.Sprintf("%v more of its memory are given away than there is", -d.memory)
	case faultCompute:
		return fmt.Sprintf("%d thousandths more of it are given away than there are", -d.compute)
	}
	return faults[d.fault]
}

// locate finds places for assignments with a device that is not known or not there.
func (n *Node) locate(path string, l *problems) {
	var lost []int
	for i := range n.Assignments {
		a := &n.Assignments[i]
		switch {
		case a.Device == NoDevice:
			a.Profile = nil
		case a.Device == UnknownDevice:
			lost = append(lost, i)
		case a.Device < 0 || int(a.Device) >= len(n.Devices):
			l.add(n, fmt.Sprintf("%s.assignments[%d].device", path, i), "list the device, lost where it is gone", "",
				"%s is assigned to device %d, and the node has %d", a.Key, a.Device, len(n.Devices))
			a.Device = UnknownDevice
			lost = append(lost, i)
		default:
			n.hold(a, true)
		}
	}
	// Sorted by content each time, so that neither their order nor that of the places found matters.
	slices.SortStableFunc(lost, func(i, k int) int { return compareAssignments(n.Assignments[i], n.Assignments[k]) })
	for before := 0; before != len(lost); {
		before = len(lost)
		lost = slices.DeleteFunc(lost, func(i int) bool {
			n.recount()
			best := n.emptiest(&n.Assignments[i])
			if best.Device < 0 {
				return false
			}
			n.hold(&best, true)
			n.Assignments[i] = best
			return true
		})
	}
	for _, i := range lost {
		l.add(n, fmt.Sprintf("%s.assignments[%d]", path, i), "", "", "%s finds no room: the node is overcommitted",
			n.Assignments[i].Key)
	}
}

// hold gives an assignment the mode of an open device, and a dynamic device the instance for it; one that was found
// with its tenant is marked as made for it.
func (n *Node) hold(a *Assignment, found bool) {
	d := &n.Devices[a.Device]
	if d.Open {
		own := sharing.MechanismExclusive
		if a.Profile != nil {
			own = sharing.MechanismMIG
		}
		a.Mode = cmp.Or(a.Mode, d.Mode, own)
	}
	if a.Profile == nil || !d.Dynamic {
		return
	}
	if i := d.instance(a.Profile, a.Start); i < 0 {
		at, _ := slices.BinarySearchFunc(d.Instances, a.Start, func(in Instance, s int8) int {
			return cmp.Compare(in.Start, s)
		})
		d.Instances = slices.Insert(slices.Clip(d.Instances), at, Instance{a.Profile, a.Start, true})
	} else if found {
		d.Instances[i].made = true
	}
}

// emptiest returns an assignment with the device that has most left and takes it.
func (n *Node) emptiest(a *Assignment) Assignment {
	best := *a
	var left Free
	for i := range n.Devices {
		try := *a
		try.Device, try.Assumed, try.CPUMilli, try.HostMemory = int16(i), true, 0, 0
		d := &n.Devices[i]
		if try.Profile != nil {
			starts := d.Room(try.Profile)
			if starts == 0 {
				continue
			}
			try.Start = int8(bits.TrailingZeros32(starts))
		}
		f := d.Free()
		if (best.Device < 0 || f.Compute > left.Compute || f.Compute == left.Compute && f.Memory > left.Memory) &&
			n.clone().add(try) == "" {
			best.Device, best.Start, best.Assumed, left = try.Device, try.Start, true, f
		}
	}
	return best
}
