package main

import (
	"context"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// study holds the command's result; its JSON is the command's.
type study struct {
	Alone       []*timeslice.Result `json:"alone"`    // each tenant by itself
	Together    []*timeslice.Result `json:"together"` // the first tenant, the first two, ...
	Interrupted bool                `json:"interrupted,omitempty"`
	Sources     sharing.Citations   `json:"sources,omitzero"`
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
	return nil
}

// slowdown is the mean of shared over that of alone, when both are there.
func slowdown(shared, alone *timeslice.Latency) (float64, bool) {
	x, ok := shared.Mean()
	y, ok2 := alone.Mean()
	if !ok || !ok2 || y == 0 {
		return 0, false
	}
	return float64(x) / float64(y), true
}

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
