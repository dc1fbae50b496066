// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// Two servers were measured alone. What will each see beside the other?
func Example() {
	profiles, err := profile.LoadProfiles("testdata/h200-colocation.json")
	if err != nil {
		log.Fatal(err)
	}
	load := profile.Load{Concurrency: 4, Prompt: 128, Output: 64}
	chat, err1 := profiles.Solo(profile.Server{Model: "8b"}, load)
	tags, err2 := profiles.Solo(profile.Server{Model: "1b"}, load)
	if err := errors.Join(err1, err2); err != nil {
		log.Fatal(err)
	}
	predictor := predict.NewPredictor()
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		tenants, err := predictor.Predict(m, []profile.Solo{chat, tags}, predict.MethodClosedForm)
		if err != nil {
			log.Fatal(err)
		}
		for i, name := range []string{"chat", "tags"} {
			tpot, _ := tenants[i].Get(profile.MetricTPOTP50)
			fmt.Printf("%s: %s TPOT %.1f ms (%.1f to %.1f), %.1fx\n", m, name, tpot.Value, tpot.Low, tpot.High, tenants[i].Slowdown.Value)
		}
	}
	// Output:
	// time-slicing: chat TPOT 14.6 ms (13.2 to 16.1), 2.0x
	// time-slicing: tags TPOT 4.4 ms (4.0 to 4.9), 1.9x
	// mps: chat TPOT 9.5 ms (8.6 to 10.5), 1.3x
	// mps: tags TPOT 4.5 ms (4.1 to 5.0), 1.9x
}

// An SLO whose limit lies within the interval is unknown, and says what would settle it.
func ExampleInterval_Below() {
	e2e := profile.Interval{Value: 300, Low: 270, High: 330}
	fmt.Println(e2e.Below(400), e2e.Below(310), e2e.Below(250))
	// Output: yes unknown no
}

// chat serves an 8B model in 16 bits to so many requests a second, and may take 2 s to the first token and 60 ms for
// each.
func chat(perS float64) predict.Tenant {
	return predict.Tenant{Decodes: true,
		Serving:    &predict.Serving{PerS: perS, Input: 700, Output: 150, Weights: 16e9, Parameters: 8e9, KVPerToken: 131072, Layers: 32},
		Objectives: predict.Objectives{Limits: [predict.LatencyCount]float64{predict.LatencyTTFT: 2, predict.LatencyTPOT: 0.060}}}
}

func machine(gpu string) predict.Machine {
	g, err := sharing.LookupGPU(gpu)
	if err != nil {
		log.Fatal(err)
	}
	return predict.MachineOf(g)
}

// May two model servers take turns on a GPU, or run at once under MPS, where neither was ever measured?
func ExampleEvaluator_Evaluate() {
	tenants := []predict.Tenant{chat(1), chat(1)}
	var evaluator *predict.Evaluator // of no measurements
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		share := predict.Share{Mechanism: m, SMs: 1, Bandwidth: 1}
		o := evaluator.Evaluate(machine("A100-SXM4-80GB"), share, tenants, 0.9)[0]
		p99 := o.P99[predict.LatencyTPOT]
		fmt.Printf("%v: P99 of %.0f ms a token (%.0f to %.0f), kept: %v\n", m, 1e3*p99.Value, 1e3*p99.Low, 1e3*p99.High,
			o.Kept(&tenants[0]))
	}
	// Output:
	// time-slicing: P99 of 42 ms a token (27 to 68), kept: unknown
	// mps: P99 of 26 ms a token (18 to 40), kept: yes
}

// Measurements on one GPU give estimates for another, the less certain the more they differ.
func ExampleFromProfile() {
	profiles, err := profile.LoadProfiles("testdata/h200-colocation.json")
	if err != nil {
		log.Fatal(err)
	}
	chat, err := profiles.Solo(profile.Server{Model: "8b"}, profile.Load{Concurrency: 4, Prompt: 128, Output: 64})
	if err != nil {
		log.Fatal(err)
	}
	from, _ := sharing.LookupGPU("H200")
	for _, name := range []string{"H200", "H100-SXM5-80GB", "L40S"} {
		to, err := sharing.LookupGPU(name)
		if err != nil {
			log.Fatal(err)
		}
		tenant, ok := predict.FromProfile(&chat, from, to, true, 2)
		if !ok {
			log.Fatal("a GPU of which too little is known")
		}
		v, wide := 1e3*tenant.Isolated[predict.LatencyTPOT], math.Exp(stats.Z90*tenant.IsolatedSigma[predict.LatencyTPOT])
		fmt.Printf("%s: P99 of %.1f ms a token (%.1f to %.1f)\n", name, v, v/wide, v*wide)
	}
	// Output:
	// H200: P99 of 7.7 ms a token (7.7 to 7.7)
	// H100-SXM5-80GB: P99 of 10.7 ms a token (9.1 to 12.7)
	// L40S: P99 of 37.8 ms a token (18.7 to 76.5)
}

// Of a model server only its size is known: from 16 GB of weights to those and 40 GB of KV cache in each step.
func ExampleIsolatedToken() {
	for _, gpu := range []string{"L40S", "A100-SXM4-80GB", "H200"} {
		b, _ := predict.IsolatedToken(machine(gpu), 16e9, 56e9, 32, 1)
		fmt.Printf("%s: P99 of %.0f ms a token (%.0f to %.0f)\n", gpu, 1e3*b.Value, 1e3*b.Low, 1e3*b.High)
	}
	// Output:
	// L40S: P99 of 56 ms a token (20 to 158)
	// A100-SXM4-80GB: P99 of 25 ms a token (9 to 70)
	// H200: P99 of 12 ms a token (4 to 32)
}

// No server is faster than its weights can be read and its prompts multiplied: no objective can demand more of a GPU.
func ExampleMachine_Floor() {
	const parameters = 8.03e9 // of 16 bits
	work := predict.Least{Weights: 2 * parameters, Prompt: 2 * parameters * 1500, Output: 200}
	for _, name := range []string{"L4", "A100-SXM4-80GB", "H200"} {
		gpu, err := sharing.LookupGPU(name)
		if err != nil {
			log.Fatal(err)
		}
		s := predict.MachineOf(gpu).Floor(predict.Share{Mechanism: sharing.MechanismExclusive, SMs: 1, Bandwidth: 1}, work)
		fmt.Printf("%s: %.0f ms to the first token, then %.1f ms each\n", name, 1e3*s[predict.LatencyTTFT], 1e3*s[predict.LatencyTPOT])
	}
	// Output:
	// L4: 153 ms to the first token, then 53.5 ms each
	// A100-SXM4-80GB: 67 ms to the first token, then 7.9 ms each
	// H200: 21 ms to the first token, then 3.3 ms each
}
