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
	Basis       sharing.Basis     `json:"basis"`
	QuantumMS   float64           `json:"quantum_ms"`
	SwitchMS    float64           `json:"switch_ms"`
	Scheduler   sharing.Basis     `json:"scheduler_basis"`
	Source      string            `json:"scheduler_source"`
	SimulatedS  float64           `json:"simulated_s"`
	Seed        uint64            `json:"seed"`
	Rows        []row             `json:"rows"`
	Hurt        *hurt             `json:"hurt,omitempty"`
	Interrupted bool              `json:"interrupted,omitempty"`
	Sources     sharing.Citations `json:"sources,omitzero"`
}

// row is one tenant when the first Tenants of the file share the GPU.
type row struct {
	Tenants        int                `json:"tenants"`
	Tenant         string             `json:"tenant"`
	Request        *timeslice.Latency `json:"request"`
	Step           *timeslice.Latency `json:"step"`
	Slowdown       *float64           `json:"slowdown,omitempty"` // mean request, against alone
	Unfinished     int                `json:"unfinished"`
	GPUFraction    float64            `json:"gpu_fraction"`
	Form           string             `json:"closed_form,omitempty"`
	FormStepMS     *float64           `json:"closed_form_step_ms,omitempty"`
	WaitsOn        string             `json:"waits_on,omitempty"`
	WaitsOnShare   float64            `json:"waits_on_share,omitempty"`
	SwitchFraction float64            `json:"switch_fraction"` // of the GPU's time
}

type hurt struct {
	Tenant      string        `json:"tenant"`
	P99Slowdown float64       `json:"p99_slowdown"`
	Why         []string      `json:"why"`
	ByQuantum   []quantumTail `json:"p99_by_quantum"`
}

type quantumTail struct {
	QuantumMS float64  `json:"quantum_ms"`
	P99MS     *float64 `json:"p99_ms,omitempty"`
}

func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// explore simulates each tenant alone, then the first two, three, ... together.
// When ctx ends it returns what was done, marked as interrupted.
func explore(ctx context.Context, sim timeslice.Simulation) (*study, error) {
	s := &study{Basis: sharing.BasisSimulated, QuantumMS: ms(sim.Scheduler.Quantum), SwitchMS: ms(sim.Scheduler.Switch),
		Scheduler: sim.Scheduler.Basis, Source: sim.Scheduler.Source, SimulatedS: sim.For.Seconds(), Seed: sim.Seed}
	s.Sources.AddKnown(s.Source)
	tenants := sim.Tenants
	alone := make([]*timeslice.Result, len(tenants))
	for i := range tenants {
		sim.Tenants = tenants[i : i+1]
		var err error
		if alone[i], err = timeslice.Simulate(ctx, sim); err != nil {
			return s.stop(ctx, err)
		}
	}
	var last *timeslice.Result
	for n := 1; n <= len(tenants); n++ {
		sim.Tenants = tenants[:n]
		res, err := timeslice.Simulate(ctx, sim)
		if err != nil {
			return s.stop(ctx, err)
		}
		s.add(sim, res, alone)
		last = res
	}
	if len(tenants) > 1 {
		var err error
		if s.Hurt, err = findHurt(ctx, sim, last, alone); err != nil {
			return s.stop(ctx, err)
		}
	}
	return s, nil
}

func (s *study) stop(ctx context.Context, err error) (*study, error) {
	if ctx.Err() != nil {
		s.Interrupted = true
		return s, nil
	}
	return nil, err
}

func (s *study) add(sim timeslice.Simulation, res *timeslice.Result, alone []*timeslice.Result) {
	form, steps := closedForm(sim)
	for i, t := range res.Tenants {
		r := row{Tenants: len(res.Tenants), Tenant: t.Name, Request: t.Request, Step: t.Step, Unfinished: t.Unfinished,
			GPUFraction:    float64(t.GPU) / float64(res.Totals.Simulated),
			SwitchFraction: float64(res.Totals.Switching) / float64(res.Totals.Simulated)}
		if x, ok := slowdown(t.Request, alone[i].Tenants[0].Request, (*timeslice.Latency).Mean); ok {
			r.Slowdown = &x
		}
		if form != "" {
			v := ms(steps[i])
			r.Form, r.FormStepMS = form, &v
		}
		if who, share, ok := t.BlamedOn(); ok {
			r.WaitsOn, r.WaitsOnShare = res.Tenants[who].Name, share
		}
		s.Rows = append(s.Rows, r)
	}
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

// closedForm returns the mean step of each tenant by the form that fits the
// tenants, or "" when none does.
func closedForm(sim timeslice.Simulation) (string, []time.Duration) {
	busy, open := true, false
	var steps []time.Duration
	var cycles []timeslice.Cycle
	for _, t := range sim.Tenants {
		idle := t.Think.Mean + t.Pause.Mean/time.Duration(max(1, t.Steps))
		busy = busy && idle > 0 && idle <= sim.Scheduler.Quantum/2
		open = open || t.RatePerSecond > 0
		steps = append(steps, t.Step.Mean)
		cycles = append(cycles, timeslice.Cycle{Think: idle, Step: t.Step.Mean})
	}
	switch {
	case open:
		return "", nil
	case busy && len(steps) > 1:
		got, err := sim.Scheduler.RoundRobin(steps)
		if err != nil {
			return "", nil
		}
		for i, s := range got {
			steps[i] = s.Cycle - cycles[i].Think
		}
		return "round robin", steps
	}
	got, err := timeslice.ClosedLoop(cycles, sim.Scheduler.Overhead())
	if err != nil {
		return "", nil
	}
	return "closed loop", got
}

// findHurt names the tenant whose P99 suffers most, and why.
func findHurt(ctx context.Context, sim timeslice.Simulation, res *timeslice.Result, alone []*timeslice.Result) (*hurt,
	error) {
	worst := -1
	h := &hurt{}
	for i, t := range res.Tenants {
		x, ok := slowdown(t.Request, alone[i].Tenants[0].Request, p99)
		if ok && (worst < 0 || x > h.P99Slowdown) {
			worst, h.P99Slowdown, h.Tenant = i, x, t.Name
		}
	}
	if worst < 0 {
		return nil, nil
	}
	h.Why = why(sim, res, worst)
	for _, q := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond, 6 * time.Millisecond} {
		sim.Scheduler.Quantum = q
		other, err := timeslice.Simulate(ctx, sim)
		if err != nil {
			return nil, err
		}
		tail := quantumTail{QuantumMS: ms(q)}
		if d, ok := p99(other.Tenants[worst].Request); ok {
			v := ms(d)
			tail.P99MS = &v
		}
		h.ByQuantum = append(h.ByQuantum, tail)
	}
	return h, nil
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
	if r.Unfinished > 2 {
		out = append(out, fmt.Sprintf("it cannot keep up: %d requests were still waiting at the end, and more time makes "+
			"it worse", r.Unfinished))
	}
	return out
}
