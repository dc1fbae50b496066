// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
	"context"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// Work is a piece of GPU work that a tenant submits.
type Work struct {
	At  time.Duration // when it is submitted, on the simulated clock
	GPU time.Duration // its GPU time; at least 0
}

// Submitter supplies the work of one tenant. Next is called once at time 0 and then each time that the tenant's last
// work has finished, at the simulated time now; it returns the next work, or false when there will be none. An At
// before now counts as now: such work runs on in the same slice, as from a queue that is never empty. Submitters are
// called from one goroutine.
type Submitter interface {
	Next(now time.Duration) (Work, bool)
}

// Slice is an interval in which one tenant had the GPU.
type Slice struct {
	Tenant   int
	From, To time.Duration
}

// Engine simulates tenants that share a GPU by time-slicing, round robin in the order given. A tenant keeps the GPU for
// a quantum when others wait, and releases it when it runs out of work; a change of tenant costs a switch, and a tenant
// without neighbours pays nothing.
type Engine struct {
	Scheduler Scheduler
	Tenants   []Submitter
	Until     time.Duration // the end of the simulated clock, if work remains
	// Observe, if not nil, is called for each slice in order of time. A slice is cut at the end of each piece of work.
	Observe func(Slice)
}

// Run simulates until the clock reaches Until or no tenant has work left. It returns ctx's error when ctx ends first.
func (e Engine) Run(ctx context.Context) error {
	var l problem.List
	e.Scheduler.check(&l, "scheduler")
	l.If(e.Until <= 0 || e.Until > longest, "until", "", "must be positive and at most %v, is %v", longest, e.Until)
	for i, p := range e.Tenants {
		l.If(p == nil, fmt.Sprintf("tenants[%d]", i), "", "is nil")
	}
	if err := l.Err(); err != nil {
		return err
	}
	g := NewGPU(e.Scheduler)
	g.observe = e.Observe
	for _, p := range e.Tenants {
		g.Attach(p)
	}
	g.ask()
	return g.run(ctx, e.Until)
}

// GPU is the time-sliced GPU of an Engine, advanced from event to event by [GPU.Advance], with tenants that come and
// go. It is not safe for concurrent use.
type GPU struct {
	scheduler Scheduler
	observe   func(Slice)
	now       time.Duration
	last      int           // tenant with its context loaded; -1 at the start
	switching time.Duration // left of the switch to it
	sliceEnd  time.Duration
	stuck     int // pieces of work without length in a row
	tenants   []tenantState
	busy      time.Duration // in which any tenant's work ran
	err       error
}

type tenantState struct {
	Submitter
	at        time.Duration // when the current work was or will be submitted
	remaining time.Duration
	done      bool // no more work
}

// NewGPU returns a GPU without tenants.
func NewGPU(s Scheduler) *GPU { return &GPU{scheduler: s, last: -1} }

// Attach adds a tenant. The next Advance takes its first work; the function returned removes the tenant.
func (g *GPU) Attach(s Submitter) (detach func()) {
	i := len(g.tenants)
	g.tenants = append(g.tenants, tenantState{Submitter: s, done: true})
	return func() { g.tenants[i] = tenantState{done: true} }
}

// Advance moves the clock to a time since the start, asks tenants without work again, and returns the time of the next
// event; ok is false if there will be none, also after work that is out of range.
func (g *GPU) Advance(to time.Duration) (next time.Duration, ok bool) {
	if g.err == nil {
		g.err = g.run(context.Background(), to)
	}
	g.now = max(g.now, to)
	g.ask()
	if g.err != nil {
		return 0, false
	}
	next, ok = g.soonest()
	if i := g.last; i >= 0 && g.ready(i) && g.now < g.sliceEnd {
		if next = g.now + g.switching; g.switching == 0 {
			next = min(g.now+g.tenants[i].remaining, g.sliceEnd)
		}
	}
	return max(next, g.now+1), ok // work due now is done as soon as the clock runs
}

// Busy returns the total time so far with work of any tenant running.
func (g *GPU) Busy() time.Duration { return g.busy }

// ask asks tenants without work for it.
func (g *GPU) ask() {
	for i := range g.tenants {
		if t := &g.tenants[i]; t.done && t.Submitter != nil && g.err == nil {
			t.done = false
			g.err = g.fetch(i)
		}
	}
}

// run takes the GPU up to a time, or until nobody has work left.
func (g *GPU) run(ctx context.Context, until time.Duration) error {
	more, err := true, g.err
	for n := 0; more && err == nil; n++ {
		if n&4095 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		more, err = g.turn(until)
	}
	return err
}

// fetch asks tenant i for its next work.
func (g *GPU) fetch(i int) error {
	t := &g.tenants[i]
	w, ok := t.Next(g.now)
	if !ok {
		t.done = true
		return nil
	}
	if w.GPU < 0 || w.GPU > longest || w.At > 4*longest {
		return fmt.Errorf("timeslice: tenant %d submitted work of %v at %v, which is out of range", i, w.GPU, w.At)
	}
	if w.GPU == 0 && w.At <= g.now {
		if g.stuck++; g.stuck > 1<<20 {
			return fmt.Errorf("timeslice: tenant %d submits work without length for ever", i)
		}
	} else {
		g.stuck = 0
	}
	t.at, t.remaining = max(w.At, g.now), w.GPU
	return nil
}

func (g *GPU) ready(i int) bool { return !g.tenants[i].done && g.tenants[i].at <= g.now }

// next returns the first tenant after the last one, itself last, that has work; -1 when none has.
func (g *GPU) next() int {
	for k := 1; k <= len(g.tenants); k++ {
		if i := (g.last + k) % len(g.tenants); g.ready(i) {
			return i
		}
	}
	return -1
}

// soonest returns the time at which the first work that is not done is, or was, submitted; false when there is none.
func (g *GPU) soonest() (at time.Duration, ok bool) {
	for j := range g.tenants {
		if t := &g.tenants[j]; !t.done && (!ok || t.at < at) {
			at, ok = t.at, true
		}
	}
	return at, ok
}

// turn gives one tenant a slice, or the rest of it, or lets the clock run to the next submission. It returns false
// at the end.
func (g *GPU) turn(until time.Duration) (bool, error) {
	if g.now >= until {
		return false, nil
	}
	if g.last < 0 || g.now >= g.sliceEnd {
		i := g.next()
		if i < 0 {
			at, ok := g.soonest()
			if ok {
				g.now = min(at, until)
			}
			return ok, nil
		}
		if g.switching = 0; i != g.last && g.last >= 0 {
			g.switching = g.scheduler.Switch
		}
		g.last, g.sliceEnd = i, g.now+g.switching+g.scheduler.Quantum
	}
	if g.switching > 0 {
		d := min(g.switching, until-g.now)
		g.now += d
		if g.switching -= d; g.switching > 0 {
			return false, nil
		}
	}
	i := g.last
	end := min(g.sliceEnd, until)
	t := &g.tenants[i]
	for n := 0; n < 256 && g.now < end && g.ready(i); n++ { // run looks at ctx between turns
		run := min(t.remaining, end-g.now)
		g.pass(i, run)
		if t.remaining -= run; t.remaining > 0 {
			break
		}
		if err := g.fetch(i); err != nil {
			return false, err
		}
	}
	if !g.ready(i) {
		g.sliceEnd = g.now // it gives the rest back
	}
	return true, nil
}

// pass lets d go by with tenant i on the GPU.
func (g *GPU) pass(i int, d time.Duration) {
	from := g.now
	g.now += d
	g.busy += d
	if g.observe != nil && d > 0 {
		g.observe(Slice{i, from, g.now})
	}
}
