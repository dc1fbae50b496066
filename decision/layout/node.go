// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Errors that calls of this package wrap; test for them with errors.Is.
var (
	// ErrConflict reports that a node does not take an assignment.
	ErrConflict = errors.New("layout: conflict")
	// ErrNodeGone reports that there is no node of the name.
	ErrNodeGone = errors.New("layout: the node is gone")
)

// Node is a node with its devices and their assignments. A Node of a [Cluster] is read-only.
type Node struct {
	Name string `json:"name" yaml:"name,required"`
	Pool string `json:"pool,omitempty" yaml:"pool"`
	// Delivery hands the devices out; DeliveryBare is a machine without an orchestrator.
	Delivery sharing.Delivery `json:"delivery" yaml:"delivery"`
	// MIGStrategy is the device plugin's: none, single or mixed. Without one it is mixed where a device is in MIG mode.
	MIGStrategy string `json:"mig_strategy,omitempty" yaml:"mig_strategy"`
	// Consumable is set where the DRA driver hands out shares of devices to separate claims (--consumable-shares).
	Consumable bool   `json:"consumable_shares,omitempty" yaml:"consumable_shares"`
	Spot       bool   `json:"spot,omitempty" yaml:"spot"`     // bought as interruptible
	Closed     string `json:"closed,omitempty" yaml:"closed"` // why it takes no more replicas; empty = it does
	// CPUMilli is the thousandths of a core, and Memory the memory of the host, that replicas may have.
	CPUMilli int64         `json:"cpu_milli,omitempty" yaml:"cpu_milli"`
	Memory   sharing.Bytes `json:"memory,omitzero" yaml:"memory"`
	Devices  []Device      `json:"-"`
	// Assignments are in the order in which they came.
	Assignments []Assignment `json:"-"`

	free NodeFree
}

// offersInstances reports whether the device plugin offers MIG instances of the node.
func (n *Node) offersInstances() bool { return n.MIGStrategy == "single" || n.MIGStrategy == "mixed" }

// GPU is a kind of device, shared by all devices of the kind and never changed.
type GPU struct {
	Name string // the product's; as the GPU table writes it where that has it
	// Known is the row of the GPU table; nil = not known.
	Known    *sharing.GPU
	Memory   sharing.Bytes // of the device; 0 = not known
	Reserved sharing.Bytes // of it, by the driver and others outside the layout: not assignable
	// Context is memory that each tenant takes in addition to its assignment's: 0 where assignments hold it.
	Context sharing.Bytes
	// MIG is the model that partitions it; nil = it is never partitioned.
	MIG *mig.Model
}

// GPUOf returns a kind of device by a name that the GPU table knows, with the table's memory and, where the catalogue
// knows placements, MIG. A name that the table does not know is kept, with nothing else.
func GPUOf(name string) *GPU {
	g := &GPU{Name: name}
	if row, err := sharing.LookupGPU(name); err == nil {
		g.Known, g.Name = row, row.Name
		g.Memory, _ = row.Memory.Get()
		if model, err := mig.Lookup(row.Name); err == nil && model.PlacementsKnown() &&
			!(row.MIG.Known && row.MIG.Value == sharing.AnswerNo) {
			g.MIG = model
		}
	}
	return g
}

// Usable is the memory that tenants may have between them; 0 = not known.
func (g *GPU) Usable() sharing.Bytes { return max(0, g.Memory-g.Reserved) }

// Device is one GPU and the way in which it is shared.
type Device struct {
	UUID string `json:"-"` // may be empty
	GPU  *GPU   `json:"-"` // nil = not known: it takes nobody
	// Mode is the mechanism that its tenants share it by. None on an open device means that it has no tenant yet.
	Mode sharing.Mechanism `json:"-"`
	// Open is set where the mode comes with the first tenant and goes with the last one. Mode None implies it.
	Open bool `json:"open,omitempty" yaml:"open"`
	// Slots counts the tenants that the mode offers (replicas of the device plugin, HAMi's split), under MIG those of
	// each instance. 0 is the mode's own number: 1 of whole GPUs and instances, as many as fit elsewhere.
	Slots int16 `json:"slots,omitempty" yaml:"slots"`
	// What recount found is in small fields, as large clusters need it; Free is the public form.
	compute, busy int16
	// Limit is the memory of each tenant, where the delivery enforces one; 0 = none.
	Limit sharing.Bytes `json:"limit,omitzero" yaml:"limit"`
	// Instances are the MIG instances that exist, by start.
	Instances []Instance `json:"-"`
	// Dynamic is set where instances are made for tenants that come and destroyed when they leave.
	Dynamic bool `json:"dynamic,omitempty" yaml:"dynamic"`
	// Health is reported: healthy, unhealthy or lost (it was there, and is not listed any more). Without a report it is
	// used; an unhealthy or lost one takes no tenant.
	Health string `json:"health,omitempty" yaml:"health"`
	// Link numbers the group of devices that NVLink connects, from 1; 0 = not known. NUMA is the node's NUMA node
	// plus 1; 0 = not known.
	Link int8 `json:"link,omitempty" yaml:"link"`
	NUMA int8 `json:"numa,omitempty" yaml:"numa"`

	fault          fault
	full           uint8 // instances that take no more
	slots, tenants int16
	memory         sharing.Bytes
	slice          *mig.Occupancy
}

// fault is the reason why a device takes no tenant, although it may have room.
type fault uint8

const (
	faultNone       fault = iota
	faultUnknownGPU       // its model is not known
	faultHealth           // unhealthy or lost
	faultModes            // tenants of two mechanisms
	faultInstances        // its instances do not fit on it together
	faultNoMIG            // it is in MIG mode, and has none
	faultNoInstance       // a tenant names no instance that is there
	faultTenants          // more of them than slots
	faultMemory           // more is given than there is
	faultCompute          // likewise
)

// Instance is a MIG instance of a device.
type Instance struct {
	Profile *mig.Profile
	Start   int8
	made    bool // with its first tenant, on a dynamic device
}

// Values of Assignment.Device that are no index.
const (
	NoDevice      int16 = -1 // the replica holds none
	UnknownDevice int16 = -2 // it holds one, and which is not known; Observe assumes the emptiest that takes it
)

// Assignment is one replica on one device, or instance of one.
type Assignment struct {
	Key      string    `json:"-"` // of the replica, unique in the cluster
	Workload *Workload `json:"-"`
	// Profile and Start name the MIG instance; nil = no instance.
	Profile *mig.Profile `json:"-"`
	Start   int8         `json:"start,omitempty" yaml:"start"`
	Assumed bool         `json:"assumed,omitempty" yaml:"assumed"` // Observe chose the device
	// Compute is the thousandths of the device, or instance, that are booked for it. Busy is the part of the whole
	// device that it was measured, or is expected, to use. Cap is the most that it can use, as enforced. 0 = not known,
	// or none.
	Compute int16         `json:"compute_milli,omitempty" yaml:"compute_milli"`
	Busy    int16         `json:"busy_milli,omitempty" yaml:"busy_milli"`
	Cap     int16         `json:"cap_milli,omitempty" yaml:"cap_milli"`
	Memory  sharing.Bytes `json:"memory,omitzero" yaml:"memory"` // of the device; 0 = not limited and not known
	// CPUMilli and HostMemory are of the host; in one assignment of a key.
	CPUMilli int32 `json:"cpu_milli,omitempty" yaml:"cpu_milli"`
	Device   int16 `json:"-"` // index into Node.Devices, NoDevice or UnknownDevice
	// Mode is the mechanism that the replica was given, and None that of the device.
	Mode       sharing.Mechanism `json:"-"`
	HostMemory sharing.Bytes     `json:"host_memory,omitzero" yaml:"host_memory"`
}

// Workload holds the common properties of a workload's replicas. Assignments of one workload share one, which never
// changes.
type Workload struct {
	Name   string // as fleets and predictions name it; may be empty
	Tenant string
	// Trusts lists the other tenants that it may share with; both sides must name each other. The empty name is that of
	// workloads without a tenant.
	Trusts []string
	// Objective limits the slowdown by neighbours.
	Objective Objective
}

// Objective has the limits of a workload's latencies and slowdown; zero fields set none.
type Objective struct {
	Slowdown float64       `yaml:"slowdown"` // times slower than isolated
	TTFTP99  time.Duration `yaml:"ttft_p99,nonzero"`
	TPOTP50  time.Duration `yaml:"tpot_p50,nonzero"`
	TPOTP99  time.Duration `yaml:"tpot_p99,nonzero"`
	E2EP99   time.Duration `yaml:"e2e_p99,nonzero"`
}

var nobody = &Workload{}

// Trust reports whether two workloads may share a device that does not isolate them: they are one tenant's, each names
// the other's tenant, or no tenant is stated and they are one workload. Decide trusts by the same rule.
func (w *Workload) Trust(o *Workload) bool {
	return w == o || w.Tenant == o.Tenant && (w.Tenant != "" || w.Name == o.Name) ||
		slices.Contains(w.Trusts, o.Tenant) && slices.Contains(o.Trusts, w.Tenant)
}

// Free is the free capacity of a device. Memory and compute are apart: neither is charged for the other.
type Free struct {
	Memory  sharing.Bytes // means nothing where the device's memory is not known
	Compute int32         // thousandths that are not booked
	// Busy is the thousandths that tenants are measured, or expected, to use beyond their bookings: it may order places
	// and refuses none.
	Busy    int32
	Tenants int32
	// Slots counts the tenants it still takes; 0 where it takes none for any reason. Under MIG it is no limit:
	// instances are worth checking where it is above 0.
	Slots int32
	// Full has a bit for each of Instances that takes no more tenants.
	Full uint32
	// Faulty is set where it takes no tenant whatever is free of it; [Device.Fault] gives the reason.
	Faulty bool
}

// NodeFree summarizes a node, so that a scheduler refuses a full one by one look.
type NodeFree struct {
	CPUMilli int64 // of the host
	Memory   sharing.Bytes
	Tenant   string // of all replicas on the node, unless there are Several
	Several  bool
	Limited  bool // a replica on the node has an objective
	// Alike is set where the devices have one mode, are known, and enforce no limit of memory. Compute, DeviceMemory and
	// Slots are then indexes of the first devices with most of these free, and Least of that with the least compute.
	Alike                               bool
	Compute, DeviceMemory, Slots, Least int8
}

// Free returns the free capacity of the node.
func (n *Node) Free() *NodeFree { return &n.free }

// Free returns the free resources of the device.
func (d *Device) Free() Free {
	return Free{d.memory, int32(d.compute), int32(d.busy), int32(d.tenants), int32(d.slots), uint32(d.full),
		d.fault != faultNone}
}

// Occupied is the space that the device's MIG instances take.
func (d *Device) Occupied() mig.Occupancy {
	if d.slice == nil {
		return mig.Occupancy{}
	}
	return *d.slice
}

// Used reports whether a replica holds a device of the node, or one that is not known.
func (n *Node) Used() bool {
	return slices.ContainsFunc(n.Assignments, func(a Assignment) bool { return a.Device != NoDevice })
}

// Replicas counts the replicas on the node by the names of their workloads.
func (n *Node) Replicas() map[string]int {
	out := map[string]int{}
	for key := range n.keys() {
		out[n.Assignments[n.find(key)].Workload.Name]++
	}
	return out
}

// Tenants counts those on a device.
func (n *Node) Tenants(device int) int { return int(n.Devices[device].tenants) }

// On visits the assignments on a device, in their order.
func (n *Node) On(device int) iter.Seq[*Assignment] {
	return func(visit func(*Assignment) bool) {
		for i := range n.Assignments {
			if int(n.Assignments[i].Device) == device && !visit(&n.Assignments[i]) {
				return
			}
		}
	}
}

// DeviceByUUID returns the index of a device, -1 where there is none.
func (n *Node) DeviceByUUID(uuid string) int {
	return slices.IndexFunc(n.Devices, func(d Device) bool { return d.UUID == uuid && uuid != "" })
}

// find returns the index of the first assignment of a key, -1 where there is none.
func (n *Node) find(key string) int {
	return slices.IndexFunc(n.Assignments, func(a Assignment) bool { return a.Key == key })
}

// keys visits each key on the node once.
func (n *Node) keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range n.Assignments {
			key := n.Assignments[i].Key
			if n.find(key) == i && !yield(key) {
				return
			}
		}
	}
}
