// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"context"
	"errors"
	"slices"

	"github.com/cotenant/cotenant/sharing"
)

// Errors of a device. An adapter wraps these so that callers can distinguish the conditions independently of the
// driver's names for them.
var (
	ErrInUse = errors.New("mig: in use by a client") // a client holds the GPU or the instance
	// ErrInsufficient is returned when the driver has no room at the placement.
	ErrInsufficient = errors.New("mig: insufficient resources")
	// ErrPendingReset is returned when a change of MIG mode waits for a GPU reset.
	ErrPendingReset = errors.New("mig: mode change pending until a GPU reset")
	ErrDisabled     = errors.New("mig: MIG mode is disabled") // MIG mode is off
	ErrNotSupported = errors.New("mig: not supported")        // the GPU or the driver can't do it
	ErrPermission   = errors.New("mig: no permission")        // the caller may not do it
	ErrNotFound     = errors.New("mig: not found")            // there is no such instance or device
	// ErrConflict is returned when another program changed the device during Apply; the error names the changes.
	ErrConflict = errors.New("mig: somebody else changed the device meanwhile")
	// ErrStale is returned when a device does not have the layout that the plan starts from.
	ErrStale = errors.New("mig: the device changed since the plan was made")
)

// Device is one GPU that Apply changes. Package mig/mignvml has a real one and mig/migtest a simulated one. Its errors
// should wrap this package's sentinels. Apply calls it from one goroutine.
type Device interface {
	// State reads the mode and all instances of the GPU.
	State(ctx context.Context) (DeviceState, error)
	// SetMode switches MIG mode. A pending change is no error; State reports it.
	SetMode(ctx context.Context, enabled bool) error
	// CreateGPUInstance creates a GPU instance at exactly the placement.
	CreateGPUInstance(ctx context.Context, p *Profile, at Placement) (DeviceInstance, error)
	// DestroyGPUInstance destroys a GPU instance that has no compute instances.
	DestroyGPUInstance(ctx context.Context, id int) error
	// ComputeProfiles lists the compute-instance profiles that a GPU instance accepts.
	ComputeProfiles(ctx context.Context, gpuInstance int) ([]ComputeProfile, error)
	// CreateComputeInstance creates a compute instance of a profile.
	CreateComputeInstance(ctx context.Context, gpuInstance int, profile int) (DeviceCompute, error)
	// DestroyComputeInstance destroys a compute instance.
	DestroyComputeInstance(ctx context.Context, gpuInstance, id int) error
}

// Locker is a Device that can be locked for one change at a time. Apply holds the lock from its first reading to its
// last, so that changes of one GPU through this package wait for each other. The lock does not bind nvidia-smi or other
// tools.
type Locker interface {
	// Lock waits for the lock until ctx ends. unlock releases it.
	Lock(ctx context.Context) (unlock func(), err error)
}

// ComputeProfile is a compute-instance profile as a GPU instance offers it.
type ComputeProfile struct {
	ID     int // NVML profile constant
	Slices int
	SMs    int
}

// DeviceState is the state that a device reports. Model is the catalogue's entry, or one built from the device's own
// data.
type DeviceState struct {
	UUID  string
	Model *Model
	// Mode is true if MIG is on, Pending if it will be on after the next reset: they differ while a change is pending.
	Mode, Pending bool
	// Resetless reports whether the mode changes without a GPU reset (NVML field 184); Unknown where it is not reported.
	Resetless sharing.Answer
	Instances []DeviceInstance
}

// DeviceInstance is a GPU instance on a device.
type DeviceInstance struct {
	ID      int // the driver's; it does not reveal the placement
	Profile *Profile
	Placement
	Busy    bool // a client uses it
	Compute []DeviceCompute
}

// DeviceCompute is a compute instance on a device.
type DeviceCompute struct {
	ID      int
	Profile int // NVML profile constant
	Slices  int
	UUID    string // of the MIG device, "MIG-..."
}

// Layout returns the device's instances as a layout.
func (s DeviceState) Layout() Layout {
	l := Layout{Model: s.Model}
	for _, d := range s.Instances {
		l.Instances = append(l.Instances, d.instance())
	}
	l.sort()
	return l
}

// instance returns the device's instance as a plan sees it. Compute is nil for the usual single compute instance.
func (d DeviceInstance) instance() Instance {
	in := Instance{Profile: d.Profile, Placement: d.Placement, Busy: d.Busy, Compute: []int{}}
	for _, c := range d.Compute {
		in.Compute = append(in.Compute, c.Slices)
	}
	if d.Profile != nil && slices.Equal(in.Compute, []int{d.Profile.ComputeSlices}) {
		in.Compute = nil
	}
	return in
}

// BestComputeProfile returns the profile of the given slices with the most SMs; ties go to the lower id. Double-memory
// 1g instances of Hopper and Blackwell have two profiles of one slice; the first leaves about 40% of the SMs unused.
func BestComputeProfile(profiles []ComputeProfile, slices int) (ComputeProfile, bool) {
	best, found := ComputeProfile{}, false
	for _, p := range profiles {
		if p.Slices == slices && (!found || p.SMs > best.SMs || p.SMs == best.SMs && p.ID < best.ID) {
			best, found = p, true
		}
	}
	return best, found
}
