// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package mignvml

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cotenant/cotenant/internal/nvmlret"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// device is a GPU behind NVML.
type device struct {
	lib       nvml.Interface
	handle    nvml.Device
	uuid      string
	model     *mig.Model
	resetless sharing.Answer
}

// err is opError about the device.
func (d *device) err(r nvml.Return, format string, args ...any) error {
	return opError(fmt.Sprintf(format, args...), d.uuid, r)
}

// profileConsts is the number of GPU-instance profile constants; NVML has one
// more than the header that go-nvml was generated from.
const profileConsts = nvml.GPU_INSTANCE_PROFILE_COUNT + 1

// listRoom is the length of a list of instances of one profile: more than any GPU has placement units. The count that
// the driver reports for a profile, which go-nvml would make room for, has been wrong (of the A30) and may be 0.
const listRoom = 64

func newDevice(lib nvml.Interface, h nvml.Device) (*Device, error) {
	uuid, r := h.GetUUID()
	if r != nvml.SUCCESS {
		return nil, opError("GetUUID", "", r)
	}
	d := &device{lib: lib, handle: h, uuid: uuid, resetless: resetless(h)}
	name, r := h.GetName()
	err := d.err(r, "GetName")
	pci, r := h.GetPciInfo()
	err = cmp.Or(err, d.err(r, "GetPciInfo"))
	mem, r := h.GetMemoryInfo()
	if err = cmp.Or(err, d.err(r, "GetMemoryInfo")); err != nil {
		return nil, err
	}
	profiles, err := d.profiles()
	if err != nil {
		return nil, err
	}
	d.model, err = mig.Discover(mig.DeviceIdentity{Name: name, Memory: sharing.Bytes(mem.Total), Resetless: d.resetless,
		PCI: identity(pci)}, profiles)
	if err != nil {
		return nil, &sharing.OpError{Package: "mig", Op: "read profiles", Device: uuid, Err: err}
	}
	return &Device{d, uuid, name, d.model}, nil
}

// identity takes NVML's words apart: device or subsystem above, vendor below.
func identity(pci nvml.PciInfo) mig.DeviceFilter {
	return mig.DeviceFilter{Device: uint16(pci.PciDeviceId >> 16), Vendor: uint16(pci.PciDeviceId),
		HasSubsystem: pci.PciSubSystemId != 0,
		Subsystem:    uint16(pci.PciSubSystemId >> 16), SubsystemVendor: uint16(pci.PciSubSystemId)}
}

// resetless reads NVML field 184.
func resetless(h nvml.Device) sharing.Answer {
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_IS_RESETLESS_MIG_SUPPORTED}}
	if r := h.GetFieldValues(values); r != nvml.SUCCESS || nvml.Return(values[0].NvmlReturn) != nvml.SUCCESS {
		return sharing.AnswerUnknown
	}
	return sharing.AnswerOf(binary.NativeEndian.Uint32(values[0].Value[:4]) != 0)
}

// profiles reads every GPU-instance profile that the GPU has. NVML answers with MIG mode off too.
func (d *device) profiles() ([]mig.DeviceProfile, error) {
	var out []mig.DeviceProfile
	for c := range profileConsts {
		info, r := d.handle.GetGpuInstanceProfileInfo(c)
		if r == nvml.ERROR_NOT_SUPPORTED || r == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if r != nvml.SUCCESS {
			return nil, d.err(r, "GetGpuInstanceProfileInfo(%d)", c)
		}
		placements, r := d.handle.GetGpuInstancePossiblePlacements(&info)
		if r != nvml.SUCCESS {
			return nil, d.err(r, "GetGpuInstancePossiblePlacements(%d)", c)
		}
		if len(placements) == 0 {
			continue // nothing of it can be made
		}
		p := mig.DeviceProfile{Const: c, ID: int(info.Id), Slices: int(info.SliceCount),
			MaxInstances: int(info.InstanceCount),
			Memory:       sharing.Bytes(info.MemorySizeMB) * sharing.MiB, SMs: int(info.MultiprocessorCount),
			Copy:  int(info.CopyEngineCount),
			NVDEC: int(info.DecoderCount), NVENC: int(info.EncoderCount), JPEG: int(info.JpegCount), OFA: int(info.OfaCount)}
		for _, pl := range placements {
			p.Placements = append(p.Placements, mig.Placement{Start: int(pl.Start), Size: int(pl.Size)})
		}
		slices.SortFunc(p.Placements, func(a, b mig.Placement) int { return cmp.Compare(a.Start, b.Start) })
		out = append(out, p)
	}
	return out, nil
}

func (d *device) State(ctx context.Context) (mig.DeviceState, error) {
	none := mig.DeviceState{UUID: d.uuid}
	current, pending, r := d.handle.GetMigMode()
	if r != nvml.SUCCESS {
		return none, d.err(r, "GetMigMode")
	}
	s := mig.DeviceState{UUID: d.uuid, Model: d.model, Resetless: d.resetless,
		Mode: current == nvml.DEVICE_MIG_ENABLE, Pending: pending == nvml.DEVICE_MIG_ENABLE}
	if !s.Mode {
		return s, nil
	}
	for _, p := range d.model.Profiles {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		info, r := d.handle.GetGpuInstanceProfileInfo(p.Const)
		if r != nvml.SUCCESS {
			return none, d.err(r, "GetGpuInstanceProfileInfo %s", p)
		}
		info.InstanceCount = listRoom
		list, r := d.handle.GetGpuInstances(&info)
		if r != nvml.SUCCESS {
			return none, d.err(r, "GetGpuInstances %s", p)
		}
		for _, gi := range list {
			in, err := d.instance(gi, p)
			if err != nil {
				return none, err
			}
			s.Instances = append(s.Instances, in)
		}
	}
	return s, nil
}

func (d *device) instance(gi nvml.GpuInstance, p *mig.Profile) (mig.DeviceInstance, error) {
	info, r := gi.GetInfo()
	if r != nvml.SUCCESS {
		return mig.DeviceInstance{}, d.err(r, "GpuInstance.GetInfo")
	}
	in := mig.DeviceInstance{ID: int(info.Id), Profile: p,
		Placement: mig.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)}}
	err := d.computeProfiles(gi, func(c int, profile nvml.ComputeInstanceProfileInfo) error {
		profile.InstanceCount = listRoom
		list, r := gi.GetComputeInstances(&profile)
		if r != nvml.SUCCESS {
			return d.err(r, "GetComputeInstances")
		}
		for _, ci := range list {
			dc, device, err := d.compute(ci, c, int(profile.SliceCount))
			if err != nil {
				return err
			}
			in.Compute = append(in.Compute, dc)
			in.Busy = in.Busy || busy(device, p)
		}
		return nil
	})
	return in, err
}

// computeProfiles calls do for each compute-instance profile that the GPU instance has, by NVML constant.
func (d *device) computeProfiles(gi nvml.GpuInstance, do func(int, nvml.ComputeInstanceProfileInfo) error) error {
	for c := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, r := gi.GetComputeInstanceProfileInfo(c, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if r == nvml.ERROR_NOT_SUPPORTED || r == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		err := d.err(r, "GetComputeInstanceProfileInfo(%d)", c)
		if err == nil {
			err = do(c, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compute returns the report of a compute instance and its MIG device, which is nil where the driver names none.
func (d *device) compute(ci nvml.ComputeInstance, profile, width int) (mig.DeviceCompute, nvml.Device, error) {
	info, r := ci.GetInfo()
	if r != nvml.SUCCESS {
		return mig.DeviceCompute{}, nil, d.err(r, "ComputeInstance.GetInfo")
	}
	c := mig.DeviceCompute{ID: int(info.Id), Profile: profile, Slices: width}
	if info.Device == nil {
		return c, nil, nil
	}
	c.UUID, r = info.Device.GetUUID()
	return c, info.Device, d.err(r, "GetUUID of a MIG device")
}

// busy reports whether a MIG device of a profile has processes, or can't say. Graphics processes are on another
// list, which only profiles with graphics have.
func busy(device nvml.Device, p *mig.Profile) bool {
	if device == nil {
		return true
	}
	procs, r := device.GetComputeRunningProcesses()
	if r != nvml.SUCCESS || len(procs) > 0 || !slices.Contains(gfxConsts, p.Const) {
		return r != nvml.SUCCESS || len(procs) > 0
	}
	procs, r = device.GetGraphicsRunningProcesses()
	return r != nvml.SUCCESS || len(procs) > 0
}

// gfxConsts are the profiles with graphics: of one, two and four slices, and
// that of three slices, which go-nvml does not name.
var gfxConsts = []int{nvml.GPU_INSTANCE_PROFILE_1_SLICE_GFX, nvml.GPU_INSTANCE_PROFILE_2_SLICE_GFX,
	nvml.GPU_INSTANCE_PROFILE_4_SLICE_GFX, 17}

func (d *device) SetMode(ctx context.Context, mode bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	word := nvml.DEVICE_MIG_DISABLE
	if mode {
		word = nvml.DEVICE_MIG_ENABLE
	}
	activation, r := d.handle.SetMigMode(word)
	if r != nvml.SUCCESS {
		return d.err(r, "SetMigMode")
	}
	h, r := d.lib.DeviceGetHandleByUUID(d.uuid)
	if r != nvml.SUCCESS {
		return d.err(r, "DeviceGetHandleByUUID after SetMigMode")
	}
	d.handle = h
	err := d.err(activation, "SetMigMode, activation")
	if errors.Is(err, mig.ErrPendingReset) {
		return nil // State reports it
	}
	return err
}

func (d *device) CreateGPUInstance(ctx context.Context, p *mig.Profile, at mig.Placement) (mig.DeviceInstance, error) {
	if err := ctx.Err(); err != nil {
		return mig.DeviceInstance{}, err
	}
	info, r := d.handle.GetGpuInstanceProfileInfo(p.Const)
	if r != nvml.SUCCESS {
		return mig.DeviceInstance{}, d.err(r, "GetGpuInstanceProfileInfo %s", p)
	}
	gi, r := d.handle.CreateGpuInstanceWithPlacement(&info,
		&nvml.GpuInstancePlacement{Start: uint32(at.Start), Size: uint32(at.Size)})
	if r != nvml.SUCCESS {
		return mig.DeviceInstance{}, d.err(r, "CreateGpuInstanceWithPlacement %s@%d", p.Name, at.Start)
	}
	got, r := gi.GetInfo()
	if r != nvml.SUCCESS { // the handle is that of the new instance
		return mig.DeviceInstance{}, errors.Join(d.err(r, "GpuInstance.GetInfo"),
			d.err(gi.Destroy(), "GpuInstance.Destroy"))
	}
	return mig.DeviceInstance{ID: int(got.Id), Profile: p,
		Placement: mig.Placement{Start: int(got.Placement.Start), Size: int(got.Placement.Size)}}, nil
}

func (d *device) gpuInstance(ctx context.Context, id int) (nvml.GpuInstance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	gi, r := d.handle.GetGpuInstanceById(id)
	return gi, d.err(r, "GetGpuInstanceById(%d)", id)
}

func (d *device) DestroyGPUInstance(ctx context.Context, id int) error {
	gi, err := d.gpuInstance(ctx, id)
	if err != nil {
		return err
	}
	return d.err(gi.Destroy(), "GpuInstance.Destroy %d", id)
}

func (d *device) ComputeProfiles(ctx context.Context, gpuInstance int) ([]mig.ComputeProfile, error) {
	gi, err := d.gpuInstance(ctx, gpuInstance)
	if err != nil {
		return nil, err
	}
	var out []mig.ComputeProfile
	err = d.computeProfiles(gi, func(c int, info nvml.ComputeInstanceProfileInfo) error {
		out = append(out, mig.ComputeProfile{ID: c, Slices: int(info.SliceCount), SMs: int(info.MultiprocessorCount)})
		return nil
	})
	return out, err
}

func (d *device) CreateComputeInstance(ctx context.Context, gpuInstance, profile int) (mig.DeviceCompute, error) {
	gi, err := d.gpuInstance(ctx, gpuInstance)
	if err != nil {
		return mig.DeviceCompute{}, err
	}
	info, r := gi.GetComputeInstanceProfileInfo(profile, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	if r != nvml.SUCCESS {
		return mig.DeviceCompute{}, d.err(r, "GetComputeInstanceProfileInfo(%d)", profile)
	}
	ci, r := gi.CreateComputeInstance(&info)
	if r != nvml.SUCCESS {
		return mig.DeviceCompute{}, d.err(r, "CreateComputeInstance(%d) in GPU instance %d", profile, gpuInstance)
	}
	c, _, err := d.compute(ci, profile, int(info.SliceCount))
	if err != nil {
		return mig.DeviceCompute{}, errors.Join(err, d.err(ci.Destroy(), "ComputeInstance.Destroy"))
	}
	return c, nil
}

func (d *device) DestroyComputeInstance(ctx context.Context, gpuInstance, id int) error {
	gi, err := d.gpuInstance(ctx, gpuInstance)
	if err != nil {
		return err
	}
	ci, r := gi.GetComputeInstanceById(id)
	if r != nvml.SUCCESS {
		return d.err(r, "GetComputeInstanceById(%d) of GPU instance %d", id, gpuInstance)
	}
	return d.err(ci.Destroy(), "ComputeInstance.Destroy %d of GPU instance %d", id, gpuInstance)
}

// sentinels are the conditions that package mig distinguishes.
var sentinels = map[nvml.Return]error{
	nvml.ERROR_IN_USE:                 mig.ErrInUse,
	nvml.ERROR_INSUFFICIENT_RESOURCES: mig.ErrInsufficient,
	nvml.ERROR_NO_PERMISSION:          mig.ErrPermission,
	nvml.ERROR_NOT_SUPPORTED:          mig.ErrNotSupported,
	nvml.ERROR_NOT_FOUND:              mig.ErrNotFound,
	nvml.ERROR_RESET_REQUIRED:         mig.ErrPendingReset,
}

// opError returns nil for SUCCESS, and else an error that is also the sentinel of package mig for the
// code, and the code itself.
func opError(op, device string, r nvml.Return) error {
	err := nvmlret.Error(op, "", r)
	if err == nil {
		return nil
	}
	if s := sentinels[r]; s != nil {
		err = fmt.Errorf("%w: %w", s, err)
	}
	return &sharing.OpError{Package: "mig", Op: op, Device: device, Err: err}
}
