// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package cudaprobe

import (
	"context"
	"fmt"
	"runtime"

	"github.com/cotenant/cotenant/decision/probe"
)

// Child returns false: on this platform there are no processes of the probe.
func Child() (code int, is bool) { return 0, false }

// Site is this machine's GPU. On this platform there is none, and Open returns none.
type Site struct{ probe.Site }

// Open returns the reason for which there is none.
func Open(context.Context, Options) (*Site, error) { return nil, unavailable() }

func unavailable() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%s: this is %s; the probe runs on linux", noDriver, runtime.GOOS)
	}
	return fmt.Errorf("%s: the program was built with CGO_ENABLED=0; build it with cgo and a C compiler", noDriver)
}

// NextToSpinner returns the reason for which there is none.
func (*Site) NextToSpinner(context.Context, func(context.Context) error) error { return unavailable() }

// Close does nothing.
func (*Site) Close() error { return nil }
