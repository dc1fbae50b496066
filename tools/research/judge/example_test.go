// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cotenant/cotenant/tools/research/judge"
)

// No decided workload of the first fleet missed an objective in its world.
func ExampleRun() {
	r, err := judge.Run(context.Background(), judge.Options{Fleets: 1, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("simulated:", r.Simulated, "fleets:", r.Fleets, "missed:", r.Ours.MissedPercent, "%")
	// Output: simulated: true fleets: 1 missed: 0 %
}

// Whoever ends a run early has the report of what was played.
func ExampleRun_interrupted() {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := judge.Run(ctx, judge.Options{Fleets: 100, Seed: 1, Progress: func(played int) {
		if played == 1 {
			cancel()
		}
	}})
	fmt.Println(r.Fleets < 100, err)
	// Output: true <nil>
}

// The log names each fleet that costs more than the cheapest arrangement that could
// be shown to do.
func ExampleOptions() {
	if _, err := judge.Run(context.Background(), judge.Options{Fleets: 1, Seed: 6, Confidence: 0.9, Log: os.Stdout}); err != nil {
		log.Fatal(err)
	}
	// Output:
}
