package capacity_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict/costs"
)

func dollars(micros int64) cost.Money {
	m, err := cost.FromMicros(micros, "USD")
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// evenly are n requests of two tenants in turn, so many a second.
func evenly(n int, perS float64) []capacity.Request {
	out := make([]capacity.Request, n)
	for i := range out {
		out[i] = capacity.Request{At: time.Duration(float64(i) / perS * 1e9), Tenant: i % 2, Input: 400, Output: 80}
	}
	return out
}

// Two models and two kinds of GPU: the fewest dollars an hour that keep the limits.
func ExamplePlan_Search() {
	model := costs.Model{Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128}
	objectives := capacity.Objectives{Limits: []capacity.Limit{
		{Latency: capacity.LatencyTTFT, Percentile: 99, Most: time.Second},
		{Latency: capacity.LatencyTPOT, Percentile: 99, Most: 80 * time.Millisecond},
	}}
	result, err := capacity.Plan{
		Tenants: []capacity.Tenant{
			{Name: "chat", Model: "llama-8b", Shape: model, Objectives: objectives},
			{Name: "code", Model: "coder-8b", Shape: model, Objectives: objectives},
		},
		Requests: slices.Values(evenly(300, 2)),
		GPUs:     []capacity.GPU{{Name: "L40S", PricePerHour: dollars(900_000)}, {Name: "A100-SXM4-80GB", PricePerHour: dollars(1_800_000)}},
		Kinds:    []capacity.Kind{capacity.KindOwnGPU, capacity.KindMPS},
	}.Search(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range result.Arrangements {
		fmt.Println(a.Kind, a.GPUs, a.GPU, a.Verdict, a.CostPerHour)
	}
	fmt.Println("chosen:", result.Chosen.Kind)
	// Output:
	// mps 1 L40S kept 0.90 USD
	// own-gpu 2 L40S kept 1.80 USD
	// chosen: mps
}

// What no GPU can do says which bound stops it.
func ExampleResult_why() {
	model := costs.Model{Parameters: 70e9, Layers: 80, KVHeads: 8, HeadDim: 128, WeightBits: 8}
	result, err := capacity.Plan{
		Tenants: []capacity.Tenant{{Name: "chat", Model: "llama-70b", Shape: model, Objectives: capacity.Objectives{
			Limits: []capacity.Limit{{Latency: capacity.LatencyTPOT, Percentile: 50, Most: 10 * time.Millisecond}},
		}}},
		Requests: slices.Values([]capacity.Request{{Input: 100, Output: 50}, {At: time.Minute, Input: 100, Output: 50}}),
		GPUs:     []capacity.GPU{{Name: "H200", PricePerHour: dollars(3_500_000)}},
	}.Search(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Chosen == nil, result.Why)
	// Output:
	// true [no GPU of the plan meets the objectives: even of requests that come one by one, chat's tpot_p50 is 20 ms, at most 10ms]
}

// A plan that cannot be searched is refused with everything that is wrong with it.
func ExamplePlan_Validate() {
	plan := capacity.Plan{
		Tenants: []capacity.Tenant{{Name: "chat", Model: "llama-8b", AdapterRank: 1024}},
		GPUs:    []capacity.GPU{{Name: "L40S"}},
	}
	fmt.Println(plan.Validate())
	// Output:
	// capacity: invalid plan: requests: none (give the trace)
	// tenants[0].shape: is incomplete (state parameters, layers, KV heads and head dimension)
	// tenants[0].adapter_rank: must lie between 0 and 512, is 1024
	// gpus[0].price: is 0.00 (give a price per hour above 0)
}
