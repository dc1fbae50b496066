// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package telemetrynvml

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cotenant/cotenant/internal/nvmlret"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// Reader is a telemetry.Reader over NVML. It is safe for concurrent use.
type Reader struct {
	lib  nvml.Interface
	info telemetry.ReaderInfo
	devs []*device

	// mu keeps NVML open while a reading is under way.
	mu        sync.RWMutex
	closed    atomic.Bool
	closing   sync.Once
	closeErr  error
	closeWait time.Duration // the time for which Close waits for readings under way
}

// device is one GPU with its state between readings.
type device struct {
	lib  nvml.Interface
	h    nvml.Device
	desc telemetry.Device
	mem2 bool // the driver has nvmlDeviceGetMemoryInfo_v2
	// loadOnly and allSamples are of Options.
	loadOnly, allSamples bool
	now                  func() time.Time

	mu       sync.Mutex
	lastSeen uint64            // time stamp of the newest utilization sample of processes, in us
	lastUtil uint64            // and of the device
	names    map[uint32]string // of the processes in the last list
	gpm      gpmState
	inst     map[int]*gpmState // by GPU instance
}

// Open loads NVML and finds the GPUs. Close the reader in the end.
func Open(opts Options) (*Reader, error) {
	var lo []nvml.LibraryOption
	if opts.LibraryPath != "" {
		lo = append(lo, nvml.WithLibraryPath(opts.LibraryPath))
	}
	r, err := open(nvml.New(lo...), time.Now)
	if err != nil && opts.LibraryPath != "" {
		err = fmt.Errorf("%s: %w", opts.LibraryPath, err)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range r.devs {
		d.loadOnly, d.allSamples = opts.LoadOnly, opts.AllSamples
	}
	return r, nil
}

func open(lib nvml.Interface, now func() time.Time) (*Reader, error) {
	if err := nvmlret.Error("Init", "", lib.Init()); err != nil {
		why := "is the NVIDIA driver loaded?"
		if errors.Is(err, nvml.ERROR_LIBRARY_NOT_FOUND) {
			why = "libnvidia-ml.so.1 was not found: install the NVIDIA driver, run on a node with a GPU, or let the container " +
				"runtime mount it"
		}
		return nil, fmt.Errorf("%w: %w: %s", ErrUnavailable, err, why)
	}
	s := &Reader{lib: lib, info: telemetry.ReaderInfo{Name: "nvml", Basis: sharing.BasisMeasured},
		closeWait: 5 * time.Second}
	if err := s.find(now); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Reader) find(now func() time.Time) error {
	if v, ret := s.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		s.info.Detail = "driver " + v
	}
	n, ret := s.lib.DeviceGetCount()
	if err := nvmlret.Error("DeviceGetCount", "", ret); err != nil {
		return &telemetry.OpError{Op: "count GPUs", Err: err}
	}
	// A symbol that the driver lacks ends the process when it is called.
	has := func(symbol string) bool { return s.lib.Extensions().LookupSymbol(symbol) == nil }
	mem2, gpm := has("nvmlDeviceGetMemoryInfo_v2"), has("nvmlGpmQueryDeviceSupport")
	for i := range n {
		h, ret := s.lib.DeviceGetHandleByIndex(i)
		if err := nvmlret.Error("DeviceGetHandleByIndex", fmt.Sprint(i), ret); err != nil {
			return &telemetry.OpError{Op: "open", Device: fmt.Sprint(i), Err: err}
		}
		d := &device{lib: s.lib, h: h, mem2: mem2, now: now, lastSeen: uint64(now().UnixMicro()),
			lastUtil: uint64(now().UnixMicro()), names: map[uint32]string{}, inst: map[int]*gpmState{}}
		uuid, ret := h.GetUUID()
		if err := nvmlret.Error("GetUUID", fmt.Sprint(i), ret); err != nil {
			return &telemetry.OpError{Op: "open", Device: fmt.Sprint(i), Err: err}
		}
		d.desc.UUID = uuid
		if name, ret := h.GetName(); ret == nvml.SUCCESS {
			d.desc.Name = name
		}
		if minor, ret := h.GetMinorNumber(); ret == nvml.SUCCESS {
			d.desc.Minor = telemetry.Some(minor)
		}
		d.desc.MIG = sharing.AnswerNo
		switch mode, _, ret := h.GetMigMode(); ret {
		case nvml.SUCCESS:
			d.desc.MIG = sharing.AnswerOf(mode == nvml.DEVICE_MIG_ENABLE)
		case nvml.ERROR_NOT_SUPPORTED:
		default:
			d.desc.MIG = sharing.AnswerUnknown
		}
		d.desc.GPM = sharing.AnswerNo
		if gpm {
			d.desc.GPM = supportsGPM(s.lib, h)
		}
		s.devs = append(s.devs, d)
	}
	return nil
}

// supportsGPM asks the driver, and where the question itself fails takes a sample to see: go-nvml v0.12.9 fills the
// version of the question with a structure size that the driver does not expect (seen on driver 580.159.04:
// argument version mismatch, while samples work).
func supportsGPM(lib nvml.Interface, h nvml.Device) sharing.Answer {
	sup, ret := h.GpmQueryDeviceSupport()
	switch ret {
	case nvml.SUCCESS:
		return sharing.AnswerOf(sup.IsSupportedDevice != 0)
	case nvml.ERROR_NOT_SUPPORTED:
		return sharing.AnswerNo
	}
	sample, ret := lib.GpmSampleAlloc()
	if ret != nvml.SUCCESS {
		return sharing.AnswerUnknown
	}
	defer sample.Free()
	switch h.GpmSampleGet(sample) {
	case nvml.SUCCESS:
		return sharing.AnswerYes
	case nvml.ERROR_NOT_SUPPORTED:
		return sharing.AnswerNo
	}
	return sharing.AnswerUnknown
}

// Close frees the reader's resources and closes NVML. It waits five seconds for readings in progress; where one hangs
// in the driver NVML stays open, with an error. Closing again returns the same.
func (s *Reader) Close() error {
	s.closing.Do(func() {
		ended := make(chan error, 1)
		go func() { ended <- s.close() }()
		timer := time.NewTimer(s.closeWait)
		defer timer.Stop()
		select {
		case s.closeErr = <-ended:
		case <-timer.C:
			s.closeErr = &telemetry.OpError{Op: "close NVML", Err: errors.New("a reading hangs in the driver")}
		}
	})
	return s.closeErr
}

func (s *Reader) close() error {
	s.closed.Store(true) // new readings fail at once
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devs {
		d.mu.Lock()
		d.gpm.free()
		for _, g := range d.inst {
			g.free()
		}
		d.mu.Unlock()
	}
	if err := nvmlret.Error("Shutdown", "", s.lib.Shutdown()); err != nil {
		return &telemetry.OpError{Op: "close NVML", Err: err}
	}
	return nil
}

// Info names NVML and the driver's version.
func (s *Reader) Info() telemetry.ReaderInfo { return s.info }

// Devices lists the GPUs found by Open. MIG devices are not among them: they appear as the instances of their GPU.
func (s *Reader) Devices(ctx context.Context) ([]telemetry.Device, error) {
	out := make([]telemetry.Device, len(s.devs))
	for i, d := range s.devs {
		out[i] = d.desc
	}
	return out, ctx.Err()
}

// Read reads one group of a device. The context is checked before the call;
// a call into the driver cannot be broken off.
func (s *Reader) Read(ctx context.Context, index int, group telemetry.Groups, r *telemetry.Reading) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return ErrClosed
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed.Load() { // closed while this waited
		return ErrClosed
	}
	if index < 0 || index >= len(s.devs) {
		return &telemetry.DeviceError{Device: index, Devices: len(s.devs)}
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
		return &telemetry.OpError{Op: "read " + group.String(), Device: d.desc.UUID, Err: err}
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
		m, ret := d.h.GetMemoryInfo()
		if x.ok("GetMemoryInfo", ret) && m.Total < 1<<62 {
			g.MemoryTotal = telemetry.Some(sharing.Bytes(m.Total))
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
