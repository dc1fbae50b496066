//go:build !linux || !cgo

package mignvml

import (
	"context"
	"errors"

	"github.com/cotenant/cotenant/mig"
)

// ErrNoDriver says why there is no driver here.
var ErrNoDriver = errors.New("mignvml: this program was built without NVML: build it for linux with CGO_ENABLED=1")

// Driver stands for NVML. There is none here.
type Driver struct{}

// Open fails with ErrNoDriver.
func Open() (*Driver, error) { return nil, ErrNoDriver }

// Close does nothing.
func (d *Driver) Close() error { return nil }

// Devices fails with ErrNoDriver.
func (d *Driver) Devices(context.Context) ([]*Device, error) { return nil, ErrNoDriver }

// Device fails with ErrNoDriver.
func (d *Driver) Device(context.Context, string) (*Device, error) { return nil, ErrNoDriver }

// Device stands for a GPU. There is none here.
type Device struct{}

var (
	_ mig.Device = (*Device)(nil)
	_ mig.Locker = (*Device)(nil)
)

// UUID returns "".
func (d *Device) UUID() string { return "" }

// Name returns "".
func (d *Device) Name() string { return "" }

// Model returns nil.
func (d *Device) Model() *mig.Model { return nil }

// State fails with ErrNoDriver.
func (d *Device) State(context.Context) (mig.DeviceState, error) {
	return mig.DeviceState{}, ErrNoDriver
}

// Lock fails with ErrNoDriver.
func (d *Device) Lock(context.Context) (unlock func(), err error) { return nil, ErrNoDriver }

// SetMode fails with ErrNoDriver.
func (d *Device) SetMode(context.Context, mig.Mode) error { return ErrNoDriver }

// CreateGPUInstance fails with ErrNoDriver.
func (d *Device) CreateGPUInstance(context.Context, *mig.Profile, mig.Placement) (mig.DeviceInstance, error) {
	return mig.DeviceInstance{}, ErrNoDriver
}

// DestroyGPUInstance fails with ErrNoDriver.
func (d *Device) DestroyGPUInstance(context.Context, int) error { return ErrNoDriver }

// ComputeProfiles fails with ErrNoDriver.
func (d *Device) ComputeProfiles(context.Context, int) ([]mig.ComputeProfile, error) {
	return nil, ErrNoDriver
}

// CreateComputeInstance fails with ErrNoDriver.
func (d *Device) CreateComputeInstance(context.Context, int, int) (mig.DeviceCompute, error) {
	return mig.DeviceCompute{}, ErrNoDriver
}

// DestroyComputeInstance fails with ErrNoDriver.
func (d *Device) DestroyComputeInstance(context.Context, int, int) error { return ErrNoDriver }
