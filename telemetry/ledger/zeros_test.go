// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// TestZerosOfInstances: with every subset of an instance's counters at zero, one of which another shows work is not
// reported as unused.
func TestZerosOfInstances(t *testing.T) {
	counters := []telemetry.Metric{telemetry.MetricGraphicsUtilPercent, telemetry.MetricSMUtilPercent, telemetry.MetricDRAMUtilPercent, telemetry.MetricTensorUtilPercent}
	for zero := range 1 << len(counters) {
		in := telemetry.Instance{ID: 1, UUID: "MIG-a", ComputeSlices: sharing.Some(3)}
		for i, m := range counters {
			in.Set(m, float64(60*(1-zero>>i&1)))
		}
		b := newBench(t)
		b.devs[0].mig = sharing.AnswerYes
		d, all := b.devs[0], claims{}
		d.instances, d.layout = []telemetry.Instance{in}, []telemetry.Instance{in}
		d.instanceCounters(all)
		c := all.list()[0]
		busy, known := c.Busy.Get()
		if works := zero != 1<<len(counters)-1; works && known && busy < 0.5 || !works && (!known || busy != 0) {
			t.Errorf("zero %04b: busy %v", zero, c.Busy)
		}
	}
}
