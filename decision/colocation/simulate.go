// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/simgpu"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// simulatedName is the GPU's name in simulated results.
const simulatedName = "simulated GPU"

// gpuReader reads simulated GPUs as NVML reads real ones: the activity of their kernels
// since the last reading. Neither power nor memory is simulated.
type gpuReader struct {
	gpus []*loadgentest.GPU

	mu   sync.Mutex
	last map[reading]loadgentest.Activity
}

type reading struct {
	device int
	group  telemetry.Groups
}

func (s *gpuReader) Info() telemetry.ReaderInfo {
	return telemetry.ReaderInfo{Name: "simulation", Basis: sharing.BasisSimulated,
		Detail: "embedded servers on a simulated GPU"}
}

func (s *gpuReader) Devices(context.Context) ([]telemetry.Device, error) {
	var out []telemetry.Device
	for i := range s.gpus {
		out = append(out, telemetry.Device{UUID: fmt.Sprintf("GPU-simulated-%d", i), Name: simulatedName,
			MIG: sharing.AnswerNo, GPM: sharing.AnswerYes})
	}
	return out, nil
}

// Read reads utilisations: the first reading of a group has none, for one figure needs two readings.
func (s *gpuReader) Read(_ context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	if group != telemetry.GroupBasic && group != telemetry.GroupGPM {
		return telemetry.ErrUnsupported
	}
	now := s.gpus[device].Activity()
	key := reading{device, group}
	s.mu.Lock()
	before, ok := s.last[key]
	if s.last == nil {
		s.last = map[reading]loadgentest.Activity{}
	}
	s.last[key] = now
	s.mu.Unlock()
	elapsed := now.Elapsed - before.Elapsed
	if !ok || elapsed <= 0 {
		return nil
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / elapsed.Seconds() }
	if group == telemetry.GroupBasic {
		r.Set(telemetry.MetricGPUUtilPercent, percent(now.Busy-before.Busy))
		return nil
	}
	r.Set(telemetry.MetricGraphicsUtilPercent, percent(now.Busy-before.Busy))
	r.Set(telemetry.MetricSMUtilPercent, percent(now.SMUse-before.SMUse))
	r.Set(telemetry.MetricDRAMUtilPercent, percent(now.BandwidthUse-before.BandwidthUse))
	return nil
}

// predictor returns the predictor for simulated GPUs, which are shared as an H200 is (package simgpu) but for time
// slices three times as long, which the timers of a busy machine keep. Its engines have next to no work on the host,
// its prefills keep the GPU busy throughout, and its MPS costs a lone client nothing.
func (s *simulation) predictor() *predict.Predictor {
	p := predict.NewPredictor()
	p.GPU, p.Driver = simulatedName, ""
	set := func(q *predict.Parameter, v float64) {
		*q = predict.Parameter{Value: v, Unit: q.Unit, Low: 0, High: max(q.High, v), Basis: sharing.BasisSimulated,
			Source: "the simulation's own constants"}
	}
	q := &p.Parameters
	set(&q.Quantum, 6.27)
	set(&q.Switch, 0.459)
	set(&q.HostPerToken, 0.01)
	set(&q.BatchDoubling, 0.015)
	set(&q.PrefillTokens, 1e-3)
	for _, none := range []*predict.Parameter{&q.HostFraction, &q.SliceLoss, &q.BatchWaits, &q.LoneStepCost} {
		set(none, 0)
	}
	for _, whole := range []*predict.Parameter{&q.PrefillBusy, &q.PrefillCatchUp} {
		set(whole, 1)
	}
	return &p
}

// simulation is a Site of embedded servers on a simulated GPU.
type simulation struct {
	plan *Plan
	pipe bool // in-memory connections, for tests with simulated time
}

// NewSimulation returns the Site of the plan's servers on a simulated GPU.
func NewSimulation(plan *Plan) Site { return &simulation{plan: plan} }

func (s *simulation) basis() sharing.Basis  { return sharing.BasisSimulated }
func (s *simulation) gpu() (string, string) { return simulatedName, "" }

func (s *simulation) start(_ context.Context, m sharing.Mechanism, _ string, _ func(string, ...any)) (*deployment,
	error) {
	opts := loadgentest.GPUOptions{Seed: uint64(s.plan.Seed), Device: simgpu.New(m, &s.predictor().Parameters)}
	var servers []loadgentest.SimulatedServer
	for i := range s.plan.Servers {
		p := &s.plan.Servers[i]
		t := loadgentest.SimulatedServer{Options: loadgentest.Options{Slots: p.Slots, Pipe: s.pipe, NoLog: true}}
		if sim := p.Simulated; sim != nil {
			t.Model = loadgentest.Model{StepKernels: sim.StepKernels, KernelMean: time.Duration(sim.KernelMean),
				PrefillPerToken: time.Duration(sim.PrefillPerToken),
				SMDemand:        sim.SMDemand, BandwidthDemand: sim.BandwidthDemand, SMHold: sim.SMHold}
		}
		if m == sharing.MechanismMIGLikeEmulation {
			t.Model.SMShare = p.Percent / 100
		}
		servers = append(servers, t)
	}
	sim, err := loadgentest.NewSimulation([]loadgentest.GPUOptions{opts}, servers...)
	if err != nil {
		return nil, err
	}
	return &deployment{endpoints: sim.Endpoints(), source: &gpuReader{gpus: sim.GPUs}, close: sim.Close}, nil
}
