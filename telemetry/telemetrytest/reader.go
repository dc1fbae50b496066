// SPDX-License-Identifier: Apache-2.0

package telemetrytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/splitmix"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// Reader is a telemetry.Reader that follows a script. It is safe for concurrent use.
type Reader struct {
	script  Script
	devices []telemetry.Device
	gpus    []compiled

	mu     sync.Mutex
	start  time.Time
	manual bool
	now    time.Duration
}

// compiled is a GPU's script in the form that readings need.
type compiled struct {
	phases []compiledPhase
	length time.Duration // of all phases, when they loop
}

type compiledPhase struct {
	at        time.Duration // the phase's start
	energy    float64       // joules since the script's start
	list      []telemetry.Process
	util      []telemetry.Process
	instances []telemetry.Instance
}

// New returns a reader of a script; the error names every problem of the script, which must not be changed afterwards.
func New(script Script) (*Reader, error) {
	if err := script.check(); err != nil {
		return nil, err
	}
	s := &Reader{script: script}
	for i, g := range script.GPUs {
		s.devices = append(s.devices, describe(g, i))
		var c compiled
		var energy float64
		for _, p := range g.Phases {
			cp := compiledPhase{at: c.length, energy: energy}
			for _, proc := range p.Processes {
				util := telemetry.Process{PID: proc.PID, Name: proc.Name, SMUtilPercent: proc.SMUtilPercent,
					GPUInstance: proc.GPUInstance}
				if _, ok := proc.SMUtilPercent.Get(); ok {
					cp.util = append(cp.util, util)
				}
				proc.SMUtilPercent = sharing.Optional[float64]{}
				cp.list = append(cp.list, proc)
			}
			for _, in := range p.Instances {
				ti := telemetry.Instance{ID: in.ID}
				if in.ComputeSlices > 0 {
					ti.ComputeSlices = sharing.Some(in.ComputeSlices)
				}
				for m, v := range in.Figures {
					ti.Set(m, v)
				}
				cp.instances = append(cp.instances, ti)
			}
			c.phases = append(c.phases, cp)
			energy += float64(p.Figures[telemetry.MetricPowerWatts] * p.For.Seconds())
			c.length += p.For
		}
		s.gpus = append(s.gpus, c)
	}
	return s, nil
}

// SetTime sets the time since the script's start and stops the reader from following the real clock.
func (s *Reader) SetTime(sinceStart time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manual, s.now = true, sinceStart
}

// elapsed is the time since the start: that of SetTime, or the time since the first call.
func (s *Reader) elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.manual {
		return s.now
	}
	if s.start.IsZero() {
		s.start = time.Now()
	}
	return time.Since(s.start)
}

// Info describes the reader as a script.
func (s *Reader) Info() telemetry.ReaderInfo {
	info := telemetry.ReaderInfo{Name: "script", Basis: sharing.BasisSimulated}
	if s.script.NoisePercent > 0 {
		info.Detail = fmt.Sprintf("noise %v%%, seed %d", s.script.NoisePercent, s.script.Seed)
	}
	return info
}

// Devices lists the scripted devices. The script's time starts with the first call.
func (s *Reader) Devices(ctx context.Context) ([]telemetry.Device, error) {
	s.elapsed()
	return slices.Clone(s.devices), ctx.Err()
}

// Read blocks for the group's Cost and then returns the script's figures for that moment.
func (s *Reader) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	if device < 0 || device >= len(s.gpus) {
		return fmt.Errorf("%w: %d of %d", telemetry.ErrNoDevice, device, len(s.gpus))
	}
	if cost := s.script.Cost[group]; cost > 0 {
		timer := time.NewTimer(cost)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.read(device, group, s.elapsed(), r)
}

func (s *Reader) read(device int, group telemetry.Groups, t time.Duration, r *telemetry.Reading) error {
	g := &s.script.GPUs[device]
	n, rounds, into := s.phase(device, t)
	p, cp := &g.Phases[n], &s.gpus[device].phases[n]
	fail := func(err error) error {
		return &sharing.OpError{Package: "telemetry", Op: "read " + group.String(), Device: s.devices[device].UUID,
			Err: err}
	}
	if p.Lost {
		return fail(telemetry.ErrLost)
	}
	if err := p.Fail[group]; err != nil {
		return fail(err)
	}
	switch group {
	case telemetry.GroupProcesses:
		r.Processes = cp.list
		return nil
	case telemetry.GroupProcessUtil:
		r.Processes = cp.util
		r.Dropped += p.Dropped
		return nil
	case telemetry.GroupEnergy:
		if _, ok := p.Figures[telemetry.MetricPowerWatts]; ok && !g.NoEnergy {
			r.Set(telemetry.MetricEnergyJoules, s.energy(device, n, rounds, into))
		}
		return nil
	case telemetry.GroupBasic:
		r.Throttle = sharing.Some(cmp.Or(p.Throttle, "none"))
	case telemetry.GroupGPM:
		r.Instances = cp.instances
	}
	for _, m := range metrics {
		if groupOf(m) != group {
			continue
		}
		if v, ok := p.Figures[m]; ok {
			r.Set(m, s.noisy(device, m, t, v))
		}
	}
	return nil
}

// phase returns the phase at t, how many whole rounds of a loop came before, and the time since the phase's start.
func (s *Reader) phase(device int, t time.Duration) (n int, rounds int64, into time.Duration) {
	c := &s.gpus[device]
	if s.script.GPUs[device].Loop {
		rounds, t = int64(t/c.length), t%c.length
	}
	for n+1 < len(c.phases) && c.phases[n+1].at <= t {
		n++
	}
	return n, rounds, t - c.phases[n].at
}

func (s *Reader) energy(device, n int, rounds int64, into time.Duration) float64 {
	c, phases := &s.gpus[device], s.script.GPUs[device].Phases
	until := func(n int, into time.Duration) float64 {
		return c.phases[n].energy + float64(phases[n].Figures[telemetry.MetricPowerWatts]*into.Seconds())
	}
	last := len(phases) - 1
	return until(n, into) + float64(float64(rounds)*until(last, phases[last].For))
}

// steady are the figures that noise leaves alone.
var steady = []telemetry.Metric{telemetry.MetricMemUsedBytes, telemetry.MetricMemTotalBytes,
	telemetry.MetricPowerLimitWatts}

func (s *Reader) noisy(device int, m telemetry.Metric, t time.Duration, v float64) float64 {
	if s.script.NoisePercent == 0 || slices.Contains(steady, m) {
		return v
	}
	h := s.script.Seed
	for _, x := range [...]uint64{uint64(device), uint64(m), uint64(t)} {
		h = splitmix.Next(h ^ splitmix.Next(x))
	}
	u := float64(h>>11)/(1<<52) - 1 // in [-1, 1)
	v *= 1 + float64(u*s.script.NoisePercent/100)
	if m <= telemetry.MetricMemUtilPercent ||
		m >= telemetry.MetricGraphicsUtilPercent && m <= telemetry.MetricFP16UtilPercent { // percentages
		v = min(v, 100)
	}
	return v
}
