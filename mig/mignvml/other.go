// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package mignvml

import (
	"context"
	"errors"
)

// ErrNoDriver is the reason why there is no driver here.
var ErrNoDriver = errors.New("mignvml: this program was built without NVML: build it for linux with CGO_ENABLED=1")

// Driver is a placeholder: this build has no NVML.
type Driver struct{}

// Open fails with ErrNoDriver.
func Open() (*Driver, error) { return nil, ErrNoDriver }

// Close does nothing.
func (d *Driver) Close() error { return nil }

// Devices fails with ErrNoDriver.
func (d *Driver) Devices(context.Context) ([]*Device, error) { return nil, ErrNoDriver }

// Device fails with ErrNoDriver.
func (d *Driver) Device(context.Context, string) (*Device, error) { return nil, ErrNoDriver }
