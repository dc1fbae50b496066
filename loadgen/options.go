// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"time"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// Options tune Run. The zero value is the documented default.
type Options struct {
	// Dir is the run's directory. It is created; it must not exist or must be empty. "" keeps everything in memory.
	Dir string
	// RunID names the run; "" means one made of the time, the plan's scenario and its seed.
	RunID string
	// Progress, when not nil, is called every second, from one goroutine, and once after the last request.
	Progress func(Progress)
	// KeepRecords keeps every Record in Result.Records.
	KeepRecords bool
	// Health are the bounds of the client-health verdict.
	Health HealthLimits
	// ProcessTimes makes open loops wait on Go's timers, late by up to about 1 ms, and times events after the read, as
	// ordinary clients do. Otherwise, on Linux, a timerfd (late by about 0.1 ms) and the kernel's receive times are used.
	// Set it in a testing/synctest bubble.
	ProcessTimes bool
	// Meta is written into config.json unchanged: arguments, GPU inventory,
	// sharing mode. The plan's credentials are removed from it.
	Meta map[string]any

	mode wire.Mode // the best that there is, unless a test compares modes
}

// receive returns how answers are read and timed.
func (o *Options) receive() wire.Mode {
	if o.ProcessTimes {
		return wire.ModePlain
	}
	return o.mode
}

// Progress holds the state of a run.
type Progress struct {
	Elapsed time.Duration
	Tenants []TenantProgress
}

// TenantProgress counts a tenant's requests and tokens since the run's start.
type TenantProgress struct {
	Name     string
	Sent     int64
	OK       int64
	Failed   int64
	InFlight int64
	Tokens   int64 // of requests that have ended
}
