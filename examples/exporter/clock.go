package main

import (
	"cmp"
	"time"
)

// clock is what the ledger's time is read from. Its name changes where it
// starts anew.
type clock struct {
	name string
	now  func() time.Duration
}

// scaledClock runs speed times as fast as the wall clock since a start that is
// kept with the state, so that a simulated node lives on while nobody looks.
func scaledClock(start time.Time, speed float64) clock {
	begun := time.Now()
	before := max(begun.Sub(start.Round(0)), 0)
	return clock{"simulated", func() time.Duration { return time.Duration(float64(before+time.Since(begun)) * speed) }}
}

// Costly readings come ten times as seldom as cheap ones, but no later than the
// driver keeps its samples.
const (
	slowTicks   = 10
	driverKeeps = samplesKept / samplesPerSecond * time.Second
	minRealTick = 25 * time.Millisecond
	minRealSlow = 100 * time.Millisecond // what GPM needs between two readings
)

// periods returns the real time between cheap and between costly readings.
func periods(period time.Duration, speed float64) (fast, slow time.Duration) {
	fast = max(time.Duration(float64(period)/cmp.Or(speed, 1)), minRealTick)
	return fast, max(min(slowTicks*fast, driverKeeps), fast, minRealSlow)
}

// processClock counts from the program's start, for systems that say no more.
func processClock() clock {
	begun := time.Now()
	return clock{"process " + begun.UTC().Format(time.RFC3339Nano), func() time.Duration { return time.Since(begun) }}
}
