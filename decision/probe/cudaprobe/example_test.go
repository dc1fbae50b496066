// SPDX-License-Identifier: Apache-2.0

package cudaprobe_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
)

// The predictor of this machine's GPU. What is in main here stands in the main of a program, with Child first.
func Example() {
	if code, is := cudaprobe.Child(); is {
		os.Exit(code)
	}
	ctx := context.Background()
	site, err := cudaprobe.Open(ctx, cudaprobe.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := probe.Run(ctx, site, probe.Options{})
	if err := site.Close(); err != nil {
		log.Print(err)
	}
	if err != nil {
		log.Fatal(err)
	}
	predictor, err := result.Predictor(predict.NewPredictor())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(predictor.GPU, predictor.Parameters.Quantum.Value)
}

// How many time slices does a decode step take? A workload is run alone and beside a spinning neighbour; measure stands
// for whatever loads it and returns the median gap between tokens.
func ExampleSite_BesideSpinner() {
	ctx := context.Background()
	measure := func(context.Context) (time.Duration, error) { return 2410 * time.Microsecond, nil }
	site, err := cudaprobe.Open(ctx, cudaprobe.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = site.Close() }()
	alone, err := measure(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var beside time.Duration
	err = site.BesideSpinner(ctx, func(ctx context.Context) (err error) {
		beside, err = measure(ctx)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	predictor := predict.NewPredictor()
	turns, err := predictor.TurnsBesideSpinner(alone, beside)
	fmt.Println(turns, err) // keep it as SoloProfile.Turns
}

// A program that was not started as a process of the probe goes on with its own main.
func ExampleChild() {
	if code, is := cudaprobe.Child(); is {
		os.Exit(code)
	}
	fmt.Println("this is main")
	// Output: this is main
}

// nobodys is the UUID of no GPU.
const nobodys = "GPU-00000000-0000-0000-0000-000000000000"

// What stands in the way of a probe is told apart: no driver or no such GPU, a driver to be replaced, MIG mode.
func ExampleOpen() {
	site, err := cudaprobe.Open(context.Background(), cudaprobe.Options{UUID: nobodys})
	switch {
	case err == nil:
		fmt.Println(site.Close())
	case errors.Is(err, cudaprobe.ErrUnavailable):
		fmt.Println("there is no such GPU here: take a simulated one")
	case errors.Is(err, cudaprobe.ErrOldDriver):
		fmt.Println("update the driver")
	case errors.Is(err, probe.ErrMIG):
		fmt.Println("probe a GPU that is not in MIG mode")
	default:
		log.Fatal(err)
	}
	// Output: there is no such GPU here: take a simulated one
}
