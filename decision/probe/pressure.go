// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// MostStressed bounds the time for which a tenant is measured next to the reporter and the stress kernels. MostSlower
// bounds the factor by which they may lengthen its step: beyond it no longer kernels are tried.
const (
	MostStressed = 12 * time.Second
	MostSlower   = 8.0
)

// Tenant is a tenant that can run co-located with tasks under MPS. Run runs a task, isolated or co-located with the
// tenant at work, and returns its reading and, if co-located, the median of the tenant's step, 0 if none ended. With a
// task of KindNone the tenant works isolated for the time.
type Tenant interface {
	Run(ctx context.Context, t Task, coLocated bool) (Reading, time.Duration, error)
}

// The reporter launches tiny kernels this often. Its launches and the stress kernels go on for this long, some steps of
// the tenant at least.
const (
	reporterPause  = 150 * time.Microsecond
	reportFor      = 700 * time.Millisecond
	reportIsolated = 250 * time.Millisecond
	stressFor      = 700 * time.Millisecond
	stressSteps    = 8
	tinyKernel     = 2 * time.Microsecond
)

// part is one measurement of a tenant next to a task.
type part struct {
	Task
	reports bool // a launch of the reporter; else stress kernels
}

func (p part) String() string {
	switch {
	case p.reports && p.PerSM == 0:
		return "launches of one block"
	case p.reports:
		return fmt.Sprintf("wide launches of %v", p.Kernel)
	case p.Kind == KindStream:
		return "kernels that read back to back"
	}
	return fmt.Sprintf("kernels of %v back to back", p.Kernel)
}

// parts are all measurements, the most important first, since a slow tenant leaves no time for the last: the reporter
// launches one block, or one for each SM; some milliseconds of stress kernels are in each graph.
func parts(report, stressed time.Duration) []part {
	reporter := func(perSM int, kernel time.Duration) part {
		return part{Task{Kind: KindCompute, Kernels: 1, PerSM: perSM, Kernel: kernel, Pause: reporterPause, For: report},
			true}
	}
	stress := func(kernel time.Duration) part {
		return part{Task{Kind: KindCompute, Kernels: int(3 * time.Millisecond / kernel), Kernel: kernel, PerSM: 8,
			For: stressed}, false}
	}
	const us = time.Microsecond
	return []part{reporter(1, 20*us), stress(10 * us), stress(30 * us), reporter(1, tinyKernel), stress(5 * us),
		{reads(stressed), false}, stress(100 * us), reporter(1, 100*us), reporter(0, tinyKernel), stress(2 * us)}
}

// MeasurePressure measures a tenant next to the reporter and the stress kernels, for at most MostStressed. The error
// has the reasons for missing parts, and comes with the measured ones. progress is called before each part, and may be
// nil. Do not measure on a GPU that others use: it slows the tenant, and every other holder of the GPU, by a factor of
// up to MostSlower.
func MeasurePressure(ctx context.Context, tenant Tenant, progress func(string)) (*profile.Pressure, error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, MostStressed)
	defer cancel()
	if progress == nil {
		progress = func(string) {}
	}
	began := time.Now()
	p := &profile.Pressure{}
	took := func() { p.Seconds = time.Since(began).Seconds() }
	defer took()
	isolated := map[string]Reading{}
	for _, t := range parts(reportIsolated, 0) {
		if !t.reports {
			continue
		}
		r, _, err := tenant.Run(ctx, t.Task, false)
		if err != nil {
			return p, fmt.Errorf("the isolated reporter: %w", err)
		}
		isolated[t.String()] = r
	}
	_, step, err := tenant.Run(ctx, Task{For: reportFor}, true)
	if err == nil && step <= 0 {
		err = errors.New("no step ended")
	}
	if err != nil {
		return p, fmt.Errorf("the isolated tenant: %w", err)
	}
	p.StepMS = millis(step)
	var errs []error
	var late []string
	tooLong := time.Duration(math.MaxInt64) // kernels that slow the tenant by more than MostSlower
	for _, t := range parts(reportFor, max(stressFor, time.Duration(stressSteps*float64(step)))) {
		if !t.reports && t.Kind != KindStream && t.Kernel > tooLong {
			continue
		}
		progress(t.String())
		r, slowed, err := tenant.Run(ctx, t.Task, true)
		switch {
		case err != nil && ctx.Err() != nil && whole.Err() == nil:
			late = append(late, t.String())
			continue
		case err == nil && t.reports && (len(r.Steps) < 5 || len(isolated[t.String()].Steps) < 5):
			err = fmt.Errorf("only %d launches ended", len(r.Steps))
		case err == nil && !t.reports && (slowed <= 0 || len(r.Steps) == 0):
			err = errors.New("no step ended")
			tooLong = min(tooLong, t.Kernel)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%v: %w", t, err))
		case t.reports:
			p.Waits = append(p.Waits, waitOf(t, isolated[t.String()], r, slowed))
		default:
			p.Stresses = append(p.Stresses, stressOf(t, r, slowed))
			if float64(slowed) > MostSlower*float64(step) && t.Kind != KindStream {
				tooLong = min(tooLong, t.Kernel)
			}
		}
	}
	slices.SortFunc(p.Waits, func(a, b profile.Wait) int {
		return cmp.Or(cmp.Compare(btoi(a.Wide), btoi(b.Wide)), cmp.Compare(a.KernelUS, b.KernelUS))
	})
	slices.SortFunc(p.Stresses, func(a, b profile.Stress) int {
		return cmp.Or(cmp.Compare(btoi(a.Reads), btoi(b.Reads)), cmp.Compare(a.KernelUS, b.KernelUS))
	})
	if len(late) > 0 {
		errs = append(errs, fmt.Errorf("no time was left in %v for %s", MostStressed, strings.Join(late, ", ")))
	}
	return p, errors.Join(errs...)
}

// waitOf returns the wait that the reporter's launches measured.
func waitOf(t part, isolated, r Reading, slowed time.Duration) profile.Wait {
	return profile.Wait{Kernels: t.Kernels, Wide: t.PerSM > 0, KernelUS: micros(t.Kernel),
		IsolatedUS: micros(middle(isolated.Steps)), CoLocatedUS: micros(middle(r.Steps)),
		IsolatedMeanUS: micros(mean(isolated.Steps)), CoLocatedMeanUS: micros(mean(r.Steps)), StepMS: millis(slowed)}
}

// stressOf returns the response of the tenant's step to stress kernels.
func stressOf(t part, r Reading, slowed time.Duration) profile.Stress {
	q := profile.Stress{KernelUS: micros(t.Kernel), StepMS: millis(slowed)}
	if q.Reads = t.Kind == KindStream; q.Reads {
		q.GBPerS = rate(r.Bytes)(mean(r.Steps))
		q.KernelUS = micros(middle(r.Steps)) / float64(t.Kernels)
	}
	return q
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
