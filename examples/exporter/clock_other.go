//go:build !linux

package main

import (
	"io/fs"

	"github.com/cotenant/cotenant/telemetry/account"
)

// bootClock counts from the program's start: there is no clock of the system's.
func bootClock(fs.FS) account.Clock { return processClock() }
