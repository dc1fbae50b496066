// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package telemetrynvml

import (
	"context"
	"fmt"
	"runtime"

	"github.com/cotenant/cotenant/telemetry"
)

// Reader is a telemetry.Reader over NVML. On this platform there is none, and Open returns none.
type Reader struct{ reader }

type reader interface {
	telemetry.Reader
	Inventory(context.Context) (telemetry.Inventory, error)
	Close() error
}

// Open returns an error that wraps ErrUnavailable and gives the reason.
func Open(Options) (*Reader, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: this is %s; NVML is read on linux", ErrUnavailable, runtime.GOOS)
	}
	return nil, fmt.Errorf("%w: the program was built with CGO_ENABLED=0; build it with cgo and a C compiler",
		ErrUnavailable)
}
