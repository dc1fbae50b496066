// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// Names of measurements. Those of the first block are parameters of predict.Predictor, with the same meaning.
const (
	quantumKey   = "quantum"        // ms
	switchKey    = "switch"         // ms
	sliceLoss    = "slice_loss"     // ms, of work that reads memory
	loneStepCost = "lone_step_cost" // ms, of a step of 256 kernels

	kernelLaunch   = "kernel_launch"    // us for each kernel of next to no work that is launched by itself
	mpsLaunchCost  = "mps_launch_cost"  // us that MPS adds to each
	dramRead       = "dram_read"        // GB/s
	dramReadMPS    = "dram_read_mps"    // of a lone MPS client
	dramReadShared = "dram_read_shared" // of two MPS clients together

	// Slowdowns under MPS: of a step of short kernels by neighbours of four kinds, and of theirs by it.
	shortBesideThread = "short_beside_one_thread"
	threadBesideShort = "one_thread_beside_short"
	shortBesideLong   = "short_beside_long_kernels"
	longBesideShort   = "long_kernels_beside_short"
	shortBesideFull   = "short_beside_compute_bound"
	fullBesideShort   = "compute_bound_beside_short"
	shortBesideRead   = "short_beside_bandwidth_bound"
	readBesideShort   = "bandwidth_bound_beside_short"
)

const (
	shortKernel      = 6 * time.Microsecond
	shortKernels     = 256 // in a step
	pairFor          = 800 * time.Millisecond
	loneFor          = 400 * time.Millisecond
	neighbourBefore  = 150 * time.Millisecond // that a neighbour starts early
	neighbourAfter   = 150 * time.Millisecond // that a neighbour ends late
	leastMemory      = 1 << 30                // bytes free
	suspiciousShare  = 0.002                  // of a lone process's time off the GPU
	suspiciousMisfit = 0.03                   // between 2 and 4 processes' quantum and switch
)

// Options configure [Run]. The zero value is a whole probe.
type Options struct {
	// Progress is called before each stage; nil is none.
	Progress func(what string, doneFraction float64)
}

// run is a probe under way.
type run struct {
	Result
	site Site
	opts Options
	// What steps of kinds of work take alone, without MPS and with it; 0 is not measured.
	exchange, launches, shortMPS time.Duration
}

// stage is a part of a probe, with the names of its measurements.
type stage struct {
	what     string
	measures []string
	do       func(ctx context.Context) error
}

// Run probes the site's GPU. It returns an error where nothing could be measured, where another process runs on the GPU
// (ErrStranger), or when ctx ends; a result that comes with it holds the measurements until then. NotMeasured lists the
// others, with reasons.
func Run(ctx context.Context, site Site, opts Options) (*Result, error) {
	r := &run{site: site, opts: opts}
	began := time.Now()
	r.Basis = site.Basis()
	var err error
	if r.Info, err = site.Info(ctx); err != nil {
		return nil, err
	}
	if r.Info.Free > 0 && r.Info.Free < leastMemory {
		return nil, fmt.Errorf("probe: %.0f MiB of the GPU's memory are free and %v are needed: stop what holds it",
			float64(r.Info.Free)/float64(sharing.MiB), sharing.Bytes(leastMemory))
	}
	for _, o := range r.Info.Others {
		r.Warnings = append(r.Warnings, o+" holds the GPU too: what it does is part of what was measured")
	}
	all := r.stages()
	err = r.do(ctx, all)
	r.Took = time.Since(began)
	for _, s := range all {
		r.failed(s, "the probe ended before")
	}
	if err == nil && len(r.Measured) == 0 {
		err = fmt.Errorf("probe: nothing could be measured: %s", r.NotMeasured[0].Why)
	}
	return &r.Result, err
}

// stages lists the stages in order.
func (r *run) stages() []stage {
	return []stage{
		{"a lone process and memory", []string{kernelLaunch, dramRead}, r.lone},
		{"turns of 2 and 4 processes", []string{quantumKey, switchKey}, r.turns},
		{"work over many slices", []string{sliceLoss}, r.resumed},
		{"MPS: a lone client", []string{loneStepCost, mpsLaunchCost}, r.loneClient},
		{"MPS: short kernels beside one busy thread", []string{shortBesideThread, threadBesideShort},
			r.pair(oneThread, shortBesideThread, threadBesideShort)},
		{"MPS: short kernels beside long ones", []string{shortBesideLong, longBesideShort},
			r.pair(longKernels, shortBesideLong, longBesideShort)},
		{"MPS: short kernels beside a full GPU", []string{shortBesideFull, fullBesideShort},
			r.pair(fullKernels, shortBesideFull, fullBesideShort)},
		{"MPS: short kernels beside reading", []string{shortBesideRead, readBesideShort},
			r.pair(reads, shortBesideRead, readBesideShort)},
		{"MPS: one that reads, and two", []string{dramReadMPS, dramReadShared}, r.readShared},
		{"whether somebody came meanwhile", nil, r.lookAgain},
	}
}

// failed notes the reason for each measurement of a stage that has no result and no reason yet.
func (r *run) failed(s stage, why string) {
	for _, name := range s.measures {
		_, known := r.Get(name)
		if !known && !slices.ContainsFunc(r.NotMeasured, func(n NotMeasured) bool { return n.Name == name }) {
			r.NotMeasured = append(r.NotMeasured, NotMeasured{name, why})
		}
	}
}

// do runs stages until one finds another process on the GPU or ctx ends.
func (r *run) do(ctx context.Context, all []stage) error {
	for i, s := range all {
		if opts := r.opts; opts.Progress != nil {
			opts.Progress(s.what, float64(i)/float64(len(all)))
		}
		err := s.do(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("probe: interrupted: %w", context.Cause(ctx))
		}
		if err == nil {
			continue
		}
		if r.failed(s, reasons(err)); errors.Is(err, ErrStranger) {
			return err
		}
	}
	return nil
}

// reasons joins an error's lines, each once: several processes often fail for the same reason.
func reasons(err error) string {
	var out []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "; ")
}

// Steps of several kinds of work. Kernels that fill the GPU have 2,048 threads an SM.
func shortSteps(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: shortKernels, Kernel: shortKernel, PerSM: 1, For: d}
}
func exchangeSteps(d time.Duration) Task {
	t := shortSteps(d)
	t.Exchange = true
	return t
}
func launchSteps(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: shortKernels, OneByOne: true, Kernel: time.Microsecond, For: d}
}
func oneThread(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: 4, Kernel: time.Millisecond, For: d}
}
func longKernels(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: 4, Kernel: time.Millisecond, PerSM: 8, For: d}
}
func fullKernels(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: 160, Kernel: 25 * time.Microsecond, PerSM: 8, For: d}
}
func reads(d time.Duration) Task {
	return Task{Kind: KindStream, Kernels: 40, Bytes: 256 << 20, PerSM: 8, For: d}
}

// lone checks for other processes, and takes the measurements without a neighbour.
func (r *run) lone(ctx context.Context) error {
	if err := r.lookAround(ctx, sharing.MechanismTimeSlicing); err != nil {
		return err
	}
	for _, t := range []struct {
		Task
		to *time.Duration
	}{{exchangeSteps(loneFor), &r.exchange}, {launchSteps(loneFor), &r.launches}} {
		steps, err := r.steps(ctx, sharing.MechanismTimeSlicing, t.Task)
		if err != nil {
			return err
		}
		if *t.to = middle(steps); t.OneByOne {
			r.measure(kernelLaunch, "us", steps, eachLaunch,
				fmt.Sprintf("%d kernels of next to no work, launched one by one, for each", shortKernels))
		}
	}
	readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, reads(loneFor))
	if err != nil {
		return err
	}
	r.measure(dramRead, "GB/s", readings[0].Steps, rate(readings[0].Bytes), "kernels that read 256 MiB each")
	return nil
}

// ErrStranger reports another process on the GPU while the probe ran.
var ErrStranger = errors.New("probe: another process ran on the GPU")

// lookAround spins alone: whoever else runs shows as time off the GPU.
func (r *run) lookAround(ctx context.Context, m sharing.Mechanism) error {
	readings, err := r.site.Run(ctx, m, Task{Kind: KindSpin, For: loneFor})
	if err != nil {
		return err
	}
	if share, n := away(readings[0]); share > suspiciousShare {
		return fmt.Errorf("%w: a lone process was off it %d times, %.1f%% of its time; stop the other and probe again",
			ErrStranger, n, 100*share)
	}
	return nil
}

// lookAgain looks once more when all has been measured. Whoever came after the
// turns were measured is a warning: those figures are good.
func (r *run) lookAgain(ctx context.Context) error {
	m := sharing.MechanismMPS
	if r.shortMPS == 0 {
		m = sharing.MechanismTimeSlicing
	}
	if err := r.lookAround(ctx, m); err != nil {
		r.Warnings = append(r.Warnings, "who is on the GPU at the end: "+reasons(err)+" (what was measured last holds "+
			"its work)")
	}
	return nil
}

// steps runs one isolated task and returns the durations of its steps.
func (r *run) steps(ctx context.Context, m sharing.Mechanism, t Task) ([]time.Duration, error) {
	readings, err := r.site.Run(ctx, m, t)
	if err != nil {
		return nil, err
	}
	if len(readings[0].Steps) < 5 {
		return nil, fmt.Errorf("only %d steps ended in %v", len(readings[0].Steps), t.For)
	}
	return readings[0].Steps, nil
}

// measure keeps the median of observations, of which there is at least one.
func (r *run) measure(name, unit string, d []time.Duration, in func(time.Duration) float64, what string) {
	r.measureAs(name, unit, in(middle(d)), d, in, what)
}

func (r *run) measureAs(name, unit string, value float64, d []time.Duration, in func(time.Duration) float64,
	what string) {
	s := slices.Sorted(slices.Values(d))
	low, high := in(stats.NearestRank(s, .1)), in(stats.NearestRank(s, .9))
	r.Measured = append(r.Measured, Measurement{name, value, unit, min(low, high, value), max(low, high, value), len(s),
		what})
}

func middle(d []time.Duration) time.Duration {
	return stats.NearestRank(slices.Sorted(slices.Values(d)), .5)
}

// mean is that of durations, of which there is at least one.
func mean(d []time.Duration) time.Duration {
	var sum time.Duration
	for _, one := range d {
		sum += one
	}
	return sum / time.Duration(len(d))
}

func eachLaunch(d time.Duration) float64 { return micros(d) / shortKernels }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// rate turns the time for a number of bytes into GB/s.
func rate(bytes int64) func(time.Duration) float64 {
	return func(d time.Duration) float64 { return float64(bytes) / float64(d) }
}
