package study

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/planfile"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

//go:embed prompts.jsonl
var builtinPrompts []byte

// Prompts returns a small set of questions for tenants that bring none.
func Prompts() ([]loadgen.Prompt, error) { return prompt.Read(bytes.NewReader(builtinPrompts)) }

// hosting describes equal servers on simulated GPUs.
type hosting struct {
	sharing       loadgentest.Sharing
	gpus, servers int
	sm, bandwidth float64 // the share of its GPU that each server may use
	slots         int     // answers under way at once in a server; 0 means loadgentest's default
}

// scenarios puts model replicas on one simulated GPU.
var scenarios = map[string]hosting{
	"baseline":     {loadgentest.SharingConcurrent, 1, 1, 1, 1, 0},
	"time-slicing": {loadgentest.SharingTimeSliced, 1, 2, 1, 1, 0},
	"mps":          {loadgentest.SharingConcurrent, 1, 2, 1, 1, 0},
	// MPS with an active thread percentage each: the SMs are parted, the memory is not.
	"mig-emulation": {loadgentest.SharingConcurrent, 1, 2, 0.5, 1, 0},
	"mig":           {loadgentest.SharingPartitioned, 1, 2, 0.5, 0.5, 0},
}

// ScenarioNames returns the names that Config.Scenarios knows, sorted.
func ScenarioNames() []string { return slices.Sorted(maps.Keys(scenarios)) }

// simulatedModel is small, so that tests are short, and wants more than half of the
// SMs and of the bandwidth, so that two of them contend.
var simulatedModel = loadgentest.Model{
	StepKernels: 12, KernelMean: 400 * time.Microsecond, PrefillPerToken: 10 * time.Microsecond,
	SMDemand: 0.7, BandwidthDemand: 0.6,
}

// open starts the servers.
func (h hosting) open(seed uint64, inMemory bool) (*loadgentest.Simulation, error) {
	var seats []loadgentest.Seat
	for i := range h.servers {
		s := seat(h.sm, h.bandwidth)
		s.Index, s.Slots, s.Pipe = i%h.gpus, h.slots, inMemory
		seats = append(seats, s)
	}
	gpus := slices.Repeat([]loadgentest.GPUOptions{{Sharing: h.sharing, Seed: seed}}, h.gpus)
	return loadgentest.NewSimulation(gpus, seats...)
}

func seat(sm, bandwidth float64) loadgentest.Seat {
	m := simulatedModel
	m.SMShare, m.BandwidthShare = sm, bandwidth
	return loadgentest.Seat{Options: loadgentest.Options{Model: m, NoLog: true}}
}

// embedTenants starts a server for each of the plan's tenants, nil where they name endpoints.
func embedTenants(p *planfile.File) (*loadgentest.Simulation, error) {
	if p.Embedded == "" {
		return nil, nil
	}
	o := loadgentest.GPUOptions{Seed: p.Seed}
	if err := o.Sharing.UnmarshalText([]byte(p.Embedded)); err != nil {
		return nil, fmt.Errorf("study: embedded: %w", err)
	}
	var seats []loadgentest.Seat
	for _, t := range p.Tenants {
		seats = append(seats, seat(t.SMShare, t.BandwidthShare))
	}
	return loadgentest.NewSimulation([]loadgentest.GPUOptions{o}, seats...)
}
