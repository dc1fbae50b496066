package prospect_test

import (
	"fmt"
	"log"
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/sharing"
)

// chat serves an 8B model in 16 bits to so many requests a second, and may take 2 s to the first token and 60 ms for
// each.
func chat(perS float64) prospect.Tenant {
	return prospect.Tenant{Decodes: true,
		Serving: &prospect.Serving{PerS: perS, Input: 700, Output: 150, Weights: 16e9, Parameters: 8e9, KVPerToken: 131072, Layers: 32},
		Limits:  [costs.LatencyCount]float64{costs.LatencyTTFT: 2, costs.LatencyTPOT: 0.060}}
}

func machine(gpu string) costs.Machine {
	g, err := sharing.LookupGPU(gpu)
	if err != nil {
		log.Fatal(err)
	}
	return costs.MachineOf(g)
}

// May two model servers take turns on a GPU, or run at once under MPS, where neither was ever measured?
func ExampleProspects() {
	tenants := []prospect.Tenant{chat(1), chat(1)}
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		share := costs.Share{Mechanism: m, SMs: 1, Bandwidth: 1}
		o := prospect.Prospects(machine("A100-SXM4-80GB"), share, tenants, 0.9, nil)[0]
		p99 := o.P99[costs.LatencyTPOT]
		fmt.Printf("%v: P99 of %.0f ms a token (%.0f to %.0f), kept: %v\n", m, 1e3*p99.Value, 1e3*p99.Low, 1e3*p99.High,
			o.Kept(&tenants[0]))
	}
	// Output:
	// time-slicing: P99 of 42 ms a token (28 to 66), kept: unknown
	// mps: P99 of 26 ms a token (17 to 41), kept: yes
}

// What was measured on one GPU says what to expect on another, the less surely the more they differ.
func ExampleCarryOver() {
	profiles, err := profile.LoadProfiles("../testdata/h200-colocation.json")
	if err != nil {
		log.Fatal(err)
	}
	p := profiles.Find(sharing.MechanismTimeSlicing, profile.Server{Model: "8b"}, profile.Load{Concurrency: 4, Prompt: 128, Output: 64})
	from, _ := sharing.LookupGPU("H200")
	for _, name := range []string{"H200", "H100-SXM5-80GB", "L40S"} {
		to, err := sharing.LookupGPU(name)
		if err != nil {
			log.Fatal(err)
		}
		p99, sigma, ok := prospect.CarryOver(p, from, to, 2)
		if !ok {
			log.Fatal("a GPU of which too little is known")
		}
		v, wide := 1e3*p99[costs.LatencyTPOT], math.Exp(profile.Z90*sigma[costs.LatencyTPOT])
		fmt.Printf("%s: P99 of %.1f ms a token (%.1f to %.1f)\n", name, v, v/wide, v*wide)
	}
	// Output:
	// H200: P99 of 7.7 ms a token (7.7 to 7.7)
	// H100-SXM5-80GB: P99 of 10.7 ms a token (9.1 to 12.7)
	// L40S: P99 of 37.8 ms a token (18.7 to 76.5)
}

// Of a model server only its size is known: from 16 GB of weights to those and 40 GB of KV cache in each step.
func ExampleTokenAlone() {
	for _, gpu := range []string{"L40S", "A100-SXM4-80GB", "H200"} {
		b := prospect.TokenAlone(machine(gpu), 16e9, 56e9, 32, 1)
		fmt.Printf("%s: P99 of %.0f ms a token (%.0f to %.0f)\n", gpu, 1e3*b.Value, 1e3*b.Low, 1e3*b.High)
	}
	// Output:
	// L40S: P99 of 56 ms a token (20 to 158)
	// A100-SXM4-80GB: P99 of 25 ms a token (9 to 70)
	// H200: P99 of 12 ms a token (4 to 32)
}
