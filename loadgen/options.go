// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"fmt"
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
	// ProcessTimes has open loops wait by Go's timers, late by up to about 1 ms, and takes the times of events after the
	// read, as a client without help does. Otherwise, on Linux, a timerfd (late by about 0.1 ms) and the kernel's receive
	// times serve. Set it in a testing/synctest bubble.
	ProcessTimes bool
	// StopSaturated stops the run once the server is found to fall behind.
	StopSaturated bool
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

// Line formats the state for people, with the rate of tokens, of requests that have
// ended, since an earlier state of the same run; the zero value is its start.
func (p Progress) Line(last Progress) string {
	total := func(p Progress) (sum TenantProgress) {
		for _, t := range p.Tenants {
			sum.Sent, sum.OK, sum.Failed = sum.Sent+t.Sent, sum.OK+t.OK, sum.Failed+t.Failed
			sum.InFlight, sum.Tokens = sum.InFlight+t.InFlight, sum.Tokens+t.Tokens
		}
		return sum
	}
	now, rate := total(p), ""
	if d := p.Elapsed - last.Elapsed; d >= 100*time.Millisecond {
		rate = fmt.Sprintf(", %.0f tokens/s", float64(now.Tokens-total(last).Tokens)/d.Seconds())
	}
	return fmt.Sprintf("%5.1fs: sent %d, ok %d, failed %d, in flight %d%s",
		p.Elapsed.Seconds(), now.Sent, now.OK, now.Failed, now.InFlight, rate)
}

// TenantProgress counts a tenant's requests and tokens since the run's start.
type TenantProgress struct {
	Name     string
	Sent     int64
	OK       int64
	Failed   int64
	InFlight int64
	Tokens   int64 // of requests that have ended
	// TTFTSum and TTFTCount are over the requests that have ended ok.
	TTFTSum   time.Duration
	TTFTCount int64
}
