// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// bootClock counts from the system's start, through sleep, and knows no steps.
func bootClock(root fs.FS) ledger.Clock {
	id, err := fs.ReadFile(root, "proc/sys/kernel/random/boot_id")
	if err != nil {
		return processClock()
	}
	return ledger.Clock{Name: "boot " + strings.TrimSpace(string(id)), Now: func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			return 0
		}
		return time.Duration(t.Nano())
	}}
}
