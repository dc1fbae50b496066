package cudaprobe_test

import (
	"context"
	"fmt"
	"log"
	"os"

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
