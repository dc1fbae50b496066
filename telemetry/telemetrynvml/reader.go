// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package telemetrynvml

import (
	"context"
	"errors"
	"fmt"
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

// Open loads NVML and finds the GPUs. The caller must call Close.
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
		return failed("count GPUs", "", err)
	}
	// A symbol that the driver lacks ends the process when it is called.
	has := func(symbol string) bool { return s.lib.Extensions().LookupSymbol(symbol) == nil }
	mem2, gpm := has("nvmlDeviceGetMemoryInfo_v2"), has("nvmlGpmQueryDeviceSupport")
	for i := range n {
		h, ret := s.lib.DeviceGetHandleByIndex(i)
		if err := nvmlret.Error("DeviceGetHandleByIndex", fmt.Sprint(i), ret); err != nil {
			return failed("open", fmt.Sprint(i), err)
		}
		d := &device{lib: s.lib, h: h, mem2: mem2, now: now, lastSeen: uint64(now().UnixMicro()),
			lastUtil: uint64(now().UnixMicro()), names: map[uint32]string{}, inst: map[int]*gpmState{}}
		uuid, ret := h.GetUUID()
		if err := nvmlret.Error("GetUUID", fmt.Sprint(i), ret); err != nil {
			return failed("open", fmt.Sprint(i), err)
		}
		d.desc.UUID = uuid
		if name, ret := h.GetName(); ret == nvml.SUCCESS {
			d.desc.Name = name
		}
		if minor, ret := h.GetMinorNumber(); ret == nvml.SUCCESS {
			d.desc.Minor = sharing.Some(minor)
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

// failed returns the error of an operation on a device, which may be empty.
func failed(op, device string, err error) error {
	return &sharing.OpError{Package: "telemetry", Op: op, Device: device, Err: err}
}

// Close frees the reader's resources and closes NVML. It waits up to five seconds for readings in progress; if one
// hangs in the driver, NVML stays open and Close returns an error. Later calls return the same.
func (s *Reader) Close() error {
	s.closing.Do(func() {
		ended := make(chan error, 1)
		go func() { ended <- s.close() }()
		timer := time.NewTimer(s.closeWait)
		defer timer.Stop()
		select {
		case s.closeErr = <-ended:
		case <-timer.C:
			s.closeErr = failed("close NVML", "", errors.New("a reading hangs in the driver"))
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
		return failed("close NVML", "", err)
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

const gpmMinInterval = 100 * time.Millisecond // the least time between two GPM samples (nvml.h)

// gpmState is two samples that take turns; the figures are of the time between.
type gpmState struct {
	uuid      string // of the MIG device, for instances
	prev, cur nvml.GpmSample
	at        time.Time // of prev; zero before the first
}

// step takes a sample with get and reports whether there is one before it, far
// enough back, to compare with; the two are then (prev, cur) until done.
func (g *gpmState) step(lib nvml.Interface, now time.Time, get func(nvml.GpmSample) nvml.Return) (bool, nvml.Return) {
	for _, s := range []*nvml.GpmSample{&g.prev, &g.cur} {
		if *s == nil {
			fresh, ret := lib.GpmSampleAlloc()
			if ret != nvml.SUCCESS {
				return false, ret
			}
			*s = fresh
		}
	}
	if !g.at.IsZero() && now.Sub(g.at) < gpmMinInterval {
		return false, nvml.SUCCESS
	}
	into := g.cur
	if g.at.IsZero() {
		into = g.prev
	}
	if ret := get(into); ret != nvml.SUCCESS {
		g.at = time.Time{} // a sample that failed half way compares with nothing
		return false, ret
	}
	first := g.at.IsZero()
	g.at = now
	return !first, nvml.SUCCESS
}

func (g *gpmState) done() { g.prev, g.cur = g.cur, g.prev }

// free gives the samples back; there is nothing to be done about a failure.
func (g *gpmState) free() {
	for _, s := range []*nvml.GpmSample{&g.prev, &g.cur} {
		if *s != nil {
			(*s).Free()
			*s = nil
		}
	}
	g.at = time.Time{}
}

// look is one reading of a device.
type look struct {
	d    *device
	r    *telemetry.Reading
	errs []error
	lost bool
}

// ok reports whether a call gave a value. A figure that the device cannot give, or has no value for just now, is
// missing; the rest is an error.
func (x *look) ok(call string, ret nvml.Return) bool {
	switch ret {
	case nvml.SUCCESS:
		return true
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NO_DATA:
	case nvml.ERROR_GPU_IS_LOST:
		if !x.lost {
			x.lost = true
			x.errs = append(x.errs, fmt.Errorf("%w: %w", telemetry.ErrLost, nvmlret.Error(call, "", ret)))
		}
	default:
		x.errs = append(x.errs, nvmlret.Error(call, "", ret))
	}
	return false
}
