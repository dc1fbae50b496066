package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// simulatedName is the simulated GPU's name wherever a GPU's stands.
const simulatedName = "simulated GPU"

// simulation is a site of embedded servers on a simulated GPU.
type simulation struct {
	plan *plan
	pipe bool // in-memory connections, for tests with simulated time
}

func (s *simulation) basis() sharing.Basis  { return sharing.BasisSimulated }
func (s *simulation) gpu() (string, string) { return simulatedName, "" }

func (s *simulation) start(_ context.Context, m mode, _ string) (*stand, error) {
	opts := loadgentest.GPUOptions{Seed: s.plan.seed(), Sharing: loadgentest.TimeSliced}
	if m != modeTimeSlicing {
		opts.Sharing = loadgentest.Concurrent
	}
	if g := s.plan.SimGPU; g != nil {
		opts.Quantum, opts.Switch = time.Duration(g.Quantum), time.Duration(g.Switch)
	}
	gpu := loadgentest.NewGPU(opts)
	st := &stand{source: &simulatedSource{gpu: gpu}}
	var servers []*loadgentest.Server
	st.close = sync.OnceValue(func() error {
		var errs []error
		for _, srv := range servers {
			errs = append(errs, srv.Close())
		}
		return errors.Join(append(errs, gpu.Close())...)
	})
	for i := range s.plan.Servers {
		p := &s.plan.Servers[i]
		o := loadgentest.Options{GPU: gpu, Slots: p.Slots, Pipe: s.pipe, NoLog: true}
		if sim := p.Simulated; sim != nil {
			o.Model = loadgentest.Model{StepKernels: sim.StepKernels, KernelMean: time.Duration(sim.KernelMean), PrefillPerToken: time.Duration(sim.PrefillPerToken),
				SMDemand: sim.SMDemand, BandwidthDemand: sim.BandwidthDemand}
		}
		if m == modeMIGLike {
			o.Model.SMShare = p.Percent / 100
		}
		srv, err := loadgentest.NewServer(o)
		if err != nil {
			return nil, errors.Join(err, st.close())
		}
		servers = append(servers, srv)
		e := loadgen.Endpoint{URL: srv.URL}
		if s.pipe {
			e.Dial = srv.Dial
		}
		st.endpoints = append(st.endpoints, e)
	}
	return st, nil
}

// simulatedSource reads a simulated GPU as NVML reads a real one: what its
// kernels did since the last reading. It knows neither power nor memory, which
// are not simulated.
type simulatedSource struct {
	gpu *loadgentest.GPU

	mu   sync.Mutex
	last map[telemetry.Groups]loadgentest.Activity
}

func (s *simulatedSource) Info() telemetry.SourceInfo {
	return telemetry.SourceInfo{Name: "simulation", Basis: sharing.BasisSimulated, Detail: "embedded servers on a simulated GPU"}
}

func (s *simulatedSource) Devices(context.Context) ([]telemetry.Device, error) {
	return []telemetry.Device{{UUID: "GPU-simulated", Name: simulatedName, MIG: sharing.No, GPM: sharing.Yes}}, nil
}

func (s *simulatedSource) Read(_ context.Context, _ int, group telemetry.Groups, r *telemetry.Reading) error {
	if group != telemetry.GroupBasic && group != telemetry.GroupGPM {
		return telemetry.ErrUnsupported
	}
	now := s.gpu.Activity()
	s.mu.Lock()
	before, ok := s.last[group]
	if s.last == nil {
		s.last = map[telemetry.Groups]loadgentest.Activity{}
	}
	s.last[group] = now
	s.mu.Unlock()
	elapsed := now.Elapsed - before.Elapsed
	if !ok || elapsed <= 0 {
		return nil // one figure needs two readings
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / elapsed.Seconds() }
	if group == telemetry.GroupBasic {
		r.Set(telemetry.GPUUtilPercent, percent(now.Busy-before.Busy))
		return nil
	}
	r.Set(telemetry.GraphicsUtilPercent, percent(now.Busy-before.Busy))
	r.Set(telemetry.SMUtilPercent, percent(now.SMUse-before.SMUse))
	r.Set(telemetry.DRAMUtilPercent, percent(now.BandwidthUse-before.BandwidthUse))
	return nil
}
