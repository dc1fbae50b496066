// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

// TestPeriods: no window is longer than the driver keeps its samples, but where a period is.
func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		period     time.Duration
		speed      float64
		fast, slow time.Duration
	}{
		{time.Second, 1, time.Second, 10 * time.Second},
		{100 * time.Millisecond, 1, 100 * time.Millisecond, time.Second},
		{2 * time.Second, 1, 2 * time.Second, 14 * time.Second},
		{time.Minute, 1, time.Minute, time.Minute},
		{time.Second, 60, 25 * time.Millisecond, 250 * time.Millisecond},
		{time.Second, 1e5, 25 * time.Millisecond, 250 * time.Millisecond},
	} {
		if fast, slow := periods(c.period, c.speed); fast != c.fast || slow != c.slow {
			t.Errorf("-period %v -speed %v: %v and %v, want %v and %v", c.period, c.speed, fast, slow, c.fast, c.slow)
		}
	}
}
