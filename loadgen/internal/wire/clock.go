package wire

import "time"

// Clock turns instants into Unix nanoseconds through one base that has both the wall and the monotonic clock, so
// that a step of the wall clock during a run moves nothing.
type Clock struct {
	base time.Time
	unix int64
}

// NewClock returns a clock whose base is now.
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
