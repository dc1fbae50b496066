// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"errors"
	"math"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

func TestBadPercentages(t *testing.T) {
	for _, pct := range []float64{0, -1, 100.1, math.NaN(), math.Inf(1), 1e-9} {
		if n, err := SMs(132, pct); !errors.Is(err, ErrInvalid) || n != 0 {
			t.Errorf("%v: %d, %v", pct, n, err)
		}
	}
	if _, err := SMs(0, 50); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if n, err := SMs(6, 10); n != 6 || err != nil {
		t.Errorf("of 6 at 10%%: %d, %v", n, err)
	}
}

func TestMemoryAdvice(t *testing.T) {
	const g = sharing.GiB
	for _, c := range []struct {
		f     string
		limit sharing.Bytes
		want  float64
	}{
		{"vllm", 56 * g, 0.65}, {"tgi", 40 * g, 0.46}, {"sglang", 56 * g, 0.85}, {"vllm", 4 * g, 0.04},
	} {
		a, err := MemoryFraction(c.f, c.limit, 80*g)
		if err != nil || a != c.want {
			t.Errorf("%v with %v: %+v, %v", c.f, c.limit, a, err)
		}
	}
	for _, limit := range []sharing.Bytes{0, -1, 81 * g, 1, sharing.MiB} {
		if a, err := MemoryFraction("vllm", limit, 80*g); !errors.Is(err, ErrInvalid) {
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
