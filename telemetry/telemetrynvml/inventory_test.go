// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package telemetrynvml

import (
	"context"
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

func (f *fake) describe() {
	f.dev.GetCudaComputeCapabilityFunc = func() (int, int, nvml.Return) { return 9, 0, ok }
	f.dev.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		p := nvml.PciInfo{PciDeviceId: 0x233510DE}
		for i, c := range "00000000:0F:00.0" {
			p.BusId[i] = int8(c)
		}
		return p, ok
	}
}

func TestInventory(t *testing.T) {
	f := newFake()
	f.describe()
	f.dev.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 1 << 20, GpuInstanceId: noInstance}}, ok
	}
	want := telemetry.Inventory{Driver: "580.159.04", GPUs: []telemetry.GPU{{
		Index: sharing.Some(0), UUID: "GPU-1", Name: "NVIDIA H200", PCIBus: "00000000:0f:00.0", PCIID: "10DE:2335", ComputeCapability: sharing.ComputeCapability{Major: 9},
		MemoryTotal: sharing.Some(sharing.Bytes(150754820096)), MIG: sharing.AnswerNo,
		ProcessesListed: sharing.AnswerYes, Processes: []telemetry.Process{{PID: 7, Name: "python3", Memory: sharing.Some(sharing.MiB)}}, MPS: sharing.AnswerYes}}}
	got, err := f.open(t).Inventory(context.Background())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if m, err := got.GPUs[0].Model(); err != nil || m.Name != "H200" {
		t.Errorf("%v, %v", m, err)
	}
}

// Figures that a GPU does not give are missing, and those that fail are named in the error with the rest returned.
func TestInventoryMissing(t *testing.T) {
	f := newFake()
	f.describe()
	no := nvml.ERROR_NOT_SUPPORTED
	f.dev.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, no }
	f.dev.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{}, nvml.ERROR_UNKNOWN }
	f.dev.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, no }
	got, err := f.open(t).Inventory(context.Background())
	if !errors.Is(err, nvml.ERROR_UNKNOWN) || errors.Is(err, telemetry.ErrUnsupported) {
		t.Errorf("err = %v", err)
	}
	g := got.GPUs[0]
	if g.MIG != sharing.AnswerUnknown || g.PCIID != "" ||
		g.ProcessesListed != sharing.AnswerNo || g.MPS != sharing.AnswerUnknown || g.MemoryTotal.IsZero() {
		t.Errorf("%+v", g)
	}
}

func TestInventoryOfMIG(t *testing.T) {
	f := newFake()
	f.describe()
	f.dev.GetMigModeFunc = func() (int, int, nvml.Return) { return 1, 0, ok }
	f.dev.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, ok }
	f.dev.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 2 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetGpuInstanceIdFunc: func() (int, nvml.Return) { return 7, ok },
			GetUUIDFunc:          func() (string, nvml.Return) { return "MIG-a", ok },
			GetNameFunc:          func() (string, nvml.Return) { return "NVIDIA H200 MIG 1g.18gb", ok },
		}, ok
	}
	got, err := f.open(t).Inventory(context.Background())
	want := []telemetry.MIGInstance{{ID: sharing.Some(7), UUID: "MIG-a", Profile: "1g.18gb"}}
	if diff := cmp.Diff(want, got.GPUs[0].Instances); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestInventoryDenied: a container with a MIG device is refused the figures of the whole GPU.
func TestInventoryDenied(t *testing.T) {
	f := newFake()
	f.describe()
	f.dev.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_NO_PERMISSION }
	got, err := f.open(t).Inventory(context.Background())
	if !errors.Is(err, nvml.ERROR_NO_PERMISSION) || !got.GPUs[0].Denied || !got.GPUs[0].MemoryTotal.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}
