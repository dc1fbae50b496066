// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	case telemetry.GroupEnergy:
		r.Set(telemetry.MetricEnergyJoules, 1)
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
		name    string
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
			t.Errorf("%d, %s: %d lists, want %d", i, step.name, got, step.want)
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

// TestTheEnergyCounterHolds: it is read every third time, and again after it could not be.
func TestTheEnergyCounterHolds(t *testing.T) {
	c := &counts{n: map[telemetry.Groups]int{}}
	r := newTimed(c, func(int) bool { return false })
	read := func(n int) int {
		before := c.n[telemetry.GroupEnergy]
		for range n {
			var x telemetry.Reading
			if err := r.Read(t.Context(), 0, telemetry.GroupEnergy, &x); !errors.Is(err, c.err) {
				t.Error(err)
			}
		}
		return c.n[telemetry.GroupEnergy] - before
	}
	if got := read(9); got != 3 {
		t.Errorf("read %d times of 9", got)
	}
	c.err = errors.New("no")
	if got := read(6); got != 6 {
		t.Errorf("read %d times of 6 that failed", got)
	}
}

// slow takes its time for device 0, and counts the readings that there were at once.
type slow struct {
	telemetry.Reader
	wait    chan struct{}
	at, top atomic.Int64
}

func (s *slow) Read(_ context.Context, device int, _ telemetry.Groups, _ *telemetry.Reading) error {
	s.top.Store(max(s.top.Load(), s.at.Add(1)))
	defer s.at.Add(-1)
	if device == 0 && s.wait != nil {
		<-s.wait
	} else {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// TestOneAtATime: readings take turns, and don't wait for one that hangs.
func TestOneAtATime(t *testing.T) {
	s := &slow{}
	r := newTimed(s, func(int) bool { return false })
	read := func(device int) {
		var x telemetry.Reading
		_ = r.Read(t.Context(), device, telemetry.GroupBasic, &x)
	}
	r.patience = time.Minute
	var wg sync.WaitGroup
	for d := range 8 {
		wg.Go(func() {
			for range 5 {
				read(d)
			}
		})
	}
	wg.Wait()
	if s.top.Load() != 1 {
		t.Errorf("%d readings at once", s.top.Load())
	}
	r.patience = 50 * time.Millisecond
	s.wait = make(chan struct{})
	wg.Go(func() { read(0) })
	for s.at.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	begun := time.Now()
	for d := range 7 {
		read(d + 1)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("seven readings waited %v for one that hangs", took)
	}
	close(s.wait)
	wg.Wait()
	read(0)
	select {
	case r.turn <- struct{}{}:
	default:
		t.Error("the turn was not given back")
	}
}
