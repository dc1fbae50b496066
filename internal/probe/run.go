// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// Options configure [Run]. The zero value is a whole probe.
type Options struct {
	// Progress is called before each stage; nil is none.
	Progress func(what string, doneFraction float64)
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
