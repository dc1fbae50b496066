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

// Options configure [Run]. The zero value probes everything.
type Options struct {
	// Progress, if not nil, is called before each stage.
	Progress func(what string, doneFraction float64)
}

// stage is a part of a probe, with the names of its measurements.
type stage struct {
	what     string
	measures []string
	do       func(ctx context.Context) error
}

// Run probes the site's GPU. It returns an error if nothing could be measured, if another process runs on the GPU
// (ErrStranger), or if ctx ends; a result that comes with it holds the measurements so far. NotMeasured lists the
// others, with reasons.
func Run(ctx context.Context, site Site, opts Options) (*Result, error) {
	r := &run{site: site}
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
	err = r.do(ctx, all, opts)
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
		{"time slices of 2 and 4 processes", []string{quantumKey, switchKey}, r.timeSlices},
		{"work over many slices", []string{sliceLoss}, r.resumed},
		{"MPS: a lone client", []string{loneStepCost}, r.loneClient},
		{"other processes at the end", nil, r.checkAgain},
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
func (r *run) do(ctx context.Context, all []stage, opts Options) error {
	for i, s := range all {
		if opts.Progress != nil {
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

const (
	shortKernel  = 6 * time.Microsecond
	shortKernels = 256 // in a step
	isolatedFor  = 400 * time.Millisecond
	leastMemory  = 1 << 30 // bytes free
	// strangersGap is the shortest gap of a lone process that counts as another's work: two switches take 300 us.
	strangersGap     = 100 * time.Microsecond
	suspiciousShare  = 0.002 // of a lone process's time off the GPU
	suspiciousMisfit = 0.03  // between 2 and 4 processes' quantum and switch
)

// run is a probe under way.
type run struct {
	Result
	site Site
	mps  bool // tasks ran as clients of MPS
}

// exchangeSteps are steps of short kernels in one graph, between two small copies.
func exchangeSteps() Task {
	return Task{Kind: KindCompute, Kernels: shortKernels, Kernel: shortKernel, PerSM: 1, Exchange: true, For: isolatedFor}
}

// reads are steps of kernels that read memory and fill the GPU, which takes 2,048 threads an SM.
func reads(d time.Duration) Task {
	return Task{Kind: KindStream, Kernels: 40, Bytes: 256 << 20, PerSM: 8, For: d}
}

// loneClient runs the same steps without MPS and as the only client of a daemon.
func (r *run) loneClient(ctx context.Context) error {
	plain, err := r.steps(ctx, sharing.MechanismTimeSlicing, exchangeSteps())
	if err != nil {
		return err
	}
	steps, err := r.steps(ctx, sharing.MechanismMPS, exchangeSteps())
	if err != nil {
		return err
	}
	r.mps = true
	added := func(d time.Duration) float64 { return millis(d - middle(plain)) }
	r.measure(loneStepCost, "ms", added(middle(steps)), steps, added,
		fmt.Sprintf("what MPS adds to a lone client's step of %d short kernels in one graph, between two small copies",
			shortKernels))
	return nil
}

// ErrStranger reports that another process ran on the GPU during the probe.
var ErrStranger = errors.New("probe: another process ran on the GPU")

// away is the share of a lone spinning process's time in which it was off the GPU, and how often: another had it.
func away(r Reading) (share float64, times int) {
	var sum time.Duration
	for _, gap := range r.Off {
		if gap.length() > strangersGap {
			sum += gap.length()
			times++
		}
	}
	if r.Span.length() <= 0 {
		return 0, 0
	}
	return float64(sum) / float64(r.Span.length()), times
}

// checkOthers spins on the GPU: another process that runs there shows as time off it.
func (r *run) checkOthers(ctx context.Context, m sharing.Mechanism) error {
	readings, err := r.site.Run(ctx, m, Task{Kind: KindSpin, For: isolatedFor})
	if err != nil {
		return err
	}
	if share, n := away(readings[0]); share > suspiciousShare {
		return fmt.Errorf("%w: a lone process was off it %d times, %.1f%% of its time; stop the other and probe again",
			ErrStranger, n, 100*share)
	}
	return nil
}

// checkAgain checks once more at the end. A process that came after the time slices were measured is a warning: those
// figures are good.
func (r *run) checkAgain(ctx context.Context) error {
	m := sharing.MechanismMPS
	if !r.mps {
		m = sharing.MechanismTimeSlicing
	}
	if err := r.checkOthers(ctx, m); err != nil {
		r.Warnings = append(r.Warnings, "other processes at the end: "+reasons(err)+" (what was measured last holds "+
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

// measure keeps a value with the range of its observations, of which there is at least one.
func (r *run) measure(name, unit string, value float64, d []time.Duration, in func(time.Duration) float64,
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

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// rate turns the time for a number of bytes into GB/s.
func rate(bytes int64) func(time.Duration) float64 {
	return func(d time.Duration) float64 { return float64(bytes) / float64(d) }
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
