package telemetry

import (
	"fmt"

	"github.com/cotenant/cotenant/sharing"
)

// Metric names a figure of a device or of a MIG instance. The zero Metric
// names none.
type Metric uint8

// The metrics. Percentages run from 0 to 100.
const (
	_ Metric = iota
	// GPUUtilPercent is NVML's utilization: the share of time in which at
	// least one kernel ran. It is not the share of capacity in use.
	GPUUtilPercent
	// MemUtilPercent is the share of time in which device memory was read or
	// written, not the amount in use.
	MemUtilPercent
	// MemUsedBytes is the device memory in use, without what the driver
	// reserves where the driver says so.
	MemUsedBytes
	// MemTotalBytes is the device memory there is.
	MemTotalBytes
	// PowerWatts is the board's power. The driver averages it over one second
	// on Ampere (GA100 apart) and later (nvml.h).
	PowerWatts
	// PowerLimitWatts is the enforced power limit.
	PowerLimitWatts
	// SMClockMHz is the SM clock.
	SMClockMHz
	// MemClockMHz is the memory clock.
	MemClockMHz
	// TemperatureCelsius is the die's temperature.
	TemperatureCelsius
	// EnergyJoules is a counter: the energy since the driver was loaded.
	EnergyJoules
	// PCIeTxBytesPerS is what the GPU sends over PCIe.
	PCIeTxBytesPerS
	// PCIeRxBytesPerS is what the GPU receives over PCIe.
	PCIeRxBytesPerS
	// GraphicsUtilPercent (GPM) is the share of time in which a compute or
	// graphics context was active.
	GraphicsUtilPercent
	// SMUtilPercent (GPM) is the share of SMs that were busy.
	SMUtilPercent
	// SMOccupancyPercent (GPM) is active warps against the most there can be.
	SMOccupancyPercent
	// TensorUtilPercent (GPM) is the share of time in which tensor cores worked.
	TensorUtilPercent
	// DRAMUtilPercent (GPM) is the share of peak memory bandwidth in use.
	DRAMUtilPercent
	// FP64UtilPercent (GPM) is the share of time in which FP64 pipes worked.
	FP64UtilPercent
	// FP32UtilPercent (GPM) is the share of time in which FP32 pipes worked.
	FP32UtilPercent
	// FP16UtilPercent (GPM) is the share of time in which FP16 pipes worked.
	FP16UtilPercent
	// NVLinkTxBytesPerS (GPM) is what the GPU sends over all NVLinks.
	NVLinkTxBytesPerS
	// NVLinkRxBytesPerS (GPM) is what the GPU receives over all NVLinks.
	NVLinkRxBytesPerS
	metricEnd
)

// MetricCount is the number of metrics.
const MetricCount = int(metricEnd) - 1

var metricTable = [metricEnd]struct{ name, help string }{
	GPUUtilPercent:      {"util_percent", "Share of time in which any kernel ran (not capacity)."},
	MemUtilPercent:      {"mem_util_percent", "Share of time in which device memory was read or written."},
	MemUsedBytes:        {"mem_used_bytes", "Device memory in use."},
	MemTotalBytes:       {"mem_total_bytes", "Device memory."},
	PowerWatts:          {"power_watts", "Board power."},
	PowerLimitWatts:     {"power_limit_watts", "Enforced power limit."},
	SMClockMHz:          {"sm_clock_mhz", "SM clock."},
	MemClockMHz:         {"mem_clock_mhz", "Memory clock."},
	TemperatureCelsius:  {"temperature_celsius", "Die temperature."},
	EnergyJoules:        {"energy_joules", "Energy since the driver was loaded."},
	PCIeTxBytesPerS:     {"pcie_tx_bytes_per_s", "PCIe traffic from the GPU."},
	PCIeRxBytesPerS:     {"pcie_rx_bytes_per_s", "PCIe traffic to the GPU."},
	GraphicsUtilPercent: {"graphics_util_percent", "Share of time in which a context was active (GPM)."},
	SMUtilPercent:       {"sm_util_percent", "Share of SMs that were busy (GPM)."},
	SMOccupancyPercent:  {"sm_occupancy_percent", "Active warps against the most there can be (GPM)."},
	TensorUtilPercent:   {"tensor_util_percent", "Share of time in which tensor cores worked (GPM)."},
	DRAMUtilPercent:     {"dram_util_percent", "Share of peak memory bandwidth in use (GPM)."},
	FP64UtilPercent:     {"fp64_util_percent", "Share of time in which FP64 pipes worked (GPM)."},
	FP32UtilPercent:     {"fp32_util_percent", "Share of time in which FP32 pipes worked (GPM)."},
	FP16UtilPercent:     {"fp16_util_percent", "Share of time in which FP16 pipes worked (GPM)."},
	NVLinkTxBytesPerS:   {"nvlink_tx_bytes_per_s", "NVLink traffic from the GPU (GPM)."},
	NVLinkRxBytesPerS:   {"nvlink_rx_bytes_per_s", "NVLink traffic to the GPU (GPM)."},
}

var metricNames = func() []string {
	names := make([]string, 0, MetricCount)
	for m := GPUUtilPercent; m < metricEnd; m++ {
		names = append(names, metricTable[m].name)
	}
	return names
}()

// Metrics lists every metric in the order of their values.
func Metrics() []Metric {
	ms := make([]Metric, MetricCount)
	for i := range ms {
		ms[i] = Metric(i + 1)
	}
	return ms
}

func (m Metric) valid() bool { return m > 0 && m < metricEnd }

// String returns the metric's name with its unit, e.g. "power_watts"; it is
// the CSV column and the Prometheus name after its prefix.
func (m Metric) String() string {
	if !m.valid() {
		return fmt.Sprintf("Metric(%d)", uint8(m))
	}
	return metricTable[m].name
}

// Help returns one line that says what the metric is.
func (m Metric) Help() string {
	if !m.valid() {
		return ""
	}
	return metricTable[m].help
}

// MarshalText returns the metric's name.
func (m Metric) MarshalText() ([]byte, error) {
	if !m.valid() {
		return nil, fmt.Errorf("telemetry: %d is no metric", uint8(m))
	}
	return []byte(metricTable[m].name), nil
}

// UnmarshalText reads a metric's name.
func (m *Metric) UnmarshalText(b []byte) error {
	i, err := parseName(metricNames, b, "metric")
	if err == nil {
		*m = Metric(i + 1)
	}
	return err
}

func parseName(names []string, b []byte, kind string) (int, error) {
	for i, n := range names {
		if n == string(b) {
			return i, nil
		}
	}
	return 0, &sharing.UnknownNameError{Kind: kind, Name: string(b), Known: names}
}

func nameOf(names []string, i int, typ string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", typ, i)
	}
	return names[i]
}

func nameText(names []string, i int, kind string) ([]byte, error) {
	if i < 0 || i >= len(names) {
		return nil, fmt.Errorf("telemetry: %d is no %s", i, kind)
	}
	return []byte(names[i]), nil
}
