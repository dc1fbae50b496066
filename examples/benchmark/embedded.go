package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/planfile"
)

// embeddedScenario is a way to put model replicas on one simulated GPU.
type embeddedScenario struct {
	sharing  loadgentest.Sharing
	replicas int
	smShare  float64 // of each replica
	bwShare  float64
}

// embeddedScenarios are those of the LLM-serving study (a server alone; two under
// MPS; two under MPS with an active thread percentage each, which isolates no
// memory and is no MIG), and two more.
var embeddedScenarios = map[string]embeddedScenario{
	"baseline":      {loadgentest.SharingConcurrent, 1, 1, 1},
	"time-slicing":  {loadgentest.SharingTimeSliced, 2, 1, 1},
	"mps":           {loadgentest.SharingConcurrent, 2, 1, 1},
	"mig-emulation": {loadgentest.SharingConcurrent, 2, 0.5, 1},
	"mig":           {loadgentest.SharingPartitioned, 2, 0.5, 0.5},
}

func scenarioNames() []string { return slices.Sorted(maps.Keys(embeddedScenarios)) }

// simulatedModel is small, so that the demonstration is short, and wants more
// than half of the SMs and of the bandwidth, so that two of them are in each
// other's way.
var simulatedModel = loadgentest.Model{
	StepKernels: 12, KernelMean: 400 * time.Microsecond, PrefillPerToken: 10 * time.Microsecond, SMDemand: 0.7, BandwidthDemand: 0.6,
}

// embed starts servers of the model, with these shares, on one simulated GPU.
func embed(sharing loadgentest.Sharing, seed uint64, shares ...[2]float64) (*loadgentest.Simulation, error) {
	var seats []loadgentest.Seat
	for _, share := range shares {
		m := simulatedModel
		m.SMShare, m.BandwidthShare = share[0], share[1]
		seats = append(seats, loadgentest.Seat{Options: loadgentest.Options{Model: m, NoLog: true}})
	}
	sim, err := loadgentest.NewSimulation([]loadgentest.GPUOptions{{Sharing: sharing, Seed: seed}}, seats...)
	if err != nil {
		return nil, failed("cannot start the embedded server: %w", err)
	}
	return sim, nil
}

func embedScenario(name string, seed uint64) (*loadgentest.Simulation, error) {
	sc := embeddedScenarios[name]
	return embed(sc.sharing, seed, slices.Repeat([][2]float64{{sc.smShare, sc.bwShare}}, sc.replicas)...)
}

// embedTenants starts a server for each of the plan's tenants, nil where they name
// endpoints.
func embedTenants(p *planfile.File) (*loadgentest.Simulation, error) {
	if p.Embedded == "" {
		return nil, nil
	}
	var sharing loadgentest.Sharing
	if err := sharing.UnmarshalText([]byte(p.Embedded)); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	var shares [][2]float64
	for _, t := range p.Tenants {
		shares = append(shares, [2]float64{t.SMShare, t.BandwidthShare})
	}
	return embed(sharing, p.Seed, shares...)
}
