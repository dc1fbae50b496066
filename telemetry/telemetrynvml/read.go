// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package telemetrynvml

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cotenant/cotenant/internal/nvmlret"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// figure returns a function that sets the value of a call; per of its units make one of the metric's.
func figure[T uint32 | uint64](x *look, call string, m telemetry.Metric, per, limit float64) func(T, nvml.Return) {
	return func(v T, ret nvml.Return) {
		if x.ok(call, ret) {
			x.bounded(m, float64(v)/per, limit)
		}
	}
}

// bounded sets a figure, or drops one that cannot be.
func (x *look) bounded(m telemetry.Metric, v, limit float64) {
	if !(v >= 0 && v <= limit) {
		x.r.Dropped++
		return
	}
	x.r.Set(m, v)
}

// Above these a reading is no reading: no board draws or runs so much.
const (
	maxMHz     = 20e3
	maxCelsius = 200
)

func (x *look) basic() {
	h := x.d.h
	if u, ret := h.GetUtilizationRates(); x.ok("GetUtilizationRates", ret) {
		x.bounded(telemetry.MetricGPUUtilPercent, float64(u.Gpu), 100)
		x.bounded(telemetry.MetricMemUtilPercent, float64(u.Memory), 100)
	}
	if x.lost {
		return
	}
	x.memory()
	figure[uint32](x, "GetPowerUsage", telemetry.MetricPowerWatts, 1e3, telemetry.MaxWatts)(h.GetPowerUsage())
	if !x.d.loadOnly {
		x.condition()
	}
}

// condition reads the rest of the basic group: limit, clocks, temperature.
func (x *look) condition() {
	h := x.d.h
	figure[uint32](x, "GetEnforcedPowerLimit", telemetry.MetricPowerLimitWatts, 1e3,
		telemetry.MaxWatts)(h.GetEnforcedPowerLimit())
	figure[uint32](x, "GetClockInfo", telemetry.MetricSMClockMHz, 1, maxMHz)(h.GetClockInfo(nvml.CLOCK_SM))
	figure[uint32](x, "GetClockInfo", telemetry.MetricMemClockMHz, 1, maxMHz)(h.GetClockInfo(nvml.CLOCK_MEM))
	figure[uint32](x, "GetTemperature", telemetry.MetricTemperatureCelsius, 1,
		maxCelsius)(h.GetTemperature(nvml.TEMPERATURE_GPU))
	// The call by its old name: every driver has it.
	if bits, ret := h.GetCurrentClocksThrottleReasons(); x.ok("GetCurrentClocksThrottleReasons", ret) {
		x.r.Throttle = sharing.Some(telemetry.ThrottleOf(bits))
	}
}

// memory reads memory by the second version of the call where the driver has
// it: the first counts the driver's reserve as used.
func (x *look) memory() {
	var used, total uint64
	read := false
	if x.d.mem2 {
		m, ret := x.d.h.GetMemoryInfo_v2()
		used, total, read = m.Used, m.Total, ret == nvml.SUCCESS
	}
	if !read {
		m, ret := x.d.h.GetMemoryInfo()
		if !x.ok("GetMemoryInfo", ret) {
			return
		}
		used, total = m.Used, m.Total
	}
	if used > total {
		x.r.Dropped++
		return
	}
	x.r.Set(telemetry.MetricMemUsedBytes, float64(used))
	x.r.Set(telemetry.MetricMemTotalBytes, float64(total))
}

func (x *look) energy() {
	figure[uint64](x, "GetTotalEnergyConsumption", telemetry.MetricEnergyJoules, 1e3,
		math.Inf(1))(x.d.h.GetTotalEnergyConsumption())
}

// pcie reads the throughput where GPM does not give it: the call takes 20 ms in
// each direction. nvml.h gives KB/s, which are taken as 1,000 bytes.
func (x *look) pcie() {
	if x.d.desc.GPM == sharing.AnswerYes {
		x.errs = append(x.errs, telemetry.ErrUnsupported)
		return
	}
	read := func(m telemetry.Metric, counter nvml.PcieUtilCounter) {
		if kb, ret := x.d.h.GetPcieThroughput(counter); x.ok("GetPcieThroughput", ret) {
			x.r.Set(m, float64(kb)*1e3)
		}
	}
	read(telemetry.MetricPCIeTxBytesPerS, nvml.PCIE_UTIL_TX_BYTES)
	read(telemetry.MetricPCIeRxBytesPerS, nvml.PCIE_UTIL_RX_BYTES)
}

// processes lists the processes with a compute, MPS or graphics context, each once, in the order of their ids.
func (x *look) processes() {
	compute, ret := x.d.h.GetComputeRunningProcesses()
	if !x.ok("GetComputeRunningProcesses", ret) {
		if len(x.errs) == 0 {
			x.errs = append(x.errs, telemetry.ErrUnsupported)
		}
		return
	}
	all := compute
	if mps, ret := x.d.h.GetMPSComputeRunningProcesses(); x.ok("GetMPSComputeRunningProcesses", ret) {
		all = append(all, mps...)
	}
	if graphics, ret := x.d.h.GetGraphicsRunningProcesses(); x.ok("GetGraphicsRunningProcesses", ret) {
		all = append(all, graphics...)
	}
	compare := func(a, b nvml.ProcessInfo) int {
		return cmp.Or(cmp.Compare(a.Pid, b.Pid), cmp.Compare(a.GpuInstanceId, b.GpuInstanceId))
	}
	slices.SortStableFunc(all, compare)
	all = slices.CompactFunc(all, func(a, b nvml.ProcessInfo) bool { return compare(a, b) == 0 })
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	names := make(map[uint32]string, len(all))
	for _, p := range all {
		name, ok := x.d.names[p.Pid]
		if !ok {
			name = x.d.processName(p.Pid)
		}
		names[p.Pid] = name
		proc := telemetry.Process{PID: p.Pid, Name: name}
		if p.UsedGpuMemory < 1<<63 { // all ones is "not available"
			proc.Memory = sharing.Some(sharing.Bytes(p.UsedGpuMemory))
		}
		if p.GpuInstanceId != noInstance {
			proc.GPUInstance = sharing.Some(int(p.GpuInstanceId))
		}
		x.r.Processes = append(x.r.Processes, proc)
	}
	// A name is forgotten with its process: ids are used again.
	x.d.names = names
}

const noInstance = ^uint32(0) // NVML's GPU instance of a process that is in none

// processName is the base name of a process's program; it is empty for
// processes that have gone or belong to another PID namespace.
func (d *device) processName(pid uint32) string {
	full, ret := d.lib.SystemGetProcessName(int(pid))
	if ret != nvml.SUCCESS {
		return ""
	}
	return telemetry.ProgramName(full)
}

// clockSlack is the furthest that a sample may lie in the future, and that the
// clock may go back before samples are requested anew.
const clockSlack = 2e6 // us

// since returns the time, and moves a time stamp that lies ahead of it: the clock went back.
func (x *look) since(last *uint64) uint64 {
	now := uint64(x.d.now().UnixMicro())
	if *last > now+clockSlack {
		*last = now - min(now, clockSlack)
	}
	return now
}

// utilization reads the processes' utilization, and with Options.AllSamples that of the device.
func (x *look) utilization() {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	x.processUtil()
	if x.d.allSamples {
		x.allSamples()
	}
}

// allSamples averages the device's utilization samples that came since the last
// reading. The driver takes them evenly. d.mu is held.
func (x *look) allSamples() {
	now := x.since(&x.d.lastUtil)
	kind, samples, ret := x.d.h.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, x.d.lastUtil)
	if ret != nvml.SUCCESS || kind != nvml.VALUE_TYPE_UNSIGNED_INT {
		return // GroupBasic still has it
	}
	sum, n, newest := 0.0, 0.0, x.d.lastUtil
	for _, s := range samples {
		v := binary.NativeEndian.Uint32(s.SampleValue[:])
		switch {
		case s.TimeStamp == 0: // an empty slot
		case s.TimeStamp <= x.d.lastUtil, s.TimeStamp > now+clockSlack, v > 100:
			x.r.Dropped++
		default:
			sum, n, newest = sum+float64(v), n+1, max(newest, s.TimeStamp)
		}
	}
	x.d.lastUtil = newest
	if n > 0 {
		x.r.Set(telemetry.MetricGPUUtilPercent, sum/n)
	}
}

// processUtil averages the utilization samples of each process that came since the last reading. That there are none is
// an error code, and means idle. d.mu is held.
func (x *look) processUtil() {
	now := x.since(&x.d.lastSeen)
	samples, ret := x.d.h.GetProcessUtilization(x.d.lastSeen)
	if ret == nvml.ERROR_INSUFFICIENT_SIZE && len(samples) > 0 { // more came between the two calls inside
		samples, ret = x.d.h.GetProcessUtilization(x.d.lastSeen)
	}
	switch {
	case ret == nvml.ERROR_NOT_FOUND, ret == nvml.ERROR_INSUFFICIENT_SIZE && len(samples) == 0:
		return
	case !x.ok("GetProcessUtilization", ret):
		if len(x.errs) == 0 {
			x.errs = append(x.errs, telemetry.ErrUnsupported)
		}
		return
	}
	type sum struct{ sm, n float64 }
	sums := map[uint32]sum{}
	newest := x.d.lastSeen
	for _, s := range samples {
		switch {
		case s.Pid == 0 && s.TimeStamp == 0: // an empty slot
			continue
		case s.TimeStamp <= x.d.lastSeen, s.TimeStamp > now+clockSlack,
			s.SmUtil > 100, s.MemUtil > 100, s.EncUtil > 100, s.DecUtil > 100:
			x.r.Dropped++
			continue
		}
		t := sums[s.Pid]
		sums[s.Pid] = sum{t.sm + float64(s.SmUtil), t.n + 1}
		newest = max(newest, s.TimeStamp)
	}
	x.d.lastSeen = newest
	for pid, t := range sums {
		x.r.Processes = append(x.r.Processes, telemetry.Process{PID: pid, Name: x.d.names[pid],
			SMUtilPercent: sharing.Some(t.sm / t.n)})
	}
	slices.SortFunc(x.r.Processes, func(a, b telemetry.Process) int { return cmp.Compare(a.PID, b.PID) })
}

// Read reads one group of a device. The context is checked before the call; a call into the driver cannot be
// interrupted.
func (s *Reader) Read(ctx context.Context, index int, group telemetry.Groups, r *telemetry.Reading) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return errClosed
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed.Load() { // closed while this waited
		return errClosed
	}
	if index < 0 || index >= len(s.devs) {
		return fmt.Errorf("%w: %d of %d", telemetry.ErrNoDevice, index, len(s.devs))
	}
	d := s.devs[index]
	x := &look{d: d, r: r}
	switch group {
	case telemetry.GroupBasic:
		x.basic()
	case telemetry.GroupProcesses:
		x.processes()
	case telemetry.GroupProcessUtil:
		x.utilization()
	case telemetry.GroupEnergy:
		x.energy()
	case telemetry.GroupPCIe:
		x.pcie()
	case telemetry.GroupGPM:
		x.gpm()
	default:
		return fmt.Errorf("telemetrynvml: %v is not one group", group)
	}
	if err := errors.Join(x.errs...); err != nil {
		return failed("read "+group.String(), d.desc.UUID, err)
	}
	return nil
}

// Inventory describes the node's GPUs and their settings, as nvidia-smi -q does. Figures that the driver does not
// report are missing. A GPU that fails is listed with its partial data, and the error names it.
func (s *Reader) Inventory(ctx context.Context) (telemetry.Inventory, error) {
	var inv telemetry.Inventory
	if err := ctx.Err(); err != nil {
		return inv, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed.Load() {
		return inv, errClosed
	}
	inv.Driver = strings.TrimPrefix(s.info.Detail, "driver ")
	var errs []error
	for i, d := range s.devs {
		if err := ctx.Err(); err != nil {
			return inv, err
		}
		g, err := d.inventory(i)
		inv.GPUs = append(inv.GPUs, g)
		if err != nil {
			errs = append(errs, failed("describe", d.desc.UUID, err))
		}
	}
	return inv, errors.Join(errs...)
}

func (d *device) inventory(index int) (telemetry.GPU, error) {
	g := telemetry.GPU{Index: sharing.Some(index), UUID: d.desc.UUID, Name: d.desc.Name}
	x := &look{d: d, r: new(telemetry.Reading)}
	if pci, ret := d.h.GetPciInfo(); x.ok("GetPciInfo", ret) {
		for _, c := range pci.BusId {
			if c == 0 {
				break
			}
			g.PCIBus += strings.ToLower(string(rune(c)))
		}
		g.PCIID = fmt.Sprintf("%04X:%04X", pci.PciDeviceId&0xffff, pci.PciDeviceId>>16)
	}
	switch current, _, ret := d.h.GetMigMode(); {
	case ret == nvml.SUCCESS:
		g.MIG = sharing.AnswerOf(current == nvml.DEVICE_MIG_ENABLE)
	case ret != nvml.ERROR_NOT_SUPPORTED:
		x.errs = append(x.errs, nvmlret.Error("GetMigMode", "", ret))
	}
	if !x.lost {
		if major, minor, ret := d.h.GetCudaComputeCapability(); ret == nvml.SUCCESS {
			g.ComputeCapability = sharing.ComputeCapability{Major: major, Minor: minor}
		}
		m, ret := d.h.GetMemoryInfo()
		if x.ok("GetMemoryInfo", ret) && m.Total < 1<<62 {
			g.MemoryTotal = sharing.Some(sharing.Bytes(m.Total))
		}
		g.Denied = ret == nvml.ERROR_NO_PERMISSION
	}
	if g.MIG == sharing.AnswerYes && !x.lost {
		x.inventoryInstances(&g)
	}
	if !x.lost {
		p := &look{d: d, r: new(telemetry.Reading)}
		p.processes()
		g.Processes, g.ProcessesListed = p.r.Processes, sharing.AnswerOf(len(p.errs) == 0)
		x.errs = append(x.errs, p.errs...)
		if clients, ret := d.h.GetMPSComputeRunningProcesses(); ret == nvml.SUCCESS && len(clients) > 0 {
			g.MPS = sharing.AnswerYes
		} else {
			g.MPS = g.SeesMPS()
		}
	}
	g.Lost = x.lost
	// That the device lacks something is no error here.
	x.errs = slices.DeleteFunc(x.errs, func(err error) bool { return errors.Is(err, telemetry.ErrUnsupported) })
	return g, errors.Join(x.errs...)
}

func (x *look) inventoryInstances(g *telemetry.GPU) {
	devices, _ := x.migDevices()
	for _, h := range devices {
		var in telemetry.MIGInstance
		if id, ret := h.GetGpuInstanceId(); ret == nvml.SUCCESS {
			in.ID = sharing.Some(id)
		}
		if uuid, ret := h.GetUUID(); ret == nvml.SUCCESS {
			in.UUID = uuid
		}
		if name, ret := h.GetName(); ret == nvml.SUCCESS { // "NVIDIA H200 MIG 1g.18gb"
			if _, profile, ok := strings.Cut(name, " MIG "); ok {
				in.Profile = profile
			}
		}
		g.Instances = append(g.Instances, in)
	}
}
