// SPDX-License-Identifier: Apache-2.0

package timeslice_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/timeslice"
)

// A chat model that decodes in short steps shares a GPU with a batch job of long ones. Print the latency of each and
// the neighbour that it waits for.
func Example() {
	res, err := timeslice.Simulate(context.Background(), timeslice.Simulation{
		Scheduler: timeslice.H200(),
		Tenants: []timeslice.Tenant{
			{Name: "chat", Step: timeslice.Dist{Mean: 1800 * time.Microsecond}, Think: timeslice.Dist{Mean: 150 * time.Microsecond}, Steps: 64},
			{Name: "batch", Step: timeslice.Dist{Mean: 25 * time.Millisecond}},
		},
		For: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range res.Tenants {
		p99, _ := t.Step.Quantile(0.99)
		who, share, _ := t.BlamedOn()
		fmt.Printf("%s: a step takes up to %v; %.0f%% of its waiting is on %s\n", t.Name, p99.Round(100*time.Microsecond), 100*share, res.Tenants[who].Name)
	}
	// Output:
	// chat: a step takes up to 4ms; 93% of its waiting is on batch
	// batch: a step takes up to 50.3ms; 85% of its waiting is on chat
}

// Four decoders on one GPU: a step that is shorter than a quantum waits one round, a longer one waits several.
func ExampleScheduler_RoundRobin() {
	steps, err := timeslice.H200().RoundRobin([]time.Duration{1800 * time.Microsecond, 6500 * time.Microsecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range steps {
		fmt.Println(s.Cycle.Round(10*time.Microsecond), s.Slices)
	}
	// Output:
	// 3.73ms 1
	// 14.92ms 4
}

// Two processes that spun at once were on and off the GPU for so long, in the median.
func ExampleCalibrateProbe() {
	c, err := timeslice.CalibrateProbe(timeslice.ProbeRun{On: []time.Duration{2090700, 2090700}, Off: []time.Duration{2396300, 2396300}})
	fmt.Println(c.Scheduler.Quantum, c.Scheduler.Switch, c.Scheduler.Basis, err)
	// Output: 2.0907ms 152.8µs fitted <nil>
}
