// SPDX-License-Identifier: Apache-2.0

package score_test

import (
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/score"
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

// Every mechanism is filtered and scored; the best of those that pass comes first.
func ExampleEvaluate() {
	w, p := notebook()
	var ev score.Evaluation
	score.Evaluate(w, p, gate.Neighbours{Trusted: 1}, &ev)
	fmt.Println(ev.Foremost().Mechanism)
	// Output: exclusive
}

// One mechanism is scored in parts that sum to its score.
func ExampleEvaluateMechanism() {
	w, p := notebook()
	var c score.Scored
	score.EvaluateMechanism(w, p, gate.Neighbours{Trusted: 1}, sharing.MechanismExclusive, &c)
	sum := 0.0
	for _, part := range c.Weighted {
		sum += part
	}
	fmt.Printf("%v, %.1f of %.1f\n", c.Verdict, 100*sum, c.Score)
	// Output: pass, 60.8 of 60.8
}

// What the engine takes from a kind is data.
func ExampleArchetypeOf() {
	a := score.ArchetypeOf(fleet.KindDistributedTraining)
	fmt.Println(a.Class, a.NeverShares)
	// Output: Batch true
}
