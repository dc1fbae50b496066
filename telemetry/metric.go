package telemetry

import "github.com/cotenant/cotenant/internal/enum"

// Metric names a figure of a device or of a MIG instance. The zero Metric
// names none. Its text carries the unit, e.g. "power_watts", and is the CSV
// column; Prometheus names have base units (WritePrometheus).
type Metric uint8

// The metrics. Percentages run from 0 to 100.
const (
	_ Metric = iota
	// MetricGPUUtilPercent is NVML's utilization: the share of time in which at
	// least one kernel ran. It is not the share of capacity in use.
	MetricGPUUtilPercent
	// MetricMemUtilPercent is the share of time in which device memory was read or
	// written, not the amount in use.
	MetricMemUtilPercent
	// MetricMemUsedBytes is the device memory in use, without what the driver
	// reserves where the driver says so.
	MetricMemUsedBytes
	// MetricMemTotalBytes is the device memory there is.
	MetricMemTotalBytes
	// MetricPowerWatts is the board's power. The driver averages it over one second
	// on Ampere (GA100 apart) and later (nvml.h).
	MetricPowerWatts
	// MetricPowerLimitWatts is the enforced power limit.
	MetricPowerLimitWatts
	// MetricSMClockMHz is the SM clock.
	MetricSMClockMHz
	// MetricMemClockMHz is the memory clock.
	MetricMemClockMHz
	// MetricTemperatureCelsius is the die's temperature.
	MetricTemperatureCelsius
	// MetricEnergyJoules is a counter: the energy since the driver was loaded.
	MetricEnergyJoules
	// MetricPCIeTxBytesPerS is the rate at which the GPU sends over PCIe.
	MetricPCIeTxBytesPerS
	// MetricPCIeRxBytesPerS is the rate at which the GPU receives over PCIe.
	MetricPCIeRxBytesPerS
	// GraphicsUtilPercent (GPM) is the share of time in which a compute or
	// graphics context was active.
	MetricGraphicsUtilPercent
	// SMUtilPercent (GPM) is the share of SMs that were busy.
	MetricSMUtilPercent
	// SMOccupancyPercent (GPM) is active warps against the most there can be.
	MetricSMOccupancyPercent
	// TensorUtilPercent (GPM) is the share of time in which tensor cores worked.
	MetricTensorUtilPercent
	// DRAMUtilPercent (GPM) is the share of peak memory bandwidth in use.
	MetricDRAMUtilPercent
	// FP64UtilPercent (GPM) is the share of time in which FP64 pipes worked.
	MetricFP64UtilPercent
	// FP32UtilPercent (GPM) is the share of time in which FP32 pipes worked.
	MetricFP32UtilPercent
	// FP16UtilPercent (GPM) is the share of time in which FP16 pipes worked.
	MetricFP16UtilPercent
	// NVLinkTxBytesPerS (GPM) is what the GPU sends over all NVLinks.
	MetricNVLinkTxBytesPerS
	// NVLinkRxBytesPerS (GPM) is what the GPU receives over all NVLinks.
	MetricNVLinkRxBytesPerS
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
