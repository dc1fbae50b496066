// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// TestIsolatedTokenHoldsMeasuredServers: what is assumed of a model server by its size lies around what servers of three
// sizes were measured to take alone, from one sequence to a batch of sixteen.
func TestIsolatedTokenHoldsMeasuredServers(t *testing.T) {
	gpu := must.Get(sharing.LookupGPU("H200"))(t)
	type size struct{ parameters, layers, kvPerToken float64 }
	sizes := map[string]size{"1b": {1.2358e9, 16, 32768}, "3b": {3.2127e9, 28, 114688}, "8b": {8.03e9, 32, 131072}}
	inside, all := 0, 0
	for _, file := range []string{"h200-colocation.json", "h200-mixes.json"} {
		for _, p := range rowsOf(t, file).Profiles() {
			s, ok := sizes[p.Server.Model]
			if !ok || p.Mechanism != sharing.MechanismTimeSlicing || p.TPOT.P99.IsZero() {
				continue
			}
			b, _ := predict.IsolatedToken(predict.MachineOf(gpu), 2*s.parameters, 2*s.parameters+16384*s.kvPerToken, s.layers, 1)
			v := p.TPOT.P99.Or(0)
			all++
			if 1e3*b.Low <= v && v <= 1e3*b.High {
				inside++
			} else {
				t.Logf("%s %+v: %.2f ms, not between %.2f and %.2f", p.Server.Model, p.Load, v, 1e3*b.Low, 1e3*b.High)
			}
		}
	}
	t.Logf("%d of %d inside", inside, all)
	if all < 8 || float64(inside) < 0.8*float64(all) {
		t.Errorf("%d of %d measured servers lie between the bounds, expected 90%%", inside, all)
	}
}
