// SPDX-License-Identifier: Apache-2.0

package telemetrytest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// Script lists the phases of each device. It is data; New makes a reader of it.
type Script struct {
	GPUs []GPU
	// NoisePercent spreads every figure but counters, memory and the power limit around its value, uniformly by up to this
	// percentage of it. 0 gives exact figures.
	NoisePercent float64
	// Seed drives the noise. The noise of a figure depends only on the seed, the device, the metric and the time.
	Seed uint64
	// Cost is the time for which the reading of each group blocks. It does not advance simulated time.
	Cost map[telemetry.Groups]time.Duration
}

// GPU is one device's script.
type GPU struct {
	// Device describes the device. An empty UUID or Name is filled in.
	Device telemetry.Device
	// Phases follow one another. The last one goes on for ever unless Loop is set.
	Phases []Phase
	// Loop starts again with the first phase after the last. Every phase then needs a length.
	Loop     bool
	NoEnergy bool // the device has no energy counter
}

// Phase is a stretch of time in which a device's figures stay the same.
type Phase struct {
	// For is the phase's length. Only the last phase of a script without Loop may leave it 0.
	For time.Duration
	// Figures are the device's metrics. The energy counter is derived from the power.
	Figures  map[telemetry.Metric]float64
	Throttle telemetry.Throttle // the throttle reasons
	// Processes are the processes, with their memory and utilization. One without utilization is idle.
	Processes []telemetry.Process
	Instances []Instance // the MIG instances
	// Lost makes every reading of the phase fail with telemetry.ErrLost.
	Lost bool
	// Fail makes the reading of a group fail.
	Fail map[telemetry.Groups]error
	// Dropped is the number of impossible values that each reading of process utilization reports as dropped.
	Dropped int
}

// Instance is a MIG instance in a phase.
type Instance struct {
	ID            int
	ComputeSlices int // 0 leaves it missing
	Figures       map[telemetry.Metric]float64
}

var metrics = telemetry.Metrics() // all of them, listed once

func groupOf(m telemetry.Metric) telemetry.Groups {
	switch m {
	case telemetry.MetricEnergyJoules:
		return telemetry.GroupEnergy
	case telemetry.MetricPCIeTxBytesPerS, telemetry.MetricPCIeRxBytesPerS:
		return telemetry.GroupPCIe
	}
	if m >= telemetry.MetricGraphicsUtilPercent {
		return telemetry.GroupGPM
	}
	return telemetry.GroupBasic
}

func (s *Script) check() error {
	var probs problem.List
	probs.If(len(s.GPUs) == 0, "gpus", "script at least one", "telemetrytest: the script has no GPUs")
	probs.If(s.NoisePercent < 0 || s.NoisePercent > 100, "noise_percent", "use 0 to 100",
		"telemetrytest: a noise of %v%%", s.NoisePercent)
	for i, g := range s.GPUs {
		path := fmt.Sprintf("gpus[%d]", i)
		probs.If(len(g.Phases) == 0, path+".phases", "script at least one", "telemetrytest: the GPU has no phases")
		for j, p := range g.Phases {
			path := fmt.Sprintf("%s.phases[%d]", path, j)
			last := j == len(g.Phases)-1
			probs.If(p.For < 0 || p.For == 0 && (!last || g.Loop), path+".for", "give the phase a length",
				"telemetrytest: a length of %v", p.For)
			checkFigures(&probs, path, p.Figures)
			for k, in := range p.Instances {
				path := fmt.Sprintf("%s.instances[%d]", path, k)
				checkFigures(&probs, path, in.Figures)
				probs.If(in.ID < 0 || in.ComputeSlices < 0, path, "use 0 or more",
					"telemetrytest: a negative id or slice count")
			}
		}
	}
	return probs.Err()
}

func checkFigures(probs *problem.List, path string, figures map[telemetry.Metric]float64) {
	for _, m := range metrics {
		v, ok := figures[m]
		if !ok {
			continue
		}
		probs.If(m == telemetry.MetricEnergyJoules, problem.Join(path, m.String()),
			"leave it out: the counter follows from power_watts",
			"telemetrytest: a scripted energy counter")
		var r telemetry.Reading
		if r.Set(m, v); !r.Has() || v < 0 {
			probs.Addf(problem.Join(path, m.String()), "use a finite figure of 0 or more", "telemetrytest: %v", v)
		}
	}
	for m := range figures {
		_, err := m.MarshalText()
		probs.AddErr(path, err)
	}
}

func describe(g GPU, i int) telemetry.Device {
	d := g.Device
	d.UUID = cmp.Or(d.UUID, fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i))
	d.Name = cmp.Or(d.Name, "simulated GPU")
	for _, p := range g.Phases {
		gpm := len(p.Instances) > 0
		for m := range p.Figures {
			gpm = gpm || groupOf(m) == telemetry.GroupGPM
		}
		if gpm && d.GPM == sharing.AnswerUnknown {
			d.GPM = sharing.AnswerYes
		}
		if len(p.Instances) > 0 && d.MIG == sharing.AnswerUnknown {
			d.MIG = sharing.AnswerYes
		}
	}
	return d
}

// Figures of an H200.
const (
	dayMemoryBytes = 150_754_820_096
	dayLimitWatts  = 700
	dayBusyMHz     = 1980
	dayIdleMHz     = 345
)

// Day returns the script of a day on four GPUs: a model server with quiet times, which shares its GPU with a batch job
// from 14:10 to 14:35, a notebook that was left open, a job that hangs, and a free GPU that falls off the bus for two
// hours. The figures are invented, but of a magnitude typical for an H200.
func Day(seed uint64) Script {
	free := phase(9*time.Hour, 0, 0, 0, 76, dayIdleMHz, "idle")
	server := process(2101, "VLLM::EngineCore", 17, 17.3)
	notebook, train := process(3300, "jupyter", 39, 40), process(4711, "train", 119, 120)
	serves := func(length time.Duration) Phase { return server(phase(length, 89, 23, 22, 248, dayBusyMHz, "")) }
	quiet := server(phase(20*time.Minute, 0, 0, 0, 118, dayBusyMHz, ""))
	disturbed := process(2102, "summaries", 38, 55.3)(phase(25*time.Minute, 44, 46, 45, 410, dayBusyMHz, ""))
	disturbed.Figures[telemetry.MetricGPUUtilPercent], disturbed.Figures[telemetry.MetricGraphicsUtilPercent] = 99, 99
	disturbed.Processes = append(disturbed.Processes, telemetry.Process{PID: 2101, Name: "VLLM::EngineCore",
		Memory: sharing.Some(17 * sharing.GiB), SMUtilPercent: sharing.Some(55.0)})
	var shared []Phase
	for hour := range 24 {
		if hour == 14 {
			shared = append(shared, serves(10*time.Minute), disturbed, serves(5*time.Minute), quiet)
		} else {
			shared = append(shared, serves(40*time.Minute), quiet)
		}
	}
	device := telemetry.Device{Name: "simulated H200", MIG: sharing.AnswerNo, GPM: sharing.AnswerYes}
	s := Script{Seed: seed, NoisePercent: 3}
	for _, phases := range [][]Phase{
		shared,
		{phase(30*time.Minute, 0, 0, 0, 76, dayIdleMHz, "idle"),
			notebook(phase(90*time.Minute, 60, 35, 30, 390, dayBusyMHz, "")), notebook(phase(0, 0, 0, 0, 121, dayBusyMHz, ""))},
		{train(phase(8*time.Hour, 99, 85, 60, 640, dayBusyMHz, "power-cap")),
			train(phase(0, 100, 0.8, 0, 135, dayBusyMHz, ""))},
		{free, {For: 2 * time.Hour, Lost: true}, phase(0, 0, 0, 0, 76, dayIdleMHz, "idle")},
	} {
		s.GPUs = append(s.GPUs, GPU{Device: device, Phases: phases})
	}
	s.GPUs[0].Loop = true
	return s
}

// phase is a time at one utilization in percent, of the GPU, its SMs and its memory.
func phase(length time.Duration, util, sm, dram, watts, mhz float64, throttle telemetry.Throttle) Phase {
	return Phase{For: length, Throttle: throttle, Figures: map[telemetry.Metric]float64{
		telemetry.MetricGPUUtilPercent: util, telemetry.MetricGraphicsUtilPercent: util,
		telemetry.MetricMemUtilPercent: dram, telemetry.MetricDRAMUtilPercent: dram,
		telemetry.MetricSMUtilPercent: sm, telemetry.MetricSMOccupancyPercent: sm / 7,
		telemetry.MetricMemUsedBytes: 0, telemetry.MetricMemTotalBytes: dayMemoryBytes,
		telemetry.MetricPowerWatts: watts, telemetry.MetricPowerLimitWatts: dayLimitWatts,
		telemetry.MetricSMClockMHz: mhz, telemetry.MetricTemperatureCelsius: 28 + watts/16,
		telemetry.MetricPCIeTxBytesPerS: 1e6 * sm, telemetry.MetricPCIeRxBytesPerS: 1e6 * sm,
	}}
}

// process returns a function that puts a process of some GiB into a phase, in which the GPU has more in use.
func process(pid uint32, name string, gib sharing.Bytes, used float64) func(Phase) Phase {
	return func(p Phase) Phase {
		q := telemetry.Process{PID: pid, Name: name, Memory: sharing.Some(gib * sharing.GiB)}
		if util := p.Figures[telemetry.MetricGPUUtilPercent]; util > 0 {
			q.SMUtilPercent = sharing.Some(util)
		}
		p.Processes = []telemetry.Process{q}
		p.Figures[telemetry.MetricMemUsedBytes] = used * float64(sharing.GiB)
		return p
	}
}
