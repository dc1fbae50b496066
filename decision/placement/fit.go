// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

func (t *take) alike(o *take) bool { return t.mechanism == o.mechanism && t.milli == o.milli }

func lacks(why *filter.Reason, c filter.Code, need, have int64) bool {
	*why = filter.Reason{Verdict: filter.VerdictReject, Code: c, Need: need, Have: have}
	return false
}

// fits checks CPU and memory of the host and the number of GPUs.
func fits(n *layout.Node, r *Request, why *filter.Reason) bool {
	switch {
	case n.Closed != "":
		return refuse(why, codes.NodeClosed)
	case r.CPUMilli > n.Free().CPUMilli && r.CPUMilli > 0:
		return lacks(why, codes.CPU, r.CPUMilli, n.Free().CPUMilli)
	case r.Memory > n.Free().Memory && r.Memory > 0:
		return lacks(why, codes.Memory, int64(r.Memory), int64(n.Free().Memory))
	case r.GPUs > len(n.Devices) && !modelled(n, r):
		return refuse(why, codes.Model)
	case r.GPUs > len(n.Devices):
		return lacks(why, codes.GPUCount, int64(r.GPUs), int64(len(n.Devices)))
	}
	return true
}

// full reports that no GPU of a node has as much free as a request needs, by a look at the freest ones. It returns the
// GPU whose reason is the node's, if its code is that; -1 where one may fit.
func full(n *layout.Node, r *Request) (gpu int, code filter.Code) {
	f := n.Free()
	if !f.Alike || r.GPUs == 0 || r.Profile != "" || len(n.Devices) > MaxGPUs {
		return -1, code
	}
	memory, milli := &n.Devices[f.DeviceMemory], int32(r.Milli)
	switch {
	case milli > n.Devices[f.Compute].Free().Compute:
		return int(f.Compute), codes.GPUShare
	case milli > n.Devices[f.Least].Free().Compute:
	case r.GPUMemory > memory.Free().Memory && memory.GPU.Memory > 0 && r.Demand == nil:
		return int(f.DeviceMemory), codes.GPUMemory
	case n.Devices[f.Slots].Free().Slots == 0:
		return 0, codes.Tenants
	}
	return -1, code
}

// modelled reports whether a node has a GPU of a model that the request takes, or none at all.
func modelled(n *layout.Node, r *Request) bool {
	if len(r.Models) == 0 || len(n.Devices) == 0 {
		return true
	}
	for i := range n.Devices {
		if g := n.Devices[i].GPU; g != nil && slices.Contains(r.Models, g.Name) {
			return true
		}
	}
	return false
}

// fit computes the share of a GPU that r takes in t, and reports whether that share is free.
func (a *asker) fit(n *layout.Node, i int, r *Request, t *take, why *filter.Reason) bool {
	d := &n.Devices[i]
	f := d.Free()
	switch {
	case d.GPU == nil:
		return refuse(why, codes.DeviceFault)
	case len(r.Models) > 0 && !slices.Contains(r.Models, d.GPU.Name):
		return refuse(why, codes.Model)
	case f.Faulty:
		return refuse(why, codes.DeviceFault)
	case r.Profile != "":
		return fitMIG(n, i, r, t, why) && a.admits(d, r, t, why) && (d.Room(t.profile) != 0 || refuse(why, codes.Slices))
	case layout.Sliced(d.Mode):
		return refuse(why, codes.MIGMode)
	}
	left := filter.Left{Unknown: d.GPU.Memory == 0, Memory: f.Memory, Milli: f.Compute}
	need := r.GPUMemory
	if r.whole() && r.Demand != nil {
		need = min(need, r.Demand.Memory.Within(d.GPU.Usable()-d.GPU.Context))
	}
	t.milli, t.busy, t.memory = int32(r.Milli), int32(max(0, r.Busy-r.Milli)), need+d.GPU.Context
	t.over = max(0, t.milli+t.busy+f.Busy-f.Compute)
	if !chooseMechanism(n, i, r, t, why) || !a.admits(d, r, t, why) || !left.Known(need, why) {
		return false
	}
	if d.Mode == sharing.MechanismNone && !n.Carries(i, t.mechanism) {
		*why = filter.Reason{Verdict: filter.VerdictFixable, Code: codes.NotDelivered, Mechanism: t.mechanism}
		return false
	}
	if left.Room = d.SlotsOf(t.mechanism) - f.Tenants; !left.Takes(t.milli, why) {
		return false
	}
	if (f.Tenants > 0 || a.chosen) && traits.Of(t.mechanism).Trusting && !a.open &&
		!a.trusted(n, i, t.mechanism, r.workload()) {
		return refuse(why, codes.Trust)
	}
	if d.Limit > 0 && r.GPUMemory > d.Limit {
		return lacks(why, codes.SlotLimit, int64(r.GPUMemory), int64(d.Limit))
	}
	memory := t.memory
	if d.GPU.Memory == 0 {
		memory = 0
	}
	return left.Suffices(memory, t.milli, why) && (f.Tenants == 0 || a.predict(n, i, r, t, why))
}

// admits asks the checks of the workload that r is a replica of, where it and the kind of GPU are known.
func (a *asker) admits(d *layout.Device, r *Request, t *take, why *filter.Reason) bool {
	if r.Demand == nil || a.target == nil {
		return true
	}
	slot := filter.Slot{Mechanism: t.mechanism, Profile: t.profile, Fixed: d.Mode != sharing.MechanismNone}
	if r.whole() {
		slot.Mechanism = sharing.MechanismExclusive
	}
	if asked := (admission{a.target, r.Demand, slot}); asked != a.asked {
		a.asked, a.admitted = asked, a.target.Admit(r.Demand, slot)
	}
	*why = a.admitted
	return why.Verdict == filter.VerdictPass
}

func fitMIG(n *layout.Node, i int, r *Request, t *take, why *filter.Reason) bool {
	d := &n.Devices[i]
	model := partition(d)
	if model == nil || d.Mode == sharing.MechanismNone && !n.Carries(i, sharing.MechanismMIG) {
		return refuse(why, codes.NotMIG)
	}
	if len(r.Mechanisms) > 0 && !slices.Contains(r.Mechanisms, sharing.MechanismMIG) {
		return refuse(why, codes.Mechanism)
	}
	prof := profileOf(model, r.Profile)
	if prof == nil {
		return refuse(why, codes.Profile)
	}
	if t.mechanism = d.Mode; t.mechanism == sharing.MechanismNone {
		t.mechanism = sharing.MechanismMIG
	}
	t.profile, t.memory = prof, r.GPUMemory+d.GPU.Context
	slice := filter.Left{Memory: prof.Memory.Value}
	return !prof.Memory.Known || r.GPUMemory == 0 || slice.Suffices(t.memory, 0, why)
}

// profileOf finds a profile by its canonical name without allocating, and only
// then by another of its names; nil when the GPU has none.
func profileOf(m *mig.Model, name string) *mig.Profile {
	for _, p := range m.Profiles {
		if p.Name == name {
			return p
		}
	}
	p, err := m.Profile(name)
	if err != nil {
		return nil
	}
	return p
}

// chooseMechanism sets the mechanism under which the request would run on a GPU.
func chooseMechanism(n *layout.Node, i int, r *Request, t *take, why *filter.Reason) bool {
	mode := n.Devices[i].Mode
	if t.mechanism = mode; mode != sharing.MechanismNone {
		return r.accepts(mode, why)
	}
	if r.whole() {
		t.mechanism = sharing.MechanismExclusive
		return r.accepts(t.mechanism, why)
	}
	t.mechanism = sharing.MechanismNone
	for _, m := range r.Mechanisms {
		if m == sharing.MechanismExclusive || layout.Sliced(m) {
			continue
		}
		if t.mechanism == sharing.MechanismNone {
			t.mechanism = m
		}
		if n.Carries(i, m) {
			t.mechanism = m
			break
		}
	}
	return t.mechanism != sharing.MechanismNone || refuse(why, codes.NoMechanism)
}

// accepts reports whether the request runs on a GPU that runs m.
func (r *Request) accepts(m sharing.Mechanism, why *filter.Reason) bool {
	switch {
	case m == sharing.MechanismExclusive && !r.whole():
		return refuse(why, codes.Mechanism)
	case len(r.Mechanisms) == 0 && m != sharing.MechanismExclusive:
		return refuse(why, codes.NoMechanism)
	case len(r.Mechanisms) > 0 && !slices.Contains(r.Mechanisms, m):
		return refuse(why, codes.Mechanism)
	}
	return true
}

// mechanisms returns a bit for each mechanism of a GPU outside MIG mode that the request accepts.
func (r *Request) mechanisms() (bits uint32) {
	var why filter.Reason
	for m := range sharing.Mechanism(sharing.MechanismCount) {
		if m != sharing.MechanismNone && m != sharing.MechanismMIG && r.accepts(m, &why) {
			bits |= 1 << m
		}
	}
	if bits != 0 {
		bits |= 1 << sharing.MechanismNone
	}
	return bits
}

// trusted reports whether a workload and all tenants that it may meet trust each other: those of a GPU, and where the
// node's delivery chooses the GPU those of all that it may choose.
func (a *asker) trusted(n *layout.Node, gpu int, m sharing.Mechanism, w *layout.Workload) bool {
	if on := n.Free(); !on.Several && on.Tenant == w.Tenant && on.Tenant != "" {
		return true
	}
	for i := range n.Assignments {
		if on := &n.Assignments[i]; (int(on.Device) == gpu || a.chosen && on.Device >= 0 &&
			n.Meets(gpu, m, int(on.Device))) && !on.Workload.Trust(w) {
			return false
		}
	}
	return true
}
