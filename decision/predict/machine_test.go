// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

func gpuNamed(t *testing.T, name string) *sharing.GPU {
	t.Helper()
	g := must.Get(sharing.LookupGPU(name))(t)
	return g
}

// An 8B server of 16 bits, 1000 tokens in and 11 out, by hand.
func TestFloor(t *testing.T) {
	l := Least{Weights: 16e9, KV: 1e9, Prompt: 2 * 8e9 * 1000, Width: 2, Output: 11}
	m := Machine{Bandwidth: 1e12, FLOPs: 100e12}
	prompt := 16e12 / (100e12 * boost)
	is := func(name string, sms, bandwidth, ttft, tpot float64) {
		t.Helper()
		got := m.Floor(Share{SMs: sms, Bandwidth: bandwidth}, l)
		for k, want := range [LatencyCount]float64{ttft, tpot, ttft + 10*tpot} {
			if math.Abs(got[k]-want) > 1e-12 {
				t.Errorf("%s: %s %v, want %v", name, LatencyName(k), got[k], want)
			}
		}
	}
	is("the whole GPU", 1, 1, prompt, 17e-3)
	is("a slice", 0.5, 0.125, 2*prompt, 8*17e-3)
	l.Width = 1
	is("8 bits", 1, 1, prompt/2, 17e-3)
	if got := (Machine{}).Floor(Share{SMs: 1, Bandwidth: 1}, l); got != [LatencyCount]float64{} {
		t.Errorf("a machine of which nothing is known: %v", got)
	}
	l.Width, l.Prompt = 0.5, 1e15
	if h100, b200 := MachineOf(gpuNamed(t, "H100-80GB")), MachineOf(gpuNamed(t, "B200")); h100.Rate(0.5) != 2*h100.FLOPs || b200.Rate(0.5) != 4*b200.FLOPs {
		t.Errorf("Hopper has no 4-bit rate, Blackwell has: %v, %v", h100.Rate(0.5)/h100.FLOPs, b200.Rate(0.5)/b200.FLOPs)
	}
}
