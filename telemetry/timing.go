package telemetry

import (
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
)

// Timing says how evenly the fast clock ticked.
type Timing struct {
	Period time.Duration `json:"period_ns"`
	// Ticks were read, of one device at least; Missed were not, of any, since
	// the one before took too long or the process did not run.
	Ticks  int64 `json:"ticks"`
	Missed int64 `json:"missed"`
	// Jitter is by how much the time between a device's successive readings
	// differed from the period, where no tick between them was missed.
	JitterP50 Optional[time.Duration] `json:"jitter_p50_ns,omitzero"`
	JitterP99 Optional[time.Duration] `json:"jitter_p99_ns,omitzero"`
	JitterMax Optional[time.Duration] `json:"jitter_max_ns,omitzero"`
}

// Timing computes the fast clock's figures from the samples.
func (s *Series) Timing() Timing {
	t := Timing{Period: s.Period}
	type prev struct {
		tick int64
		at   time.Duration
		ok   bool
	}
	last := make([]prev, len(s.Devices))
	newest := int64(-1)
	var jitter []time.Duration
	for x := range s.All() {
		if !x.fast() {
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
		t.JitterP50, t.JitterP99, t.JitterMax = Some(stats.NearestRank(jitter, 0.5)), Some(stats.NearestRank(jitter, 0.99)),
			Some(jitter[len(jitter)-1])
	}
	return t
}
