// SPDX-License-Identifier: Apache-2.0

// Package mignvml is the NVML adapter of package mig: real GPUs as mig.Device.
//
// Open loads NVML; it needs linux and cgo, and elsewhere fails with an error that says so. Reading (models, modes,
// instances) needs no privileges and no MIG mode; changes need root or the MIG configuration capability. Reading was
// verified on an H200; the errors of changes are mapped from NVML's documentation and were not tested on hardware. It
// is stable: its API changes incompatibly only with a new major version.
package mignvml

import (
	"errors"

	"github.com/cotenant/cotenant/mig"
)

// ErrNoDriver is returned when NVML can't be loaded.
var ErrNoDriver = errors.New("mignvml: no NVIDIA driver")

// Device is a GPU that a Driver returned. It implements mig.Device and mig.Locker. Methods may be called from one
// goroutine at a time. An instance counts as busy if its processes can't be listed; a new instance that can't be read
// back is destroyed again; the handle is looked up again after a mode change.
//
// Its lock is the file mig-UUID.lock in /run/cotenant. It works among processes that share that directory: those of a
// host, and those of containers that mount it. For a user other than root the directory must exist and be writable.
type Device struct {
	lockedDevice
	UUID  string
	Name  string     // the product name that the driver reports
	Model *mig.Model // the catalogue's, or one made of the device's answers (see mig.Discover)
}

type lockedDevice interface {
	mig.Device
	mig.Locker
}
