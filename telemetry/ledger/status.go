// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Status describes the node at present.
type Status struct {
	Devices []Device // in the order of the telemetry's header
	// Kubelet answers whether the last call to the kubelet succeeded; unknown without Options.Kubelet.
	Kubelet sharing.Answer
	// UnknownDevices counts the devices given to pods under ids that are not understood, by form (container.DeviceForm).
	// Their holders are not charged.
	UnknownDevices map[string]int
	Refused        int // windows that Divide refused: a defect
}

// Status returns the node's present state.
func (a *Accountant) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Status{Devices: make([]Device, len(a.devs)), UnknownDevices: map[string]int{}, Refused: a.refused}
	for i, d := range a.devs {
		g := &s.Devices[i]
		*g = d.Device
		g.Memory, g.Unknown = map[container.Pod]float64{}, map[container.Reason]int{}
		if held, slots, known := a.holders.of(func(dev container.Device) bool { return a.fits(d, dev) }); known {
			n := 0
			for _, devices := range held {
				n += len(devices)
			}
			g.Held, g.Slots = sharing.Some(n), sharing.Some(slots)
		}
		resident := map[container.Pod]bool{}
		for _, p := range d.listed {
			if m, ok := p.memory.Get(); ok {
				g.Memory[a.book.under(p.pod())] += float64(m)
			}
			switch {
			case p.overhead:
			case p.identity.Known():
				resident[p.pod()] = true
			default:
				g.Unknown[p.identity.Reason]++
			}
		}
		g.Resident = len(resident)
	}
	h := a.holders
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Kubelet = h.kubelet
	for _, given := range h.given {
		for _, id := range given.Unknown {
			s.UnknownDevices[container.DeviceForm(id)]++
		}
		for _, d := range given.Devices {
			if !d.Minor.IsZero() && !slices.ContainsFunc(a.devs, func(x *device) bool { return x.minor == d.Minor }) {
				s.UnknownDevices["minor number of no GPU here"]++
			}
		}
	}
	return s
}
