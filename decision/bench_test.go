// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

func compiledSample(t testing.TB) (*score.CompiledWorkload, *score.CompiledPool) {
	f := must.Get(ParseFleet([]byte(sample)))(t)
	return score.CompileWorkload(&f.Workloads[0]), must.Get(score.CompilePool(&f.Pools[0]))(t)
}

// BenchmarkEvaluate is the hot path of a scheduler: one workload against one pool, every mechanism filtered.
func BenchmarkEvaluate(b *testing.B) {
	w, p := compiledSample(b)
	c, mechanisms := score.Scored{}, sharing.Mechanisms()
	b.ReportAllocs()
	for b.Loop() {
		for _, m := range mechanisms {
			score.Evaluate(w, p, filter.Neighbours{Trusted: 3, Untrusted: 5}, m, &c)
		}
	}
}

func TestEvaluateDoesNotAllocate(t *testing.T) {
	w, p := compiledSample(t)
	var c score.Scored
	if n := testing.AllocsPerRun(100, func() { score.Evaluate(w, p, filter.Neighbours{Trusted: 3}, sharing.MechanismMIG, &c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
