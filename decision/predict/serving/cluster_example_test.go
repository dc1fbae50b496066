package serving_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/sharing"
)

// Four replicas of an 8B model behind a router: does it matter which one, when
// requests of a session begin alike?
func ExampleCluster() {
	gpu, err := sharing.LookupGPU("L40S")
	if err != nil {
		log.Fatal(err)
	}
	model := costs.Model{Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128}
	cluster := serving.Cluster{
		PrefixTokens: 512,
		Services:     []serving.Service{{Name: "chat", Engine: costs.NewEngine(model, costs.MachineOf(gpu))}},
	}
	chat := &cluster.Services[0]
	for i := range 4 {
		cluster.GPUs = append(cluster.GPUs, serving.SharedGPU{Mechanism: sharing.MechanismExclusive, Memory: 45 * sharing.GiB})
		chat.Replicas = append(chat.Replicas, serving.Replica{GPU: i})
	}
	requests := poisson(2000, 8, 1, func(rng *rand.Rand, r *serving.Request) {
		session := 1 + rng.Uint64N(100) // each with a history of 4096 tokens
		r.Input, r.Output = 8*512+100, 150
		for k := range uint64(8) {
			r.Prefix = append(r.Prefix, session<<8|k)
		}
	})
	for _, policy := range []serving.RoutePolicy{serving.RoutePolicyRoundRobin, serving.RoutePolicyPrefixApproximate} {
		chat.Routing.Policy = policy
		report, err := cluster.Play(context.Background(), requests)
		if err != nil {
			log.Fatal(err)
		}
		s := &report.Services[0]
		fmt.Printf("%s: %.0f%% cached, TTFT P99 %.1f s, TPOT P50 %.0f ms\n", policy, 100*s.HitFraction(), s.TTFT.P99.Or(0)/1e3, s.TPOT.P50.Or(0))
	}
	// Output:
	// round-robin: 50% cached, TTFT P99 2.3 s, TPOT P50 69 ms
	// prefix-approximate: 93% cached, TTFT P99 0.8 s, TPOT P50 33 ms
}

// A router works on any replicas whose load somebody states, for example on the
// endpoints of a load generator.
func ExampleRouting_Router() {
	router := serving.Routing{Policy: serving.RoutePolicyLeastRequests}.Router(3)
	to := router.Route(&serving.Request{Input: 100, Output: 20}, []serving.ReplicaState{{Running: 4}, {Running: 2, Waiting: 3}, {Running: 3}})
	fmt.Println(to)
	// Output: 2
}

// How many tokens of KV cache does an 8B model have on half of an 80 GB GPU?
func ExampleEngine_KVTokens() {
	model := costs.Model{Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128}
	engine := costs.Engine{Model: model, Overhead: 3 * sharing.GiB}
	tokens, err := engine.KVTokens(40 * sharing.GiB)
	fmt.Println(model.KVPerToken(), tokens, err)
	_, err = engine.KVTokens(16 * sharing.GiB)
	fmt.Println(err)
	// Output:
	// 128KiB 180560 <nil>
	// predict: 16GiB of memory leave no KV cache beside 14.96GiB of weights, 0B of adapters and 3GiB of overhead
}
