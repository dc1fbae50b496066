// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"time"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// scaledClock runs speed times as fast as the wall clock since a start that is
// kept with the state, so that a simulated node lives on while nobody looks.
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

// processClock counts from the program's start, for systems that say no more.
func processClock() ledger.Clock {
	begun := time.Now()
	return ledger.Clock{
		Name: "process " + begun.UTC().Format(time.RFC3339Nano), Now: func() time.Duration { return time.Since(begun) },
	}
}
