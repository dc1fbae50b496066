// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
)

// Metric names a figure of a device or of a MIG instance. The zero Metric names none. Its text contains the unit, e.g.
// "power_watts", and names the CSV column.
type Metric uint8

// The metrics. Percentages run from 0 to 100.
const (
	_ Metric = iota
	// MetricGPUUtilPercent is NVML's utilization: the share of time in which at
	// least one kernel ran. It is not the share of capacity in use.
	MetricGPUUtilPercent
	// MetricMemUtilPercent is the share of time in which device memory was read or written, not the amount in use.
	MetricMemUtilPercent
	// MetricMemUsedBytes is the device memory in use, without the reserve of the driver where the driver reports it.
	MetricMemUsedBytes
	MetricMemTotalBytes // the total device memory
	// MetricPowerWatts is the board's power. The driver averages it over one second
	// on Ampere (GA100 apart) and later (nvml.h).
	MetricPowerWatts
	MetricPowerLimitWatts    // the enforced power limit
	MetricSMClockMHz         // the SM clock
	MetricMemClockMHz        // the memory clock
	MetricTemperatureCelsius // the die's temperature
	MetricEnergyJoules       // a counter: the energy since the driver was loaded
	MetricPCIeTxBytesPerS    // the rate at which the GPU sends over PCIe
	MetricPCIeRxBytesPerS    // the rate at which the GPU receives over PCIe

	// Of GPM: shares of the time in which a compute or graphics context was active, of
	// SMs that were busy, of the warps that there can be, of the time in which tensor
	// cores worked, of the peak memory bandwidth, and of the time of the pipes.
	MetricGraphicsUtilPercent
	MetricSMUtilPercent
	MetricSMOccupancyPercent
	MetricTensorUtilPercent
	MetricDRAMUtilPercent
	MetricFP64UtilPercent
	MetricFP32UtilPercent
	MetricFP16UtilPercent

	MetricNVLinkTxBytesPerS // GPM: the rate at which the GPU sends over all NVLinks
	MetricNVLinkRxBytesPerS // GPM: the rate at which it receives

	metricEnd
)

var metricNames = enum.Of[Metric](errUnknown, "metric", "",
	"util_percent", "mem_util_percent", "mem_used_bytes", "mem_total_bytes", "power_watts", "power_limit_watts",
	"sm_clock_mhz", "mem_clock_mhz", "temperature_celsius", "energy_joules", "pcie_tx_bytes_per_s",
	"pcie_rx_bytes_per_s", "graphics_util_percent", "sm_util_percent", "sm_occupancy_percent",
	"tensor_util_percent", "dram_util_percent", "fp64_util_percent", "fp32_util_percent", "fp16_util_percent",
	"nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s")

// errUnknown is returned for a text or value that names nothing.
var errUnknown = errors.New("telemetry: unknown name")

// Metrics lists every metric in the order of their values.
func Metrics() []Metric { return metricNames.Values() }

func (m Metric) valid() bool { return m > 0 && m < metricEnd }

// Groups is a set of groups of readings that are taken together because they
// cost about the same. The zero Groups is none.
type Groups uint8

// The groups, with the cost of one reading on an H200 with driver 580.
const (
	// GroupBasic is utilization, memory, power, clocks, temperature and throttle reasons: microseconds.
	GroupBasic     Groups = 1 << iota
	GroupProcesses        // the list of processes and their memory: 8.5 us
	// GroupGPM is the activity counters of Hopper and later, of the device and of each MIG instance. One figure
	// needs two readings at least 100 ms apart (nvml.h).
	GroupGPM
	GroupProcessUtil // the utilization of each process: 2.6 ms
	GroupEnergy      // the energy counter: 4.1 ms
	GroupPCIe        // the PCIe throughput, which the driver counts for 20 ms in each direction (nvml.h)
	groupEnd
	groupCount = 6
)

// GroupsFast are the groups that a Sampler reads on its fast tick.
const GroupsFast = GroupBasic | GroupProcesses

// GroupsSlow are the groups that a Sampler reads on its slow tick.
const GroupsSlow = GroupGPM | GroupProcessUtil | GroupEnergy | GroupPCIe

var groupNames = []string{"basic", "processes", "gpm", "process-util", "energy", "pcie"}

// Has reports whether g contains all groups of want.
func (g Groups) Has(want Groups) bool { return g&want == want }

// String joins the names of the groups with "+": "basic+processes", or "none"; unknown bits are written as a number.
func (g Groups) String() string { return joinFlags(uint64(g), groupNames) }

// Throttle lists the reasons for which a device's clocks are below their highest, as NVML's clocks event reasons give
// them: "none", or some of the following, joined by "+" in this order.
//
//	idle         nothing runs
//	app-clocks   the application clocks setting
//	power-cap    the software power cap
//	hw-slowdown  hardware slowdown: heat, power brake or a fast power trigger
//	sync-boost   another GPU of the sync boost group
//	sw-thermal   software thermal slowdown
//	hw-thermal   hardware thermal slowdown
//	power-brake  external power brake
//	display      display clock setting
type Throttle string

// throttleNames are the reasons by NVML's bits.
var throttleNames = []string{"idle", "app-clocks", "power-cap", "hw-slowdown", "sync-boost", "sw-thermal", "hw-thermal",
	"power-brake", "display"}

// ThrottleOf returns the reasons of NVML's bits; unknown bits are ignored.
func ThrottleOf(bits uint64) Throttle {
	return Throttle(joinFlags(bits&(1<<len(throttleNames)-1), throttleNames))
}

// with returns the reasons that are in either list.
func (t Throttle) with(o Throttle) Throttle {
	all, bits := strings.Split(string(t+"+"+o), "+"), uint64(0)
	for i, name := range throttleNames {
		if slices.Contains(all, name) {
			bits |= 1 << i
		}
	}
	return ThrottleOf(bits)
}

// joinFlags writes a set of flags: their names, or "none"; bits without a name are a number.
func joinFlags(v uint64, names []string) string {
	if v == 0 {
		return "none"
	}
	var parts []string
	for i, n := range names {
		if v&(1<<i) != 0 {
			parts = append(parts, n)
		}
	}
	if rest := v >> len(names) << len(names); rest != 0 {
		parts = append(parts, fmt.Sprintf("%#x", rest))
	}
	return strings.Join(parts, "+")
}
