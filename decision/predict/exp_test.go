// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cotenant/cotenant/internal/costs"
)

// exp gives 13 digits, and the limits of math.Exp.
func TestExp(t *testing.T) {
	for x := -110.0; x < 110; x += 0.00131 {
		if want := math.Exp(x); math.Abs(exp(x)/want-1) > 1e-13 {
			t.Fatalf("exp(%v) = %v, expected %v", x, exp(x), want)
		}
	}
	for _, x := range []float64{math.Inf(-1), math.Inf(1), -800, 800, 0} {
		if exp(x) != math.Exp(x) {
			t.Errorf("exp(%v) = %v", x, exp(x))
		}
	}
}

// What the bound of those behind leaves out decides nothing: without it, the same is added.
func TestBoundBehind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, random.Float64()) }
	left := 0
	for range 20000 {
		at := costs.Medians
		at[costs.Burstiness], at[costs.LengthSigma] = between(0.3, 4), between(0.1, 1.5)
		s := settingOf(at)
		v := Serving{PerS: between(1e-3, 30), Output: between(1, 1000)}
		d := Tenant{Serving: &v}
		st := state{stepHost: between(1e-4, 1e-2), stepGPU: between(1e-3, 0.1), preHost: between(1e-4, 0.1), preGPU: between(1e-3, 1),
			kvGPU: between(1e-6, 1e-3), grows: random.Float64(), load: v.PerS, perToken: v.PerS * v.Output, sequences: usualSequences}
		if st.converge(&d, between(1, 2)); math.IsInf(st.batch, 1) {
			continue
		}
		pre := st.preHost + st.preGPU*st.contention*between(1, 2)
		without := *s
		without.fifth = 0
		got, want := st.interrupted(&v, pre, s, &s.lengths), st.interrupted(&v, pre, &without, &s.lengths)
		if got != want {
			t.Fatalf("%+v: %v, expected %v", st, got, want)
		}
		if pre*v.PerS < s.fifth {
			left++
		}
	}
	if left < 1000 {
		t.Errorf("%d of 20000 below the bound", left)
	}
}
