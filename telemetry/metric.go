package telemetry

import "github.com/cotenant/cotenant/internal/enum"

// Metric names a figure of a device or of a MIG instance. The zero Metric names none. Its text carries the unit,
// e.g. "power_watts", and is the CSV column; Prometheus names have base units (WritePrometheus).
type Metric uint8

// The metrics. Percentages run from 0 to 100.
const (
	_ Metric = iota
	// MetricGPUUtilPercent is NVML's utilization: the share of time in which at
	// least one kernel ran. It is not the share of capacity in use.
	MetricGPUUtilPercent
	// MetricMemUtilPercent is the share of time in which device memory was read or written, not the amount in use.
	MetricMemUtilPercent
	// MetricMemUsedBytes is the device memory in use, without what the driver reserves where the driver says so.
	MetricMemUsedBytes
	MetricMemTotalBytes // the device memory there is
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

	MetricNVLinkTxBytesPerS // GPM: what the GPU sends over all NVLinks
	MetricNVLinkRxBytesPerS // GPM: what it receives

	metricEnd
)

var metricTable = [metricEnd]struct{ name, help string }{
	MetricGPUUtilPercent:      {"util_percent", "Share of time in which any kernel ran (not capacity)."},
	MetricMemUtilPercent:      {"mem_util_percent", "Share of time in which device memory was read or written."},
	MetricMemUsedBytes:        {"mem_used_bytes", "Device memory in use."},
	MetricMemTotalBytes:       {"mem_total_bytes", "Device memory."},
	MetricPowerWatts:          {"power_watts", "Board power."},
	MetricPowerLimitWatts:     {"power_limit_watts", "Enforced power limit."},
	MetricSMClockMHz:          {"sm_clock_mhz", "SM clock."},
	MetricMemClockMHz:         {"mem_clock_mhz", "Memory clock."},
	MetricTemperatureCelsius:  {"temperature_celsius", "Die temperature."},
	MetricEnergyJoules:        {"energy_joules", "Energy since the driver was loaded."},
	MetricPCIeTxBytesPerS:     {"pcie_tx_bytes_per_s", "PCIe traffic from the GPU."},
	MetricPCIeRxBytesPerS:     {"pcie_rx_bytes_per_s", "PCIe traffic to the GPU."},
	MetricGraphicsUtilPercent: {"graphics_util_percent", "Share of time in which a context was active (GPM)."},
	MetricSMUtilPercent:       {"sm_util_percent", "Share of SMs that were busy (GPM)."},
	MetricSMOccupancyPercent:  {"sm_occupancy_percent", "Active warps against the most there can be (GPM)."},
	MetricTensorUtilPercent:   {"tensor_util_percent", "Share of time in which tensor cores worked (GPM)."},
	MetricDRAMUtilPercent:     {"dram_util_percent", "Share of peak memory bandwidth in use (GPM)."},
	MetricFP64UtilPercent:     {"fp64_util_percent", "Share of time in which FP64 pipes worked (GPM)."},
	MetricFP32UtilPercent:     {"fp32_util_percent", "Share of time in which FP32 pipes worked (GPM)."},
	MetricFP16UtilPercent:     {"fp16_util_percent", "Share of time in which FP16 pipes worked (GPM)."},
	MetricNVLinkTxBytesPerS:   {"nvlink_tx_bytes_per_s", "NVLink traffic from the GPU (GPM)."},
	MetricNVLinkRxBytesPerS:   {"nvlink_rx_bytes_per_s", "NVLink traffic to the GPU (GPM)."},
}

var metricNames = func() *enum.Names[Metric] {
	names := make([]string, metricEnd)
	for m, row := range metricTable {
		names[m] = row.name
	}
	return enum.Of[Metric](errUnknown, "metric", names...)
}()

// Metrics lists every metric in the order of their values.
func Metrics() []Metric { return metricNames.Values() }

func (m Metric) valid() bool { return m > 0 && m < metricEnd }

// Help returns one line that says what the metric is.
func (m Metric) Help() string {
	if !m.valid() {
		return ""
	}
	return metricTable[m].help
}
