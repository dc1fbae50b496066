package usage

import (
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// Figure names a measured quantity. The zero Figure is none.
type Figure uint8

// The figures. Percentages run from 0 to 100.
const (
	_              Figure = iota
	FigureGPUUtil         // percent of time in which any kernel ran (NVML's utilization; not capacity)
	FigureGraphics        // percent of time in which a context was active (profiling)
	FigureSM              // percent of SMs that were busy (profiling)
	FigureDRAM            // percent of memory bandwidth in use (profiling)
	FigureMemUsed         // bytes
	figureEnd
)

var figureNames = enum.Of[Figure](errUnknown, "figure", "", "gpu-util", "graphics", "sm", "dram", "mem-used")

const (
	mib      = float64(sharing.MiB)
	maxBytes = 1 << 44 // 16 TiB: more than any GPU
)

// limit is the largest value that can be.
func (f Figure) limit() float64 {
	if f == FigureMemUsed {
		return maxBytes
	}
	return 100
}

// resolution is the unit in which the histogram counts.
func (f Figure) resolution() float64 {
	if f == FigureMemUsed {
		return mib
	}
	return 0.01
}

// source maps a metric of a page to its figure and one of its unit to in the figure's unit.
type source struct {
	figure Figure
	scale  float64
}

// metrics are the names that are read: dcgm-exporter's (its default-counters.csv gives the units), those of its
// first versions, and our own.
var metrics = map[string]source{
	"DCGM_FI_DEV_GPU_UTIL":          {FigureGPUUtil, 1},
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE": {FigureGraphics, 100},
	"DCGM_FI_PROF_SM_ACTIVE":        {FigureSM, 100},
	"DCGM_FI_PROF_DRAM_ACTIVE":      {FigureDRAM, 100},
	"DCGM_FI_DEV_FB_USED":           {FigureMemUsed, mib},

	"dcgm_gpu_utilization": {FigureGPUUtil, 1},
	"dcgm_fb_used":         {FigureMemUsed, mib},

	"cotenant_gpu_util_ratio":          {FigureGPUUtil, 100},
	"cotenant_gpu_graphics_util_ratio": {FigureGraphics, 100},
	"cotenant_gpu_sm_util_ratio":       {FigureSM, 100},
	"cotenant_gpu_dram_util_ratio":     {FigureDRAM, 100},
	"cotenant_gpu_mem_used_bytes":      {FigureMemUsed, 1},
}

// telemetryFigures are the figures of our telemetry CSV.
var telemetryFigures = map[telemetry.Metric]Figure{
	telemetry.MetricGPUUtilPercent: FigureGPUUtil, telemetry.MetricGraphicsUtilPercent: FigureGraphics,
	telemetry.MetricSMUtilPercent: FigureSM, telemetry.MetricDRAMUtilPercent: FigureDRAM,
	telemetry.MetricMemUsedBytes: FigureMemUsed,
}

// inName finds a metric in a file's name ("fb_used/DCGM_FI_DEV_FB_USED.json"),
// for answers to queries whose series have lost their name.
func inName(file string) (string, bool) {
	found := ""
	for name := range metrics {
		if strings.Contains(file, name) && len(name) > len(found) {
			found = name
		}
	}
	return found, found != ""
}

// Refusal names the reason for refusing a sample. The zero Refusal is none.
type Refusal uint8

// The refusals.
const (
	_                Refusal = iota
	RefusalNegative          // below zero
	RefusalOver              // more than there can be: above 100 percent, or DCGM's value for "blank"
	RefusalNotNumber         // NaN or infinite
	RefusalClock             // a time that no clock should show
	RefusalOrder             // not after the sample before it: a copy, or a clock that went back
	refusalEnd
)

var refusalNames = enum.Of[Refusal](errUnknown, "refusal", "", "negative", "over", "not-a-number", "clock", "order")
