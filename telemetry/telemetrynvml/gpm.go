// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package telemetrynvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

const mib = 1 << 20

// gpmMetrics are the GPM figures that are read. The context-switch counters
// (170 to 209) are not: on an H200 with driver 580 they stay 0 under load.
var gpmMetrics = []struct {
	id     nvml.GpmMetricId
	metric telemetry.Metric
	scale  float64 // to the metric's unit; 0 marks a percentage
}{
	{nvml.GPM_METRIC_GRAPHICS_UTIL, telemetry.MetricGraphicsUtilPercent, 0},
	{nvml.GPM_METRIC_SM_UTIL, telemetry.MetricSMUtilPercent, 0},
	{nvml.GPM_METRIC_SM_OCCUPANCY, telemetry.MetricSMOccupancyPercent, 0},
	{nvml.GPM_METRIC_ANY_TENSOR_UTIL, telemetry.MetricTensorUtilPercent, 0},
	{nvml.GPM_METRIC_DRAM_BW_UTIL, telemetry.MetricDRAMUtilPercent, 0},
	{nvml.GPM_METRIC_FP64_UTIL, telemetry.MetricFP64UtilPercent, 0},
	{nvml.GPM_METRIC_FP32_UTIL, telemetry.MetricFP32UtilPercent, 0},
	{nvml.GPM_METRIC_FP16_UTIL, telemetry.MetricFP16UtilPercent, 0},
	{nvml.GPM_METRIC_PCIE_TX_PER_SEC, telemetry.MetricPCIeTxBytesPerS, mib},
	{nvml.GPM_METRIC_PCIE_RX_PER_SEC, telemetry.MetricPCIeRxBytesPerS, mib},
	{nvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, telemetry.MetricNVLinkTxBytesPerS, mib},
	{nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, telemetry.MetricNVLinkRxBytesPerS, mib},
}

func (x *look) gpm() {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	if x.d.desc.MIG == sharing.AnswerYes {
		x.instances()
	}
	if x.lost || x.d.desc.GPM != sharing.AnswerYes {
		return
	}
	g := &x.d.gpm
	ready, ret := g.step(x.d.lib, x.d.now(), x.d.h.GpmSampleGet)
	if x.ok("GpmSampleGet", ret) && ready {
		x.figures(g, x.r.Set)
	}
}

// figures computes the metrics between a state's two samples and sets them.
func (x *look) figures(g *gpmState, set func(telemetry.Metric, float64)) {
	defer g.done()
	req := &nvml.GpmMetricsGetType{NumMetrics: uint32(len(gpmMetrics)), Sample1: g.prev, Sample2: g.cur}
	for i, m := range gpmMetrics {
		req.Metrics[i].MetricId = uint32(m.id)
	}
	if !x.ok("GpmMetricsGet", x.d.lib.GpmMetricsGet(req)) {
		return
	}
	for i, m := range gpmMetrics {
		got := req.Metrics[i]
		switch ret := nvml.Return(got.NvmlReturn); {
		case ret != nvml.SUCCESS: // no value, or not this time
		case m.scale > 0 && got.Value >= 0:
			set(m.metric, got.Value*m.scale)
		case m.scale == 0 && got.Value >= 0 && got.Value < 101:
			set(m.metric, min(got.Value, 100))
		default: // NaN too
			x.r.Dropped++
		}
	}
}

// migDevices returns the MIG devices, one for each compute instance, and whether the driver lists them.
func (x *look) migDevices() (all []nvml.Device, ok bool) {
	n, ret := x.d.h.GetMaxMigDeviceCount()
	if !x.ok("GetMaxMigDeviceCount", ret) {
		return nil, false
	}
	for i := range n {
		h, ret := x.d.h.GetMigDeviceHandleByIndex(i)
		none := ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT // at this index
		if !none && x.ok("GetMigDeviceHandleByIndex", ret) {
			all = append(all, h)
		}
	}
	return all, true
}

// instances lists the GPU instances with their memory and, where the GPU has them, counters. The layout may have
// changed since the last reading; an instance with another MIG device than before starts anew.
func (x *look) instances() {
	devices, ok := x.migDevices()
	if !ok {
		return
	}
	seen := map[int]bool{}
	for _, h := range devices {
		id, ret := h.GetGpuInstanceId()
		if !x.ok("GetGpuInstanceId", ret) || seen[id] { // compute instances share a GPU instance
			continue
		}
		seen[id] = true
		uuid, _ := h.GetUUID()
		g := x.d.inst[id]
		if g == nil {
			g = &gpmState{uuid: uuid}
			x.d.inst[id] = g
		}
		if g.uuid != uuid {
			g.free()
			g.uuid = uuid
		}
		in := telemetry.Instance{ID: id, UUID: uuid}
		if m, ret := h.GetMemoryInfo(); ret == nvml.SUCCESS && m.Used <= m.Total {
			in.Set(telemetry.MetricMemUsedBytes, float64(m.Used))
			in.Set(telemetry.MetricMemTotalBytes, float64(m.Total))
		}
		if a, ret := h.GetAttributes(); ret == nvml.SUCCESS && a.GpuInstanceSliceCount > 0 {
			in.ComputeSlices = sharing.Some(int(a.GpuInstanceSliceCount))
		}
		if gi, ret := x.d.h.GetGpuInstanceById(id); ret == nvml.SUCCESS {
			if info, ret := gi.GetInfo(); ret == nvml.SUCCESS {
				in.Start = sharing.Some(int(info.Placement.Start))
			}
		}
		if x.d.desc.GPM != sharing.AnswerYes {
			x.r.Instances = append(x.r.Instances, in)
			continue
		}
		get := func(s nvml.GpmSample) nvml.Return { return x.d.h.GpmMigSampleGet(id, s) }
		ready, ret := g.step(x.d.lib, x.d.now(), get)
		if x.ok("GpmMigSampleGet", ret) && ready {
			x.figures(g, in.Set)
		}
		x.r.Instances = append(x.r.Instances, in)
	}
	for id, g := range x.d.inst {
		if !seen[id] {
			g.free()
			delete(x.d.inst, id)
		}
	}
}
