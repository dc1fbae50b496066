// SPDX-License-Identifier: Apache-2.0

package timeslice_test

import (
	"math"
	"strings"
	"testing"
	"time"

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

func TestRoundRobin(t *testing.T) {
	s := timeslice.Scheduler{Quantum: 2 * ms, Switch: 100 * us}
	got, err := s.RoundRobin([]time.Duration{1 * ms, 5 * ms})
	if err != nil {
		t.Fatal(err)
	}
	want := []timeslice.StepTime{
		{Cycle: 1*ms + 1*(200*us+5*ms/3), Slices: 1},
		{Cycle: 5*ms + 3*(200*us+1*ms), Slices: 3},
	}
	for i := range want {
		within(t, "cycle", got[i].Cycle, want[i].Cycle, 1e-6)
		if got[i].Slices != want[i].Slices {
			t.Errorf("tenant %d: %+v", i, got[i])
		}
	}
	alone, err := s.RoundRobin([]time.Duration{5 * ms})
	if err != nil || alone[0].Cycle != 5*ms {
		t.Errorf("alone: %v, %v", alone, err)
	}
	for step, want := range map[time.Duration]int{2050 * us: 1, 3900 * us: 3, 3 * ms: 0} {
		if other, near := s.NearBoundary(step, timeslice.BoundaryTolerance); near != (want > 0) || near && other != want {
			t.Errorf("%v: %d, %v", step, other, near)
		}
	}
}

// TestRoundRobinOnH200 holds the form against decode steps that were measured co-located (ITL p50 of 1B servers at 4
// clients), with the GPU part of a step that the solo run gives.
func TestRoundRobinOnH200(t *testing.T) {
	const gpu = 1823 * us // 1.97 ms, less 0.05 x 1.97 + 0.012 x 4 ms on the host
	for n, want := range map[int]time.Duration{2: 4038 * us, 3: 6061 * us, 4: 8093 * us} {
		steps := make([]time.Duration, n)
		for i := range steps {
			steps[i] = gpu
		}
		got, err := timeslice.H200().RoundRobin(steps)
		if err != nil {
			t.Fatal(err)
		}
		within(t, "step", got[0].Cycle, want, 0.03)
	}
}

func TestRoundRobinRefusesNonsense(t *testing.T) {
	_, err := timeslice.Scheduler{Switch: -1}.RoundRobin([]time.Duration{0, ms, 1000 * time.Hour})
	for _, want := range []string{"scheduler.quantum", "scheduler.switch", "steps[0]", "steps[2]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("RoundRobin: %v does not name %s", err, want)
		}
	}
}

func BenchmarkRoundRobin(b *testing.B) {
	s, steps := timeslice.H200(), []time.Duration{ms, 2 * ms, 3 * ms, 7 * ms}
	for b.Loop() {
		if _, err := s.RoundRobin(steps); err != nil {
			b.Fatal(err)
		}
	}
}
