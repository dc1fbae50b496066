// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
)

// A GPU is probed, and the predictor for it kept. cudaprobe.Open has this
// machine's GPU in the place of the simulated one.
func Example() {
	result, err := probe.Run(context.Background(), &probe.Simulated{}, probe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	predictor, err := result.Predictor(predict.NewPredictor())
	if err != nil {
		log.Fatal(err)
	}
	q := predictor.Parameters.Quantum
	fmt.Printf("%s: a slice of %.2f %s (%s)\n", predictor.GPU, q.Value, q.Unit, q.Basis)
	// Output: simulated GPU: a slice of 2.09 ms (simulated)
}

// What could not be measured is said, with the reason.
func ExampleResult() {
	result, err := probe.Run(context.Background(), &probe.Simulated{Exclusive: true}, probe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.NotMeasured[0].Name, "-", result.NotMeasured[0].Why)
	// Output: quantum - the GPU's compute mode admits one process only, so processes never take turns on it
}

// A client of short kernels loses far more beside one that fills the GPU than the other way round.
func ExampleResult_Get() {
	result, err := probe.Run(context.Background(), &probe.Simulated{}, probe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	short, _ := result.Get("short_beside_compute_bound")
	full, _ := result.Get("compute_bound_beside_short")
	fmt.Printf("%.1f %s longer, and %.1f\n", short.Value, short.Unit, full.Value)
	// Output: 5.2 times longer, and 1.2
}
