// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// ErrLost is returned for a device that has fallen off the bus or cannot be reached any more. A Reader wraps it; a
// Sampler then skips the device and tries it again on each slow tick.
var ErrLost = errors.New("telemetry: the GPU is lost")

// Reader reads GPUs. Its methods must be safe for concurrent use: a Sampler
// reads fast and slow groups at the same time.
type Reader interface {
	// Info describes the reader. It does not change.
	Info() ReaderInfo
	// Devices lists the devices. Their order is their index everywhere.
	Devices(ctx context.Context) ([]Device, error)
	// Read reads one group of one device into r. Figures that the device does not provide are left out without an error.
	// After an error the figures in r remain valid, but not its processes and instances. The error wraps ErrLost if the
	// device is gone, ErrUnsupported if it lacks the group. Slices in r must not be changed after Read returns.
	Read(ctx context.Context, device int, group Groups, r *Reading) error
}

// ReaderInfo describes the source of a series' figures.
type ReaderInfo struct {
	// Name is the reader's name, e.g. "nvml" or "script".
	Name string `json:"name"`
	// Basis is sharing.BasisMeasured for a driver and sharing.BasisSimulated for a script. A reader that does not state it
	// has sharing.BasisUnknown.
	Basis sharing.Basis `json:"basis"`
	// Detail is further text, such as driver version or seed.
	Detail string `json:"detail,omitempty"`
}

// Device describes a GPU.
type Device struct {
	UUID string         `json:"uuid"`
	Name string         `json:"name"`
	MIG  sharing.Answer `json:"mig"` // whether MIG mode was on
	GPM  sharing.Answer `json:"gpm"` // whether the device has GPM activity counters
	// Minor is the N of /dev/nvidiaN, by which some device plugins name it.
	Minor sharing.Optional[int] `json:"minor,omitzero"`
}

// figures is a set of metrics with their values.
type figures struct {
	v   [metricEnd]float64
	has uint64
}

// Set records a figure. NaN, infinities and metrics that do not exist are not recorded.
func (f *figures) Set(m Metric, v float64) {
	if m.valid() && !math.IsNaN(v) && !math.IsInf(v, 0) {
		f.v[m] = v
		f.has |= 1 << m
	}
}

// Get returns a figure and whether it is there.
func (f *figures) Get(m Metric) (float64, bool) {
	if !m.valid() || f.has&(1<<m) == 0 {
		return 0, false
	}
	return f.v[m], true
}

// all yields the figures that are there, in the order of the metrics.
func (f *figures) all() iter.Seq2[Metric, float64] {
	return func(yield func(Metric, float64) bool) {
		for m := MetricGPUUtilPercent; m < metricEnd; m++ {
			if f.has&(1<<m) != 0 && !yield(m, f.v[m]) {
				return
			}
		}
	}
}

// aged holds the newest figures and when they came.
type aged struct {
	figures
	at [metricEnd]time.Duration
}

func (a *aged) take(at time.Duration, f *figures) {
	for m, v := range f.all() {
		a.Set(m, v)
		a.at[m] = at
	}
}

// fresh returns a figure that is no older than maxAge.
func (a *aged) fresh(m Metric, now, maxAge time.Duration) (float64, bool) {
	v, ok := a.Get(m)
	if !ok || now-a.at[m] > maxAge {
		return 0, false
	}
	return v, true
}

// Reading holds the figures of one reading of a device. The zero Reading is empty. A Reading is not safe for concurrent
// use.
type Reading struct {
	figures
	Throttle sharing.Optional[Throttle] // the reasons for low clocks
	// Processes are the processes that hold a context on the device, each once in a MIG instance. Ignore it unless the
	// reading's groups include GroupProcesses or GroupProcessUtil.
	Processes []Process
	Instances []Instance // the MIG instances with their own figures, each once
	Dropped   int        // impossible values from the driver, for example a utilization above 100%
}

// Has reports whether the reading holds any figure, process or instance.
func (r *Reading) Has() bool {
	return r.has != 0 || len(r.Processes) > 0 || len(r.Instances) > 0 || !r.Throttle.IsZero()
}

// Process is a process that holds a context on a device. Under MPS the driver
// attributes the work of clients to the MPS server's process.
type Process struct {
	PID    uint32
	Name   string                          // empty where it could not be read
	Memory sharing.Optional[sharing.Bytes] // the device memory that the process holds
	// SMUtilPercent is the share of the time since the last slow reading in
	// which the process's kernels ran, averaged over the driver's samples.
	SMUtilPercent sharing.Optional[float64]
	GPUInstance   sharing.Optional[int] // the MIG GPU instance in which the process runs
}

// Instance is a MIG GPU instance with its own figures: its GPM metrics and its memory. Percentages are of the
// instance, not of the device. The zero Instance is instance 0 with no figures.
type Instance struct {
	figures
	ID int // the GPU instance's id
	// UUID is the MIG device's UUID, if the reader gives it. CSV does not preserve it.
	UUID          string
	ComputeSlices sharing.Optional[int] // the number of compute slices the instance has
	// Start is the memory slice at which it begins, if the reader gives it. CSV does not preserve it.
	Start sharing.Optional[int]
}

// Sample is a reading with its device, time and groups.
type Sample struct {
	Device int           // the index of the device
	At     time.Duration // the time since the series' start by the monotonic clock
	// Tick is the number of the tick of the fast or slow clock, depending on Groups. Gaps in the numbers are missed ticks.
	Tick int64
	// Groups are the groups that were read successfully.
	Groups Groups
	Reading
}
