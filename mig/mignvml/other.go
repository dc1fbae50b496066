// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package mignvml

import (
	"context"
	"fmt"
)

// Driver is a placeholder: this build has no NVML, and Open returns none.
type Driver struct{ driver }

type driver interface {
	Close() error
	Devices(context.Context) ([]*Device, error)
	Device(context.Context, string) (*Device, error)
}

// Open fails with ErrNoDriver.
func Open() (*Driver, error) {
	return nil, fmt.Errorf("%w: this program was built without NVML: build it for linux with CGO_ENABLED=1", ErrNoDriver)
}
