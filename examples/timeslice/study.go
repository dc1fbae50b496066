package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// study holds the command's result; its JSON is the command's.
type study struct {
	Alone       []*timeslice.Result `json:"alone"`    // each tenant by itself
	Together    []*timeslice.Result `json:"together"` // the first tenant, the first two, ...
	Hurt        *hurt               `json:"hurt,omitempty"`
	Interrupted bool                `json:"interrupted,omitempty"`
	Sources     sharing.Citations   `json:"sources,omitzero"`
}

type hurt struct {
	Tenant      string        `json:"tenant"`
	P99Slowdown float64       `json:"p99_slowdown"`
	Why         []string      `json:"why"`
	ByQuantum   []quantumTail `json:"p99_by_quantum"`
}

type quantumTail struct {
	QuantumMS float64            `json:"quantum_ms"`
	Request   *timeslice.Latency `json:"request"`
}

// keepsUp is the number of unfinished requests that says nothing: one in work and one that just came.
const keepsUp = 2

// explore simulates each tenant alone, then the first two, three, ... together.
// When ctx ends it returns what was done, marked as interrupted.
func explore(ctx context.Context, sim timeslice.Simulation) (*study, error) {
	s := &study{}
	s.Sources.AddKnown(sim.Scheduler.Source)
	err := s.fill(ctx, sim)
	if s.Interrupted = err != nil && ctx.Err() != nil; err != nil && !s.Interrupted {
		return nil, err
	}
	return s, nil
}

func (s *study) fill(ctx context.Context, sim timeslice.Simulation) error {
	tenants := sim.Tenants
	simulate := func(into *[]*timeslice.Result, from, to int) error {
		sim.Tenants = tenants[from:to]
		res, err := timeslice.Simulate(ctx, sim)
		if err == nil {
			*into = append(*into, res)
		}
		return err
	}
	for i := range tenants {
		if err := simulate(&s.Alone, i, i+1); err != nil {
			return err
		}
	}
	for i := range tenants {
		if err := simulate(&s.Together, 0, i+1); err != nil {
			return err
		}
	}
	return s.findHurt(ctx, sim)
}

// slowdown is a statistic of shared over that of alone, when both are there.
func slowdown(shared, alone *timeslice.Latency, of func(*timeslice.Latency) (time.Duration, bool)) (float64, bool) {
	x, ok := of(shared)
	y, ok2 := of(alone)
	if !ok || !ok2 || y == 0 {
		return 0, false
	}
	return float64(x) / float64(y), true
}

func p99(l *timeslice.Latency) (time.Duration, bool) { return l.Quantile(0.99) }

// closedForm returns the mean step of each tenant by the form that fits the tenants, or "" when none does.
func closedForm(sched timeslice.Scheduler, tenants []timeslice.Tenant) (string, []time.Duration) {
	busy, open := true, false
	var steps []time.Duration
	var cycles []timeslice.Cycle
	for _, t := range tenants {
		idle := t.Think.Mean + t.Pause.Mean/time.Duration(max(1, t.Steps))
		busy = busy && idle > 0 && idle <= sched.Quantum/2
		open = open || t.RatePerSecond > 0
		steps = append(steps, t.Step.Mean)
		cycles = append(cycles, timeslice.Cycle{Think: idle, Step: t.Step.Mean})
	}
	switch {
	case open:
		return "", nil
	case busy && len(steps) > 1:
		got, err := sched.RoundRobin(steps)
		if err != nil {
			return "", nil
		}
		for i, s := range got {
			steps[i] = s.Cycle - cycles[i].Think
		}
		return "round robin", steps
	}
	got, err := timeslice.ClosedLoop(cycles, sched.Overhead())
	if err != nil {
		return "", nil
	}
	return "closed loop", got
}

// findHurt names the tenant whose P99 suffers most, and why.
func (s *study) findHurt(ctx context.Context, sim timeslice.Simulation) error {
	res := s.Together[len(s.Together)-1]
	worst, h := -1, &hurt{}
	for i, t := range res.Tenants {
		x, ok := slowdown(t.Request, s.Alone[i].Tenants[0].Request, p99)
		if ok && (worst < 0 || x > h.P99Slowdown) {
			worst, h.P99Slowdown, h.Tenant = i, x, t.Name
		}
	}
	if worst < 0 || len(res.Tenants) == 1 {
		return nil
	}
	h.Why = why(sim, res, worst)
	for _, q := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond, 6 * time.Millisecond} {
		sim.Scheduler.Quantum = q
		other, err := timeslice.Simulate(ctx, sim)
		if err != nil {
			return err
		}
		h.ByQuantum = append(h.ByQuantum, quantumTail{ms(q), other.Tenants[worst].Request})
	}
	s.Hurt = h
	return nil
}

func why(sim timeslice.Simulation, res *timeslice.Result, i int) []string {
	t, r := sim.Tenants[i], res.Tenants[i]
	var out []string
	if who, share, ok := r.BlamedOn(); ok {
		b := sim.Tenants[who]
		out = append(out, fmt.Sprintf("%.0f%% of its waiting is on %s, which has the GPU %.0f%% of the time in steps of %v",
			100*share, b.Name, 100*float64(res.Tenants[who].GPU)/float64(res.Totals.Simulated), b.Step.Mean))
	}
	if n := sim.Scheduler.Slices(t.Step.Mean); n > 1 {
		out = append(out, fmt.Sprintf("its step of %v needs %d turns of %v, and each turn waits for everybody else's",
			t.Step.Mean, n, sim.Scheduler.Quantum))
	} else {
		out = append(out, fmt.Sprintf("its step of %v uses %.0f%% of a turn, and still waits for a whole turn of every "+
			"busy neighbour",
			t.Step.Mean, 100*float64(t.Step.Mean)/float64(sim.Scheduler.Quantum)))
	}
	if other, near := sim.Scheduler.NearBoundary(t.Step.Mean, timeslice.BoundaryTolerance); near {
		out = append(out, fmt.Sprintf("its step is within %.0f%% of a whole number of turns: it may as well take %d, so "+
			"measure", 100*timeslice.BoundaryTolerance, other))
	}
	if r.Unfinished > keepsUp {
		out = append(out, fmt.Sprintf("it cannot keep up: %d requests were still waiting at the end, and more time makes "+
			"it worse", r.Unfinished))
	}
	return out
}
