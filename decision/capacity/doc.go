// Package capacity says how many GPUs a trace of requests needs within its objectives, and what a million tokens
// then cost: on GPUs of their own, sharing GPUs in time, under MPS or MIG, merged into one server, as adapters of
// one base model, or taking turns asleep.
//
//	plan := capacity.Plan{
//		Tenants: []capacity.Tenant{{
//			Name: "chat", Model: "llama-8b", Shape: shape,
//			Objectives: capacity.Objectives{Limits: limits, Share: 0.99},
//		}},
//		Requests: slices.Values(requests),
//		GPUs:     []capacity.GPU{{Name: "L40S", PricePerHour: price}},
//	}
//	result, err := plan.Search(ctx)
//	if err != nil {
//		return err
//	}
//	fmt.Println(result.Chosen.GPUs, result.Chosen.GPU, result.Chosen.CostPerHour)
//
// Every candidate is played, request by request, in the serving-engine simulator of package predict
// ([serving.Cluster]); nothing is decided by rules of thumb. For each kind the search looks for the fewest GPUs,
// over the GPUs that may be bought, the divisions of a GPU, the copies on it and the router's policy, and foresees
// what uncertain costs leave open of the cheapest: a verdict whose interval holds the objective is unknown and
// comes with the run that would settle it.
//
// A [Plan] is plain data: reading traces and driving load is the caller's. The same
// plan gives the same result. Plans may be searched concurrently.
//
// The package is experimental: its API may change between minor versions.
package capacity
