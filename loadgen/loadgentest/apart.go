// SPDX-License-Identifier: Apache-2.0

package loadgentest

import (
	"slices"
	"time"
)

// apart is a Device with independent contexts: each has a GPU, or a part of one, to itself.
type apart struct {
	contexts  []*gpuContext
	now, busy time.Duration
}

// gpuContext is a context on the GPU with a kernel that ends at a time, if it runs one.
type gpuContext struct {
	next func() (Kernel, bool)
	ends time.Duration
	runs bool
}

func (d *apart) Attach(next func() (Kernel, bool)) (detach func()) {
	c := &gpuContext{next: next}
	d.contexts = append(d.contexts, c)
	return func() { d.contexts = slices.DeleteFunc(d.contexts, func(o *gpuContext) bool { return o == c }) }
}

func (d *apart) Advance(to time.Duration) (next time.Duration, ok bool) {
	for to = max(to, d.now); ; {
		next, ok = 0, false
		for _, c := range d.contexts {
			if c.runs && (!ok || c.ends < next) {
				next, ok = c.ends, true
			}
		}
		at := to
		if ok {
			at = max(d.now, min(next, to))
			d.busy += at - d.now
		}
		if d.now = at; d.now == to && (!ok || next > to) && !d.ask(true) {
			return next, ok
		}
		d.ask(false)
	}
}

// ask fetches the next kernel of contexts with an ended kernel, or of idle ones, and reports whether any has one.
func (d *apart) ask(idle bool) (more bool) {
	for _, c := range d.contexts {
		if c.runs == idle || c.runs && c.ends > d.now {
			continue
		}
		k, ok := c.next()
		c.runs, c.ends = ok, d.now+k.Gap+k.Length
		more = more || ok
	}
	return more
}

func (d *apart) Busy() time.Duration { return d.busy }

// Kernel is a piece of GPU work of a model.
type Kernel struct {
	// Gap is the host's time between the end of the previous kernel and the launch of this one.
	Gap, Length time.Duration // Length is its isolated run time
	// SMs and Bandwidth are the fractions of the GPU that it uses while it runs; Hold and SMShare are the Model's.
	SMs, Bandwidth, Hold, SMShare float64
	Prefill                       bool // part of a prompt's prefill
}

// Device is a GPU as a discrete-event simulation without a clock of its own. Times count from its start. It is called
// from one goroutine at a time.
type Device interface {
	// Attach adds a context. next returns its kernels one after another, and false while there is none. The returned
	// function removes the context.
	Attach(next func() (Kernel, bool)) (detach func())
	// Advance moves the clock to the time to, asks contexts without a kernel again, and returns the time of the next
	// event, at which to call it again; ok is false if there is none.
	Advance(to time.Duration) (next time.Duration, ok bool)
	// Busy is the total time so far with any kernel running.
	Busy() time.Duration
}
