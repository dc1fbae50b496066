// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// timing measures the jitter of the fast clock.
type timing struct {
	Period time.Duration
	// Ticks were read, of one device at least; Missed were not, of any, since
	// the one before took too long or the process did not run.
	Ticks  int64
	Missed int64
	// Jitter is by how much the time between a device's successive readings
	// differed from the period, where no tick between them was missed.
	JitterP50 sharing.Optional[time.Duration]
	JitterP99 sharing.Optional[time.Duration]
	JitterMax sharing.Optional[time.Duration]
}

// timingOf computes the fast clock's figures from the samples.
func timingOf(s *telemetry.Series) timing {
	t := timing{Period: s.Period}
	type prev struct {
		tick int64
		at   time.Duration
		ok   bool
	}
	last := make([]prev, len(s.Devices))
	newest := int64(-1)
	var jitter []time.Duration
	for x := range s.All() {
		if x.Groups&telemetry.GroupsFast == 0 {
			continue
		}
		if x.Tick > newest {
			t.Ticks++
			t.Missed += x.Tick - newest - 1
			newest = x.Tick
		}
		p := &last[x.Device]
		if p.ok && x.Tick == p.tick+1 {
			jitter = append(jitter, (x.At - p.at - s.Period).Abs())
		}
		*p = prev{x.Tick, x.At, true}
	}
	if len(jitter) > 0 {
		slices.Sort(jitter)
		t.JitterP50, t.JitterP99, t.JitterMax = sharing.Some(stats.NearestRank(jitter, 0.5)), sharing.Some(stats.NearestRank(jitter, 0.99)),
			sharing.Some(jitter[len(jitter)-1])
	}
	return t
}
