// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Sliced reports whether tenants of a mechanism hold MIG instances.
func Sliced(m sharing.Mechanism) bool { return traits.Of(m).Sliced }

// clients reports whether tenants of a mechanism are MPS clients.
func clients(m sharing.Mechanism) bool { return traits.Of(m).Clients }

// SlotsOf returns the number of tenants of a device, or under MIG of each of its instances, under a mode: the stated
// number or the mode's default, at most the limit of MPS clients.
func (d *Device) SlotsOf(m sharing.Mechanism) int32 {
	n := int32(cmp.Or(d.Slots, math.MaxInt16))
	switch {
	case m == sharing.MechanismExclusive:
		return 1
	case m == sharing.MechanismMIG || m == sharing.MechanismMIGBackedVGPU:
		return int32(max(1, d.Slots))
	case d.Slots == 0:
		n = int32(cmp.Or(traits.Of(m).Split, math.MaxInt16))
	}
	if clients(m) {
		most := int32(mostClients)
		switch {
		case d.GPU != nil && d.GPU.Known != nil && d.GPU.Known.Architecture != sharing.ArchitectureUnknown &&
			d.GPU.Known.Architecture < sharing.ArchitectureVolta:
			most = oldClients
		case d.Slots == 0:
			most = leastClients
		}
		n = min(n, most)
	}
	return n
}

// MPS takes 16 clients before Volta, 48 from then on (nvidia-mps-guide), and 60 from CUDA 13.1 on
// (nvidia-mps-guide-limits), which whoever knows the driver states as slots.
const oldClients, leastClients, mostClients = 16, traits.MPSClients, 60

// recount computes the free resources of a node that is not shared yet.
func (n *Node) recount() {
	n.free = NodeFree{CPUMilli: n.CPUMilli, Memory: n.Memory}
	for i := range n.Assignments {
		a := &n.Assignments[i]
		n.free.CPUMilli -= int64(a.CPUMilli)
		n.free.Memory -= a.HostMemory
		n.free.Limited = n.free.Limited || a.Workload.Objective != Objective{}
		if i == 0 {
			n.free.Tenant = a.Workload.Tenant
		} else if n.free.Tenant != a.Workload.Tenant {
			n.free.Several = true
		}
	}
	for i := range n.Devices {
		n.recountDevice(i)
	}
	var at [4]int8
	var most [4]int64
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Mode != n.Devices[0].Mode || d.GPU == nil || d.Limit > 0 || i > math.MaxInt8 {
			return
		}
		for k, v := range [...]int64{int64(d.compute), int64(d.memory), int64(d.slots), -int64(d.compute)} {
			if i == 0 || v > most[k] {
				at[k], most[k] = int8(i), v
			}
		}
	}
	if len(n.Devices) > 0 {
		f := &n.free
		f.Alike, f.Compute, f.DeviceMemory, f.Slots, f.Least = true, at[0], at[1], at[2], at[3]
	}
}

// recountDevice computes the free resources of a device.
func (n *Node) recountDevice(i int) {
	d := &n.Devices[i]
	f := count{Free: Free{Compute: 1000}}
	if d.GPU != nil {
		f.Memory = d.GPU.Usable()
	} else {
		f.fault = faultUnknownGPU
	}
	if d.Open {
		d.Mode = sharing.MechanismNone
	}
	mode := d.Mode
	for a := range n.On(i) {
		f.Tenants++
		switch given := cmp.Or(a.Mode, d.Mode, sharing.MechanismExclusive); {
		case mode == sharing.MechanismNone:
			mode = given
		case given != mode:
			f.fault = faultModes
			if d.Open { // the same one, whoever came first
				mode = min(mode, given)
			}
		}
	}
	d.Mode = mode
	slots := d.SlotsOf(mode)
	switch {
	case Sliced(mode) || mode == sharing.MechanismNone && len(d.Instances) > 0:
		n.recountInstances(i, &f, slots)
	default:
		for a := range n.On(i) {
			f.Memory -= a.Memory + d.GPU.context()
			f.Busy += int32(max(0, a.Busy-a.Compute))
			if f.Compute -= int32(a.Compute); a.Profile != nil {
				f.fault = faultNoInstance
			}
		}
		f.Slots = slots - f.Tenants
		if mode == sharing.MechanismExclusive && f.Tenants > 0 {
			f.Compute = min(f.Compute, 0)
		}
	}
	switch {
	case d.Health == "unhealthy" || d.Health == "lost":
		f.fault = faultHealth
	case f.fault != faultNone:
	case f.Slots < 0:
		f.fault = faultTenants
	case f.Memory < 0 && d.GPU.Memory > 0:
		f.fault = faultMemory
	case f.Compute < 0:
		f.fault = faultCompute
	}
	if f.fault != faultNone {
		f.Slots = 0
	}
	d.fault, d.full, d.memory, d.slice = f.fault, uint8(f.Full), f.Memory, f.slice
	d.compute, d.slots = int16(max(f.Compute, math.MinInt16)), int16(min(f.Slots, math.MaxInt16))
	d.tenants, d.busy = int16(min(f.Tenants, math.MaxInt16)), int16(min(f.Busy, math.MaxInt16))
}

// count holds the accounting of a device.
type count struct {
	Free
	slice *mig.Occupancy
	fault fault
}

func (g *GPU) context() sharing.Bytes {
	if g == nil {
		return 0
	}
	return g.Context
}

// recountInstances does it for a device with MIG instances. Its compute is the part outside of instances, and its
// memory and slots those of instances.
func (n *Node) recountInstances(i int, f *count, slots int32) {
	d := &n.Devices[i]
	model := d.model()
	if model == nil {
		f.fault = faultNoMIG
		return
	}
	var slice mig.Occupancy
	fits := true
	taken := 0
	for k := range d.Instances {
		in := &d.Instances[k]
		if in.Profile == nil || in.Profile.Model() != model {
			fits = false
			break
		}
		if slice, fits = slice.With(in.Profile, int(in.Start)); !fits {
			break
		}
		if k < 8 {
			on, whole := n.recountInstance(i, in, slots)
			if taken += int(on); whole {
				f.Full |= 1 << k
			} else {
				f.Slots += slots - on
			}
			if on > slots {
				f.fault = faultTenants
			}
		}
	}
	switch {
	case !fits:
		f.fault = faultInstances
	case taken != int(f.Tenants):
		f.fault = faultNoInstance
	}
	units := model.Units - bits.OnesCount32(slice.Mask())
	f.Compute = int32(1000 * units / max(1, model.Units))
	if f.slice = &slice; d.Dynamic {
		f.Slots += int32(units)
	}
}

// recountInstance counts the tenants of an instance, and reports whether it takes no more of them.
func (n *Node) recountInstance(i int, in *Instance, slots int32) (tenants int32, full bool) {
	compute, memory := int32(1000), sharing.Bytes(math.MaxInt64)
	if b, known := in.Profile.Memory.Get(); known {
		memory = b
	}
	for a := range n.On(i) {
		if a.Profile != in.Profile || a.Start != in.Start {
			continue
		}
		tenants++
		compute -= int32(a.Compute)
		memory -= a.Memory + n.Devices[i].GPU.context()
	}
	return tenants, tenants >= slots || compute < 0 || memory < 0
}

// model is the MIG model of a device, that of its instances where the GPU does not state it.
func (d *Device) model() *mig.Model {
	if d.GPU != nil && d.GPU.MIG != nil {
		return d.GPU.MIG
	}
	if len(d.Instances) > 0 && d.Instances[0].Profile != nil {
		return d.Instances[0].Profile.Model()
	}
	return nil
}

// instance returns the index of an instance, -1 where the device has none such.
func (d *Device) instance(p *mig.Profile, start int8) int {
	return slices.IndexFunc(d.Instances, func(in Instance) bool { return in.Profile == p && in.Start == start })
}
