// SPDX-License-Identifier: Apache-2.0

package costs_test

import (
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// No server is faster than its weights can be read and its prompts multiplied: what an objective may ask of a GPU.
func ExampleMachine_Floor() {
	const parameters = 8.03e9 // of 16 bits
	work := costs.Least{Weights: 2 * parameters, Prompt: 2 * parameters * 1500, Output: 200}
	for _, name := range []string{"L4", "A100-SXM4-80GB", "H200"} {
		gpu, err := sharing.LookupGPU(name)
		if err != nil {
			log.Fatal(err)
		}
		s := costs.MachineOf(gpu).Floor(costs.Share{Mechanism: sharing.MechanismExclusive, SMs: 1, Bandwidth: 1}, work)
		fmt.Printf("%s: %.0f ms to the first token, then %.1f ms each\n", name, 1e3*s[costs.LatencyTTFT], 1e3*s[costs.LatencyTPOT])
	}
	// Output:
	// L4: 153 ms to the first token, then 53.5 ms each
	// A100-SXM4-80GB: 67 ms to the first token, then 7.9 ms each
	// H200: 21 ms to the first token, then 3.3 ms each
}

// A constant says in which unit it is, how uncertain, and who found it how.
func ExampleConstant_Shifted() {
	c := costs.Priors[costs.DecodeEfficiency]
	fmt.Println(c.Value, c.Unit)
	fmt.Printf("%.2f to %.2f in 90%% of cases, %v by %v\n", c.Shifted(profile.Z90), c.Shifted(-profile.Z90), c.Basis, c.Source)
	// Output:
	// 0.77 fraction of the peak bandwidth that a decode step reaches
	// 0.63 to 0.94 in 90% of cases, fitted by cotenant-h200-colocation
}

// The parameters of a GPU are found by name, as a probe replaces them by what it measured.
func ExampleParameters_Lookup() {
	h200 := costs.H200()
	quantum := h200.Parameters.Lookup("quantum")
	fmt.Println("a turn of", quantum.Value, quantum.Unit, quantum.Basis, quantum.Source)
	fmt.Printf("10 ms of work take %.1f turns beside others\n", costs.MeanTurns(10/h200.Parameters.Slice(), 0))
	quantum.Value = 2 * quantum.Value
	fmt.Printf("with turns twice as long: %.1f\n", costs.MeanTurns(10/h200.Parameters.Slice(), 0))
	// Output:
	// a turn of 2.0906 ms measured cotenant-h200-quantum
	// 10 ms of work take 5.0 turns beside others
	// with turns twice as long: 3.0
}
