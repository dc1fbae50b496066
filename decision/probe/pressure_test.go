// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/internal/must"
)

// tenant has a step of 2 ms that grows with co-located kernels, and delays their launches by 10 µs.
type tenant struct{}

func (tenant) Run(ctx context.Context, t probe.Task, coLocated bool) (r probe.Reading, step time.Duration, err error) {
	if ctx.Err() != nil {
		return r, 0, context.Cause(ctx)
	}
	took, step := t.Kernel+4*time.Microsecond, 2*time.Millisecond
	if coLocated {
		took, step = took+10*time.Microsecond, step+20*t.Kernel
	}
	return probe.Reading{Steps: slices.Repeat([]time.Duration{took}, 10), Bytes: t.Bytes}, step, nil
}

// A tenant's launches and stress kernels are measured in the order of their lengths.
func TestPressure(t *testing.T) {
	t.Parallel()
	p := must.Get(probe.MeasurePressure(t.Context(), tenant{}, nil))(t)
	wait := profile.Wait{Kernels: 1, KernelUS: 2, IsolatedUS: 6, CoLocatedUS: 16, IsolatedMeanUS: 6, CoLocatedMeanUS: 16, StepMS: 2.04}
	if len(p.Waits) != 4 || p.Waits[0] != wait || p.Waits[1].Wide != true || p.Waits[3].KernelUS != 100 || p.StepMS != 2 {
		t.Errorf("%+v", p)
	}
	if n := len(p.Stresses); n != 6 || p.Stresses[0] != (profile.Stress{KernelUS: 2, StepMS: 2.04}) || p.Stresses[4].StepMS != 4 ||
		!p.Stresses[5].Reads || p.Stresses[5].GBPerS == 0 {
		t.Errorf("%+v", p.Stresses)
	}
}

// stubborn is a tenant whose tasks fail or that does no steps.
type stubborn struct {
	tenant
	fails error
	kind  probe.Kind
	idle  bool
}

func (s *stubborn) Run(ctx context.Context, t probe.Task, coLocated bool) (probe.Reading, time.Duration, error) {
	if s.fails != nil && t.Kind == s.kind {
		return probe.Reading{}, 0, s.fails
	}
	r, step, err := s.tenant.Run(ctx, t, coLocated)
	if s.idle {
		step = 0
	}
	return r, step, err
}

// A part that cannot be measured is an error, and the rest is kept.
func TestPressureThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	p, err := probe.MeasurePressure(t.Context(), &stubborn{fails: errors.New("no memory"), kind: probe.KindStream}, nil)
	if err == nil || !strings.Contains(err.Error(), "back to back: no memory") || len(p.Stresses) == 0 || len(p.Waits) != 4 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = probe.MeasurePressure(t.Context(), &stubborn{idle: true}, nil)
	if err == nil || !strings.Contains(err.Error(), "the isolated tenant: no step ended") || len(p.Waits) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := probe.MeasurePressure(ctx, tenant{}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// slowTenant takes its time for each part.
type slowTenant struct {
	tenant
	takes time.Duration
}

func (s *slowTenant) Run(ctx context.Context, t probe.Task, coLocated bool) (probe.Reading, time.Duration, error) {
	if coLocated {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
		}
	}
	return s.tenant.Run(ctx, t, coLocated)
}

// A tenant that is too slow for all parts has the most important ones, and one reason for the rest.
func TestPressureOfSlowTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := probe.MeasurePressure(t.Context(), &slowTenant{takes: 2100 * time.Millisecond}, nil)
		if err == nil || !strings.Contains(err.Error(), "no time was left in 12s for kernels of 5µs back to back, kernels that read") {
			t.Errorf("err = %v", err)
		}
		if len(p.Waits) != 2 || !p.Waits[1].Wide || p.Waits[1].KernelUS != 20 || len(p.Stresses) != 2 || p.Stresses[1].KernelUS != 30 || p.Seconds > 12.1 {
			t.Errorf("%+v", p)
		}
	})
}
