package cudaprobe_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
)

// The predictor of this machine's GPU. What is in main here stands in the main of
// a program, with Child first.
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

// How many time slices does a decode step take? A workload is run alone and
// beside a spinning neighbour; measure stands for whatever loads it and returns
// the median gap between tokens.
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
