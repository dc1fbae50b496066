package telemetrytest

import (
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// Figures of an H200.
const (
	dayMemoryBytes = 150_754_820_096
	dayLimitWatts  = 700
	dayBusyMHz     = 1980
	dayIdleMHz     = 345
)

// Day returns the script of a day on four GPUs: a model server with quiet times, a
// notebook that somebody left open, a job that hangs, and a free GPU that falls off
// the bus for two hours. The figures are invented, of the size that an H200 shows.
func Day(seed uint64) Script {
	free := phase(9*time.Hour, 0, 0, 0, 76, dayIdleMHz, telemetry.ThrottleIdle)
	server := process(2101, "llm-server", 17, 17.3)
	notebook, train := process(3300, "jupyter", 39, 40), process(4711, "train", 119, 120)
	device := telemetry.Device{Name: "simulated H200", MIG: sharing.AnswerNo, GPM: sharing.AnswerYes}
	s := Script{Seed: seed, NoisePercent: 3}
	for _, phases := range [][]Phase{
		{server(phase(40*time.Minute, 89, 23, 22, 248, dayBusyMHz, 0)),
			server(phase(20*time.Minute, 0, 0, 0, 118, dayBusyMHz, 0))},
		{phase(30*time.Minute, 0, 0, 0, 76, dayIdleMHz, telemetry.ThrottleIdle),
			notebook(phase(90*time.Minute, 60, 35, 30, 390, dayBusyMHz, 0)), notebook(phase(0, 0, 0, 0, 121, dayBusyMHz, 0))},
		{train(phase(8*time.Hour, 99, 85, 60, 640, dayBusyMHz, telemetry.ThrottlePowerCap)),
			train(phase(0, 100, 0.8, 0, 135, dayBusyMHz, 0))},
		{free, {For: 2 * time.Hour, Lost: true}, phase(0, 0, 0, 0, 76, dayIdleMHz, telemetry.ThrottleIdle)},
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
		q := telemetry.Process{PID: pid, Name: name, Memory: telemetry.Some(gib * sharing.GiB)}
		if util := p.Figures[telemetry.MetricGPUUtilPercent]; util > 0 {
			q.SMUtilPercent = telemetry.Some(util)
		}
		p.Processes = []telemetry.Process{q}
		p.Figures[telemetry.MetricMemUsedBytes] = used * float64(sharing.GiB)
		return p
	}
}
