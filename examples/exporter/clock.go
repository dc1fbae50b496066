// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// scaledClock runs speed times as fast as the wall clock since a start that is
// kept with the state, so that a simulated node goes on while the program is not running.
func scaledClock(start time.Time, speed float64) ledger.Clock {
	begun := time.Now()
	before := max(begun.Sub(start.Round(0)), 0)
	return ledger.Clock{Name: "simulated", Now: func() time.Duration {
		return time.Duration(float64(before+time.Since(begun)) * speed)
	}}
}

// Costly readings come ten times as seldom as cheap ones, but no later than the driver keeps its samples.
const (
	slowTicks   = 10
	minRealTick = 25 * time.Millisecond
	minRealSlow = 100 * time.Millisecond // the least time between two readings of GPM
)

// periods returns the real time between cheap and between costly readings.
func periods(period time.Duration, speed float64) (fast, slow time.Duration) {
	fast = max(time.Duration(float64(period)/cmp.Or(speed, 1)), minRealTick)
	return fast, max(min(slowTicks*fast, ledger.DriverKeeps), fast, minRealSlow)
}

// bootClock counts from the system's start by the files under the host's root folder, so that it goes on over restarts
// of the program; where there are none, from the program's start.
func bootClock(root fs.FS) ledger.Clock {
	begun := time.Now()
	id, err := fs.ReadFile(root, "proc/sys/kernel/random/boot_id")
	up, err2 := fs.ReadFile(root, "proc/uptime")
	before, err3 := time.ParseDuration(strings.SplitN(string(up), " ", 2)[0] + "s")
	name := "boot " + strings.TrimSpace(string(id))
	if errors.Join(err, err2, err3) != nil {
		name, before = "process "+begun.UTC().Format(time.RFC3339Nano), 0
	}
	return ledger.Clock{Name: name, Now: func() time.Duration { return before + time.Since(begun) }}
}
