// SPDX-License-Identifier: Apache-2.0

package score_test

import (
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/sharing"
)

func notebook() (*score.CompiledWorkload, *score.CompiledPool) {
	f, err := fleet.ParseFleet([]byte(`
version: v1
pools:
  - {name: lab, gpu: A100-SXM4-80GB, count: 2}
workloads:
  - {name: notebook, kind: notebook, memory: 8GiB}
`))
	if err != nil {
		log.Fatal(err)
	}
	pool, err := score.CompilePool(&f.Pools[0])
	if err != nil {
		log.Fatal(err)
	}
	return score.CompileWorkload(&f.Workloads[0]), pool
}

// A lone notebook may have a whole GPU or a part of one by several mechanisms; the score orders those of equal cost.
func ExampleEvaluate() {
	w, p := notebook()
	var c score.Scored
	for _, m := range sharing.Mechanisms() {
		if score.Evaluate(w, p, filter.Neighbours{Trusted: 1}, m, &c); c.Verdict == filter.VerdictPass {
			fmt.Printf("%.0f %v\n", c.Score, c.Mechanism)
		}
	}
	// Output:
	// 101 exclusive
	// 75 time-slicing
	// 50 mps
	// 51 mig
}
