package main

import (
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// node is a simulated day of four GPUs: a model server with quiet times, a
// notebook that somebody left open, a job that hangs, and a free GPU that
// falls off the bus for two hours. The figures are of the size that an H200
// shows, and are made up.
func node(seed uint64) telemetrytest.Script {
	const total = 150_754_820_096 // of an H200
	figures := func(util, sm, dram, watts, clock, used float64) map[telemetry.Metric]float64 {
		return map[telemetry.Metric]float64{
			telemetry.MetricGPUUtilPercent: util, telemetry.MetricMemUtilPercent: dram, telemetry.MetricMemUsedBytes: used, telemetry.MetricMemTotalBytes: total,
			telemetry.MetricPowerWatts: watts, telemetry.MetricPowerLimitWatts: 700, telemetry.MetricSMClockMHz: clock, telemetry.MetricTemperatureCelsius: 28 + watts/16,
			telemetry.MetricGraphicsUtilPercent: util, telemetry.MetricSMUtilPercent: sm, telemetry.MetricSMOccupancyPercent: sm / 7, telemetry.MetricDRAMUtilPercent: dram,
			telemetry.MetricPCIeTxBytesPerS: 1e6 * sm, telemetry.MetricPCIeRxBytesPerS: 1e6 * sm,
		}
	}
	process := func(pid uint32, name string, memory sharing.Bytes, util float64) []telemetry.Process {
		p := telemetry.Process{PID: pid, Name: name, Memory: telemetry.Some(memory)}
		if util > 0 {
			p.SMUtilPercent = telemetry.Some(util)
		}
		return []telemetry.Process{p}
	}
	const busy, low, idleClock = 1980.0, 1980.0, 345.0
	gib := func(g float64) float64 { return g * float64(sharing.GiB) }
	gpu := func(loop bool, phases ...telemetrytest.Phase) telemetrytest.GPU {
		return telemetrytest.GPU{Device: telemetry.Device{Name: "simulated H200", MIG: sharing.AnswerNo, GPM: sharing.AnswerYes}, Phases: phases, Loop: loop}
	}
	free := telemetrytest.Phase{Figures: figures(0, 0, 0, 76, idleClock, 0), Throttle: telemetry.ThrottleIdle}
	freeUntil := free
	freeUntil.For = 9 * time.Hour
	return telemetrytest.Script{Seed: seed, NoisePercent: 3, GPUs: []telemetrytest.GPU{
		gpu(true,
			telemetrytest.Phase{For: 40 * time.Minute, Figures: figures(89, 23, 22, 248, busy, gib(17.3)), Processes: process(2101, "llm-server", 17*sharing.GiB, 88)},
			telemetrytest.Phase{For: 20 * time.Minute, Figures: figures(0, 0, 0, 118, low, gib(17.3)), Processes: process(2101, "llm-server", 17*sharing.GiB, 0)}),
		gpu(false,
			telemetrytest.Phase{For: 30 * time.Minute, Figures: figures(0, 0, 0, 76, idleClock, 0), Throttle: telemetry.ThrottleIdle},
			telemetrytest.Phase{For: 90 * time.Minute, Figures: figures(60, 35, 30, 390, busy, gib(40)), Processes: process(3300, "jupyter", 39*sharing.GiB, 60)},
			telemetrytest.Phase{Figures: figures(0, 0, 0, 121, low, gib(40)), Processes: process(3300, "jupyter", 39*sharing.GiB, 0)}),
		gpu(false,
			telemetrytest.Phase{For: 8 * time.Hour, Figures: figures(99, 85, 60, 640, busy, gib(120)), Throttle: telemetry.ThrottlePowerCap, Processes: process(4711, "train", 119*sharing.GiB, 99)},
			telemetrytest.Phase{Figures: figures(100, 0.8, 0, 135, busy, gib(120)), Processes: process(4711, "train", 119*sharing.GiB, 100)}),
		gpu(false, freeUntil, telemetrytest.Phase{For: 2 * time.Hour, Lost: true}, free),
	}}
}
