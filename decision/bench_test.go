// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
)

// BenchmarkEvaluate is the hot path of a scheduler: one workload against one pool, every mechanism filtered.
func BenchmarkEvaluate(b *testing.B) {
	f, err := ParseFleet([]byte(sample))
	if err != nil {
		b.Fatal(err)
	}
	p, err := CompilePool(&f.Pools[0])
	if err != nil {
		b.Fatal(err)
	}
	w := CompileWorkload(&f.Workloads[0])
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
	f, err := ParseFleet([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	p, err := CompilePool(&f.Pools[0])
	if err != nil {
		t.Fatal(err)
	}
	w := CompileWorkload(&f.Workloads[0])
	var ev Evaluation
	if n := testing.AllocsPerRun(100, func() { Evaluate(w, p, filter.Neighbours{Trusted: 3}, &ev) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
