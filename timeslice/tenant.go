// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
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
	return time.Duration(min(gamma(shape, rng)*float64(d.Mean)/shape, float64(longest)))
}

// gamma draws from the gamma distribution of a shape and of scale 1 (Marsaglia and Tsang, ACM Transactions on
// Mathematical Software 26.3, 2000).
func gamma(shape float64, rng *rand.Rand) float64 {
	d, m := shape-1./3, 1.0
	if shape < 1 {
		d, m = d+1, math.Pow(rng.Float64(), 1/shape)
	}
	c := 1 / (3 * math.Sqrt(d))
	for {
		x := rng.NormFloat64()
		v := 1 + x*c
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := rng.Float64(); u < 1-0.0331*(x*x)*(x*x) || math.Log(u) < 0.5*x*x+d*(1-v+math.Log(v)) {
			return m * d * v
		}
	}
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
		l.Addf(path+".pause", "leave one of them out", "has no effect together with rate_per_second")
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

// nextRequest returns when the next request comes, which in an open loop may have been before the host is free again.
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

// stepCV is optional: steps of equal tenants that never vary keep them in lockstep, which no measured ones are.
type stepCV = optional.Value[float64]

// usualStepCV is the default of step_cv. Gaps between tokens of lone servers on an H200 vary by 0.03 to 0.08; from 0.1
// on, which includes the effect of prompts, equal copies are as slow together as measured (1.36, 1.82 and 2.31 times
// for two, three and four).
const usualStepCV = 0.1

type tenantsDocument struct {
	Tenants []struct {
		Name          string        `yaml:"name,required"`
		Step          time.Duration `yaml:"step,required"`
		StepCV        stepCV        `yaml:"step_cv"`
		Think         time.Duration `yaml:"think"`
		ThinkCV       float64       `yaml:"think_cv"`
		Steps         int           `yaml:"steps"`
		Pause         time.Duration `yaml:"pause"`
		PauseCV       float64       `yaml:"pause_cv"`
		RatePerSecond float64       `yaml:"rate_per_second"`
	} `yaml:"tenants,required"`
}

// ParseTenants reads a document of tenants, YAML or JSON of at most 1 MiB, for example:
//
//	tenants:
//	  - {name: chat, step: 1.8ms, think: 150us, steps: 64, pause: 8ms, pause_cv: 1}
//	  - {name: api, step: 900us, steps: 4, rate_per_second: 20}
//
// The keys are Tenant's fields; each name is needed once. Steps vary by 0.1 where step_cv is not stated. Unknown keys
// are errors; one error names every problem.
func ParseTenants(data []byte) ([]Tenant, error) {
	var doc tenantsDocument
	if err := strictyaml.Decode(data, &doc, strictyaml.Options{MaxBytes: 1 << 20}); err != nil {
		return nil, err
	}
	var l problem.List
	if n := len(doc.Tenants); n == 0 || n > maxTenants {
		l.Addf("tenants", "", "must be 1 to %d, are %d", maxTenants, n)
	}
	seen := map[string]bool{}
	out := make([]Tenant, len(doc.Tenants))
	for i, t := range doc.Tenants {
		path := fmt.Sprintf("tenants[%d]", i)
		at := path + ".name"
		l.If(seen[t.Name], at, "give each tenant a name of its own", "%q is there twice", problem.Clip(t.Name))
		if n := len([]rune(t.Name)); n == 0 || n > 40 {
			l.Addf(at, "", "must have 1 to 40 characters, has %d", n)
		}
		l.If(strings.ContainsFunc(t.Name, unicode.IsControl), at, "use letters, digits and signs",
			"%q holds control characters", problem.Clip(t.Name))
		seen[t.Name] = true
		out[i] = Tenant{Name: t.Name, Steps: t.Steps, RatePerSecond: t.RatePerSecond,
			Step: Dist{t.Step, t.StepCV.Or(usualStepCV)}, Think: Dist{t.Think, t.ThinkCV}, Pause: Dist{t.Pause, t.PauseCV}}
		out[i].check(&l, path)
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return out, nil
}
