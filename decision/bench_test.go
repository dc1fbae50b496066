// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/internal/must"
)

func compiledSample(t testing.TB) (*CompiledWorkload, *CompiledPool) {
	f := must.Get(ParseFleet([]byte(sample)))(t)
	return CompileWorkload(&f.Workloads[0]), must.Get(CompilePool(&f.Pools[0]))(t)
}

// BenchmarkEvaluate is the hot path of a scheduler: one workload against one pool, every mechanism filtered.
func BenchmarkEvaluate(b *testing.B) {
	w, p := compiledSample(b)
	var ev Evaluation
	b.ReportAllocs()
	for b.Loop() {
		Evaluate(w, p, filter.Neighbours{Trusted: 3, Untrusted: 5}, &ev)
	}
	if ev.Candidates[0].Verdict != filter.VerdictPass {
		b.Fatal("a whole GPU does not pass")
	}
}

func TestEvaluateDoesNotAllocate(t *testing.T) {
	w, p := compiledSample(t)
	var ev Evaluation
	if n := testing.AllocsPerRun(100, func() { Evaluate(w, p, filter.Neighbours{Trusted: 3}, &ev) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
