package timeslice

import (
	"fmt"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/internal/problem"
)

// Dist is a distribution of durations: constant for CV 0, exponential for CV 1, and otherwise a gamma distribution
// with that mean and coefficient of variation (standard deviation over mean). The zero value is always 0.
type Dist struct {
	Mean time.Duration
	CV   float64
}

// Draw returns a value from the distribution. A constant takes nothing from rng.
func (d Dist) draw(rng *rand.Rand) time.Duration {
	switch {
	case d.CV == 0 || d.Mean == 0:
		return d.Mean
	case d.CV == 1:
		return time.Duration(min(rng.ExpFloat64()*float64(d.Mean), float64(longest)))
	}
	shape := 1 / (d.CV * d.CV)
	g := distuv.Gamma{Alpha: shape, Beta: shape / float64(d.Mean), Src: rng}
	return time.Duration(min(g.Rand(), float64(longest)))
}

func (d Dist) check(l *problem.List, path string, positive bool) {
	if d.Mean < 0 || d.Mean > longest || positive && d.Mean == 0 {
		l.Addf(path+".mean", "", "must be %s and at most %v, is %v", map[bool]string{true: "positive",
			false: "at least 0"}[positive], longest, d.Mean)
	}
	l.If(!(d.CV >= 0 && d.CV <= 10), path+".cv", "0 is constant, 1 is exponential", "must lie between 0 and 10, is %v",
		d.CV)
}

// Tenant is a workload that shares a GPU: it serves requests, each of some
// steps on the GPU with time on the host between them.
type Tenant struct {
	Name string
	// Step is the GPU time of one step.
	Step Dist
	// Think is the host's time after each step, before anything else of this tenant can run.
	Think Dist
	// Steps is the number of steps in a request; 0 means 1.
	Steps int
	// Pause is the time that the client of a closed loop lets go by between two requests, beyond Think. A tenant
	// without think time and pause always has work queued.
	Pause Dist
	// RatePerSecond makes the loop open: requests arrive at random (Poisson) at this rate and are served one after
	// the other, timed from their arrival. 0 means a closed loop; Pause is then not used.
	RatePerSecond float64
}

func (t Tenant) check(l *problem.List, path string) {
	t.Step.check(l, path+".step", true)
	t.Think.check(l, path+".think", false)
	t.Pause.check(l, path+".pause", false)
	l.If(t.Steps < 0 || t.Steps > 1<<20, path+".steps", "leave it out for 1", "must lie between 0 and %d, is %d", 1<<20,
		t.Steps)
	switch r := t.RatePerSecond; {
	case !(r >= 0 && r <= 1e9):
		l.Addf(path+".rate_per_second", "leave it out for a closed loop",
			"must lie between 0 and 1e9 requests a second, is %v", r)
	case r > 0 && t.Pause.Mean > 0:
		l.Addf(path+".pause", "leave one of them out", "means nothing beside rate_per_second")
	}
}

// loop is the Program of a Tenant.
type loop struct {
	t       Tenant
	rng     *rand.Rand
	warmup  time.Duration
	step    *Latency
	request *Latency

	running   bool
	left      int           // steps of the request that are still to be submitted
	submitted time.Duration // when the running step was
	arrived   time.Duration // when its request came
}

func newLoop(t Tenant, rng *rand.Rand, warmup, horizon time.Duration) *loop {
	t.Steps = max(1, t.Steps)
	return &loop{t: t, rng: rng, warmup: warmup, step: newLatency(horizon), request: newLatency(horizon)}
}

// Next implements Program.
func (p *loop) Next(now time.Duration) (Work, bool) {
	free := now // when the host can submit again
	if p.running {
		if p.submitted >= p.warmup {
			p.step.record(now - p.submitted)
		}
		if p.left == 0 && p.arrived >= p.warmup {
			p.request.record(now - p.arrived)
		}
		free += p.t.Think.draw(p.rng)
	}
	if p.left == 0 {
		p.arrived = p.nextRequest(free)
		free = max(free, p.arrived)
		p.left = p.t.Steps
	}
	p.left--
	p.running, p.submitted = true, free
	return Work{At: free, GPU: p.t.Step.draw(p.rng)}, true
}

// nextRequest returns when the next request comes, which in an open loop may
// have been before the host is free again.
func (p *loop) nextRequest(free time.Duration) time.Duration {
	switch {
	case p.t.RatePerSecond > 0:
		gap := min(p.rng.ExpFloat64()/p.t.RatePerSecond, longest.Seconds())
		return p.arrived + time.Duration(gap*float64(time.Second))
	case p.running:
		return free + p.t.Pause.draw(p.rng)
	}
	return 0 // a closed loop's first request comes at once
}

// unfinished counts the requests that had come by end and were not served: the one
// that was running, and in an open loop those expected to have come behind it.
func (p *loop) unfinished(end time.Duration) int {
	if !p.running || p.arrived >= end {
		return 0
	}
	return 1 + int(p.t.RatePerSecond*(end-p.arrived).Seconds())
}

func (t Tenant) label(i int) string {
	if t.Name != "" {
		return t.Name
	}
	return fmt.Sprintf("tenant %d", i)
}
