//go:build linux && cgo

package telemetrynvml

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cotenant/cotenant/internal/nvmlret"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// Inventory says what the node's GPUs are and how they are set up, as nvidia-smi -q does. What the driver does not
// say is missing. A GPU that fails is there with what it said, and the error names it.
func (s *Reader) Inventory(ctx context.Context) (telemetry.Inventory, error) {
	var inv telemetry.Inventory
	if err := ctx.Err(); err != nil {
		return inv, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed.Load() {
		return inv, ErrClosed
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
			errs = append(errs, &telemetry.OpError{Op: "describe", Device: d.desc.UUID, Err: err})
		}
	}
	return inv, errors.Join(errs...)
}

func (d *device) inventory(index int) (telemetry.GPU, error) {
	g := telemetry.GPU{Index: telemetry.Some(index), UUID: d.desc.UUID, Name: d.desc.Name}
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
		if m, ret := d.h.GetMemoryInfo(); x.ok("GetMemoryInfo", ret) && m.Total < 1<<62 {
			g.MemoryTotal = telemetry.Some(sharing.Bytes(m.Total))
		}
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

// inventoryInstances lists the MIG devices, one for each compute instance.
func (x *look) inventoryInstances(g *telemetry.GPU) {
	n, ret := x.d.h.GetMaxMigDeviceCount()
	if !x.ok("GetMaxMigDeviceCount", ret) {
		return
	}
	for i := range n {
		h, ret := x.d.h.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT || !x.ok("GetMigDeviceHandleByIndex", ret) {
			continue
		}
		var in telemetry.MIGInstance
		if id, ret := h.GetGpuInstanceId(); ret == nvml.SUCCESS {
			in.ID = telemetry.Some(id)
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
