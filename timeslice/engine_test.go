// SPDX-License-Identifier: Apache-2.0

package timeslice_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/timeslice"
)

const (
	ms = time.Millisecond
	us = time.Microsecond
)

func within(t *testing.T, what string, got, want time.Duration, fraction float64) {
	t.Helper()
	if e := math.Abs(float64(got)/float64(want) - 1); !(e <= fraction) {
		t.Errorf("%s: %v, want %v within %.2g%%, is off by %.3g%%", what, got, want, 100*fraction, 100*e)
	}
}

// run simulates tenants of an H200 for so long.
func run(t *testing.T, until time.Duration, tenants ...timeslice.Submitter) {
	t.Helper()
	if err := (timeslice.Engine{Scheduler: timeslice.H200(), Tenants: tenants, Until: until}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type program func(now time.Duration) (timeslice.Work, bool)

func (p program) Next(now time.Duration) (timeslice.Work, bool) { return p(now) }

func spin(now time.Duration) (timeslice.Work, bool) {
	return timeslice.Work{At: now, GPU: time.Hour}, true
}

// steps submits steps of one length, each after the host's time, and counts those that ended.
type steps struct {
	step, host time.Duration
	ended      int
	last       time.Duration // end of the latest
}

func (s *steps) Next(now time.Duration) (timeslice.Work, bool) {
	if now > 0 {
		s.ended, s.last = s.ended+1, now
	}
	return timeslice.Work{At: now + s.host, GPU: s.step}, true
}

func (s *steps) cycle() time.Duration { return s.last / time.Duration(s.ended) }

// TestSimulatedProbe spins tenants as the quantum probe does and looks at when the first one is off the GPU.
func TestSimulatedProbe(t *testing.T) {
	for n, want := range map[int]time.Duration{2: 2396300 * time.Nanosecond, 4: 6883600 * time.Nanosecond} {
		programs := make([]timeslice.Submitter, n)
		for i := range programs {
			programs[i] = program(spin)
		}
		var off, on []time.Duration
		var last time.Duration
		err := timeslice.Engine{Scheduler: timeslice.H200(), Tenants: programs, Until: time.Second, Observe: func(s timeslice.Slice) {
			if s.Tenant != 0 {
				return
			}
			if last > 0 {
				off = append(off, s.From-last)
			}
			on, last = append(on, s.To-s.From), s.To
		}}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(off) < 50 {
			t.Fatalf("%d gaps", len(off))
		}
		for i := range off {
			within(t, "off", off[i], want, 0.01)
			within(t, "on", on[i], 2090600*time.Nanosecond, 0.01)
		}
	}
}

// TestRoundRobinAgrees: a step of GPU time g takes n = ceil(g/quantum) slices of tenants that are always busy, and
// cycle_i = g_i + n_i x (tenants x switch + sum over the others of g_j/n_j), as round robin has it (Silberschatz,
// Galvin, Gagne, Operating System Concepts), if the host's time hides in the others' slices.
func TestRoundRobinAgrees(t *testing.T) {
	s := timeslice.H200()
	for _, lengths := range [][]time.Duration{
		{1800 * us, 1800 * us}, {1800 * us, 6500 * us}, {900 * us, 1800 * us, 7 * ms, 2 * ms},
	} {
		var all []*steps
		var tenants []timeslice.Submitter
		round := time.Duration(len(lengths)) * s.Switch
		for _, g := range lengths {
			all = append(all, &steps{step: g, host: 100 * us})
			tenants = append(tenants, all[len(all)-1])
			round += g / time.Duration(s.Slices(g))
		}
		run(t, time.Minute, tenants...)
		for i, g := range lengths {
			within(t, g.String(), all[i].cycle(), time.Duration(s.Slices(g))*round, 0.001)
		}
	}
}

// TestRoundRobinOnH200 holds the engine against decode steps that were measured co-located (ITL p50 of 1B servers at 4
// clients), with the GPU part of a step that the isolated run gives.
func TestRoundRobinOnH200(t *testing.T) {
	const gpu, host = 1823 * us, 147 * us // 1.97 ms, of which 0.05 x 1.97 + 0.012 x 4 ms on the host
	for n, want := range map[int]time.Duration{2: 4038 * us, 3: 6061 * us, 4: 8093 * us} {
		first := &steps{step: gpu, host: host}
		tenants := []timeslice.Submitter{first}
		for range n - 1 {
			tenants = append(tenants, &steps{step: gpu, host: host})
		}
		run(t, 10*time.Second, tenants...)
		within(t, "step", first.cycle(), want, 0.03)
	}
}

// TestSaturatedAgrees: tenants that are always busy pay n x (1+switch/quantum), and one with an idle neighbour pays nothing.
func TestSaturatedAgrees(t *testing.T) {
	s := timeslice.H200()
	for _, n := range []int{2, 5, 7} {
		var tenants []timeslice.Submitter
		for range n {
			tenants = append(tenants, &steps{step: 88 * ms})
		}
		run(t, 2*time.Minute, tenants...)
		for _, p := range tenants {
			within(t, "step", p.(*steps).cycle(), time.Duration(float64(n)*88e6*(1+float64(s.Switch)/float64(s.Quantum))), 0.01)
		}
	}
	busy := &steps{step: 5 * ms, host: us}
	run(t, time.Minute, busy, &steps{step: ms, host: 30 * time.Second})
	within(t, "beside an idle tenant", busy.cycle(), 5*ms+us, 0.001)
}

func TestNearBoundary(t *testing.T) {
	s := timeslice.Scheduler{Quantum: 2 * ms, Switch: 100 * us}
	for step, want := range map[time.Duration]int{2050 * us: 1, 3900 * us: 3, 3 * ms: 0} {
		if other, near := s.NearBoundary(step, timeslice.BoundaryTolerance); near != (want > 0) || near && other != want {
			t.Errorf("%v: %d, %v", step, other, near)
		}
	}
}

func TestRunStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	tiny := &steps{step: 1} // a slice of many steps is no reason to finish it first
	start := time.Now()
	err := timeslice.Engine{Scheduler: timeslice.H200(), Until: 20 * 24 * time.Hour, Tenants: []timeslice.Submitter{tiny}}.Run(ctx)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("got %v after %v", err, took)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, p := range map[string]program{
		"negative":       func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{GPU: -1}, true },
		"endless":        func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{}, true },
		"out of range":   func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{At: math.MaxInt64, GPU: 1}, true },
		"too much in it": func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{GPU: math.MaxInt64}, true },
	} {
		t.Run(name, func(t *testing.T) {
			if err := (timeslice.Engine{Scheduler: timeslice.H200(), Tenants: []timeslice.Submitter{p}, Until: time.Second}).Run(t.Context()); err == nil {
				t.Error("accepted")
			}
		})
	}
	for want, e := range map[string]timeslice.Engine{
		"scheduler.quantum":  {Until: time.Second},
		"until: must be":     {Scheduler: timeslice.H200()},
		"is -1s":             {Scheduler: timeslice.H200(), Until: -time.Second},
		"is 2562047h":        {Scheduler: timeslice.H200(), Until: 1<<63 - 1},
		"tenants[1]: is nil": {Scheduler: timeslice.H200(), Until: time.Second, Tenants: []timeslice.Submitter{program(spin), nil}},
	} {
		if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// fewSteps submits n steps of 3 ms, each a moment after the one before, and notes when they end.
type fewSteps struct {
	n    int
	runs bool
	ends []time.Duration
}

func (f *fewSteps) Next(now time.Duration) (timeslice.Work, bool) {
	if f.runs {
		f.ends = append(f.ends, now)
	}
	f.runs = f.n > 0
	f.n--
	return timeslice.Work{At: now + 1, GPU: 3 * ms}, f.runs
}

// A GPU that is advanced step by step gives the results of an Engine, and asks idle tenants again; a tenant that is
// detached is asked no more.
func TestGPUIsTheEngine(t *testing.T) {
	s := timeslice.Scheduler{Quantum: 2 * ms, Switch: 100 * us}
	a, b := &fewSteps{n: 3}, &fewSteps{n: 5}
	if err := (timeslice.Engine{Scheduler: s, Tenants: []timeslice.Submitter{a, b}, Until: time.Second}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, each := range []time.Duration{50 * us, 700 * us, 100 * ms} {
		gpu, c, d := timeslice.NewGPU(s), &fewSteps{n: 3}, &fewSteps{n: 5}
		gpu.Attach(c)
		off := gpu.Attach(d)
		for at := time.Duration(0); at <= 100*ms; at += each {
			if next, ok := gpu.Advance(at); ok && next < at {
				t.Errorf("next at %v, after %v", next, at)
			}
		}
		if diff := cmp.Diff([][]time.Duration{a.ends, b.ends}, [][]time.Duration{c.ends, d.ends}); diff != "" || gpu.Busy() != 24*ms {
			t.Errorf("advanced every %v, busy for %v: %s", each, gpu.Busy(), diff)
		}
		if next, ok := gpu.Advance(100 * ms); ok {
			t.Errorf("next at %v", next)
		}
		c.n, d.n = 1, 1
		gpu.Advance(200 * ms)
		off()
		gpu.Advance(300 * ms)
		if end := c.ends[len(c.ends)-1]; end != 203*ms+s.Switch+1 || len(d.ends) != 5 {
			t.Errorf("ends at %v, the other at %v", end, d.ends)
		}
	}
}

// BenchmarkSimulatedHour simulates an hour of 8 tenants.
func BenchmarkSimulatedHour(b *testing.B) {
	for b.Loop() {
		var tenants []timeslice.Submitter
		for i := range 8 {
			tenants = append(tenants, &steps{step: time.Duration(1+i) * ms, host: 5 * ms})
		}
		if err := (timeslice.Engine{Scheduler: timeslice.H200(), Tenants: tenants, Until: time.Hour}).Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
