// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"errors"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
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
	// Pacing is the way in which open loops wait.
	Pacing Pacing
	// Receive is the way in which answers are read and timed.
	Receive Receive
	// StopSaturated stops the run once the server is found to fall behind.
	StopSaturated bool
	// Meta is written into config.json unchanged: arguments, GPU inventory,
	// sharing mode. The plan's credentials are removed from it.
	Meta map[string]any
}

func (o *Options) check() error {
	var l problem.List
	l.If(o.Receive > ReceivePlain, "receive", "use one of the package's constants", "%d is not a value", o.Receive)
	l.If(o.Pacing > PacingTimer, "pacing", "use PacingPrecise or PacingTimer", "%d is not a value", o.Pacing)
	return l.Under(errors.New("loadgen: invalid options"))
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

// Receive selects how answers are read and which clock gives the times of their events. The zero value is
// ReceivePolled. Where a system or a connection cannot do it, the next value is used.
type Receive uint8

// The ways to receive.
const (
	// ReceivePolled takes the kernel's receive times, and sends and reads plain HTTP/1.1
	// without net/http, in batches with a poller, at the least CPU (Linux).
	ReceivePolled = Receive(wire.ModePolled)
	// ReceiveStamped takes the kernel's receive times, without the poller: one
	// goroutine waits for each connection (Linux).
	ReceiveStamped = Receive(wire.ModeStamped)
	// ReceivePlain takes the times after the read, as a client without help does.
	//
	// Here and under ReceiveStamped net/http takes chunks apart. Where the size of the
	// next chunk came in the same read without the chunk, it hands an event over only
	// once that has come: a stall just there after the first token is timeout_ttft.
	ReceivePlain = Receive(wire.ModePlain)
)
