// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package telemetrynvml

import (
	"context"
	"fmt"
	"runtime"

	"github.com/cotenant/cotenant/telemetry"
)

// Reader is a telemetry.Reader over NVML. On this platform there is none.
type Reader struct{}

// Open returns an error that wraps ErrUnavailable and gives the reason.
func Open(Options) (*Reader, error) { return nil, unavailable() }

func unavailable() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: this is %s; NVML is read on linux", ErrUnavailable, runtime.GOOS)
	}
	return fmt.Errorf("%w: the program was built with CGO_ENABLED=0; build it with cgo and a C compiler", ErrUnavailable)
}

// Info describes the reader.
func (*Reader) Info() telemetry.ReaderInfo { return telemetry.ReaderInfo{Name: "nvml"} }

// Devices returns an error that wraps ErrUnavailable.
func (*Reader) Devices(context.Context) ([]telemetry.Device, error) { return nil, unavailable() }

// Read returns an error that wraps ErrUnavailable.
func (*Reader) Read(context.Context, int, telemetry.Groups, *telemetry.Reading) error {
	return unavailable()
}

// Close does nothing.
func (*Reader) Close() error { return nil }

// Inventory returns an error that wraps ErrUnavailable.
func (*Reader) Inventory(context.Context) (telemetry.Inventory, error) {
	return telemetry.Inventory{}, unavailable()
}
