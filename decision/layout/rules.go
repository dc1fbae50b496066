// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"math"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/sharing"
)

// rule is a limit of a delivery.
type rule uint8

const (
	// ruleOneMode: the full devices of a node are handed out by one mode with one number of slots.
	ruleOneMode rule = iota
	// ruleTwoSlots: a shared mode has two slots or more.
	ruleTwoSlots
	// ruleReplicaCap: a device has at most 48 slots under MPS, 16 below compute capability 7.5.
	ruleReplicaCap
	// ruleEqualLimits: each MPS client may have the device's memory divided by the slots.
	ruleEqualLimits
	// ruleNoMPSWithMIG: MPS and MIG strategies single and mixed exclude each other on a node.
	ruleNoMPSWithMIG
	// ruleStrategyNone: devices in MIG mode are not handed out without a strategy.
	ruleStrategyNone
	// ruleStrategySingle: all devices are in MIG mode and have instances of one profile.
	ruleStrategySingle
	// ruleProfileSlots: instances of one profile have one number of slots on the whole node.
	ruleProfileSlots
	// ruleMadeBefore: instances are made beforehand, and not on a tenant's arrival.
	ruleMadeBefore
	// ruleMadeOnDemand: instances are made and destroyed by the delivery itself.
	ruleMadeOnDemand
	// ruleConsumable: MPS and consumable shares exclude each other on a node.
	ruleConsumable
	// ruleDynamicMIG: MPS and instances on demand exclude each other on a node.
	ruleDynamicMIG
	// ruleOneSplit: the shared devices of a node have one number of slots.
	ruleOneSplit
	// ruleOneOperatingMode: the devices of a node are operated alike: in MIG mode, or shared by one mechanism or whole.
	ruleOneOperatingMode
	// ruleAnyDevice: a tenant gets any of the node's shared devices, whoever has which, so that all of them trust one
	// another.
	ruleAnyDevice
	ruleCount
)

type ruleRow struct {
	deliveries []sharing.Delivery
	text       string
	source     sharing.SourceID
}

var (
	plugins = []sharing.Delivery{sharing.DeliveryDevicePlugin, sharing.DeliveryGPUOperator}
	onDRA   = []sharing.Delivery{sharing.DeliveryDRA}
	onHAMi  = []sharing.Delivery{sharing.DeliveryHAMi, sharing.DeliveryVolcano}
)

// ruleTable holds documented rules of deliveries beyond the mechanisms that each has, which sharing.Delivers answers.
var ruleTable = [ruleCount]ruleRow{
	ruleOneMode: {plugins, "the device plugin shares all full GPUs of a node by one mode and one number of replicas: " +
		"MPS and time-slicing exclude each other", "k8s-device-plugin-config"},
	ruleTwoSlots: {plugins, "the device plugin refuses fewer than 2 replicas", "k8s-device-plugin-config"},
	ruleReplicaCap: {plugins, "the device plugin allows 48 MPS replicas from compute capability 7.5 on, and 16 below",
		"k8s-device-plugin-mps"},
	ruleEqualLimits: {plugins, "the device plugin limits each MPS client to the GPU's memory by the number of replicas",
		"k8s-device-plugin-mps"},
	ruleNoMPSWithMIG: {plugins, "the device plugin refuses MPS under the MIG strategies single and mixed",
		"k8s-device-plugin"},
	ruleStrategyNone: {plugins, "under the MIG strategy none GPUs in MIG mode are not handed out", "k8s-device-plugin"},
	ruleStrategySingle: {plugins, "the MIG strategy single needs instances of one profile on every GPU of the node",
		"k8s-device-plugin"},
	ruleProfileSlots: {plugins, "the device plugin replicates all MIG devices of one resource alike",
		"k8s-device-plugin-config"},
	ruleMadeBefore: {plugins, "the device plugin hands out MIG instances that exist and makes none",
		"k8s-device-plugin"},
	ruleMadeOnDemand: {onHAMi, "HAMi and Volcano make MIG instances for the pods that ask, and reclaim them", "hami"},
	ruleConsumable:   {onDRA, "the DRA driver refuses MPS where it hands out consumable shares", "nvidia-dra-driver"},
	ruleDynamicMIG: {onDRA, "the DRA driver refuses MPS where it makes MIG instances on demand",
		"nvidia-dra-driver"},
	ruleOneSplit:         {onHAMi, "one deviceSplitCount holds for all cards of a node", "hami-values"},
	ruleOneOperatingMode: {onHAMi, "HAMi and Volcano run all cards of a node in one mode: hami-core, mps or mig", "hami"},
	ruleAnyDevice: {plugins, "the device plugin gives a pod any shared GPU of the node that has a replica left",
		"k8s-device-plugin-config"},
}

// of reports whether the rule holds for a delivery.
func (r rule) of(d sharing.Delivery) bool { return slices.Contains(ruleTable[r].deliveries, d) }

// Rules are restrictions of a delivery. [Node.Check] checks further ones.
type Rules struct {
	delivery sharing.Delivery
	// WholeNodes: all full devices of a node are shared alike, so that planning is by node.
	WholeNodes bool
	// AnyDevice: a tenant may get any of the node's shared devices, so that all tenants on them must trust one another.
	AnyDevice bool
	// OneSplit: the shared devices of a node have one number of slots.
	OneSplit bool
	// OneOperatingMode: the devices of a node are operated alike: in MIG mode, or shared by one mechanism or whole.
	OneOperatingMode bool
	// MadeOnDemand: the delivery itself creates and destroys MIG instances.
	MadeOnDemand bool
}

// RulesOf returns the rules of a delivery.
func RulesOf(d sharing.Delivery) Rules {
	return Rules{d, ruleOneMode.of(d), ruleAnyDevice.of(d), ruleOneSplit.of(d), ruleOneOperatingMode.of(d),
		ruleMadeOnDemand.of(d)}
}

// MaxSlots returns the largest number of slots of a device under a mode; 0 = no bound.
func (r Rules) MaxSlots(m sharing.Mechanism, g *GPU) int32 {
	switch {
	case m == sharing.MechanismExclusive:
		return 1
	case !clients(m):
		return 0
	case ruleReplicaCap.of(r.delivery) && g.Known != nil && g.Known.ComputeCapability.Known:
		if cc := g.Known.ComputeCapability.Value; cc.Major < 7 || cc.Major == 7 && cc.Minor < 5 {
			return oldClients
		}
		return leastClients
	}
	return (&Device{GPU: g, Slots: mostClients}).SlotsOf(m)
}

// Limit returns the memory to which the delivery limits each of a device's tenants, 0 if it sets no limit itself.
func (r Rules) Limit(m sharing.Mechanism, g *GPU, slots int32) sharing.Bytes {
	if !clients(m) || !ruleEqualLimits.of(r.delivery) || slots < 2 || g == nil {
		return 0
	}
	return g.Memory / sharing.Bytes(slots) / sharing.MiB * sharing.MiB
}

// Cap returns the thousandths of a device's threads to which the delivery limits each tenant, 0 if it sets no cap
// itself: the device plugin divides 100 percent by the replicas and rounds down.
func (r Rules) Cap(m sharing.Mechanism, slots int32) int32 {
	if !clients(m) || !ruleEqualLimits.of(r.delivery) || slots < 2 {
		return 0
	}
	return 10 * (100 / slots)
}

// Configure sets a device's mode, its number of slots, and the limit that comes with the delivery.
func (r Rules) Configure(d *Device, m sharing.Mechanism, slots int32) {
	d.Mode, d.Open, d.Slots = m, false, int16(min(slots, math.MaxInt16))
	if m == sharing.MechanismExclusive {
		d.Slots = 1
	}
	d.Limit = r.Limit(m, d.GPU, int32(d.Slots))
}

// delivered caches the answers of sharing.Delivers.
var delivered = sync.OnceValue(func() (out [256][sharing.MechanismCount]bool) {
	for _, d := range sharing.Deliveries() {
		for _, m := range sharing.Mechanisms() {
			out[d][m] = sharing.Delivers(d, m).Answer != sharing.AnswerNo
		}
	}
	return out
})

// Carries reports whether delivery and hardware allow a device of the node to run a mode, given the modes of the other
// devices. It does not allocate.
func (n *Node) Carries(device int, m sharing.Mechanism) bool {
	if int(m) >= sharing.MechanismCount || !delivered()[n.Delivery][m] {
		return false
	}
	d := &n.Devices[device]
	if d.GPU == nil || Sliced(m) && d.model() == nil || d.GPU.Known != nil && denied(d.GPU.Known, m) {
		return false
	}
	alike, apart := ruleOneMode.of(n.Delivery), ruleNoMPSWithMIG.of(n.Delivery)
	mps, consumable := clients(m), n.Consumable && ruleConsumable.of(n.Delivery)
	dynamic, operated := ruleDynamicMIG.of(n.Delivery), ruleOneOperatingMode.of(n.Delivery)
	if mps && (consumable || apart && n.offersInstances()) || Sliced(m) && d.Dynamic && ruleMadeBefore.of(n.Delivery) {
		return false
	}
	for i := range n.Devices {
		o := &n.Devices[i]
		if i == device || o.Mode == sharing.MechanismNone {
			continue
		}
		switch sliced := Sliced(o.Mode); {
		case apart && (mps && sliced || Sliced(m) && clients(o.Mode)):
			return false
		case dynamic && (mps && sliced && o.Dynamic || Sliced(m) && d.Dynamic && clients(o.Mode)):
			return false
		case alike && o.Mode != m && !sliced && !Sliced(m) || operated && !operatedAlike(o.Mode, m):
			return false
		}
	}
	return true
}

// Meets reports whether a tenant assigned to a device under a mode may get the other device instead, and share it with
// the tenants there: some deliveries choose freely among devices that are shared in the same way.
func (n *Node) Meets(device int, m sharing.Mechanism, other int) bool {
	return device == other || n.Devices[other].Mode == m && m != sharing.MechanismExclusive && !Sliced(m) &&
		ruleAnyDevice.of(n.Delivery)
}

// Strangers returns a replica of each of two nodes, which may be the same, that do not trust each other and might share
// a device if their pods could go to either node, since the delivery chooses among devices that are shared in the same
// way. It returns nil if there are none. Use it to separate pods by node labels.
func (n *Node) Strangers(o *Node) (a, b *Assignment) {
	if !ruleAnyDevice.of(n.Delivery) {
		return nil, nil
	}
	for i := range n.Assignments {
		for k := range o.Assignments {
			a, b = &n.Assignments[i], &o.Assignments[k]
			if a.Device < 0 || b.Device < 0 || a.Workload.Trust(b.Workload) {
				continue
			}
			m := n.Devices[a.Device].Mode
			if m != sharing.MechanismExclusive && !Sliced(m) && o.Devices[b.Device].Mode == m {
				return a, b
			}
		}
	}
	return nil, nil
}

// operatedAlike reports whether devices of two modes may be on one node of HAMi: whole cards are in whatever mode the
// shared ones have, but for MIG.
func operatedAlike(a, b sharing.Mechanism) bool {
	whole := a == sharing.MechanismExclusive || b == sharing.MechanismExclusive
	return a == b || whole && !Sliced(a) && !Sliced(b)
}

// denied reports whether hardware can't run a mode. It reads cached answers, without allocating.
func denied(g *sharing.GPU, m sharing.Mechanism) bool {
	if m == sharing.MechanismExclusive || m == sharing.MechanismVGPU || m == sharing.MechanismMIGBackedVGPU {
		return false
	}
	if kept, ok := denials.Load(g); ok {
		return kept.(*[sharing.MechanismCount]bool)[m]
	}
	all := new([sharing.MechanismCount]bool)
	for _, m := range sharing.Mechanisms() {
		all[m] = sharing.Available(m, sharing.Environment{GPU: g}).Answer == sharing.AnswerNo
	}
	denials.Store(g, all)
	return all[m]
}

var denials sync.Map // *sharing.GPU to *[MechanismCount]bool
