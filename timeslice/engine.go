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
	GPU time.Duration // how long it needs the GPU for; at least 0
}

// Submitter supplies the work of one tenant. Next is called once at time 0 and then each time that the tenant's
// last work has finished, at the simulated time now; it returns the next work, or false when there will be none. An
// At before now counts as now: such work follows within the same slice, as that of a queue that is never empty
// does. Submitters are called from one goroutine.
type Submitter interface {
	Next(now time.Duration) (Work, bool)
}

// Slice is an interval in which one tenant had the GPU.
type Slice struct {
	Tenant   int
	From, To time.Duration
}

// Usage holds the simulated GPU's time by its use for one tenant. Times of work that had
// not finished at the end are included.
type Usage struct {
	GPU       time.Duration   // in which it had the GPU
	WaitedOn  []time.Duration // in which it had work and another had the GPU, by tenant
	Switching time.Duration   // in which it had work and the GPU was switching
	Slices    int             // turns at the GPU
}

// Totals divides the GPU's time by its use.
type Totals struct {
	Simulated time.Duration // the simulated time
	Busy      time.Duration // running a tenant
	Switching time.Duration
	Idle      time.Duration
}

// Engine simulates tenants that share a GPU by time-slicing, round robin in the order given. A tenant keeps the GPU
// for a quantum when others wait, and gives it back when it runs out of work; a change of tenant costs a switch, a
// tenant that is alone pays nothing.
type Engine struct {
	Scheduler Scheduler
	Tenants   []Submitter
	Until     time.Duration // where the simulated clock ends, if work is left so long
	// Observe is called for each slice in order of time; nil means nobody looks.
	// A slice is cut at the end of each piece of work.
	Observe func(Slice)
}

type tenantState struct {
	Submitter
	at        time.Duration // when the current work was or will be submitted
	remaining time.Duration
	done      bool // no more work
}

// Run simulates until the clock reaches Until or nobody has work left. The result, one usage for each tenant,
// depends on the fields only. Run returns ctx's error when ctx ends first.
func (e Engine) Run(ctx context.Context) ([]Usage, Totals, error) {
	var l problem.List
	e.Scheduler.check(&l, "scheduler")
	l.If(e.Until <= 0 || e.Until > longest, "until", "", "must be positive and at most %v, is %v", longest, e.Until)
	for i, p := range e.Tenants {
		l.If(p == nil, fmt.Sprintf("tenants[%d]", i), "", "is nil")
	}
	if err := l.Err(); err != nil {
		return nil, Totals{}, err
	}
	r := &engineRun{Engine: e, tenants: make([]tenantState, len(e.Tenants)), usage: make([]Usage, len(e.Tenants)),
		last: -1}
	for i, p := range e.Tenants {
		r.tenants[i].Submitter = p
		r.usage[i].WaitedOn = make([]time.Duration, len(e.Tenants))
		if err := r.fetch(i); err != nil {
			return nil, Totals{}, err
		}
	}
	for n, more := 0, true; more; n++ {
		if n&4095 == 0 && ctx.Err() != nil {
			return nil, Totals{}, ctx.Err()
		}
		var err error
		if more, err = r.turn(); err != nil {
			return nil, Totals{}, err
		}
	}
	r.totals.Simulated = r.now
	r.totals.Idle = r.now - r.totals.Busy - r.totals.Switching
	return r.usage, r.totals, nil
}

type engineRun struct {
	Engine
	now     time.Duration
	last    int // whose context is loaded; -1 at the start
	stuck   int // pieces of work without length in a row
	tenants []tenantState
	usage   []Usage
	totals  Totals
}

// fetch asks tenant i for its next work.
func (e *engineRun) fetch(i int) error {
	t := &e.tenants[i]
	w, ok := t.Next(e.now)
	if !ok {
		t.done = true
		return nil
	}
	if w.GPU < 0 || w.GPU > longest || w.At > 4*longest {
		return fmt.Errorf("timeslice: tenant %d submitted work of %v at %v, which is out of range", i, w.GPU, w.At)
	}
	if w.GPU == 0 && w.At <= e.now {
		if e.stuck++; e.stuck > 1<<20 {
			return fmt.Errorf("timeslice: tenant %d submits work without length for ever", i)
		}
	} else {
		e.stuck = 0
	}
	t.at, t.remaining = max(w.At, e.now), w.GPU
	return nil
}

func (e *engineRun) ready(i int) bool { return !e.tenants[i].done && e.tenants[i].at <= e.now }

// next returns the first tenant after the last one, itself last, that has work; -1 when none has.
func (e *engineRun) next() int {
	for k := 1; k <= len(e.tenants); k++ {
		if i := (e.last + k) % len(e.tenants); e.ready(i) {
			return i
		}
	}
	return -1
}

// turn gives one tenant a slice, or lets the clock run to the next submission. It returns false at the end.
func (e *engineRun) turn() (bool, error) {
	if e.now >= e.Until {
		return false, nil
	}
	i := e.next()
	if i < 0 {
		at, pending := e.Until, false
		for j := range e.tenants {
			if t := &e.tenants[j]; !t.done {
				at, pending = min(at, t.at), true
			}
		}
		if !pending {
			return false, nil
		}
		e.now = at
		return true, nil
	}
	if i != e.last {
		if e.last >= 0 {
			e.pass(-1, min(e.Scheduler.Switch, e.Until-e.now))
		}
		e.last = i
	}
	e.usage[i].Slices++
	end := min(e.now+e.Scheduler.Quantum, e.Until)
	t := &e.tenants[i]
	for e.now < end && e.ready(i) {
		run := min(t.remaining, end-e.now)
		e.pass(i, run)
		if t.remaining -= run; t.remaining > 0 {
			break
		}
		if err := e.fetch(i); err != nil {
			return false, err
		}
	}
	return true, nil
}

// pass lets d go by with tenant i on the GPU, or with a switch for i = -1, and
// books the wait of everybody else who has work in that time.
func (e *engineRun) pass(i int, d time.Duration) {
	from := e.now
	e.now += d
	for j := range e.tenants {
		t := &e.tenants[j]
		if j == i || t.done || t.at >= e.now {
			continue
		}
		waited := e.now - max(from, t.at)
		if i < 0 {
			e.usage[j].Switching += waited
		} else {
			e.usage[j].WaitedOn[i] += waited
		}
	}
	if i < 0 {
		e.totals.Switching += d
		return
	}
	e.totals.Busy += d
	e.usage[i].GPU += d
	if e.Observe != nil && d > 0 {
		e.Observe(Slice{i, from, e.now})
	}
}
