package probe_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/probe"
)

// A chain of small kernels is pressed link by link; long kernels that fill the GPU press, and are hardly pressed.
func TestPressureOfSimulatedTenants(t *testing.T) {
	t.Parallel()
	measured := map[string]*profile.Pressure{}
	for name, tenant := range map[string]*probe.SimulatedTenant{
		"chain": {Kernels: 500, Kernel: 4 * time.Microsecond, SMs: 0.3},
		"fft":   {Kernels: 7, Kernel: 80 * time.Microsecond, SMs: 1},
		"half":  {Kernels: 7, Kernel: 80 * time.Microsecond, SMs: 0.5},
	} {
		p, err := probe.MeasurePressure(t.Context(), tenant, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(p.Waits) != 4 || len(p.Presses) < 3 {
			t.Errorf("%s: %+v", name, p)
		}
		measured[name] = p
	}
	if l := measured["chain"].Links(); math.Abs(l/500-1) > 0.15 {
		t.Errorf("a chain of 500 kernels shows %v links", l)
	}
	if l := measured["fft"].Links(); l > 15 {
		t.Errorf("seven kernels show %v links", l)
	}
	wide := func(name string) float64 { return measured[name].Waits[1].LinkUS() }
	if fft := wide("fft"); fft < 30 || fft > 90 {
		t.Errorf("a wide launch waits %v us for kernels of 80 us that fill the GPU", fft)
	}
	if chain, fft := wide("chain"), wide("fft"); chain > fft/5 {
		t.Errorf("a wide launch waits %v us for a chain of small kernels, %v for one that fills the GPU", chain, fft)
	}
	one := func(p *profile.Pressure) float64 { return p.Waits[0].LinkUS() }
	if half, fft := one(measured["half"]), one(measured["fft"]); half > 1 || fft < 10 {
		t.Errorf("a launch of a block waits %v us where half of the SMs are free, %v where none is", half, fft)
	}
}

// stubborn is a tenant whose tasks fail or that does no steps.
type stubborn struct {
	*probe.SimulatedTenant
	fails error
	kind  probe.Kind
	idle  bool
}

func (s *stubborn) Run(ctx context.Context, t probe.Task, beside bool) (probe.Reading, time.Duration, error) {
	if s.fails != nil && t.Kind == s.kind {
		return probe.Reading{}, 0, s.fails
	}
	r, step, err := s.SimulatedTenant.Run(ctx, t, beside)
	if s.idle {
		step = 0
	}
	return r, step, err
}

// What cannot be measured is said, and the rest kept.
func TestPressureThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	tenant := &probe.SimulatedTenant{Kernels: 10, Kernel: 50 * time.Microsecond, SMs: 0.5}
	p, err := probe.MeasurePressure(t.Context(), &stubborn{tenant, errors.New("no memory"), probe.KindStream, false}, nil)
	if err == nil || !strings.Contains(err.Error(), "back to back: no memory") || len(p.Presses) == 0 || len(p.Waits) != 4 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = probe.MeasurePressure(t.Context(), &stubborn{SimulatedTenant: tenant, idle: true}, nil)
	if err == nil || !strings.Contains(err.Error(), "the tenant alone: no step ended") || len(p.Waits) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := probe.MeasurePressure(ctx, tenant, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// slowTenant takes its time for each part.
type slowTenant struct {
	probe.SimulatedTenant
	takes time.Duration
}

func (s *slowTenant) Run(ctx context.Context, t probe.Task, beside bool) (probe.Reading, time.Duration, error) {
	if beside {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
		}
	}
	return s.SimulatedTenant.Run(ctx, t, beside)
}

// A tenant that is too slow for all parts has those that tell most, and one reason for the rest.
func TestPressureOfSlowTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant := &slowTenant{probe.SimulatedTenant{Kernels: 100, Kernel: 20 * time.Microsecond, SMs: 0.6}, 2100 * time.Millisecond}
		p, err := probe.MeasurePressure(t.Context(), tenant, nil)
		if err == nil || !strings.Contains(err.Error(), "no time was left in 12s for kernels of 5µs back to back, kernels that read") {
			t.Errorf("err = %v", err)
		}
		if len(p.Waits) != 2 || !p.Waits[1].Wide || p.Waits[1].KernelUS != 20 || len(p.Presses) != 2 || p.Presses[1].KernelUS != 30 || p.Seconds > 12.1 {
			t.Errorf("%+v", p)
		}
	})
}
