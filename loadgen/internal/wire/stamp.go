// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/tls"
	"net"
	"time"
)

// stamper is a connection that knows when the kernel received the last bytes read.
type stamper interface {
	// lastStamp is in Unix nanoseconds on the system's wall clock; 0 means unknown.
	lastStamp() int64
}

// stamperOf finds the stamper under a connection, TLS included.
func stamperOf(c net.Conn) stamper {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, _ := c.(stamper)
	return s
}

// stamps gives the times of an answer's reads.
type stamps struct {
	clock   *Clock
	stamper stamper
	prev    int64 // no read is earlier than this
	counts  Counts
}

// Counts counts the reads of an answer by the source of their time.
type Counts struct {
	Kernel, User int
	// Clamped are kernel times that contradicted the clock and were moved to the nearest possible one.
	Clamped int
}

// stampTolerance bounds the time by which a stamp may lie in the future without
// contradicting the clock, since the two are read one after the other; nanoseconds.
const stampTolerance = int64(20 * time.Microsecond)

// read returns the time of the read that just returned, on the clock, and how long
// the data had waited in the kernel; lag is -1 when not known.
func (r *stamps) read() (at, lag int64) {
	if r.stamper == nil {
		return r.of(0)
	}
	return r.of(r.stamper.lastStamp())
}

// of is read for data that the kernel received at stamp; 0 means unknown.
func (r *stamps) of(stamp int64) (at, lag int64) {
	now := time.Now()
	mono := r.clock.At(now)
	if stamp != 0 {
		// Both are wall-clock readings taken close together, so their difference
		// needs no knowledge of the wall clock's offset to the monotonic one.
		lag = now.UnixNano() - stamp
		at = mono - lag
		switch {
		case lag < 0:
			if lag < -stampTolerance {
				r.counts.Clamped++
			}
			at, lag = mono, 0
		case at < r.prev:
			r.counts.Clamped++
			at = r.prev
			lag = mono - at
		}
		r.prev = at
		r.counts.Kernel++
		return at, lag
	}
	r.counts.User++
	r.prev = max(mono, r.prev)
	return r.prev, -1
}

// Clock turns instants into Unix nanoseconds through one base that has both the wall and the monotonic clock, so
// that a step of the wall clock during a run moves nothing.
type Clock struct {
	base time.Time
	unix int64
}

// NewClock returns a clock with the present as its base.
func NewClock() *Clock {
	now := time.Now()
	return &Clock{base: now, unix: now.UnixNano()}
}

// Base is the base in Unix nanoseconds.
func (c *Clock) Base() int64 { return c.unix }

// Now is the present in Unix nanoseconds.
func (c *Clock) Now() int64 { return c.unix + int64(time.Since(c.base)) }

// At is t in Unix nanoseconds; t must have a monotonic reading.
func (c *Clock) At(t time.Time) int64 { return c.unix + int64(t.Sub(c.base)) }
