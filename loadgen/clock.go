package loadgen

import "time"

// clock turns instants into Unix nanoseconds through one base that has both the
// wall and the monotonic clock, so that a step of the wall clock during a run
// moves nothing.
type clock struct {
	base     time.Time
	baseUnix int64
}

func newClock() *clock {
	now := time.Now()
	return &clock{base: now, baseUnix: now.UnixNano()}
}

func (c *clock) now() int64 { return c.baseUnix + int64(time.Since(c.base)) }

func (c *clock) at(t time.Time) int64 { return c.baseUnix + int64(t.Sub(c.base)) }
