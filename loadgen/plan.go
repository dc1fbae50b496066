// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// LoadPlan describes a run: its tenants, its duration, and the part of it that counts.
type LoadPlan struct {
	// Scenario names the measurement, e.g. "mps-50"; it labels tables.
	Scenario string
	Tenants  []Tenant
	// Duration ends the sending of new requests; requests in flight are finished. 0 means that each tenant ends by its
	// Requests, schedule or prompts.
	Duration time.Duration
	// Drain bounds the wait for requests in flight after the last new one; the remaining ones are cancelled. 0 means no
	// bound other than the requests' own timeouts.
	Drain time.Duration
	// Window is the part of the run that counts; the zero value is all of it.
	Window Window
	// Seed is the seed of all randomness. Each tenant has its own random stream, derived from it and the tenant's name.
	Seed uint64
	// Simulated marks the run's artifacts as not being a measurement of a real GPU.
	Simulated bool
}

// Window is a part of the run, as offsets from its start; the zero Window is the whole run. A request belongs to it by
// its intended start, a token by the time of its event.
type Window struct {
	From time.Duration `yaml:"from"`
	// To is the end; 0 means the end of the run.
	To time.Duration `yaml:"to"`
}

// window is the plan's window with the longest ramp cut off when none is given.
func (p *LoadPlan) window() Window {
	w := p.Window
	if w.From == 0 {
		for i := range p.Tenants {
			w.From = max(w.From, p.Tenants[i].Load.Ramp)
		}
	}
	return w
}

func (p *LoadPlan) tenantRand(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(p.Seed, h.Sum64()))
}

// Validate checks the plan and returns one error that names every problem with its path.
func (p *LoadPlan) Validate() error {
	var l problem.List
	l.If(len(p.Tenants) == 0, "tenants", "add at least one", "no tenant")
	notNegative(&l, "duration", p.Duration)
	notNegative(&l, "drain", p.Drain)
	notNegative(&l, "window.from", p.Window.From)
	notNegative(&l, "window.to", p.Window.To)
	w := p.window()
	l.If(w.To != 0 && w.To <= w.From, "window", "raise to, or lower from or the ramp",
		"ends at %v, not after its start at %v", w.To, w.From)
	l.If(p.Duration > 0 && w.From >= p.Duration, "window", "lengthen the duration, or lower from or the ramp",
		"starts at %v, when no more load is offered: the duration is %v", w.From, p.Duration)
	seen := map[string]int{}
	for i := range p.Tenants {
		t, path := &p.Tenants[i], fmt.Sprintf("tenants[%d]", i)
		if first, dup := seen[t.Name]; dup {
			l.Addf(path+".name", "give each tenant its own name", "%q is tenants[%d]'s name too", t.Name, first)
		} else {
			seen[t.Name] = i
		}
		t.check(&l, path, p.Duration)
	}
	return l.Under(errors.New("loadgen: invalid plan"))
}

func (t *Tenant) check(l *problem.List, path string, planDuration time.Duration) {
	l.If(t.Name == "", path+".name", "name it", "empty")
	l.If(t.Prompts == nil, path+".prompts", "set a PromptSource, e.g. loadgen.Texts(\"hello\")", "missing")
	for _, e := range []struct {
		name, value string
		known       []string
	}{
		{"api", t.API, []string{"chat", "completions"}},
		{"usage", t.Usage, []string{"final", "continuous", "none"}},
	} {
		l.If(e.value != "" && !slices.Contains(e.known, e.value), path+"."+e.name,
			problem.Meant(e.value, e.known, "use "+strings.Join(e.known, " or ")), "unknown %s %q", e.name,
			problem.Clip(e.value))
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"max_tokens", t.MaxTokens}, {"requests", t.Requests}, {"warmup", t.Warmup}, {"retries", t.Retries},
		{"load.concurrency", t.Load.Concurrency},
	} {
		l.If(n.value < 0, path+"."+n.name, "use 0 or more", "%d is negative", n.value)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"load.think_time", t.Load.ThinkTime}, {"load.ramp", t.Load.Ramp},
		{"slo.ttft", t.SLO.TTFT}, {"slo.tpot", t.SLO.TPOT}, {"slo.e2e", t.SLO.E2E}, {"slo.stall", t.SLO.Stall},
	} {
		notNegative(l, path+"."+d.name, d.value)
	}
	t.checkLoad(l, path+".load", planDuration)
	l.If(len(t.Endpoints) == 0, path+".endpoints", "add at least one", "no endpoint")
	for i := range t.Endpoints {
		t.Endpoints[i].check(l, fmt.Sprintf("%s.endpoints[%d]", path, i))
	}
}

func (t *Tenant) checkLoad(l *problem.List, path string, planDuration time.Duration) {
	if s, ok := t.Load.Schedule.(*schedule); ok {
		l.AddErr(path+".schedule", s.wrong)
	}
	switch ld := t.Load; {
	case ld.Schedule == nil && ld.Concurrency == 0:
		l.Addf(path, "set a schedule (open loop) or a concurrency (closed loop)", "neither a schedule nor a concurrency")
	case ld.Schedule != nil && (ld.Concurrency != 0 || ld.ThinkTime != 0 || ld.Ramp != 0):
		l.Addf(path, "keep one of the two", "a schedule (open loop) together with settings of a closed loop")
	case planDuration <= 0 && t.Requests == 0 && t.endless():
		l.Addf(path, "set requests or the plan's duration", "would never end")
	case ld.Concurrency > maxConcurrency:
		l.Addf(path+".concurrency", "share the users between workers on several machines", "%d is above %d", ld.Concurrency,
			maxConcurrency)
	}
}

// endless reports that neither the tenant's load nor its prompts end, as far as this package's own types show.
func (t *Tenant) endless() bool {
	if _, cycle := t.Prompts.(*promptCycle); !cycle {
		return false
	}
	s, own := t.Load.Schedule.(*schedule)
	return t.Load.Schedule == nil || own && s.endless
}

func (e *Endpoint) check(l *problem.List, path string) {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil:
		l.Addf(path+".url", "use a URL such as http://host:8000", "cannot be read as a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		l.Addf(path+".url", "use a URL such as http://host:8000", "scheme is %q, not http or https", u.Scheme)
	case u.Host == "":
		l.Addf(path+".url", "use a URL such as http://host:8000", "no host")
	case u.User != nil:
		l.Addf(path+".url", "give an API key or a header in their place", "credentials in the URL")
	}
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	const remedy = "remove them, e.g. the line break at its end"
	l.If(strings.ContainsFunc(string(e.APIKey), control), path+".api_key", remedy, "holds control characters")
	for _, name := range slices.Sorted(maps.Keys(e.Header)) {
		at := path + ".headers." + problem.Clip(name)
		l.If(name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }), at,
			"use letters, digits and dashes", "is no name of a header")
		l.If(strings.ContainsFunc(strings.Join(e.Header[name], ""), control), at, remedy, "holds control characters")
	}
}

func notNegative(l *problem.List, path string, d time.Duration) {
	l.If(d < 0, path, "use 0 or more", "%v is negative", d)
}

// Study returns the plans that show how a plan's tenants disturb one another: each tenant isolated ("solo-chat") and
// all of them co-located ("colocated"). Their scenarios begin with the plan's own.
func Study(plan LoadPlan) []LoadPlan {
	of := func(name string, tenants []Tenant) LoadPlan {
		p := plan
		p.Scenario, p.Tenants = strings.TrimPrefix(plan.Scenario+"-"+name, "-"), slices.Clone(tenants)
		return p
	}
	var plans []LoadPlan
	for i, t := range plan.Tenants {
		plans = append(plans, of("solo-"+t.Name, plan.Tenants[i:i+1]))
	}
	return append(plans, of("colocated", plan.Tenants))
}
