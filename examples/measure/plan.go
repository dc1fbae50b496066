package main

import (
	"embed"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed plans/*.yaml
var plans embed.FS

// mode is a way to share the GPU that is measured.
type mode uint8

const (
	modeNone        mode = iota
	modeTimeSlicing      // processes take turns; what a GPU does by itself
	modeMPS              // clients of one MPS server, no limits
	modeMIGLike          // MPS clients with active thread percentages and memory limits
)

var modeNames = []string{"none", "time-slicing", "mps", "mig-like-emulation"}

func (m mode) String() string { return modeNames[m] }

func (m mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func (m *mode) UnmarshalText(b []byte) error {
	i := slices.Index(modeNames[1:], string(b)) + 1
	if i == 0 {
		return &sharing.UnknownNameError{Kind: "mode", Name: string(b), Known: modeNames[1:]}
	}
	*m = mode(i)
	return nil
}

// mechanism is what the mode is to a Predictor.
func (m mode) mechanism() sharing.Mechanism {
	if m == modeTimeSlicing {
		return sharing.MechanismTimeSlicing
	}
	return sharing.MechanismMPS
}

// title is the mode in words. MPS with limits bounds what a client may use; it
// contains neither faults nor contention, so it is never called isolation.
func (m mode) title() string {
	if m == modeMIGLike {
		return m.String() + " (MPS with percentages and memory limits; it does not isolate)"
	}
	return m.String()
}

// plan says what is measured.
type plan struct {
	Version     string         `yaml:"version,required"`
	Seconds     float64        `yaml:"seconds,nonzero"` // of load in each run; default 8
	WarmSeconds float64        `yaml:"warm_seconds"`    // at its start, not counted; default 15%, at most 1.5 s
	Seed        int            `yaml:"seed"`            // of prompts and arrivals
	Device      int            `yaml:"device"`          // GPU index, as NVML counts
	Modes       []mode         `yaml:"modes"`           // default all; with running servers the one they run under
	StartSecs   float64        `yaml:"start_seconds"`   // for the servers to answer; default 300
	Servers     []serverPlan   `yaml:"servers,required"`
	Loads       []loadPlan     `yaml:"loads,required"` //
	Cases       []casePlan     `yaml:"cases"`          // default: the first load of each server, together
	SimGPU      *simulatedGPU  `yaml:"simulated_gpu"`
	Decision    decisionInputs `yaml:"decision"`
}

// serverPlan is a server under test. With a command it is started and stopped
// for each mode; without one it runs already, and stays.
type serverPlan struct {
	Name    string      `yaml:"name,required"`
	Model   string      `yaml:"model,required"` // as requests name it
	Command []string    `yaml:"command"`
	URL     string      `yaml:"url"`
	API     loadgen.API `yaml:"api"`
	Slots   int         `yaml:"slots,nonzero"` // requests served at once; 0 = not known
	// Percent and MemoryLimit are for mig-like-emulation. A limit that is not given
	// is the percentage of the GPU's memory.
	Percent     float64       `yaml:"percent,nonzero"`
	MemoryLimit sharing.Bytes `yaml:"memory_limit,nonzero"`
	// Memory is what the server takes, for the decision.
	Memory    *sharing.Bytes   `yaml:"memory"`
	Simulated *simulatedServer `yaml:"simulated"`
}

// loadPlan is what clients ask of a server, and what they expect.
type loadPlan struct {
	Name        string      `yaml:"name,required"`
	Server      string      `yaml:"server,required"`
	Concurrency int         `yaml:"concurrency,nonzero"`
	Rate        float64     `yaml:"rate,nonzero"`
	Prompt      int         `yaml:"prompt,required"`
	Output      int         `yaml:"output,required"`
	SLO         predict.SLO `yaml:"slo"`
}

type casePlan struct {
	Name  string   `yaml:"name,required"`
	Loads []string `yaml:"loads,required"`
}

// decisionInputs are what a decision needs that measuring does not tell.
type decisionInputs struct {
	GPU   string      `yaml:"gpu"` // product name; default: the GPU that is measured
	Price *cost.Money `yaml:"price_per_hour"`
}

// simulatedGPU and simulatedServer are for runs without -real; zero fields are
// loadgentest's defaults.
type simulatedGPU struct {
	Quantum predict.Duration `yaml:"quantum"`
	Switch  predict.Duration `yaml:"switch"`
}

type simulatedServer struct {
	StepKernels     int              `yaml:"step_kernels"`
	KernelMean      predict.Duration `yaml:"kernel_mean"`
	PrefillPerToken predict.Duration `yaml:"prefill_per_token"`
	SMDemand        float64          `yaml:"sm_demand"`
	BandwidthDemand float64          `yaml:"bandwidth_demand"`
}

const planVersion = "v1"

// parsePlan reads a plan strictly, fills in the defaults, and names everything
// that is wrong with it. For a real run every server needs a way to reach it.
// length, when not 0, replaces the runs' length.
func parsePlan(data []byte, real bool, length float64) (*plan, error) {
	p := &plan{}
	if err := strictyaml.Decode(data, p, strictyaml.Options{}); err != nil {
		return nil, err
	}
	if length != 0 {
		p.Seconds, p.WarmSeconds = length, 0
	}
	var list problem.List
	p.fill()
	p.check(&list, real)
	if err := list.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// fill sets what is not given.
func (p *plan) fill() {
	if p.Seconds == 0 {
		p.Seconds = 8
	}
	if p.WarmSeconds == 0 {
		p.WarmSeconds = min(1.5, 0.15*p.Seconds)
	}
	if p.StartSecs == 0 {
		p.StartSecs = 300
	}
	if len(p.Modes) == 0 {
		p.Modes = []mode{modeTimeSlicing, modeMPS, modeMIGLike}
	}
	if len(p.Cases) == 0 {
		c := casePlan{Name: "together"}
		for _, s := range p.Servers {
			if i := slices.IndexFunc(p.Loads, func(l loadPlan) bool { return l.Server == s.Name }); i >= 0 {
				c.Loads = append(c.Loads, p.Loads[i].Name)
			}
		}
		p.Cases = []casePlan{c}
	}
}

func (p *plan) check(list *problem.List, real bool) {
	if p.Version != planVersion {
		list.Addf("version", "this program reads "+planVersion, "is %q", p.Version)
	}
	if !(p.Seconds >= 0.5 && p.Seconds <= 3600) {
		list.Addf("seconds", "", "must lie between 0.5 and 3600, is %v", p.Seconds)
	}
	if !(p.WarmSeconds >= 0 && p.WarmSeconds < p.Seconds) {
		list.Addf("warm_seconds", "", "must be less than seconds (%v), is %v", p.Seconds, p.WarmSeconds)
	}
	if !(p.StartSecs > 0 && p.StartSecs <= 3600) {
		list.Addf("start_seconds", "", "must lie above 0 and at most at 3600, is %v", p.StartSecs)
	}
	if p.Seed < 0 {
		list.Addf("seed", "", "must not be negative, is %d", p.Seed)
	}
	if p.Device < 0 {
		list.Addf("device", "", "must be an index, is %d", p.Device)
	}
	for i, m := range p.Modes {
		if slices.Contains(p.Modes[:i], m) {
			list.Addf(fmt.Sprintf("modes[%d]", i), "", "%s stands there twice", m)
		}
	}
	p.checkServers(list, real)
	p.checkLoads(list)
	p.checkCases(list)
	p.Decision.check(list)
}

func (p *plan) checkServers(list *problem.List, real bool) {
	if len(p.Servers) == 0 {
		list.Addf("servers", "", "there are none")
	}
	var total float64
	running := 0
	for i := range p.Servers {
		s, at := &p.Servers[i], fmt.Sprintf("servers[%d]", i)
		checkName(list, at+".name", s.Name)
		if slices.ContainsFunc(p.Servers[:i], func(o serverPlan) bool { return o.Name == s.Name }) {
			list.Addf(at+".name", "", "%q stands there twice", s.Name)
		}
		if s.Slots < 0 || s.Slots > 1<<20 {
			list.Addf(at+".slots", "", "must be a number of requests, is %d", s.Slots)
		}
		if s.Percent != 0 && !(s.Percent > 0 && s.Percent <= 100) {
			list.Addf(at+".percent", "", "must lie above 0 and at most at 100, is %v", s.Percent)
		}
		total += s.Percent
		if s.MemoryLimit < 0 || s.MemoryLimit%sharing.MiB != 0 {
			list.Addf(at+".memory_limit", "", "must be positive and whole in MiB")
		}
		if slices.Contains(p.Modes, modeMIGLike) && s.Percent == 0 {
			list.Addf(at+".percent", "give the server's share, or leave mig-like-emulation out of modes", "mode mig-like-emulation needs it")
		}
		s.Simulated.check(list, at+".simulated")
		if !real {
			continue
		}
		if u, err := url.Parse(s.URL); s.URL == "" || err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
			list.Addf(at+".url", `for example "http://127.0.0.1:8001"`, "must be the server's base URL, is %q", s.URL)
		} else if j := slices.IndexFunc(p.Servers[:i], func(o serverPlan) bool { return o.URL == s.URL }); j >= 0 {
			list.Addf(at+".url", "", "is that of servers[%d]", j)
		}
		if len(s.Command) == 0 {
			running++
		} else if s.Command[0] == "" {
			list.Addf(at+".command[0]", "", "is empty")
		}
	}
	if total > 100+1e-9 && slices.Contains(p.Modes, modeMIGLike) {
		list.Addf("servers", "percentages that sum to more than 100 overlap, which is not MIG-like", "the percentages sum to %v", total)
	}
	switch {
	case running > 0 && running < len(p.Servers):
		list.Addf("servers", "give all of them a command, or none", "%d of %d have no command: one mode would apply to some only", running, len(p.Servers))
	case running > 0 && len(p.Modes) > 1:
		list.Addf("modes", "name the one mode that the servers run under, or give commands", "servers without a command run already and keep their mode")
	}
}

func (p *plan) checkLoads(list *problem.List) {
	var names []string
	for _, s := range p.Servers {
		names = append(names, s.Name)
	}
	if len(p.Loads) == 0 {
		list.Addf("loads", "", "there are none")
	}
	for i := range p.Loads {
		l, at := &p.Loads[i], fmt.Sprintf("loads[%d]", i)
		checkName(list, at+".name", l.Name)
		if slices.ContainsFunc(p.Loads[:i], func(o loadPlan) bool { return o.Name == l.Name }) {
			list.Addf(at+".name", "", "%q stands there twice", l.Name)
		}
		if !slices.Contains(names, l.Server) {
			list.Addf(at+".server", suggest(l.Server, names), "there is no server %q", l.Server)
		}
		switch {
		case (l.Concurrency == 0) == (l.Rate == 0):
			list.Addf(at, "", "must have either a concurrency (closed loop) or a rate (open loop, requests/s)")
		case l.Concurrency < 0 || l.Concurrency > 1<<12:
			list.Addf(at+".concurrency", "", "must lie between 1 and %d, is %d", 1<<12, l.Concurrency)
		case !(l.Rate >= 0 && l.Rate <= 1e4):
			list.Addf(at+".rate", "", "must be positive and at most 10000 requests/s, is %v", l.Rate)
		}
		if l.Prompt < 1 || l.Prompt > 1<<20 {
			list.Addf(at+".prompt", "", "must be a number of tokens, at least 1, is %d", l.Prompt)
		}
		if l.Output < 2 || l.Output > 1<<20 {
			list.Addf(at+".output", "", "must be a number of tokens, at least 2, or there are no decode steps to measure; is %d", l.Output)
		}
	}
}

func (p *plan) checkCases(list *problem.List) {
	var names []string
	for _, l := range p.Loads {
		names = append(names, l.Name)
	}
	for i, c := range p.Cases {
		at := fmt.Sprintf("cases[%d]", i)
		checkName(list, at+".name", c.Name)
		if slices.ContainsFunc(p.Cases[:i], func(o casePlan) bool { return o.Name == c.Name }) {
			list.Addf(at+".name", "", "%q stands there twice", c.Name)
		}
		if len(c.Loads) < 2 {
			list.Addf(at+".loads", "every load is run alone anyway", "must name at least two loads")
		}
		var servers []string
		for j, name := range c.Loads {
			k := slices.Index(names, name)
			if k < 0 {
				list.Addf(fmt.Sprintf("%s.loads[%d]", at, j), suggest(name, names), "there is no load %q", name)
				continue
			}
			if s := p.Loads[k].Server; slices.Contains(servers, s) {
				list.Addf(fmt.Sprintf("%s.loads[%d]", at, j), "a case has one load for each server", "server %q has a load in this case already", s)
			}
			servers = append(servers, p.Loads[k].Server)
		}
	}
}

func suggest(word string, names []string) string {
	if near := problem.Nearest(word, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "there are " + strings.Join(names, ", ")
}

// checkName makes sure that a name can be a folder.
func checkName(list *problem.List, path, name string) {
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, bad) {
		list.Addf(path, "use letters, digits, - and _, at most 64", "%.80q names folders", name)
	}
}

func (s *simulatedServer) check(list *problem.List, path string) {
	if s == nil {
		return
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"sm_demand", s.SMDemand}, {"bandwidth_demand", s.BandwidthDemand}} {
		if !(f.v >= 0 && f.v <= 1) {
			list.Addf(path+"."+f.name, "", "must be a fraction, is %v", f.v)
		}
	}
	if s.StepKernels < 0 || s.StepKernels > 1<<12 {
		list.Addf(path+".step_kernels", "", "must lie between 1 and %d, is %d", 1<<12, s.StepKernels)
	}
}

func (d *decisionInputs) check(list *problem.List) {
	if d.GPU != "" {
		_, err := sharing.LookupGPU(d.GPU)
		list.AddErr("decision.gpu", err)
	}
}

func (p *plan) seed() uint64 { return uint64(p.Seed) }

// seconds is a duration of a plan.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// load returns a load by its name.
func (p *plan) load(name string) *loadPlan {
	return &p.Loads[slices.IndexFunc(p.Loads, func(l loadPlan) bool { return l.Name == name })]
}

// server returns the index of a server by its name.
func (p *plan) server(name string) int {
	return slices.IndexFunc(p.Servers, func(s serverPlan) bool { return s.Name == name })
}

// used lists the loads that any case needs, in the plan's order: those are run
// alone.
func (p *plan) used() []string {
	var out []string
	for _, l := range p.Loads {
		if slices.ContainsFunc(p.Cases, func(c casePlan) bool { return slices.Contains(c.Loads, l.Name) }) {
			out = append(out, l.Name)
		}
	}
	return out
}
