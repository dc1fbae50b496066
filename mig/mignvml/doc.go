// SPDX-License-Identifier: Apache-2.0

// Package mignvml is the NVML adapter of package mig: real GPUs as mig.Device.
//
// Open loads NVML; it needs linux and cgo, and elsewhere fails with an error that says so. Reading (models, modes,
// instances) needs no privileges and no MIG mode; changes need root or the MIG configuration capability. What was
// verified on hardware is reading, on an H200; the errors of changes are mapped from NVML's documentation.
// It is stable: its API changes incompatibly only with a new major version.
package mignvml

import (
	"errors"

	"github.com/cotenant/cotenant/mig"
)

// ErrNoDriver is returned when NVML can't be loaded.
var ErrNoDriver = errors.New("mignvml: no NVIDIA driver")

// Device is a GPU that a Driver returned. It implements mig.Device and mig.Locker. Methods may be called from one
// goroutine at a time. An instance whose processes can't be listed counts as busy; one that was made and can't be read
// back is destroyed again; the driver may detach the GPU while its mode changes, so its handle is then looked up again.
//
// Its lock is on the file mig-UUID.lock in /run/cotenant. It holds among processes that share that directory: those of
// a host, and those of a container when it is mounted there. For a user other than root with the right to change MIG
// that directory must exist and be writable.
type Device struct {
	lockedDevice
	uuid, name string
	model      *mig.Model
}

type lockedDevice interface {
	mig.Device
	mig.Locker
}

// UUID returns the GPU's UUID.
func (d *Device) UUID() string { return d.uuid }

// Name returns the product name that the driver reports.
func (d *Device) Name() string { return d.name }

// Model returns the GPU's model: the catalogue's, or one made of the device's answers (see mig.Discover).
func (d *Device) Model() *mig.Model { return d.model }
