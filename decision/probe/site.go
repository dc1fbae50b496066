// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// Kind selects the work of a task. The zero value is KindNone, which does nothing.
type Kind string

// The kinds of tasks.
const (
	KindNone    Kind = ""
	KindSpin    Kind = "spin"    // one thread that reads the GPU's clock and records when it was off the GPU
	KindCompute Kind = "compute" // steps of kernels that calculate and touch no memory
	KindStream  Kind = "stream"  // steps of kernels that read device memory
)

// Task describes the work that one process repeats on the GPU for a time, at least one step.
type Task struct {
	Kind  Kind          `json:"kind"`
	Delay time.Duration `json:"delay,omitempty"` // before it begins
	For   time.Duration `json:"for"`
	// Kernels is the number of kernels that a step launches, in one graph if there are several; 0 means 1. Kernel is the
	// isolated time of each.
	Kernels int `json:"kernels,omitempty"`
	// Exchange makes each step begin with a small copy to the GPU and end with a small copy back, as a decode step does
	// with its tokens.
	Exchange bool          `json:"exchange,omitempty"`
	Kernel   time.Duration `json:"kernel,omitempty"`
	// PerSM is the number of blocks of 256 threads for each SM; 0 means a single block of one thread.
	PerSM int           `json:"per_sm,omitempty"`
	Pause time.Duration `json:"pause,omitempty"` // after each step
	Bytes int64         `json:"bytes,omitempty"` // that a kernel reads
}

// Interval is an interval on the GPU's clock, which all processes share.
type Interval struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

func (i Interval) length() time.Duration { return i.To - i.From }

// Reading holds the recordings of one task.
type Reading struct {
	Span  Interval        `json:"span"`            // for a spin: from its first reading of the clock to its last
	Off   []Interval      `json:"off,omitempty"`   // for a spin: when it was off the GPU for more than 5 us
	Steps []time.Duration `json:"steps,omitempty"` // durations on the host's clock, from launch to end
	Bytes int64           `json:"bytes,omitempty"` // in each step
}

// Info describes a GPU before it is probed.
type Info struct {
	GPU    string        `json:"gpu"` // product name, from CUDA
	UUID   string        `json:"uuid,omitempty"`
	Driver string        `json:"driver,omitempty"` // "" is unknown
	SMs    int           `json:"sms"`
	Memory sharing.Bytes `json:"memory"`
	Free   sharing.Bytes `json:"free"`
	// Exclusive is true if the compute mode allows only one process.
	Exclusive bool `json:"exclusive,omitempty"`
	// Others are the known other processes that hold the GPU.
	Others []string `json:"others,omitempty"`
}

// Site is a GPU that can be probed.
type Site interface {
	// Basis is BasisMeasured, or BasisSimulated for a simulation.
	Basis() sharing.Basis
	// Info checks that the GPU can be used and describes it.
	Info(ctx context.Context) (Info, error)
	// Run runs tasks concurrently, each in a process of its own: under MechanismTimeSlicing, or under MechanismMPS as
	// clients of the site's own daemon. The readings are in the order of the tasks.
	Run(ctx context.Context, m sharing.Mechanism, tasks ...Task) ([]Reading, error)
}

// ErrMIG reports a GPU in MIG mode: measurements on an instance do not hold for the whole GPU, and the probe does not
// change MIG.
var ErrMIG = errors.New("probe: the GPU is in MIG mode")

// Snapshot holds NVML's view of one GPU before a measurement.
type Snapshot struct {
	Device telemetry.Device
	Only   bool          // the machine has no other GPU
	Driver string        // "" is unknown
	Memory sharing.Bytes // 0 is unknown
	// Holders names the processes on the GPU; their work would affect the measurements.
	Holders []string
}

// Inspect reads the GPU with an index. The error wraps ErrMIG if the GPU is in MIG mode.
func Inspect(ctx context.Context, source telemetry.Reader, device int) (*Snapshot, error) {
	devices, err := source.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if device >= len(devices) {
		return nil, fmt.Errorf("probe: no such GPU: index %d, the machine has %d", device, len(devices))
	}
	l := &Snapshot{Device: devices[device], Only: len(devices) == 1}
	if l.Device.MIG == sharing.AnswerYes {
		return nil, fmt.Errorf("%w: GPU %d, %s; disable MIG on it, or measure another", ErrMIG, device, l.Device.Name)
	}
	if d, ok := strings.CutPrefix(source.Info().Detail, "driver "); ok {
		l.Driver = d
	}
	var r telemetry.Reading
	if err := source.Read(ctx, device, telemetry.GroupBasic, &r); err != nil {
		return nil, err
	}
	if v, ok := r.Get(telemetry.MetricMemTotalBytes); ok {
		l.Memory = sharing.Bytes(v)
	}
	l.Holders = Holders(ctx, source, device)
	return l, nil
}

// Holders names the processes that hold a GPU now, or gives the reason why they are unknown.
func Holders(ctx context.Context, source telemetry.Reader, device int) (names []string) {
	var r telemetry.Reading
	if err := source.Read(ctx, device, telemetry.GroupProcesses, &r); err != nil {
		return []string{fmt.Sprintf("an unknown process, perhaps (they could not be listed: %v),", err)}
	}
	for _, p := range r.Processes {
		names = append(names, fmt.Sprintf("process %d (%s)", p.PID, cmp.Or(p.Name, "?")))
	}
	return names
}

// Newcomers returns a note for each process in now that is not in before. An idle MPS server is left out.
func Newcomers(before, now []string) (notes []string) {
	for _, p := range now {
		if !slices.Contains(before, p) && !strings.Contains(p, "nvidia-cuda-mps-server") {
			notes = append(notes, p+" came to the GPU meanwhile: its work is part of what was measured")
		}
	}
	return notes
}
