// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// A server that should take 9 to 11 ms a token takes 20 when its neighbour begins to take more of the GPU.
func Example() {
	config := guard.Config{
		GPUs: []layout.Device{{GPU: layout.GPUOf("H100"), Mode: sharing.MechanismTimeSlicing}},
		Tenants: []guard.Tenant{
			{Name: "a/chat", Kind: decision.KindOnlineInference, Expect: sharing.Some(profile.Interval{Value: 10, Low: 9, High: 11})},
			{Name: "b/batch", Kind: decision.KindBatch},
		},
	}
	g, err := guard.New(guard.DefaultRules(time.Minute), config)
	if err != nil {
		fmt.Println(err)
	}
	for window := range 12 {
		tpot, share := 10.0, 0.2
		if window > 8 {
			tpot, share = 20, 0.7
		}
		at := time.Duration(window+1) * time.Minute
		proposals := g.Step(guard.Observation{
			At: at, GPUs: []guard.GPUSeen{{At: at}},
			Tenants: []guard.TenantSeen{{At: at, TPOT: sharing.Some(tpot)}, {At: at, Activity: sharing.Some(share)}},
		})
		for _, p := range proposals {
			fmt.Printf("%v %s %s: %s\n", p.At, p.Action, p.Target, p.Withheld)
			fmt.Println(p.Evidence[1])
		}
	}
	// Output:
	// 12m0s move b/batch: its effect cannot be predicted
	// b/batch took 20% of the GPU's time before and takes 70% now
}

// A configuration from a file, as cotenant guard -config takes it.
func ExampleLoadConfig() {
	_, err := guard.LoadConfig("testdata/bad.yaml")
	fmt.Println(err)
	// Output:
	// guard: testdata/bad.yaml: tenants[0].gpu: 3 is not among gpus
	// tenants[0]: its latency cannot be observed (add metrics)
}
