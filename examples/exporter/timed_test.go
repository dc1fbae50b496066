package main

import (
	"context"
	"errors"
	"testing"

	"github.com/cotenant/cotenant/telemetry"
)

// counts counts its readings; the process in its list is called by their number.
type counts struct {
	telemetry.Reader
	n      map[telemetry.Groups]int
	memory float64
	util   uint32 // the process that the driver charges
	err    error
}

func (c *counts) Read(_ context.Context, _ int, g telemetry.Groups, r *telemetry.Reading) error {
	c.n[g]++
	switch g {
	case telemetry.GroupBasic:
		if c.memory > 0 {
			r.Set(telemetry.MetricMemUsedBytes, c.memory)
		}
	case telemetry.GroupProcesses:
		r.Processes = append(r.Processes, telemetry.Process{PID: uint32(c.n[g])})
	case telemetry.GroupProcessUtil:
		r.Processes = append(r.Processes, telemetry.Process{PID: c.util})
	}
	return c.err
}

func TestAListHoldsWhileTheMemoryDoes(t *testing.T) {
	c := &counts{n: map[telemetry.Groups]int{}, memory: 1}
	r := newTimed(c, func(int) bool { return false })
	// seconds are cheap readings; it returns how often the driver was asked.
	seconds := func(n int) int {
		before := c.n[telemetry.GroupProcesses]
		for range n {
			var x telemetry.Reading
			_ = r.Read(t.Context(), 0, telemetry.GroupBasic, &x)
			err := r.Read(t.Context(), 0, telemetry.GroupProcesses, &x)
			if c.err == nil && (err != nil || len(x.Processes) != 1 || x.Processes[0].PID != uint32(c.n[telemetry.GroupProcesses])) {
				t.Fatalf("%v, %v", x.Processes, err)
			}
		}
		return c.n[telemetry.GroupProcesses] - before
	}
	for i, step := range []struct {
		what    string
		do      func()
		n, want int
	}{
		{"the first, and for a minute no other", func() {}, 60, 1},
		{"another each minute", func() {}, 61, 2},
		{"memory that changed and went back", func() { c.memory = 2; seconds(1); c.memory = 1 }, 9, 1},
		{"and nothing since", func() {}, 50, 0},
		{"a process that is not in the list", func() {
			seconds(3) // a list is due
			c.util = 999
			var x telemetry.Reading
			_ = r.Read(t.Context(), 0, telemetry.GroupProcessUtil, &x)
		}, 10, 1},
		{"no memory to go by", func() { c.memory = 0 }, 40, 4},
		{"a list that failed is not kept", func() { c.err = errors.New("no") }, 19, 19},
	} {
		step.do()
		if got := seconds(step.n); got != step.want {
			t.Errorf("%d, %s: %d lists, want %d", i, step.what, got, step.want)
		}
	}
}

func TestInstancesAloneNeedTheirCounters(t *testing.T) {
	c := &counts{n: map[telemetry.Groups]int{}}
	mig := false
	r := newTimed(c, func(int) bool { return mig })
	var x telemetry.Reading
	if err := r.Read(t.Context(), 0, telemetry.GroupGPM, &x); !errors.Is(err, telemetry.ErrUnsupported) || c.n[telemetry.GroupGPM] != 0 {
		t.Errorf("%v after %d readings", err, c.n[telemetry.GroupGPM])
	}
	mig = true
	if _ = r.Read(t.Context(), 0, telemetry.GroupGPM, &x); c.n[telemetry.GroupGPM] != 1 {
		t.Error("the counters are not read where they are needed")
	}
}
