// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/optional"
)

// leastBusy bounds the part of a step with gaps in which the GPU works: it has one.
const leastBusy = 0.1

// decodingShare is the share of time that a closed loop spends in decode steps, 0 of other loads and where the median
// gap between tokens holds prompts.
func decodingShare(q *profile.SoloProfile) float64 {
	if !q.Load.Closed() || q.GapsHoldPrompts() {
		return 0
	}
	return float64(q.Load.Output-1) / float64(q.Load.Output) * q.ITL.P50.Or(0) * q.TokensPerS.Or(0) / 1e3 / q.Batch()
}

// busyDecoding is the share of a decode step in which the GPU works.
func busyDecoding(q *profile.SoloProfile) (float64, bool) {
	busy, ok := optional.Positive(q.GPUBusyFraction)
	decoding := decodingShare(q)
	if decoding < table.Launched.Busy.Value { // prompts keep the GPU at least as busy
		return busy, ok && busy < table.Launched.Busy.Value*decoding
	}
	return (busy - table.Launched.BusyPrefilling.Value*max(0, 1-decoding)) / decoding, ok
}

// readGaps finds whether the profiles of a server show that its kernels are launched one by one, by the gaps between
// them, and how its step grows with the batch then.
func (t *tenantModel) readGaps(base *profile.SoloProfile, siblings []*profile.SoloProfile) {
	var loads []*profile.SoloProfile
	sum, n, growth := 0.0, 0.0, 0.0
	for i := range 1 + len(siblings) {
		q := base
		if i > 0 {
			q = siblings[i-1]
		}
		if q != base && !alike(q, base) || i > 0 && q == base {
			continue
		}
		if decodingShare(q) >= table.Launched.Busy.Value {
			loads = append(loads, q)
		}
		if busy, ok := busyDecoding(q); ok {
			t.gaps = t.gaps || busy < table.Launched.Busy.Value
			sum, n = sum+busy, n+1
		}
	}
	for _, a := range loads {
		for _, b := range loads {
			if b.Batch() >= 1.5*a.Batch() {
				growth = max(growth, (b.ITL.P50.Or(0)/a.ITL.P50.Or(1)-1)/math.Log2(b.Batch()/a.Batch()))
			}
		}
	}
	if !t.gaps {
		return
	}
	t.doubling = growth
	if own, ok := busyDecoding(base); ok {
		sum, n = own, 1
	}
	if n > 0 {
		t.busy = min(max(sum/n, leastBusy), 1)
	}
}

// gapsOf reports whether a workload is something else than a server that launches its steps as a whole.
func gapsOf(s profile.Solo) bool {
	var t tenantModel
	return slices.ContainsFunc([]*profile.SoloProfile{s.TimeSlicing, s.MPS}, func(b *profile.SoloProfile) bool {
		if b != nil {
			t.readGaps(b, s.Siblings)
		}
		return t.gaps || b != nil && b.Kind != profile.KindServer
	})
}

// alike reports whether q, of the same server as b, is another closed loop under the same mechanism with gaps between
// tokens that show its decode steps.
func alike(q, b *profile.SoloProfile) bool {
	return q != b && q.Load.Closed() && q.Mechanism == b.Mechanism && !q.GapsHoldPrompts()
}
