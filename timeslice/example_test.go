// SPDX-License-Identifier: Apache-2.0

package timeslice_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/timeslice"
)

// batch submits steps of 25 ms back to back.
type batch struct{}

func (batch) Next(now time.Duration) (timeslice.Work, bool) {
	return timeslice.Work{At: now, GPU: 25 * time.Millisecond}, true
}

// chat decodes in steps of 1.8 ms on the GPU and 150 us on the host, and notes how long they take.
type chat struct{ began, longest time.Duration }

func (c *chat) Next(now time.Duration) (timeslice.Work, bool) {
	c.longest = max(c.longest, now-c.began)
	c.began = now + 150*time.Microsecond
	return timeslice.Work{At: c.began, GPU: 1800 * time.Microsecond}, true
}

// A chat model that decodes in short steps shares a GPU with a batch job of long ones.
func ExampleEngine_Run() {
	decoding := &chat{}
	err := timeslice.Engine{Scheduler: timeslice.H200(), Tenants: []timeslice.Submitter{decoding, batch{}},
		Until: 10 * time.Second}.Run(context.Background())
	fmt.Println("a step takes up to", decoding.longest.Round(100*time.Microsecond), err)
	// Output: a step takes up to 4ms <nil>
}

// A step of about a whole number of slices may take one slice more than its length implies.
func ExampleScheduler_NearBoundary() {
	step := 4100 * time.Microsecond
	other, near := timeslice.H200().NearBoundary(step, timeslice.BoundaryTolerance)
	fmt.Println(timeslice.H200().Slices(step), other, near)
	// Output: 2 3 true
}

// Two processes that spun at once were on and off the GPU for so long, in the median.
func ExampleCalibrateProbe() {
	c, err := timeslice.CalibrateProbe(timeslice.ProbeRun{On: []time.Duration{2090700, 2090700}, Off: []time.Duration{2396300, 2396300}})
	fmt.Println(c.Scheduler.Quantum, c.Scheduler.Switch, c.Scheduler.Basis, err)
	// Output: 2.0907ms 152.8µs fitted <nil>
}
