package probe

import (
	"context"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Kind selects the work of a task. The zero value is KindNone, which does nothing.
type Kind uint8

// The kinds of tasks.
const (
	KindNone       Kind = iota
	KindSpin            // one thread that reads the GPU's clock and notes when it was off the GPU
	KindPulse           // one thread that works, ends, pauses, and notes when it ran
	KindCompute         // steps of kernels that calculate and touch no memory
	KindStream          // steps of kernels that read device memory
	KindToDevice        // copies from pinned host memory
	KindFromDevice      // copies to pinned host memory
)

var kinds = enum.Of[Kind](nil, "kind of task", "none", "spin", "pulse", "compute", "stream", "to-device", "from-device")

// Task describes the work that one process repeats on the GPU for a time, steps and copies at least once.
type Task struct {
	Kind  Kind          `json:"kind"`
	Delay time.Duration `json:"delay,omitempty"` // before it begins
	For   time.Duration `json:"for"`
	// Kernels counts those that a step launches, in one graph when there are several,
	// or one by one; 0 means 1. Kernel is the time of each alone.
	Kernels  int  `json:"kernels,omitempty"`
	OneByOne bool `json:"one_by_one,omitempty"`
	// Exchange copies a little to the GPU before each step and waits for a little
	// from it after, as a decode step does with its tokens.
	Exchange bool          `json:"exchange,omitempty"`
	Kernel   time.Duration `json:"kernel,omitempty"`
	// PerSM is the number of blocks of 256 threads for each SM; 0 means a single block of one thread.
	PerSM int           `json:"per_sm,omitempty"`
	Pause time.Duration `json:"pause,omitempty"` // between pulses, or after each step
	Bytes int64         `json:"bytes,omitempty"` // of a copy, or that a kernel reads
}

// Interval is a stretch of time on the GPU's clock, which all processes share.
type Interval struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// Length is its duration.
func (i Interval) Length() time.Duration { return i.To - i.From }

// Reading holds the recordings of one task.
type Reading struct {
	Span   Interval        `json:"span"`             // of a spin: its first and last look at the clock
	Off    []Interval      `json:"off,omitempty"`    // of a spin: when it was off the GPU for more than 5 us
	Pulses []Interval      `json:"pulses,omitempty"` // when it ran
	Steps  []time.Duration `json:"steps,omitempty"`  // of steps and copies, on the host's clock from launch to end
	Bytes  int64           `json:"bytes,omitempty"`  // in each step
}

// Info describes a GPU before it is probed.
type Info struct {
	GPU    string        `json:"gpu"` // product name, as CUDA has it
	UUID   string        `json:"uuid,omitempty"`
	Driver string        `json:"driver,omitempty"` // "" is unknown
	SMs    int           `json:"sms"`
	Memory sharing.Bytes `json:"memory"`
	Free   sharing.Bytes `json:"free"`
	// Exclusive is true where the compute mode admits one process only.
	Exclusive bool `json:"exclusive,omitempty"`
	// Others are other processes that hold the GPU, as far as somebody can tell.
	Others []string `json:"others,omitempty"`
}

// Site is a GPU that can be probed.
type Site interface {
	// Basis is BasisMeasured, or BasisSimulated of a simulation.
	Basis() sharing.Basis
	// Info checks that the GPU can be used and describes it.
	Info(ctx context.Context) (Info, error)
	// Run runs tasks at once, each in a process of its own: MechanismTimeSlicing, or MechanismMPS as clients of a
	// daemon of the site's own. The readings are in the order of the tasks.
	Run(ctx context.Context, m sharing.Mechanism, tasks ...Task) ([]Reading, error)
	// SMs returns how many SMs an MPS client sees at each active thread percentage.
	SMs(ctx context.Context, percent []float64) ([]int, error)
}
