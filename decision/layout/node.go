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
	// ErrNodeGone reports that there is no node with the name.
	ErrNodeGone = errors.New("layout: the node is gone")
)

// Node is a node with its devices and their assignments. A Node of a [Cluster] is read-only.
type Node struct {
	Name string `json:"name" yaml:"name,required"`
	Pool string `json:"pool,omitempty" yaml:"pool"`
	// Delivery gives the devices to containers; DeliveryBare is a machine without an orchestrator.
	Delivery sharing.Delivery `json:"delivery" yaml:"delivery"`
	// MIGStrategy is the device plugin's: none, single or mixed. Empty means mixed if a device is in MIG mode.
	MIGStrategy string `json:"mig_strategy,omitempty" yaml:"mig_strategy"`
	// Consumable is set if the DRA driver gives shares of devices to separate claims (--consumable-shares).
	Consumable bool   `json:"consumable_shares,omitempty" yaml:"consumable_shares"`
	Spot       bool   `json:"spot,omitempty" yaml:"spot"`     // bought as interruptible
	Closed     string `json:"closed,omitempty" yaml:"closed"` // why it takes no more replicas; empty = open
	// CPUMilli, in thousandths of a core, and Memory are the host's capacity for replicas.
	CPUMilli int64         `json:"cpu_milli,omitempty" yaml:"cpu_milli"`
	Memory   sharing.Bytes `json:"memory,omitzero" yaml:"memory"`
	Devices  []Device      `json:"-"`
	// Assignments are in the order of arrival.
	Assignments []Assignment `json:"-"`

	free NodeFree
}

// offersInstances reports whether the device plugin offers MIG instances of the node.
func (n *Node) offersInstances() bool { return n.MIGStrategy == "single" || n.MIGStrategy == "mixed" }

// GPU is a kind of device, shared by all devices of the kind and immutable.
type GPU struct {
	Name string // the product name, as in the GPU table if it is there
	// Known is the row of the GPU table; nil = not known.
	Known    *sharing.GPU
	Memory   sharing.Bytes // of the device; 0 = not known
	Reserved sharing.Bytes // by the driver and others outside the layout: not assignable
	// Context is memory that each tenant uses in addition to its assignment's: 0 if assignments include it.
	Context sharing.Bytes
	// MIG is its MIG model; nil = it is never partitioned.
	MIG *mig.Model
}

// GPUOf returns a kind of device by a name of the GPU table, with the table's memory and, if the catalogue has
// placements, MIG. For a name outside the table only Name is set.
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

// Usable returns the memory for all tenants together; 0 = not known.
func (g *GPU) Usable() sharing.Bytes { return max(0, g.Memory-g.Reserved) }

// Device is one GPU and the way it is shared.
type Device struct {
	UUID string `json:"-"` // may be empty
	GPU  *GPU   `json:"-"` // nil = not known: it takes no tenant
	// Mode is the mechanism by which its tenants share it. None means that it is open and has no tenant yet.
	Mode sharing.Mechanism `json:"-"`
	// Open is set if the first tenant determines the mode and the last one clears it. Mode None implies it.
	Open bool `json:"open,omitempty" yaml:"open"`
	// Slots is the number of tenants allowed by the mode's configuration (replicas of the device plugin, HAMi's split),
	// under MIG for each instance. 0 means the mode's default: 1 for whole GPUs and instances, otherwise as many as fit.
	Slots int16 `json:"slots,omitempty" yaml:"slots"`
	// What recount found is in small fields, as large clusters need it; Free is the public form.
	compute, busy int16
	// Limit is the enforced memory limit of each tenant; 0 = none.
	Limit sharing.Bytes `json:"limit,omitzero" yaml:"limit"`
	// Instances are the MIG instances that exist, by start.
	Instances []Instance `json:"-"`
	// Dynamic is set if instances are created for new tenants and destroyed when they leave.
	Dynamic bool `json:"dynamic,omitempty" yaml:"dynamic"`
	// Health is healthy, unhealthy or lost (no longer listed). Empty counts as healthy; an unhealthy or lost device takes
	// no tenant.
	Health string `json:"health,omitempty" yaml:"health"`
	// Link is the number, from 1, of its group of devices connected by NVLink; 0 = not known. NUMA is its NUMA node plus
	// 1; 0 = not known.
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

// Special values of Assignment.Device.
const (
	NoDevice      int16 = -1 // the replica holds none
	UnknownDevice int16 = -2 // it holds an unknown one; Observe assumes the emptiest that takes it
)

// Assignment is one replica on one device, or instance of one.
type Assignment struct {
	Key      string    `json:"-"` // of the replica, unique in the cluster
	Workload *Workload `json:"-"`
	// Profile and Start name the MIG instance; nil = no instance.
	Profile *mig.Profile `json:"-"`
	Start   int8         `json:"start,omitempty" yaml:"start"`
	Assumed bool         `json:"assumed,omitempty" yaml:"assumed"` // Observe chose the device
	// In thousandths: Compute is the booked part of the device, or instance. Busy is the part of the whole device that it
	// was measured, or is expected, to use. Cap is the enforced maximum of its use. 0 = not known, or none.
	Compute int16         `json:"compute_milli,omitempty" yaml:"compute_milli"`
	Busy    int16         `json:"busy_milli,omitempty" yaml:"busy_milli"`
	Cap     int16         `json:"cap_milli,omitempty" yaml:"cap_milli"`
	Memory  sharing.Bytes `json:"memory,omitzero" yaml:"memory"` // of the device; 0 = not limited, not known
	// CPUMilli and HostMemory are the replica's on the host; set them in one of its assignments only.
	CPUMilli int32 `json:"cpu_milli,omitempty" yaml:"cpu_milli"`
	Device   int16 `json:"-"` // index into Node.Devices, NoDevice or UnknownDevice
	// Mode is the replica's mechanism; None means that of the device.
	Mode       sharing.Mechanism `json:"-"`
	HostMemory sharing.Bytes     `json:"host_memory,omitzero" yaml:"host_memory"`
}

// Workload holds the common properties of a workload's replicas. Assignments of one workload share one Workload, which
// must not change.
type Workload struct {
	Name   string // as in fleets and predictions; may be empty
	Tenant string
	// Trusts lists the other tenants that it may share with; both sides must name each other. The empty name means
	// workloads without a tenant.
	Trusts []string
	// Objective limits the slowdown by neighbours.
	Objective Objective
}

// Objective limits a workload's latencies and slowdown; zero fields set no limit.
type Objective struct {
	Slowdown float64       `yaml:"slowdown"` // run time relative to isolated: 1.2 is 20% slower
	TTFTP99  time.Duration `yaml:"ttft_p99,nonzero"`
	TPOTP50  time.Duration `yaml:"tpot_p50,nonzero"`
	TPOTP99  time.Duration `yaml:"tpot_p99,nonzero"`
	E2EP99   time.Duration `yaml:"e2e_p99,nonzero"`
}

var nobody = &Workload{}

// Trust reports whether two workloads may share a device that does not isolate them: they have the same tenant, each
// names the other's tenant, or they have no tenant but the same name. Decide uses the same rule.
func (w *Workload) Trust(o *Workload) bool {
	return w == o || w.Tenant == o.Tenant && (w.Tenant != "" || w.Name == o.Name) ||
		slices.Contains(w.Trusts, o.Tenant) && slices.Contains(o.Trusts, w.Tenant)
}

// Free is the free capacity of a device. Memory and compute are independent of each other.
type Free struct {
	Memory  sharing.Bytes // ignore it if the device's memory is not known
	Compute int32         // thousandths not booked
	// Busy is the thousandths that tenants are measured, or expected, to use beyond their bookings: use it to order
	// places, not to refuse them.
	Busy    int32
	Tenants int32
	// Slots is the number of further tenants; 0 if it takes none for any reason. Under MIG it is not a limit: check the
	// instances if it is above 0.
	Slots int32
	// Full has a bit for each of Instances that takes no more tenants.
	Full uint32
	// Faulty is set if it takes no tenant regardless of free capacity; [Device.Fault] gives the reason.
	Faulty bool
}

// NodeFree summarizes a node, so that a scheduler can refuse a full one quickly.
type NodeFree struct {
	CPUMilli int64 // of the host
	Memory   sharing.Bytes
	Tenant   string // of all replicas on the node, unless Several is set
	Several  bool
	Limited  bool // a replica on the node has an objective
	// Alike is set if the devices are known, have one mode and no memory limit. Compute, DeviceMemory and Slots are then
	// the indexes of the first devices with most of these free, and Least that of the device with least compute.
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

// Occupied returns the placement units that the device's MIG instances occupy.
func (d *Device) Occupied() mig.Occupancy {
	if d.slice == nil {
		return mig.Occupancy{}
	}
	return *d.slice
}

// Used reports whether a replica holds a device of the node, known or unknown.
func (n *Node) Used() bool {
	return slices.ContainsFunc(n.Assignments, func(a Assignment) bool { return a.Device != NoDevice })
}

// Replicas counts the replicas on the node by workload name.
func (n *Node) Replicas() map[string]int {
	out := map[string]int{}
	for key := range n.keys() {
		out[n.Assignments[n.find(key)].Workload.Name]++
	}
	return out
}

// Tenants returns the number of tenants on a device.
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

// DeviceByUUID returns the index of a device, -1 if there is none.
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
