// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package telemetrynvml

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

const ok = nvml.SUCCESS

// fake is a driver with one GPU, of which tests change the answers.
type fake struct {
	lib     *mock.Interface
	ext     *mock.ExtendedInterface
	dev     *mock.Device
	now     time.Time
	samples int // GPM samples alive
	gpm     map[nvml.GpmMetricId]float64
}

func newFake() *fake {
	f := &fake{now: time.UnixMicro(1_795_219_646_000_000), gpm: map[nvml.GpmMetricId]float64{}}
	f.dev = &mock.Device{
		GetUUIDFunc:        func() (string, nvml.Return) { return "GPU-1", ok },
		GetNameFunc:        func() (string, nvml.Return) { return "NVIDIA H200", ok },
		GetMigModeFunc:     func() (int, int, nvml.Return) { return 0, 0, ok },
		GetMinorNumberFunc: func() (int, nvml.Return) { return 3, ok },
		GetGpuInstanceByIdFunc: func(id int) (nvml.GpuInstance, nvml.Return) {
			return &mock.GpuInstance{GetInfoFunc: func() (nvml.GpuInstanceInfo, nvml.Return) {
				return nvml.GpuInstanceInfo{Placement: nvml.GpuInstancePlacement{Start: uint32(2 * id)}}, ok
			}}, ok
		},
		GpmQueryDeviceSupportFunc: func() (nvml.GpmSupport, nvml.Return) { return nvml.GpmSupport{IsSupportedDevice: 1}, ok },
		GetUtilizationRatesFunc:   func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 88, Memory: 27}, ok },
		GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 150754820096, Reserved: 644939776, Used: 0}, ok
		},
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: 150754820096, Used: 644939776}, ok
		},
		GetPowerUsageFunc:         func() (uint32, nvml.Return) { return 116799, ok },
		GetEnforcedPowerLimitFunc: func() (uint32, nvml.Return) { return 700000, ok },
		GetClockInfoFunc: func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1980, nvml.CLOCK_MEM: 3201}[c], ok
		},
		GetTemperatureFunc:                  func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 31, ok },
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) { return 1<<40 | 4, ok },
		GetTotalEnergyConsumptionFunc:       func() (uint64, nvml.Return) { return 2240856, ok },
		GetPcieThroughputFunc:               func(nvml.PcieUtilCounter) (uint32, nvml.Return) { return 7, ok },
		GetComputeRunningProcessesFunc:      func() ([]nvml.ProcessInfo, nvml.Return) { return nil, ok },
		GetMPSComputeRunningProcessesFunc:   func() ([]nvml.ProcessInfo, nvml.Return) { return nil, ok },
		GetGraphicsRunningProcessesFunc:     func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED },
		GetProcessUtilizationFunc:           func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return nil, nvml.ERROR_NOT_FOUND },
		GpmSampleGetFunc:                    func(nvml.GpmSample) nvml.Return { return ok },
	}
	f.ext = &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
	f.lib = &mock.Interface{
		InitFunc:                   func() nvml.Return { return ok },
		ShutdownFunc:               func() nvml.Return { return ok },
		ExtensionsFunc:             func() nvml.ExtendedInterface { return f.ext },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "580.159.04", ok },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return 1, ok },
		DeviceGetHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return f.dev, ok },
		SystemGetProcessNameFunc:   func(int) (string, nvml.Return) { return "/usr/bin/python3 serve.py", ok },
		GpmSampleAllocFunc: func() (nvml.GpmSample, nvml.Return) {
			f.samples++
			return &mock.GpmSample{FreeFunc: func() nvml.Return { f.samples--; return ok }}, ok
		},
		GpmMetricsGetFunc: func(r *nvml.GpmMetricsGetType) nvml.Return {
			for i := range r.NumMetrics {
				v, has := f.gpm[nvml.GpmMetricId(r.Metrics[i].MetricId)]
				r.Metrics[i].Value, r.Metrics[i].NvmlReturn = v, uint32(nvml.ERROR_NOT_SUPPORTED)
				if has {
					r.Metrics[i].NvmlReturn = uint32(ok)
				}
			}
			return ok
		},
	}
	return f
}

func (f *fake) open(t *testing.T) *Reader {
	t.Helper()
	s, err := open(f.lib, func() time.Time { return f.now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if f.samples != 0 {
			t.Errorf("%d GPM samples are not freed", f.samples)
		}
	})
	return s
}

// TestCloseInTheMiddle closes the reader under a sampler while a reading is in the driver: Close waits for it and its
// figures are kept; where it hangs Close gives up with an error. Later readings fail at once.
func TestCloseInTheMiddle(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		f := newFake()
		entered, release := make(chan struct{}), make(chan struct{})
		f.dev.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
			close(entered)
			<-release
			return nvml.Utilization{Gpu: 88}, ok
		}
		s, err := open(f.lib, func() time.Time { return f.now })
		if err != nil {
			t.Fatal(err)
		}
		if hangs {
			s.closeWait = 10 * time.Millisecond
		}
		sampler, err := telemetry.NewSampler(s, telemetry.SamplerOptions{Skip: ^telemetry.GroupBasic})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var series *telemetry.Series
		var all sync.WaitGroup
		all.Go(func() { series, err = sampler.Run(ctx) })
		<-entered
		all.Go(func() {
			for !s.closed.Load() { // Close has begun
				time.Sleep(time.Millisecond)
			}
			if !hangs {
				close(release)
			}
		})
		if err := s.Close(); hangs != (err != nil && strings.Contains(err.Error(), "hangs in the driver")) {
			t.Errorf("hangs %v: %v", hangs, err)
		}
		var r telemetry.Reading
		if err := s.Read(t.Context(), 0, telemetry.GroupEnergy, &r); !errors.Is(err, errClosed) {
			t.Errorf("err = %v", err)
		}
		if hangs {
			close(release)
		}
		time.Sleep(10 * time.Millisecond)
		cancel()
		all.Wait()
		if n := len(series.Points(0, telemetry.MetricGPUUtilPercent)); err != nil || n != 1 {
			t.Errorf("hangs %v: %d readings are kept, %v", hangs, n, err)
		}
	}
}

func read(t *testing.T, s *Reader, g telemetry.Groups) telemetry.Reading {
	t.Helper()
	var r telemetry.Reading
	if err := s.Read(t.Context(), 0, g, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func figures(get func(telemetry.Metric) (float64, bool)) map[telemetry.Metric]float64 {
	out := map[telemetry.Metric]float64{}
	for _, m := range telemetry.Metrics() {
		if v, ok := get(m); ok {
			out[m] = v
		}
	}
	return out
}

func TestBasic(t *testing.T) {
	f := newFake()
	s := f.open(t)
	r := read(t, s, telemetry.GroupBasic)
	want := map[telemetry.Metric]float64{
		telemetry.MetricGPUUtilPercent: 88, telemetry.MetricMemUtilPercent: 27, telemetry.MetricMemUsedBytes: 0, telemetry.MetricMemTotalBytes: 150754820096,
		telemetry.MetricPowerWatts: 116.799, telemetry.MetricPowerLimitWatts: 700, telemetry.MetricSMClockMHz: 1980, telemetry.MetricMemClockMHz: 3201, telemetry.MetricTemperatureCelsius: 31,
	}
	if d := cmp.Diff(want, figures(r.Get)); d != "" {
		t.Error(d)
	}
	if r.Throttle != sharing.Some(telemetry.Throttle("power-cap")) {
		t.Errorf("throttle %v", r.Throttle)
	}
	if info := s.Info(); info.Basis != sharing.BasisMeasured || info.Detail != "driver 580.159.04" {
		t.Errorf("%+v", info)
	}
	devs, err := s.Devices(t.Context())
	if d := cmp.Diff([]telemetry.Device{{UUID: "GPU-1", Name: "NVIDIA H200", MIG: sharing.AnswerNo, GPM: sharing.AnswerYes, Minor: sharing.Some(3)}}, devs); d != "" || err != nil {
		t.Error(d, err)
	}
	e := read(t, s, telemetry.GroupEnergy)
	if j, _ := e.Get(telemetry.MetricEnergyJoules); j != 2240.856 {
		t.Errorf("%v J", j)
	}
}

func TestLoadOnly(t *testing.T) {
	f := newFake()
	s := f.open(t)
	s.devs[0].loadOnly = true
	r := read(t, s, telemetry.GroupBasic)
	want := map[telemetry.Metric]float64{
		telemetry.MetricGPUUtilPercent: 88, telemetry.MetricMemUtilPercent: 27, telemetry.MetricMemUsedBytes: 0, telemetry.MetricMemTotalBytes: 150754820096, telemetry.MetricPowerWatts: 116.799,
	}
	if d := cmp.Diff(want, figures(r.Get)); d != "" {
		t.Error(d)
	}
	if n := len(f.dev.GetClockInfoCalls()) + len(f.dev.GetTemperatureCalls()); n > 0 {
		t.Errorf("%d calls for figures that nobody requested", n)
	}
}

func TestMissingIsMissing(t *testing.T) {
	f := newFake()
	f.ext.LookupSymbolFunc = func(string) error { return errors.New("no such symbol") } // an old driver
	f.dev.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
	f.dev.GetPowerUsageFunc = func() (uint32, nvml.Return) { return ^uint32(0), ok }
	f.dev.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.ERROR_NO_DATA }
	f.dev.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	s := f.open(t)
	r := read(t, s, telemetry.GroupBasic)
	for m, want := range map[telemetry.Metric]bool{telemetry.MetricGPUUtilPercent: false, telemetry.MetricPowerWatts: false,
		telemetry.MetricTemperatureCelsius: false, telemetry.MetricMemUsedBytes: true} {
		if _, got := r.Get(m); got != want {
			t.Errorf("%v is there: %v, want %v", m, got, want)
		}
	}
	if r.Dropped != 1 {
		t.Errorf("%d dropped, want the power of all ones", r.Dropped)
	}
	if v, _ := r.Get(telemetry.MetricMemUsedBytes); v != 644939776 {
		t.Errorf("the older call gives %v bytes", v)
	}
	e := read(t, s, telemetry.GroupEnergy)
	if _, ok := e.Get(telemetry.MetricEnergyJoules); ok {
		t.Error("energy that the device does not count")
	}
	g := read(t, s, telemetry.GroupGPM)
	if g.Has() {
		t.Error("GPM of an old driver")
	}
	p := read(t, s, telemetry.GroupPCIe)
	if v, _ := p.Get(telemetry.MetricPCIeRxBytesPerS); v != 7000 {
		t.Errorf("PCIe %v", v)
	}
}

func TestErrors(t *testing.T) {
	f := newFake()
	s := f.open(t)
	f.dev.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	var r telemetry.Reading
	err := s.Read(t.Context(), 0, telemetry.GroupBasic, &r)
	var op *sharing.OpError
	if !errors.As(err, &op) || op.Device != "GPU-1" || !errors.Is(err, nvml.ERROR_UNKNOWN) || !strings.Contains(err.Error(), "GetPowerUsage") {
		t.Errorf("err = %v", err)
	}
	if _, has := r.Get(telemetry.MetricSMClockMHz); !has {
		t.Error("one failure takes the other figures with it")
	}
	f.dev.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_GPU_IS_LOST }
	calls := len(f.dev.GetClockInfoCalls())
	if err := s.Read(t.Context(), 0, telemetry.GroupBasic, &r); !errors.Is(err, telemetry.ErrLost) || !errors.Is(err, nvml.ERROR_GPU_IS_LOST) {
		t.Errorf("err = %v", err)
	}
	if len(f.dev.GetClockInfoCalls()) != calls {
		t.Error("a lost GPU is asked on")
	}
	if err := s.Read(t.Context(), 0, telemetry.GroupPCIe, &r); !errors.Is(err, telemetry.ErrUnsupported) {
		t.Errorf("PCIe next to GPM: %v", err)
	}
	if err := s.Read(t.Context(), 1, telemetry.GroupBasic, &r); !errors.Is(err, telemetry.ErrNoDevice) {
		t.Errorf("err = %v", err)
	}
	if err := s.Read(t.Context(), 0, telemetry.GroupBasic|telemetry.GroupGPM, &r); err == nil {
		t.Error("two groups at once")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Read(ctx, 0, telemetry.GroupBasic, &r); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Read(t.Context(), 0, telemetry.GroupBasic, &r); !errors.Is(err, errClosed) {
		t.Errorf("err = %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	f := newFake()
	f.lib.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	if _, err := open(f.lib, time.Now); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "driver") {
		t.Errorf("err = %v", err)
	}
	f = newFake()
	f.lib.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	if _, err := open(f.lib, time.Now); !errors.Is(err, nvml.ERROR_NO_PERMISSION) || len(f.lib.ShutdownCalls()) != 1 {
		t.Errorf("err = %v, %d shutdowns", err, len(f.lib.ShutdownCalls()))
	}
	if _, err := Open(Options{LibraryPath: "/nonexistent/libnvidia-ml.so.1"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
}

func TestProcesses(t *testing.T) {
	f := newFake()
	none := ^uint32(0)
	f.dev.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 30, UsedGpuMemory: ^uint64(0), GpuInstanceId: none}, {Pid: 10, UsedGpuMemory: 1 << 30, GpuInstanceId: 3}}, ok
	}
	f.dev.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 30, UsedGpuMemory: 5, GpuInstanceId: none}}, ok
	}
	s := f.open(t)
	r := read(t, s, telemetry.GroupProcesses)
	want := []telemetry.Process{
		{PID: 10, Name: "python3", Memory: sharing.Some(sharing.GiB), GPUInstance: sharing.Some(3)},
		{PID: 30, Name: "python3"},
	}
	if len(r.Processes) != 2 || r.Processes[0] != want[0] || r.Processes[1] != want[1] {
		t.Errorf("%+v", r.Processes)
	}
	read(t, s, telemetry.GroupProcesses)
	if n := len(f.lib.SystemGetProcessNameCalls()); n != 2 {
		t.Errorf("%d look-ups of names, want one for each process", n)
	}
	// A process that comes back under the same id is looked up again.
	list := f.dev.GetComputeRunningProcessesFunc
	f.dev.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, ok }
	f.dev.GetMPSComputeRunningProcessesFunc = f.dev.GetComputeRunningProcessesFunc
	read(t, s, telemetry.GroupProcesses)
	f.dev.GetComputeRunningProcessesFunc = list
	read(t, s, telemetry.GroupProcesses)
	if n := len(f.lib.SystemGetProcessNameCalls()); n != 4 {
		t.Errorf("%d look-ups of names", n)
	}
}

func TestAllSamples(t *testing.T) {
	f := newFake()
	s := f.open(t)
	start := uint64(f.now.UnixMicro())
	value := func(v uint32) (b [8]byte) { binary.NativeEndian.PutUint32(b[:], v); return b }
	var list []nvml.Sample
	ret, since := ok, uint64(0)
	f.dev.GetSamplesFunc = func(_ nvml.SamplingType, last uint64) (nvml.ValueType, []nvml.Sample, nvml.Return) {
		since = last
		return nvml.VALUE_TYPE_UNSIGNED_INT, list, ret
	}
	if r := read(t, s, telemetry.GroupProcessUtil); since != 0 || len(figures(r.Get)) != 0 {
		t.Errorf("read although nobody wants it: %v", figures(r.Get))
	}
	s.devs[0].allSamples = true
	f.now = f.now.Add(10 * time.Second)
	list = []nvml.Sample{{TimeStamp: start + 1e6, SampleValue: value(0)}, {TimeStamp: start + 2e6, SampleValue: value(50)}, {TimeStamp: start + 3e6, SampleValue: value(100)},
		{TimeStamp: start + 4e6, SampleValue: value(10)}, {}, {TimeStamp: start + 5e6, SampleValue: value(4000)}, {TimeStamp: start - 1, SampleValue: value(100)}, {TimeStamp: start + 60e6, SampleValue: value(100)}}
	r := read(t, s, telemetry.GroupProcessUtil)
	if v, there := r.Get(telemetry.MetricGPUUtilPercent); !there || v != 40 || since != start || r.Dropped != 3 {
		t.Errorf("%v, %v since %d, %d dropped", v, there, since-start, r.Dropped)
	}
	list = nil
	if r := read(t, s, telemetry.GroupProcessUtil); since != start+4e6 || len(figures(r.Get)) != 0 {
		t.Errorf("no samples are %v since %d", figures(r.Get), since-start)
	}
	ret = nvml.ERROR_NOT_SUPPORTED
	if r := read(t, s, telemetry.GroupProcessUtil); len(figures(r.Get)) != 0 {
		t.Errorf("%v", figures(r.Get))
	}
}

func TestProcessUtil(t *testing.T) {
	f := newFake()
	s := f.open(t)
	if r := read(t, s, telemetry.GroupProcessUtil); len(r.Processes) != 0 {
		t.Errorf("idle is %+v", r.Processes)
	}
	start := uint64(f.now.UnixMicro())
	f.now = f.now.Add(time.Second)
	f.dev.GetProcessUtilizationFunc = func(since uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		if since != start {
			t.Errorf("samples since %d, want %d", since, start)
		}
		return []nvml.ProcessUtilizationSample{
			{Pid: 20, TimeStamp: start + 3e5, SmUtil: 40}, {Pid: 10, TimeStamp: start + 3e5, SmUtil: 30}, {Pid: 20, TimeStamp: start + 6e5, SmUtil: 60},
			{}, // an empty slot
			{Pid: 10, TimeStamp: start + 4e5, SmUtil: 4000}, // absurd
			{Pid: 10, TimeStamp: start + 4e5, MemUtil: 101}, // absurd
			{Pid: 10, TimeStamp: start - 1, SmUtil: 99},     // old
			{Pid: 10, TimeStamp: start + 60e6, SmUtil: 99},  // from the future
		}, ok
	}
	r := read(t, s, telemetry.GroupProcessUtil)
	want := []telemetry.Process{{PID: 10, SMUtilPercent: sharing.Some(30.0)}, {PID: 20, SMUtilPercent: sharing.Some(50.0)}}
	if len(r.Processes) != 2 || r.Processes[0] != want[0] || r.Processes[1] != want[1] || r.Dropped != 4 {
		t.Errorf("%+v, %d dropped", r.Processes, r.Dropped)
	}
	// The clock goes back a minute: without a new start nothing would come for a minute, and idle would be reported.
	f.now = f.now.Add(-time.Minute)
	back := uint64(f.now.UnixMicro())
	f.dev.GetProcessUtilizationFunc = func(since uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		if since > back {
			t.Errorf("samples since %d, which is %v ahead", since, time.Duration(since-back)*time.Microsecond)
		}
		return []nvml.ProcessUtilizationSample{{Pid: 20, TimeStamp: back - 1000, SmUtil: 70}}, ok
	}
	if r := read(t, s, telemetry.GroupProcessUtil); len(r.Processes) != 1 || r.Dropped != 0 {
		t.Errorf("%+v, %d dropped", r.Processes, r.Dropped)
	}
	f.dev.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	var un telemetry.Reading
	if err := s.Read(t.Context(), 0, telemetry.GroupProcessUtil, &un); !errors.Is(err, telemetry.ErrUnsupported) {
		t.Errorf("on a MIG GPU: %v", err)
	}
}

func TestGPM(t *testing.T) {
	f := newFake()
	f.gpm = map[nvml.GpmMetricId]float64{nvml.GPM_METRIC_SM_UTIL: 23.04, nvml.GPM_METRIC_DRAM_BW_UTIL: 100.4, nvml.GPM_METRIC_GRAPHICS_UTIL: 7e9,
		nvml.GPM_METRIC_PCIE_TX_PER_SEC: 2}
	s := f.open(t)
	if r := read(t, s, telemetry.GroupGPM); len(figures(r.Get)) != 0 {
		t.Error("figures from one sample")
	}
	f.now = f.now.Add(50 * time.Millisecond)
	if r := read(t, s, telemetry.GroupGPM); len(figures(r.Get)) != 0 || len(f.dev.GpmSampleGetCalls()) != 1 {
		t.Error("figures from samples 50 ms apart")
	}
	f.now = f.now.Add(50 * time.Millisecond)
	r := read(t, s, telemetry.GroupGPM)
	want := map[telemetry.Metric]float64{telemetry.MetricSMUtilPercent: 23.04, telemetry.MetricDRAMUtilPercent: 100, telemetry.MetricPCIeTxBytesPerS: 2 << 20}
	if d := cmp.Diff(want, figures(r.Get)); d != "" || r.Dropped != 1 {
		t.Error(d, r.Dropped)
	}
	first, second := f.dev.GpmSampleGetCalls()[0].GpmSample, f.dev.GpmSampleGetCalls()[1].GpmSample
	req := f.lib.GpmMetricsGetCalls()[0].GpmMetricsGetType
	if req.Sample1 != first || req.Sample2 != second {
		t.Error("the samples are in the wrong order")
	}
	f.now = f.now.Add(time.Second)
	read(t, s, telemetry.GroupGPM)
	if req := f.lib.GpmMetricsGetCalls()[1].GpmMetricsGetType; req.Sample1 != second || req.Sample2 != first {
		t.Error("the second figure does not start where the first ended")
	}
}

func TestMIGInstances(t *testing.T) {
	f := newFake()
	f.gpm = map[nvml.GpmMetricId]float64{nvml.GPM_METRIC_SM_UTIL: 50}
	mig := func(id int, uuid string) *mock.Device {
		return &mock.Device{
			GetGpuInstanceIdFunc: func() (int, nvml.Return) { return id, ok },
			GetUUIDFunc:          func() (string, nvml.Return) { return uuid, ok },
			GetMemoryInfoFunc:    func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 16 << 30, Used: 1 << 30}, ok },
			GetAttributesFunc: func() (nvml.DeviceAttributes, nvml.Return) {
				return nvml.DeviceAttributes{GpuInstanceSliceCount: 1}, ok
			},
		}
	}
	layout := map[int]*mock.Device{0: mig(7, "MIG-a"), 1: mig(7, "MIG-b"), 4: mig(9, "MIG-c")} // 0 and 1 share an instance
	f.dev.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, ok }
	f.dev.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, ok }
	f.dev.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if d := layout[i]; d != nil {
			return d, ok
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	f.dev.GpmSampleGetFunc = func(nvml.GpmSample) nvml.Return { return nvml.ERROR_NOT_SUPPORTED }
	f.dev.GpmMigSampleGetFunc = func(int, nvml.GpmSample) nvml.Return { return ok }
	s := f.open(t)
	read(t, s, telemetry.GroupGPM)
	f.now = f.now.Add(time.Second)
	r := read(t, s, telemetry.GroupGPM)
	if len(r.Instances) != 2 || r.Instances[0].ID != 7 || r.Instances[1].ID != 9 {
		t.Fatalf("%+v", r.Instances)
	}
	in := r.Instances[1]
	want := map[telemetry.Metric]float64{telemetry.MetricSMUtilPercent: 50, telemetry.MetricMemUsedBytes: 1 << 30, telemetry.MetricMemTotalBytes: 16 << 30}
	if d := cmp.Diff(want, figures(in.Get)); d != "" || in.ComputeSlices != sharing.Some(1) {
		t.Error(d, in.ComputeSlices)
	}
	// Another layout: instance 9 is gone, 7 is a new one under the same id.
	layout = map[int]*mock.Device{2: mig(7, "MIG-d")}
	f.now = f.now.Add(time.Second)
	r = read(t, s, telemetry.GroupGPM)
	if _, has := r.Instances[0].Get(telemetry.MetricSMUtilPercent); len(r.Instances) != 1 || has {
		t.Errorf("a new instance has the figures of the old one: %+v", r.Instances)
	}
	if f.samples != 4 { // the device's and one instance's
		t.Errorf("%d samples alive", f.samples)
	}
}

// TestGPMSupport: where the driver refuses the question, a sample answers it.
func TestGPMSupport(t *testing.T) {
	for _, c := range []struct {
		query, sample nvml.Return
		supported     uint32
		want          sharing.Answer
	}{
		{ok, ok, 1, sharing.AnswerYes},
		{ok, ok, 0, sharing.AnswerNo},
		{nvml.ERROR_NOT_SUPPORTED, ok, 0, sharing.AnswerNo},
		{nvml.ERROR_ARGUMENT_VERSION_MISMATCH, ok, 0, sharing.AnswerYes},
		{nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_NOT_SUPPORTED, 0, sharing.AnswerNo},
		{nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_UNKNOWN, 0, sharing.AnswerUnknown},
	} {
		f := newFake()
		f.dev.GpmQueryDeviceSupportFunc = func() (nvml.GpmSupport, nvml.Return) {
			return nvml.GpmSupport{IsSupportedDevice: c.supported}, c.query
		}
		f.dev.GpmSampleGetFunc = func(nvml.GpmSample) nvml.Return { return c.sample }
		if got := supportsGPM(f.lib, f.dev); got != c.want || f.samples != 0 {
			t.Errorf("%+v: %v, %d samples kept", c, got, f.samples)
		}
	}
}
