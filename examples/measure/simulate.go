package main

import (
	"context"
	"time"

	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// simulation is a site of embedded servers on a simulated GPU.
type simulation struct {
	plan *plan
	pipe bool // in-memory connections, for tests with simulated time
}

func (s *simulation) basis() sharing.Basis  { return sharing.BasisSimulated }
func (s *simulation) gpu() (string, string) { return colocation.SimulatedGPU, "" }

func (s *simulation) start(_ context.Context, m mode, _ string) (*stand, error) {
	opts := loadgentest.GPUOptions{Seed: s.plan.seed(), Sharing: loadgentest.SharingTimeSliced}
	if m != modeTimeSlicing {
		opts.Sharing = loadgentest.SharingConcurrent
	}
	if g := s.plan.SimGPU; g != nil {
		opts.Quantum, opts.Switch = time.Duration(g.Quantum), time.Duration(g.Switch)
	}
	var tenants []colocation.Tenant
	for i := range s.plan.Servers {
		p := &s.plan.Servers[i]
		t := colocation.Tenant{Slots: p.Slots}
		if sim := p.Simulated; sim != nil {
			t.Model = loadgentest.Model{StepKernels: sim.StepKernels, KernelMean: time.Duration(sim.KernelMean), PrefillPerToken: time.Duration(sim.PrefillPerToken),
				SMDemand: sim.SMDemand, BandwidthDemand: sim.BandwidthDemand}
		}
		if m == modeMIGLike {
			t.Model.SMShare = p.Percent / 100
		}
		tenants = append(tenants, t)
	}
	sim, err := colocation.Simulate([]loadgentest.GPUOptions{opts}, tenants, s.pipe)
	if err != nil {
		return nil, err
	}
	return &stand{endpoints: sim.Endpoints, source: sim.Source, close: sim.Close}, nil
}
