// SPDX-License-Identifier: Apache-2.0

// Package simgpu provides a shared GPU for the simulated servers of package loadgentest, simulated as in package
// predict: in turn by package timeslice, or at the same time by package contention. Its figures are simulated.
// Experimental: its API may change.
package simgpu

import (
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/mps/contention"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// New returns a device with contexts that share it by a mechanism. For mechanisms without shared time or SMs it returns
// nil: each context then has a GPU, or a part of one, to itself.
func New(m sharing.Mechanism, p *predict.Parameters) loadgentest.Device {
	switch m {
	case sharing.MechanismTimeSlicing:
		return slicing{timeslice.NewGPU(p.Scheduler())}
	case sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation:
		return &contending{contention.GPU{Law: p.Law()}, p}
	}
	return nil
}

type slicing struct{ *timeslice.GPU }

func (t slicing) Attach(next func() (loadgentest.Kernel, bool)) (detach func()) {
	return t.GPU.Attach(&kernels{next: next})
}

type contending struct {
	contention.GPU
	p *predict.Parameters
}

func (c *contending) Attach(next func() (loadgentest.Kernel, bool)) (detach func()) {
	return c.GPU.Attach(&kernels{next: next, on: c})
}

// kernels are those of a context.
type kernels struct {
	next func() (loadgentest.Kernel, bool)
	last loadgentest.Kernel
	on   *contending
}

func (k *kernels) Next(now time.Duration) (w timeslice.Work, ok bool) {
	k.last, ok = k.next()
	if k.on != nil && k.last.Hold > 0 {
		k.on.BySMs = true // some say how long their kernels hold SMs
	}
	return timeslice.Work{At: now + k.last.Gap, GPU: k.last.Length}, ok
}

func (k *kernels) Demand() contention.Demand {
	if k.last.Hold > 0 {
		return contention.Demand{SMs: k.last.Hold, Filled: k.last.Hold}
	}
	d := k.on.Law.Demand(k.last.Bandwidth, k.last.SMShare)
	if k.last.Prefill {
		d.Waits *= k.on.p.PrefillWaits.Value
	}
	return d
}
