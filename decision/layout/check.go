// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"fmt"

	"github.com/cotenant/cotenant/sharing"
)

// Check returns every contradiction of the node, and everything that its delivery cannot provide, with path, remedy and
// source. In addition to the problems of Observe it reports tenants without mutual trust that the delivery may put on
// one device.
func (n *Node) Check() []Problem {
	var l problems
	n.check("", &l)
	n.checkTrust("", &l)
	return l
}

// Check returns the problems of all nodes; see [Node.Check].
func (c *Cluster) Check() []Problem {
	var l problems
	for n := range c.Nodes() {
		path := fmt.Sprintf("nodes[%s]", n.Name)
		n.check(path, &l)
		n.checkTrust(path+".", &l)
		for key := range n.keys() {
			c.checkKey(key, n, path, &l)
		}
	}
	return l
}

func (n *Node) check(path string, l *problems) {
	if path != "" {
		path += "."
	}
	if n.Name == "" {
		l.add(n, path+"name", "name the node", "", "is empty")
	}
	if n.CPUMilli < 0 || n.Memory < 0 {
		l.add(n, path+"cpu_milli", "", "", "a node has no %dm of CPU and %v of memory", n.CPUMilli, n.Memory)
	} else if n.free.CPUMilli < 0 || n.free.Memory < 0 {
		l.add(n, path+"assignments", "", "", "take %dm of CPU and %v of the host's memory more than there is",
			max(0, -n.free.CPUMilli), max(0, -n.free.Memory))
	}
	seen := map[string]int{}
	for i := range n.Devices {
		d := &n.Devices[i]
		at := fmt.Sprintf("%sdevices[%d]", path, i)
		if first, twice := seen[d.UUID]; twice && d.UUID != "" {
			l.add(n, at+".uuid", "list each device once", "", "%q is that of devices[%d] as well", d.UUID, first)
		}
		seen[d.UUID] = i
		n.checkDevice(d, at, l)
	}
	for i := range n.Assignments {
		n.checkAssignment(i, fmt.Sprintf("%sassignments[%d]", path, i), l)
	}
	n.checkDelivery(path, l)
}

// checkDevice checks the rules for one device.
func (n *Node) checkDevice(d *Device, at string, l *problems) {
	if d.fault != faultNone && d.fault != faultNoMIG {
		field := map[fault]string{faultUnknownGPU: ".gpu", faultHealth: ".health", faultModes: ".mode",
			faultInstances: ".instances"}[d.fault]
		l.add(n, at+field, "it keeps its tenants and takes no more", "", "%s", d.faultText())
	}
	if d.GPU == nil {
		return
	}
	if g := d.GPU; g.Memory < 0 || g.Reserved < 0 || g.Context < 0 || g.Memory > 0 && g.Reserved > g.Memory {
		l.add(n, at+".memory", "", "", "%v with %v reserved, and %v for each tenant, cannot be", g.Memory, g.Reserved,
			g.Context)
	}
	if d.Slots < 0 || d.Limit < 0 {
		l.add(n, at+".slots", "leave out what is not set", "", "%d slots, each of %v", d.Slots, d.Limit)
	}
	if most := RulesOf(n.Delivery).MaxSlots(d.Mode, d.GPU); most > 0 && int32(d.Slots) > most {
		r := ruleTable[ruleReplicaCap]
		if !ruleReplicaCap.of(n.Delivery) {
			r.text, r.source = fmt.Sprintf("MPS takes %d clients on it", most), "nvidia-mps-guide-limits"
		}
		if d.Mode != sharing.MechanismExclusive {
			l.add(n, at+".slots", fmt.Sprintf("use %d or fewer", most), r.source, "%d slots under %v: %s", d.Slots, d.Mode,
				r.text)
		}
	}
	if Sliced(d.Mode) && d.model() == nil {
		l.add(n, at+".mode", "", "cotenant-mig-catalogue", "%s has no MIG, or where its instances may be is not known",
			d.GPU.Name)
	} else if d.GPU.Known != nil && d.Mode != sharing.MechanismNone && d.Mode != sharing.MechanismVGPU &&
		d.Mode != sharing.MechanismMIGBackedVGPU {
		if f := sharing.Available(d.Mode, sharing.Environment{GPU: d.GPU.Known}); f.Answer == sharing.AnswerNo {
			l.add(n, at+".mode", "", f.Source, "%v on a %s: %s", d.Mode, d.GPU.Name, f.Text)
		}
	}
	if f := sharing.Delivers(n.Delivery, d.Mode); d.Mode != sharing.MechanismNone && f.Answer == sharing.AnswerNo {
		l.add(n, at+".mode", "choose another mode, or another delivery", f.Source, "%v does not carry %v: %s", n.Delivery,
			d.Mode, f.Text)
	}
}

// checkAssignment checks one assignment beyond the checks of its device.
func (n *Node) checkAssignment(i int, at string, l *problems) {
	a := &n.Assignments[i]
	if a.Key == "" {
		l.add(n, at+".key", "name the replica", "", "is empty")
	}
	for k := range n.Assignments[:i] {
		if b := &n.Assignments[k]; a.Key == b.Key && a.Device == b.Device && (a.Profile == nil || a.Start == b.Start) {
			l.add(n, at+".key", "a replica has a device once", "", "%s is assigned to device %d twice", a.Key, a.Device)
			break
		}
	}
	if a.Compute < 0 || a.Memory < 0 || a.CPUMilli < 0 || a.HostMemory < 0 || a.Cap < 0 || a.Busy < 0 {
		l.add(n, at, "", "", "%s has less than nothing", a.Key)
	}
	if a.Device < 0 {
		return
	}
	d := &n.Devices[a.Device]
	if a.Mode != sharing.MechanismNone && d.Mode != a.Mode {
		l.add(n, at+".mode", "a device has one mode at a time", "", "%s runs under %v on device %d, which runs %v", a.Key,
			a.Mode, a.Device, d.Mode)
	}
	need := a.Memory + d.GPU.context()
	if a.Profile != nil {
		if k := d.instance(a.Profile, a.Start); k < 0 {
			l.add(n, at+".profile", "list the instance", "", "device %d has no %s at %d", a.Device, a.Profile.Name, a.Start)
		}
		if b, known := a.Profile.Memory.Get(); known && need > b {
			l.add(n, at+".memory", "", "cotenant-mig-catalogue", "%s needs %v, and %s has %v", a.Key, need, a.Profile.Name, b)
		}
	} else if d.Limit > 0 && a.Memory > d.Limit {
		l.add(n, at+".memory", "use fewer slots, or another mode", ruleTable[ruleEqualLimits].source,
			"%s needs %v, and each of %d slots is limited to %v", a.Key, a.Memory, d.Slots, d.Limit)
	}
}

func (n *Node) checkTrust(path string, l *problems) {
	if a, b := n.Strangers(n); a != nil {
		r := ruleTable[ruleAnyDevice]
		l.add(n, path+"assignments", "give them nodes of their own, deliver by DRA, or state trust", r.source,
			"%s and %s do not trust each other: %s", a.Workload.Name, b.Workload.Name, r.text)
	}
}

// nodeCheck compares the devices of a node by the rules of its delivery.
type nodeCheck struct {
	n        *Node
	rules    Rules
	problems *problems

	full, operated       *Device // the first that is not in MIG mode, and the one whose mode all others must have
	fullAt, sliced       int     // sliced counts devices in MIG mode
	mps, dynamic, single string  // paths of the first such devices, and the first profile
	slots                map[string]int32
	split                int32
}

func (c *nodeCheck) broken(r rule, at, remedy, format string, args ...any) {
	if r.of(c.n.Delivery) {
		c.problems.add(c.n, at, remedy, ruleTable[r].source, format+": "+ruleTable[r].text, args...)
	}
}

// checkDelivery checks the devices of a node together by the rules of its delivery.
func (n *Node) checkDelivery(path string, l *problems) {
	c := nodeCheck{n: n, rules: RulesOf(n.Delivery), problems: l, slots: map[string]int32{}}
	for i := range n.Devices {
		d := &n.Devices[i]
		at := fmt.Sprintf("%sdevices[%d]", path, i)
		switch {
		case d.Mode == sharing.MechanismNone:
			continue
		case c.operated == nil || c.operated.Mode == sharing.MechanismExclusive && !Sliced(d.Mode):
			c.operated = d
		case !operatedAlike(c.operated.Mode, d.Mode):
			c.broken(ruleOneOperatingMode, at+".mode", "put it on a node of its own", "%v next to %v", d.Mode, c.operated.Mode)
		}
		if clients(d.Mode) && d.Mode != sharing.MechanismHAMiWithMPS {
			c.mps = cmp.Or(c.mps, at)
		}
		if Sliced(d.Mode) {
			c.slicedDevice(d, at)
		} else {
			c.fullDevice(d, i, at)
		}
	}
	if c.sliced > 0 && n.MIGStrategy == "none" {
		c.broken(ruleStrategyNone, path+"mig_strategy", "use mixed", "%d devices are in MIG mode", c.sliced)
	}
	if c.full != nil && n.MIGStrategy == "single" {
		c.broken(ruleStrategySingle, fmt.Sprintf("%sdevices[%d].mode", path, c.fullAt), "use mixed", "is not in MIG mode")
	}
	if c.mps == "" {
		return
	}
	if c.sliced > 0 || n.offersInstances() {
		c.broken(ruleNoMPSWithMIG, c.mps+".mode", "put it on a node of its own", "MPS next to devices in MIG mode")
	}
	if n.Consumable {
		c.broken(ruleConsumable, c.mps+".mode", "disable consumable shares", "MPS on a node with consumable shares")
	}
	if c.dynamic != "" {
		c.broken(ruleDynamicMIG, c.mps+".mode", "make the instances beforehand", "MPS next to %s.dynamic", c.dynamic)
	}
}

// slicedDevice checks a device in MIG mode.
func (c *nodeCheck) slicedDevice(d *Device, at string) {
	if c.sliced++; d.Dynamic {
		c.dynamic = cmp.Or(c.dynamic, at)
		c.broken(ruleMadeBefore, at+".dynamic", "make the instances, or deliver by DRA or HAMi", "makes instances on demand")
	} else {
		c.broken(ruleMadeOnDemand, at+".instances", "set dynamic", "has instances that are made by hand")
	}
	slots := d.SlotsOf(d.Mode)
	for _, in := range d.Instances {
		if in.Profile == nil {
			continue
		}
		name := in.Profile.Name
		if before, ok := c.slots[name]; ok && before != slots {
			c.broken(ruleProfileSlots, at+".slots", "give all instances of a profile as many",
				"%s has %d slots here and %d on another device", name, slots, before)
		}
		c.slots[name] = slots
		if c.single = cmp.Or(c.single, name); c.n.MIGStrategy == "single" && c.single != name {
			c.broken(ruleStrategySingle, at+".instances", "use the strategy mixed", "has %s next to %s", name, c.single)
		}
	}
}

// fullDevice checks a device that is not in MIG mode.
func (c *nodeCheck) fullDevice(d *Device, i int, at string) {
	slots, shared := d.SlotsOf(d.Mode), d.Mode != sharing.MechanismExclusive
	if c.full == nil {
		c.full, c.fullAt = d, i
	} else if f := c.full; f.Mode != d.Mode || shared && f.SlotsOf(d.Mode) != slots {
		c.broken(ruleOneMode, at+".mode", "put it on a node of its own, or deliver by DRA",
			"%v with %d slots next to devices[%d], %v with %d", d.Mode, slots, c.fullAt, f.Mode, f.SlotsOf(f.Mode))
	}
	if !shared {
		return
	}
	if d.Slots == 1 {
		c.broken(ruleTwoSlots, at+".slots", "use 2 or more, or exclusive", "%v with one slot", d.Mode)
	}
	if c.split = cmp.Or(c.split, slots); c.split != slots {
		c.broken(ruleOneSplit, at+".slots", "give all cards as many", "%d slots next to %d", slots, c.split)
	}
	if want := c.rules.Limit(d.Mode, d.GPU, int32(d.Slots)); want > 0 && d.Limit != want {
		c.broken(ruleEqualLimits, at+".limit", fmt.Sprintf("it is %v", want), "a limit of %v at %d slots", d.Limit, d.Slots)
	}
}
