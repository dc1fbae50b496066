package colocation_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cotenant/cotenant/decision/colocation"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
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
	// cases[0].loads: must name at least two loads (every load is run alone anyway)
}

// A workload is measured alone, and what it saw becomes a profile.
func ExampleRecord() {
	server, err := loadgentest.NewServer(loadgentest.Options{Script: loadgentest.Always(loadgentest.Reply{TTFT: 5 * time.Millisecond, Interval: 2 * time.Millisecond})})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	load := profile.Load{Concurrency: 2, Prompt: 16, Output: 8}
	chat, err := colocation.Offer("chat", "alone", load, 1)
	if err != nil {
		log.Fatal(err)
	}
	chat.Endpoints, chat.Requests = []loadgen.Endpoint{{URL: server.URL}}, 6
	recording, err := colocation.Record(context.Background(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{chat}}, loadgen.Options{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	row := recording.Row("chat", 0)
	row.Mechanism, row.Case, row.Tenants, row.Server, row.Load = sharing.MechanismTimeSlicing, "alone", 1, profile.Server{Model: "rand-1b"}, load
	profiles := profile.Rows{row}.Profiles()
	fmt.Println(len(profiles), "profile of", profiles[0].Requests, "requests,", row.Errors, "failed")
	// Output: 1 profile of 6 requests, 0 failed
}
