// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package mignvml

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// fakeH200 answers the reading calls as the H200 of the catalogue does. The
// mocks serve to test the mapping only; package migtest has the strict GPU.
func fakeH200(t *testing.T) (*mock.Interface, *mock.Device, *mig.Model) {
	t.Helper()
	m := must.Get(mig.Lookup("H200"))(t)
	dev := &mock.Device{
		GetUUIDFunc: func() (string, nvml.Return) { return "GPU-1", nvml.SUCCESS },
		GetNameFunc: func() (string, nvml.Return) { return "NVIDIA H200", nvml.SUCCESS },
		GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{PciDeviceId: 0x233510de, PciSubSystemId: 0x18bf10de}, nvml.SUCCESS
		},
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 150754820096}, nvml.SUCCESS },
		GetFieldValuesFunc: func(v []nvml.FieldValue) nvml.Return {
			if v[0].FieldId != 184 {
				return nvml.ERROR_INVALID_ARGUMENT
			}
			binary.NativeEndian.PutUint32(v[0].Value[:4], 1)
			return nvml.SUCCESS
		},
		GetGpuInstanceProfileInfoFunc: func(c int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
			i := slices.IndexFunc(m.Profiles, func(p *mig.Profile) bool { return p.Const == c })
			if i < 0 {
				return nvml.GpuInstanceProfileInfo{}, nvml.ERROR_NOT_SUPPORTED
			}
			p := m.Profiles[i]
			return nvml.GpuInstanceProfileInfo{Id: uint32(p.ID.Value), SliceCount: uint32(p.ComputeSlices), InstanceCount: uint32(p.MaxInstances),
				MultiprocessorCount: uint32(p.SMs.Value), MemorySizeMB: uint64(p.Memory.Value.MiB())}, nvml.SUCCESS
		},
		GetGpuInstancePossiblePlacementsFunc: func(info *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstancePlacement, nvml.Return) {
			for _, p := range m.Profiles {
				if uint32(p.ID.Value) == info.Id {
					var out []nvml.GpuInstancePlacement
					for _, pl := range slices.Backward(p.Placements) {
						out = append(out, nvml.GpuInstancePlacement{Start: uint32(pl.Start), Size: uint32(pl.Size)})
					}
					return out, nvml.SUCCESS
				}
			}
			return nil, nvml.ERROR_INVALID_ARGUMENT
		},
		GetMigModeFunc: func() (int, int, nvml.Return) { return 0, 0, nvml.SUCCESS },
	}
	lib := &mock.Interface{
		InitFunc:                      func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:                  func() nvml.Return { return nvml.SUCCESS },
		DeviceGetCountFunc:            func() (int, nvml.Return) { return 1, nvml.SUCCESS },
		DeviceGetHandleByIndexFunc:    func(int) (nvml.Device, nvml.Return) { return dev, nvml.SUCCESS },
		DeviceGetHandleByUUIDFunc:     func(string) (nvml.Device, nvml.Return) { return dev, nvml.SUCCESS },
		DeviceGetHandleByPciBusIdFunc: func(string) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_NOT_FOUND },
	}
	return lib, dev, m
}

func opened(t *testing.T, lib nvml.Interface) *Device {
	t.Helper()
	d := must.Get(open(lib))(t)
	t.Cleanup(func() { must.Do(t, d.Close()) })
	devs, err := d.Devices(context.Background())
	if err != nil || len(devs) != 1 {
		t.Fatalf("%v, %v", devs, err)
	}
	return devs[0]
}

func TestModelOfDevice(t *testing.T) {
	lib, dev, m := fakeH200(t)
	d := opened(t, lib)
	if d.Model != m || d.Name != "NVIDIA H200" || d.UUID != "GPU-1" {
		t.Errorf("%s %s %s", d.Model, d.Name, d.UUID)
	}
	s, err := d.State(context.Background())
	if err != nil || s.Mode || s.Pending || s.Resetless != sharing.AnswerYes {
		t.Errorf("%+v, %v", s, err)
	}
	// A device that answers otherwise than the catalogue counts.
	old := dev.GetGpuInstanceProfileInfoFunc
	dev.GetGpuInstanceProfileInfoFunc = func(c int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
		info, r := old(c)
		if c == nvml.GPU_INSTANCE_PROFILE_7_SLICE {
			return info, nvml.ERROR_NOT_SUPPORTED
		}
		return info, r
	}
	d = opened(t, lib)
	if d.Model == m || len(d.Model.Profiles) != 6 || d.Model.CIRule != "cts-aligned" {
		t.Errorf("%s has %v", d.Model, d.Model.ProfileNames())
	}
	if diff := cmp.Diff([]string{"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb"}, d.Model.ProfileNames()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := d.Model.Place([]mig.Count{{Profile: "3g.71gb", N: 2}}, mig.Layout{}); err != nil {
		t.Error(err)
	}
}

func TestReturnsMapped(t *testing.T) {
	for r, want := range map[nvml.Return]error{
		nvml.ERROR_IN_USE: mig.ErrInUse, nvml.ERROR_INSUFFICIENT_RESOURCES: mig.ErrInsufficient, nvml.ERROR_NO_PERMISSION: mig.ErrPermission,
		nvml.ERROR_NOT_SUPPORTED: mig.ErrNotSupported, nvml.ERROR_NOT_FOUND: mig.ErrNotFound, nvml.ERROR_UNKNOWN: nvml.ERROR_UNKNOWN,
	} {
		err := opError("X", "GPU-1", r)
		var oe *sharing.OpError
		if !errors.Is(err, want) || !errors.Is(err, r) || !errors.As(err, &oe) || oe.Device != "GPU-1" {
			t.Errorf("%v: %v", r, err)
		}
	}
	if err := opError("X", "GPU-1", nvml.SUCCESS); err != nil {
		t.Errorf("success is %v", err)
	}
}

func TestSetMode(t *testing.T) {
	ctx := context.Background()
	lib, dev, _ := fakeH200(t)
	d := opened(t, lib)
	for _, c := range []struct {
		activation, ret nvml.Return
		want            error
	}{
		{nvml.SUCCESS, nvml.SUCCESS, nil}, {nvml.SUCCESS, nvml.ERROR_NO_PERMISSION, mig.ErrPermission},
		{nvml.ERROR_IN_USE, nvml.SUCCESS, mig.ErrInUse}, {nvml.ERROR_RESET_REQUIRED, nvml.SUCCESS, nil},
		{nvml.ERROR_NOT_SUPPORTED, nvml.SUCCESS, mig.ErrNotSupported},
	} {
		dev.SetMigModeFunc = func(mode int) (nvml.Return, nvml.Return) {
			if mode != nvml.DEVICE_MIG_ENABLE {
				t.Errorf("mode %d", mode)
			}
			return c.activation, c.ret
		}
		if err := d.SetMode(ctx, true); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%v %v: %v", c.activation, c.ret, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := d.SetMode(cancelled, true); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// TestInstances maps one GPU instance with one compute instance and its processes, created, listed and destroyed.
func TestInstances(t *testing.T) {
	ctx := context.Background()
	lib, dev, m := fakeH200(t)
	var calls []string
	procs := []nvml.ProcessInfo{{Pid: 7}}
	migDev := &mock.Device{
		GetUUIDFunc:                    func() (string, nvml.Return) { return "MIG-1", nvml.SUCCESS },
		GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) { return procs, nvml.SUCCESS },
	}
	ci := &mock.ComputeInstance{
		GetInfoFunc: func() (nvml.ComputeInstanceInfo, nvml.Return) {
			return nvml.ComputeInstanceInfo{Device: migDev, Id: 3}, nvml.SUCCESS
		},
		DestroyFunc: func() nvml.Return { calls = append(calls, "destroy ci"); return nvml.SUCCESS },
	}
	gi := &mock.GpuInstance{
		GetInfoFunc: func() (nvml.GpuInstanceInfo, nvml.Return) {
			return nvml.GpuInstanceInfo{Id: 5, ProfileId: 15, Placement: nvml.GpuInstancePlacement{Start: 2, Size: 2}}, nvml.SUCCESS
		},
		GetComputeInstanceProfileInfoFunc: func(c, engine int) (nvml.ComputeInstanceProfileInfo, nvml.Return) {
			switch {
			case engine != nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED:
				return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_INVALID_ARGUMENT
			case c == 0:
				return nvml.ComputeInstanceProfileInfo{Id: 0, SliceCount: 1, MultiprocessorCount: 16}, nvml.SUCCESS
			case c == 7:
				return nvml.ComputeInstanceProfileInfo{Id: 7, SliceCount: 1, MultiprocessorCount: 26}, nvml.SUCCESS
			}
			return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_NOT_SUPPORTED
		},
		GetComputeInstancesFunc: func(info *nvml.ComputeInstanceProfileInfo) ([]nvml.ComputeInstance, nvml.Return) {
			if info.Id == 7 {
				return []nvml.ComputeInstance{ci}, nvml.SUCCESS
			}
			return nil, nvml.SUCCESS
		},
		CreateComputeInstanceFunc: func(info *nvml.ComputeInstanceProfileInfo) (nvml.ComputeInstance, nvml.Return) {
			if info.Id != 7 {
				return nil, nvml.ERROR_INSUFFICIENT_RESOURCES
			}
			return ci, nvml.SUCCESS
		},
		GetComputeInstanceByIdFunc: func(id int) (nvml.ComputeInstance, nvml.Return) {
			if id != 3 {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return ci, nvml.SUCCESS
		},
		DestroyFunc: func() nvml.Return { calls = append(calls, "destroy gi"); return nvml.ERROR_IN_USE },
	}
	dev.GetMigModeFunc = func() (int, int, nvml.Return) { return 1, 1, nvml.SUCCESS }
	dev.GetGpuInstancesFunc = func(info *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstance, nvml.Return) {
		if info.Id == 15 {
			return []nvml.GpuInstance{gi}, nvml.SUCCESS
		}
		return nil, nvml.SUCCESS
	}
	dev.GetGpuInstanceByIdFunc = func(id int) (nvml.GpuInstance, nvml.Return) {
		if id != 5 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return gi, nvml.SUCCESS
	}
	dev.CreateGpuInstanceWithPlacementFunc = func(info *nvml.GpuInstanceProfileInfo, pl *nvml.GpuInstancePlacement) (nvml.GpuInstance, nvml.Return) {
		if info.Id != 15 || pl.Start != 2 || pl.Size != 2 {
			return nil, nvml.ERROR_INVALID_ARGUMENT
		}
		return gi, nvml.SUCCESS
	}
	d := opened(t, lib)
	s, err := d.State(ctx)
	if err != nil || s.Layout().String() != "1g.35gb@2!busy" || s.Instances[0].ID != 5 || s.Instances[0].Compute[0] != (mig.DeviceCompute{ID: 3, Profile: 7, Slices: 1, UUID: "MIG-1"}) {
		t.Errorf("%+v, %v", s, err)
	}
	procs = nil
	if s, err := d.State(ctx); err != nil || s.Instances[0].Busy {
		t.Errorf("%+v, %v", s, err)
	}
	p := must.Get(m.Profile("1g.35gb"))(t)
	in, err := d.CreateGPUInstance(ctx, p, mig.Placement{Start: 2, Size: 2})
	if err != nil || in.ID != 5 {
		t.Errorf("%+v, %v", in, err)
	}
	profiles, err := d.ComputeProfiles(ctx, 5)
	if best, ok := mig.BestComputeProfile(profiles, 1); err != nil || !ok || best.ID != 7 {
		t.Errorf("%+v, %v", profiles, err)
	}
	if c, err := d.CreateComputeInstance(ctx, 5, 7); err != nil || c.UUID != "MIG-1" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := d.CreateComputeInstance(ctx, 5, 0); !errors.Is(err, mig.ErrInsufficient) {
		t.Errorf("err = %v", err)
	}
	must.Do(t, d.DestroyComputeInstance(ctx, 5, 3))
	if err := d.DestroyComputeInstance(ctx, 5, 4); !errors.Is(err, mig.ErrNotFound) {
		t.Errorf("err = %v", err)
	}
	if err := d.DestroyGPUInstance(ctx, 5); !errors.Is(err, mig.ErrInUse) {
		t.Errorf("err = %v", err)
	}
	if err := d.DestroyGPUInstance(ctx, 6); !errors.Is(err, mig.ErrNotFound) {
		t.Errorf("err = %v", err)
	}
	if diff := cmp.Diff([]string{"destroy ci", "destroy gi"}, calls); diff != "" {
		t.Error(diff)
	}
}

// TestListRoom: go-nvml makes room for the number of instances that the driver reports
// for a profile. It reports too few of the A30, and with 0 go-nvml panics.
func TestListRoom(t *testing.T) {
	ctx := context.Background()
	lib, dev, _ := fakeH200(t)
	old := dev.GetGpuInstanceProfileInfoFunc
	dev.GetGpuInstanceProfileInfoFunc = func(c int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
		info, r := old(c)
		info.InstanceCount = 0
		return info, r
	}
	gi := &mock.GpuInstance{
		GetComputeInstanceProfileInfoFunc: func(int, int) (nvml.ComputeInstanceProfileInfo, nvml.Return) {
			return nvml.ComputeInstanceProfileInfo{SliceCount: 1}, nvml.SUCCESS
		},
		GetComputeInstancesFunc: func(info *nvml.ComputeInstanceProfileInfo) ([]nvml.ComputeInstance, nvml.Return) {
			room := make([]nvml.ComputeInstance, info.InstanceCount)
			_ = room[0] // as go-nvml does
			return nil, nvml.SUCCESS
		},
	}
	gi.GetInfoFunc = func() (nvml.GpuInstanceInfo, nvml.Return) {
		return nvml.GpuInstanceInfo{Id: 9, Placement: nvml.GpuInstancePlacement{Start: 3, Size: 1}}, nvml.SUCCESS
	}
	dev.GetMigModeFunc = func() (int, int, nvml.Return) { return 1, 1, nvml.SUCCESS }
	dev.GetGpuInstancesFunc = func(info *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstance, nvml.Return) {
		room := make([]nvml.GpuInstance, info.InstanceCount)
		_ = room[0]
		if info.Id != 19 {
			return nil, nvml.SUCCESS
		}
		n := copy(room, []nvml.GpuInstance{gi, gi, gi, gi, gi, gi, gi})
		return room[:n], nvml.SUCCESS
	}
	s, err := opened(t, lib).State(ctx)
	if err != nil || len(s.Instances) != 7 {
		t.Errorf("%d instances of 7, %v", len(s.Instances), err)
	}
}

// TestBusyGraphics: a profile with graphics is in use by graphics processes too.
func TestBusyGraphics(t *testing.T) {
	procs := func(n int, r nvml.Return) func() ([]nvml.ProcessInfo, nvml.Return) {
		return func() ([]nvml.ProcessInfo, nvml.Return) { return make([]nvml.ProcessInfo, n), r }
	}
	rtx := must.Get(mig.Lookup("rtx-pro-6000-blackwell-server"))(t)
	for _, c := range []struct {
		profile           string
		compute, graphics int
		ret               nvml.Return
		want              bool
	}{
		{"1g.24gb+gfx", 0, 1, nvml.SUCCESS, true},
		{"1g.24gb+gfx", 0, 0, nvml.SUCCESS, false},
		{"1g.24gb+gfx", 1, 0, nvml.SUCCESS, true},
		{"4g.96gb+gfx", 0, 0, nvml.ERROR_UNKNOWN, true},
		{"1g.24gb", 0, 0, nvml.ERROR_UNKNOWN, false},
		{"1g.24gb", 1, 0, nvml.SUCCESS, true},
	} {
		p := must.Get(rtx.Profile(c.profile))(t)
		dev := &mock.Device{GetComputeRunningProcessesFunc: procs(c.compute, nvml.SUCCESS), GetGraphicsRunningProcessesFunc: procs(c.graphics, c.ret)}
		if got := busy(dev, p); got != c.want {
			t.Errorf("%+v is busy: %v", c, got)
		}
	}
	if !busy(nil, rtx.Profiles[0]) {
		t.Error("an instance without a device counts as free")
	}
}

// TestUnreadable: an instance that can't be read back is destroyed by the handle that the driver returned for it.
func TestUnreadable(t *testing.T) {
	ctx := context.Background()
	lib, dev, m := fakeH200(t)
	var destroyed []string
	ci := &mock.ComputeInstance{
		GetInfoFunc: func() (nvml.ComputeInstanceInfo, nvml.Return) { return nvml.ComputeInstanceInfo{}, nvml.ERROR_UNKNOWN },
		DestroyFunc: func() nvml.Return { destroyed = append(destroyed, "ci"); return nvml.SUCCESS },
	}
	gi := &mock.GpuInstance{
		GetInfoFunc: func() (nvml.GpuInstanceInfo, nvml.Return) { return nvml.GpuInstanceInfo{}, nvml.ERROR_UNKNOWN },
		DestroyFunc: func() nvml.Return { destroyed = append(destroyed, "gi"); return nvml.SUCCESS },
		GetComputeInstanceProfileInfoFunc: func(int, int) (nvml.ComputeInstanceProfileInfo, nvml.Return) {
			return nvml.ComputeInstanceProfileInfo{SliceCount: 1}, nvml.SUCCESS
		},
		CreateComputeInstanceFunc: func(*nvml.ComputeInstanceProfileInfo) (nvml.ComputeInstance, nvml.Return) { return ci, nvml.SUCCESS },
	}
	dev.CreateGpuInstanceWithPlacementFunc = func(*nvml.GpuInstanceProfileInfo, *nvml.GpuInstancePlacement) (nvml.GpuInstance, nvml.Return) {
		return gi, nvml.SUCCESS
	}
	dev.GetGpuInstanceByIdFunc = func(int) (nvml.GpuInstance, nvml.Return) { return gi, nvml.SUCCESS }
	d := opened(t, lib)
	if _, err := d.CreateGPUInstance(ctx, m.Profiles[0], m.Profiles[0].Placements[0]); !errors.Is(err, nvml.ERROR_UNKNOWN) {
		t.Errorf("err = %v", err)
	}
	if _, err := d.CreateComputeInstance(ctx, 1, 0); !errors.Is(err, nvml.ERROR_UNKNOWN) {
		t.Errorf("err = %v", err)
	}
	if diff := cmp.Diff([]string{"gi", "ci"}, destroyed); diff != "" {
		t.Error(diff)
	}
}

func TestOpenFails(t *testing.T) {
	lib := &mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }}
	if d, err := open(lib); d != nil || !errors.Is(err, ErrNoDriver) || !errors.Is(err, nvml.ERROR_LIBRARY_NOT_FOUND) {
		t.Errorf("%v, %v", d, err)
	}
}
