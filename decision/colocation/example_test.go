// SPDX-License-Identifier: Apache-2.0

package colocation_test

import (
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision/colocation"
)

const pair = `
version: v1
modes: [time-slicing, mps]
servers:
  - {name: small, model: rand-1b, url: "http://127.0.0.1:8001", command: [vllm, serve, my/small]}
  - {name: large, model: rand-8b, url: "http://127.0.0.1:8002", command: [vllm, serve, my/large]}
loads:
  - {name: chat, server: small, concurrency: 4, prompt: 128, output: 64, slo: {tpot_p99: 10ms}}
  - {name: summaries, server: large, rate: 2, prompt: 256, output: 96}
`

// A plan without cases runs the first load of each server together.
func ExampleParsePlan() {
	plan, err := colocation.ParsePlan([]byte(pair), colocation.PlanOptions{Real: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan.Cases {
		fmt.Println(c.Name, c.Loads, "by", plan.Modes, "for", plan.Seconds, "s")
	}
	// Output: together [chat summaries] by [time-slicing mps] for 8 s
}

// Everything that is wrong with a plan is named at once.
func ExampleParsePlan_problems() {
	_, err := colocation.ParsePlan([]byte(`
version: v1
servers: [{name: a, model: m}]
loads: [{name: chat, server: b, concurrency: 4, prompt: 128, output: 1}]
modes: [mps, mig]
`), colocation.PlanOptions{})
	fmt.Println(err)
	// Output:
	// modes[1]: mig is no way for processes to share a whole GPU (use one of [time-slicing mps mig-like-emulation])
	// loads[0].server: there is no server "b" (did you mean "a"?)
	// loads[0].output: with one token there are no decode steps to measure (use 2 or more)
	// cases[0].loads: must name at least two loads (every load is run isolated anyway)
}

// Built-in plans are starting points. This one runs on a simulated GPU: Measure(ctx, plan, NewSimulation(plan), options).
func ExampleBuiltinPlan() {
	text, _ := colocation.BuiltinPlan("mixed")
	plan, err := colocation.ParsePlan(text, colocation.PlanOptions{Seconds: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range plan.Servers {
		fmt.Println(s.Name, s.Kind)
	}
	// Output:
	// assistant server
	// training stepper
	// notebook burster
}
