package mps

import (
	"errors"
	"math"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

func TestMeasuredSMPoints(t *testing.T) {
	n := 0
	for total, p := range smPoints {
		for pct, sms := range p.sms {
			got, err := SMs(total, pct)
			if want := (SMEstimate{sms, sharing.BasisMeasured, p.source}); err != nil || got != want {
				t.Errorf("%v%% of %d: %+v, %v; want %+v", pct, total, got, err, want)
			}
			n++
		}
	}
	if n != 33 {
		t.Errorf("%d points", n)
	}
}

func TestSMBasis(t *testing.T) {
	for _, c := range []struct {
		total int
		pct   float64
		want  SMEstimate
	}{
		{132, 50, SMEstimate{66, sharing.BasisMeasured, "cotenant-h200-mps"}},
		{132, 51, SMEstimate{66, sharing.BasisDerived, "cotenant-h200-mps"}},
		{188, 51, SMEstimate{94, sharing.BasisDerived, "dynamo-mps-limits"}},
		{108, 50, SMEstimate{54, sharing.BasisInferred, ""}},
		{6, 10, SMEstimate{6, sharing.BasisInferred, ""}},
	} {
		if got, err := SMs(c.total, c.pct); err != nil || got != c.want {
			t.Errorf("%d at %v%%: %+v, %v; want %+v", c.total, c.pct, got, err, c.want)
		}
	}
}

func TestBadPercentages(t *testing.T) {
	for _, pct := range []float64{0, -1, 100.1, math.NaN(), math.Inf(1), 1e-9} {
		if e, err := SMs(132, pct); !errors.Is(err, ErrInvalid) || e != (SMEstimate{}) {
			t.Errorf("%v: %+v, %v", pct, e, err)
		}
	}
	if _, err := SMs(0, 50); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestMemoryAdvice(t *testing.T) {
	const g = sharing.GiB
	for _, c := range []struct {
		f     ServingFramework
		limit sharing.Bytes
		want  float64
	}{
		{ServingVLLM, 56 * g, 0.65}, {ServingTGI, 40 * g, 0.46}, {ServingSGLang, 56 * g, 0.85}, {ServingVLLM, 4 * g, 0.04},
	} {
		a, err := MemoryFraction(c.f, c.limit, 80*g)
		if err != nil || a != c.want {
			t.Errorf("%v with %v: %+v, %v", c.f, c.limit, a, err)
		}
	}
	for _, limit := range []sharing.Bytes{0, -1, 81 * g, 1, sharing.MiB} {
		if a, err := MemoryFraction(ServingVLLM, limit, 80*g); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %+v, %v", limit, a, err)
		}
	}
	if l, err := LimitPerProcess(10*g, 3); err != nil || l != 3413*sharing.MiB {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := LimitPerProcess(5*g, -2); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}
