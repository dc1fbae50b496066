// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
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
	g := NewGPU(e.Scheduler)
	g.observe = e.Observe
	for _, p := range e.Tenants {
		g.Attach(p)
	}
	g.ask()
	if err := g.run(ctx, e.Until); err != nil {
		return nil, Totals{}, err
	}
	g.totals.Simulated = g.now
	g.totals.Idle = g.now - g.totals.Busy - g.totals.Switching
	return g.usage, g.totals, nil
}

// GPU is the time-sliced GPU that an Engine simulates at once, taken from event to event by [GPU.Advance], with tenants
// that come and go. It is for one goroutine.
type GPU struct {
	scheduler Scheduler
	observe   func(Slice)
	now       time.Duration
	last      int           // tenant with its context loaded; -1 at the start
	switching time.Duration // left of the switch to it
	sliceEnd  time.Duration
	stuck     int // pieces of work without length in a row
	tenants   []tenantState
	usage     []Usage
	totals    Totals
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
	g.usage = append(g.usage, Usage{})
	for j := range g.usage {
		g.usage[j].WaitedOn = append(g.usage[j].WaitedOn, make([]time.Duration, i+1-len(g.usage[j].WaitedOn))...)
	}
	return func() { g.tenants[i] = tenantState{done: true} }
}

// Advance lets the clock run up to a time since the start, asks tenants that had no work once more, and returns the
// time of the next event; false when there will be none, also after work that is out of range.
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

// Busy is the time so far in which any tenant's work ran.
func (g *GPU) Busy() time.Duration { return g.totals.Busy }

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
		g.usage[i].Slices++
	}
	if g.switching > 0 {
		d := min(g.switching, until-g.now)
		g.pass(-1, d)
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

// pass lets d go by with tenant i on the GPU, or with a switch for i = -1, and
// books the wait of all other tenants that have work in that time.
func (g *GPU) pass(i int, d time.Duration) {
	from := g.now
	g.now += d
	for j := range g.tenants {
		t := &g.tenants[j]
		if j == i || t.done || t.at >= g.now {
			continue
		}
		waited := g.now - max(from, t.at)
		if i < 0 {
			g.usage[j].Switching += waited
		} else {
			g.usage[j].WaitedOn[i] += waited
		}
	}
	if i < 0 {
		g.totals.Switching += d
		return
	}
	g.totals.Busy += d
	g.usage[i].GPU += d
	if g.observe != nil && d > 0 {
		g.observe(Slice{i, from, g.now})
	}
}

// Simulation holds the input of Simulate.
type Simulation struct {
	Scheduler Scheduler
	Tenants   []Tenant
	For       time.Duration // simulated time; 0 means 60 s
	Warmup    time.Duration // steps and requests that begin earlier are not counted
	Seed      uint64        // same seed, same result
}

// Result is the outcome of a simulation. Its Basis is always sharing.BasisSimulated.
type Result struct {
	Basis     sharing.Basis
	Scheduler Scheduler
	Seed      uint64
	Totals    Totals
	Tenants   []TenantResult // in the order of Simulation.Tenants
}

// TenantResult holds the figures of one tenant.
type TenantResult struct {
	Name    string
	Step    *Latency // from a step's submission to its end
	Request *Latency // from a request's arrival to its end
	// Unfinished is the number of requests that had come and not ended when the simulated time was over; Request
	// does not hold them. The queue of an open loop is estimated from its rate. A number that grows with the
	// simulated time means that the tenant cannot keep up.
	Unfinished int
	Usage
}

// Simulate runs tenants on a time-sliced GPU. Each tenant draws from a source of its own, so that another tenant's
// presence changes none of its draws. The error names everything that is wrong with the input.
func Simulate(ctx context.Context, sim Simulation) (*Result, error) {
	sim.For = cmp.Or(sim.For, time.Minute)
	if err := sim.validate(); err != nil {
		return nil, err
	}
	loops := make([]*loop, len(sim.Tenants))
	engine := Engine{Scheduler: sim.Scheduler, Tenants: make([]Submitter, len(sim.Tenants)), Until: sim.For}
	for i, t := range sim.Tenants {
		t.Steps = max(1, t.Steps)
		loops[i] = &loop{t: t, rng: rand.New(rand.NewPCG(sim.Seed, uint64(i))), warmup: sim.Warmup,
			step: &Latency{}, request: &Latency{}}
		engine.Tenants[i] = loops[i]
	}
	usage, totals, err := engine.Run(ctx)
	if err != nil {
		return nil, err
	}
	res := &Result{Basis: sharing.BasisSimulated, Scheduler: sim.Scheduler, Seed: sim.Seed, Totals: totals,
		Tenants: make([]TenantResult, len(loops))}
	for i, p := range loops {
		res.Tenants[i] = TenantResult{Name: cmp.Or(p.t.Name, fmt.Sprintf("tenant %d", i)), Step: p.step.close(),
			Request: p.request.close(), Unfinished: p.unfinished(totals.Simulated), Usage: usage[i]}
	}
	return res, nil
}

// maxTenants bounds a simulation's memory: the latencies and a row of waits for each tenant.
const maxTenants = 256

func (sim Simulation) validate() error {
	var l problem.List
	sim.Scheduler.check(&l, "scheduler")
	l.If(sim.For < 0 || sim.For > longest, "for", "", "must be positive and at most %v, is %v", longest, sim.For)
	l.If(sim.Warmup < 0 || sim.Warmup > sim.For, "warmup", "", "must lie between 0 and the simulated time %v, is %v",
		sim.For, sim.Warmup)
	if n := len(sim.Tenants); n == 0 || n > maxTenants {
		l.Addf("tenants", "give 1 to 256", "are %d", n)
	}
	for i, t := range sim.Tenants {
		t.check(&l, fmt.Sprintf("tenants[%d]", i))
	}
	return l.Err()
}

// BlamedOn returns the neighbour that r waited for longest and the share of all its waiting, switches included,
// that fell to it; false when it never waited.
func (r *TenantResult) BlamedOn() (tenant int, shareFraction float64, ok bool) {
	total := r.Switching
	for i, w := range r.WaitedOn {
		total += w
		if w > r.WaitedOn[tenant] {
			tenant = i
		}
	}
	if total == 0 {
		return 0, 0, false
	}
	return tenant, float64(r.WaitedOn[tenant]) / float64(total), true
}
