// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"io/fs"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// bootClock counts from the program's start: there is no clock of the system's.
func bootClock(fs.FS) ledger.Clock { return processClock() }
