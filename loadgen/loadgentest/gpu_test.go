// SPDX-License-Identifier: Apache-2.0

package loadgentest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Contexts that don't overlap each end as if isolated, however late they are read; the GPU is busy while either is.
func TestApart(t *testing.T) {
	for _, look := range []time.Duration{time.Millisecond, 70 * time.Millisecond, time.Hour} {
		d := &apart{}
		var ends []time.Duration
		context := func(n int, length time.Duration) func() (Kernel, bool) {
			runs := false
			return func() (Kernel, bool) {
				if runs {
					ends = append(ends, d.now)
				}
				runs = n > 0
				n--
				return Kernel{Length: length}, runs
			}
		}
		d.Attach(context(2, 30*time.Millisecond))
		off := d.Attach(context(1<<30, 40*time.Millisecond))
		next, ok := d.Advance(0)
		if !ok || next != 30*time.Millisecond {
			t.Errorf("next at %v, %t", next, ok)
		}
		for at := time.Duration(0); at < 100*time.Millisecond; {
			at = min(at+look, 100*time.Millisecond)
			d.Advance(at)
		}
		off()
		d.Advance(time.Second)
		if diff := cmp.Diff([]time.Duration{30e6, 40e6, 60e6, 80e6}, ends); diff != "" || d.Busy() != 100*time.Millisecond {
			t.Errorf("looked at every %v: %s, busy for %v", look, diff, d.Busy())
		}
	}
}

// A model's kernels are as long as its shares of the GPU make them, and use as much less of it.
func TestShares(t *testing.T) {
	g := newGPU(GPUOptions{})
	defer g.close()
	for _, c := range []struct {
		model Model
		want  Kernel
	}{
		{Model{SMShare: 0.2, SMHold: 0.3}, Kernel{Length: time.Millisecond, SMs: 0.2, Bandwidth: 0.3, Hold: 0.3, SMShare: 0.2}},
		{Model{SMShare: 0.5, BandwidthShare: 0.15}, Kernel{Length: 2 * time.Millisecond, SMs: 0.1, Bandwidth: 0.15, SMShare: 0.5}},
		{Model{}, Kernel{Length: 500 * time.Microsecond, SMs: 0.4, Bandwidth: 0.6, SMShare: 1}},
	} {
		c.model.KernelCV = -1
		client := &gpuClient{gpu: g, model: c.model.withDefaults()}
		client.draw(1, 500e-6, Kernel{SMs: client.model.SMDemand})
		if diff := cmp.Diff([]Kernel{c.want}, client.kernels, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Error(diff)
		}
	}
}

func TestModelCheck(t *testing.T) {
	g := newGPU(GPUOptions{})
	defer g.close()
	for _, m := range []Model{{SMShare: 2}, {SMHold: 2}, {SMDemand: -1}, {BandwidthShare: math.NaN()}, {StepKernels: -1}, {KernelCV: math.NaN()}} {
		if _, err := NewServer(Options{GPU: g, Model: m}); !errors.Is(err, errModel) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}
