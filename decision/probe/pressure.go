package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// MostPressed bounds the time in which a tenant is measured next to the reporter and the stress kernels, and MostSlower
// how many times longer these may make its step before no longer ones are tried.
const (
	MostPressed = 12 * time.Second
	MostSlower  = 8.0
)

// Pressed is a tenant beside which tasks can be run under MPS. Run runs a task with the tenant at work beside it or
// with nobody, and returns its reading; beside, it returns the median of the tenant's step as well, 0 where none
// ended. A task of KindNone has the tenant work alone for the time.
type Pressed interface {
	Run(ctx context.Context, t Task, beside bool) (Reading, time.Duration, error)
}

// The reporter launches tiny kernels this often. Its launches and the press go on for this long, some steps of the
// tenant at least.
const (
	reporterPause = 150 * time.Microsecond
	reportFor     = 700 * time.Millisecond
	reportAlone   = 250 * time.Millisecond
	pressFor      = 700 * time.Millisecond
	pressSteps    = 8
	tinyKernel    = 2 * time.Microsecond
)

// reporters are the launches whose waits are measured: of one block, of a block for each SM, and longer ones of these.
func reporters(d time.Duration) []Task {
	var out []Task
	for _, r := range []struct {
		perSM  int
		kernel time.Duration
	}{{0, tinyKernel}, {1, tinyKernel}, {1, 20 * time.Microsecond}, {1, 100 * time.Microsecond}} {
		out = append(out, Task{Kind: KindCompute, Kernels: 1, PerSM: r.perSM, Kernel: r.kernel, Pause: reporterPause, For: d})
	}
	return out
}

// presses are the kernels back to back next to which the tenant's step is measured, by weight: some milliseconds of
// them in each graph.
func presses(d time.Duration) []Task {
	var out []Task
	for _, kernel := range []time.Duration{2, 5, 10, 30, 100} {
		kernel *= time.Microsecond
		out = append(out, Task{Kind: KindCompute, Kernels: int(3 * time.Millisecond / kernel), Kernel: kernel, PerSM: 8,
			For: d})
	}
	return append(out, reads(d))
}

// MeasurePressure measures a tenant beside the reporter and the press, in MostPressed at most. What cannot be measured
// is left out and stands in the error; what was measured comes with it. progress is told before each part what is
// done, and may be nil. Never measure beside what others use: the tenant is slowed by up to MostSlower times, and so
// is whoever else holds the GPU.
func MeasurePressure(ctx context.Context, tenant Pressed, progress func(string)) (*profile.Pressure, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, MostPressed, fmt.Errorf("probe: a tenant is measured for %v at most",
		MostPressed))
	defer cancel()
	if progress == nil {
		progress = func(string) {}
	}
	began := time.Now()
	p := &profile.Pressure{}
	took := func() { p.Seconds = time.Since(began).Seconds() }
	defer took()
	var errs []error
	lone := make([]Reading, len(reporters(0)))
	for i, t := range reporters(reportAlone) {
		r, _, err := tenant.Run(ctx, t, false)
		if err != nil {
			return p, fmt.Errorf("the reporter alone: %w", err)
		}
		lone[i] = r
	}
	_, step, err := tenant.Run(ctx, Task{For: reportFor}, true)
	if err == nil && step <= 0 {
		err = errors.New("no step ended")
	}
	if err != nil {
		return p, fmt.Errorf("the tenant alone: %w", err)
	}
	p.StepMS = millis(step)
	progress("launches of the reporter")
	for i, t := range reporters(reportFor) {
		r, slowed, err := tenant.Run(ctx, t, true)
		if err == nil && (len(r.Steps) < 5 || len(lone[i].Steps) < 5) {
			err = fmt.Errorf("only %d launches ended", len(r.Steps))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the reporter, %d kernels of %v: %w", t.Kernels, t.Kernel, err))
			continue
		}
		p.Waits = append(p.Waits, profile.Wait{Kernels: t.Kernels, Wide: t.PerSM > 0, KernelUS: micros(t.Kernel),
			AloneUS: micros(middle(lone[i].Steps)), BesideUS: micros(middle(r.Steps)),
			AloneMeanUS: micros(mean(lone[i].Steps)), BesideMeanUS: micros(mean(r.Steps)),
			StepMS: millis(slowed)})
	}
	slower := 1.0
	for _, t := range presses(max(pressFor, time.Duration(pressSteps*float64(step)))) {
		if slower > MostSlower && t.Kind != KindStream {
			continue
		}
		what := fmt.Sprintf("kernels of %v back to back", t.Kernel)
		if t.Kind == KindStream {
			what = "kernels that read back to back"
		}
		progress(what)
		r, pressed, err := tenant.Run(ctx, t, true)
		if err == nil && (pressed <= 0 || len(r.Steps) == 0) {
			err = errors.New("no step ended")
			slower = MostSlower + 1 // nor would one beside longer kernels
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			continue
		}
		q := profile.Press{KernelUS: micros(t.Kernel), StepMS: millis(pressed)}
		if q.Reads = t.Kind == KindStream; q.Reads {
			q.GBPerS = rate(r.Bytes)(mean(r.Steps))
			q.KernelUS = micros(middle(r.Steps)) / float64(t.Kernels)
		} else {
			slower = float64(pressed) / float64(step)
		}
		p.Presses = append(p.Presses, q)
	}
	return p, errors.Join(errs...)
}
