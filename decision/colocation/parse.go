// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// PlanOptions configure [ParsePlan].
type PlanOptions struct {
	// Real requires a command or an address for every server.
	Real bool
	// Seconds, if not 0, replaces the length of runs.
	Seconds float64
	// Copies, if not empty, are the numbers of copies of the first server to co-locate, each with its first load, instead
	// of the plan's cases. "{copy}" in its command and address is the copy's number, from 1.
	Copies []int
}

// ParsePlan reads a plan strictly and fills in the defaults. The error names every problem with its path.
func ParsePlan(data []byte, opts PlanOptions) (*Plan, error) {
	p := &Plan{text: data}
	if err := strictyaml.Decode(data, p, strictyaml.Options{}); err != nil {
		return nil, err
	}
	if opts.Seconds != 0 {
		p.Seconds, p.WarmSeconds = opts.Seconds, 0
	}
	var list problem.List
	if len(opts.Copies) > 0 {
		p.copyServer(opts.Copies, &list)
	}
	p.fill()
	p.check(&list, opts.Real)
	if err := list.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// fill sets the defaults.
func (p *Plan) fill() {
	p.Seconds, p.StartSecs = cmp.Or(p.Seconds, 8), cmp.Or(p.StartSecs, 300)
	p.WarmSeconds = cmp.Or(p.WarmSeconds, min(1.5, 0.15*p.Seconds))
	if len(p.Modes) == 0 {
		p.Modes = modes()
		if p.copied {
			p.Modes = p.Modes[:2] // no copy has a share of its own
		}
	}
	p.serving = len(p.Servers)
	for _, t := range p.Tenants {
		t.Model = cmp.Or(t.Model, t.Name)
		p.Servers, p.Loads = append(p.Servers, t), append(p.Loads, Load{Name: t.Name, Server: t.Name})
	}
	if len(p.Cases) == 0 && !p.copied {
		c := Case{Name: "together"}
		for _, s := range p.Servers {
			if i := slices.IndexFunc(p.Loads, func(l Load) bool { return l.Server == s.Name }); i >= 0 {
				c.Loads = append(c.Loads, p.Loads[i].Name)
			}
		}
		p.Cases = []Case{c}
	}
}

func (p *Plan) check(list *problem.List, real bool) {
	list.If(p.Version != "v1", "version", "this program reads v1", "is %q", p.Version)
	list.If(!(p.Seconds >= 0.5 && p.Seconds <= 3600), "seconds", "", "must lie between 0.5 and 3600, is %v", p.Seconds)
	list.If(!(p.WarmSeconds >= 0 && p.WarmSeconds < p.Seconds), "warm_seconds", "",
		"must be less than seconds (%v), is %v", p.Seconds, p.WarmSeconds)
	list.If(!(p.StartSecs > 0 && p.StartSecs <= 3600), "start_seconds", "",
		"must lie above 0 and at most at 3600, is %v", p.StartSecs)
	list.If(p.Seed < 0, "seed", "", "must not be negative, is %d", p.Seed)
	list.If(p.Device < 0, "device", "", "must be an index, is %d", p.Device)
	for i, m := range p.Modes {
		at := fmt.Sprintf("modes[%d]", i)
		list.If(!slices.Contains(modes(), m), at, fmt.Sprintf("use one of %v", modes()),
			"%s is no way for processes to share a whole GPU", m)
		list.If(slices.Contains(p.Modes[:i], m), at, "", "%s is there twice", m)
	}
	servers := checkNames(list, p.at, p.Servers, func(s Server) string { return s.Name })
	list.If(len(p.Servers) == 0, "servers", "", "there are none, nor tenants")
	atLoad := func(i int) string {
		if own := len(p.Loads) - len(p.Tenants); i >= own {
			return fmt.Sprintf("tenants[%d]", i-own)
		}
		return fmt.Sprintf("loads[%d]", i)
	}
	loads := checkNames(list, atLoad, p.Loads, func(l Load) string { return l.Name })
	list.If(len(p.Loads) == 0, "loads", "", "there are none")
	checkNames(list, func(i int) string { return fmt.Sprintf("cases[%d]", i) }, p.Cases,
		func(c Case) string { return c.Name })
	p.checkServers(list)
	if real {
		p.checkReach(list)
	}
	for i := range p.Loads[:len(p.Loads)-len(p.Tenants)] {
		p.Loads[i].check(list, fmt.Sprintf("loads[%d]", i), servers[:p.serving])
	}
	for i := range p.Cases {
		p.checkCase(list, fmt.Sprintf("cases[%d]", i), p.Cases[i].Loads, loads)
	}
}

// at is the path of a server, or of a tenant that serves none.
func (p *Plan) at(i int) string {
	if i >= p.serving {
		return fmt.Sprintf("tenants[%d]", i-p.serving)
	}
	return fmt.Sprintf("servers[%d]", i)
}

// checkNames makes sure that names are unique and can be folders. It returns the names.
func checkNames[T any](list *problem.List, path func(i int) string, items []T, name func(T) string) []string {
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}
	var names []string
	for i := range items {
		n, at := name(items[i]), path(i)+".name"
		list.If(n == "" || len(n) > 64 || strings.ContainsFunc(n, bad), at, "use letters, digits, - and _, at most 64",
			"%.80q names folders", n)
		list.If(slices.Contains(names, n), at, "", "%q is there twice", n)
		names = append(names, n)
	}
	return names
}

func (p *Plan) checkServers(list *problem.List) {
	emulated := slices.Contains(p.Modes, sharing.MechanismMIGLikeEmulation)
	total := 0.0
	for i := range p.Servers {
		s, at := &p.Servers[i], p.at(i)
		s.checkKind(list, at, i >= p.serving)
		list.If(s.API != "" && s.API != "chat" && s.API != "completions", at+".api",
			"use chat or completions", "is %q", s.API)
		list.If(s.Slots < 0 || s.Slots > 1<<20, at+".slots", "", "must be a number of requests, is %d", s.Slots)
		list.If(s.Percent != 0 && !(s.Percent > 0 && s.Percent <= 100), at+".percent", "",
			"must lie above 0 and at most at 100, is %v", s.Percent)
		if total += s.Percent; emulated && s.Percent == 0 {
			list.Addf(at+".percent", "give the server's share, or leave mig-like-emulation out of modes",
				"mode mig-like-emulation needs it")
		}
		list.If(s.MemoryLimit < 0 || s.MemoryLimit%sharing.MiB != 0, at+".memory_limit", "",
			"must be positive and whole in MiB")
		s.Simulated.check(list, at+".simulated")
	}
	list.If(emulated && total > 100+1e-9, "servers",
		"percentages that sum to more than 100 overlap, which is not MIG-like", "the percentages sum to %v", total)
}

// checkReach makes sure that real servers can be reached, and run under the modes.
func (p *Plan) checkReach(list *problem.List) {
	running := 0
	hosts := map[string]int{}
	for i := range p.Servers {
		s, at, address := &p.Servers[i], p.at(i), p.Servers[i].URL
		u, err := url.Parse(address)
		switch j, taken := 0, false; {
		case i >= p.serving:
			list.If(len(s.Command) == 0, at+".command", "give one: it is halted while others run isolated", "is missing")
			list.If(s.Progress.Line == "", at+".progress", `add line: "^step", an expression for the lines that end a step`,
				"nothing shows its steps")
		case err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http"):
			list.Addf(at+".url", `for example "http://127.0.0.1:8001"`, "must be an HTTP URL, is %q", address)
		default:
			if len(s.Command) > 0 { // which listens there
				address = u.Host
			}
			j, taken = hosts[address]
			list.If(taken, at+".url", "give each an address of its own", "is on that of %s, %s", p.at(j), address)
			hosts[address] = i
		}
		if len(s.Command) == 0 {
			running++
		} else if s.Command[0] == "" {
			list.Addf(at+".command[0]", "", "is empty")
		}
	}
	switch {
	case running > 0 && running < len(p.Servers):
		list.Addf("servers", "give all of them a command, or none",
			"%d of %d have no command: one mode would apply to some only", running, len(p.Servers))
	case running > 0 && len(p.Modes) > 1:
		list.Addf("modes", "name the one mode that the servers run under, or give commands",
			"servers without a command run already and keep their mode")
	}
}

// checkKind holds a tenant that serves no tokens apart from a server.
func (s *Server) checkKind(list *problem.List, path string, tenant bool) {
	if !tenant {
		list.If(s.Kind != profile.KindServer, path+".kind", "put it under tenants", "is %s", s.Kind)
		list.If(s.Progress != Progress{}, path+".progress", "leave it out", "a server's answers show its progress")
		list.If(s.Model == "", path+".model", "as requests name it", "is missing")
		return
	}
	list.If(s.Kind == profile.KindServer, path+".kind", "use stepper or burster, or put it under servers", "is %s", s.Kind)
	list.If(s.URL != "" || s.Slots != 0 || s.Engine != "", path+".url", "put it under servers",
		"a %s serves no tokens", s.Kind)
	p := &s.Progress
	if p.Line == "" {
		return
	}
	var err error
	if p.line, err = regexp.Compile(p.Line); err != nil {
		list.AddErr(path+".progress.line", err)
	} else if length, _ := p.length(); s.Kind == profile.KindBurster && length < 0 {
		list.Addf(path+".progress.line", `for example "cell took (?P<ms>[0-9.]+) ms"`,
			"tells a burster's cells, and not how long they took: it has no group named ms or s")
	}
}

func (s *SimulatedServer) check(list *problem.List, path string) {
	if s == nil {
		return
	}
	list.If(!(s.SMDemand >= 0 && s.SMDemand <= 1), path+".sm_demand", "", "must be a fraction, is %v", s.SMDemand)
	list.If(!(s.BandwidthDemand >= 0 && s.BandwidthDemand <= 1), path+".bandwidth_demand", "",
		"must be a fraction, is %v", s.BandwidthDemand)
	list.If(!(s.SMHold >= 0 && s.SMHold <= 1), path+".sm_hold", "", "must be a fraction, is %v", s.SMHold)
	list.If(s.StepKernels < 0 || s.StepKernels > 1<<12, path+".step_kernels", "", "must lie between 1 and %d, is %d",
		1<<12, s.StepKernels)
}

func (l *Load) check(list *problem.List, path string, servers []string) {
	list.If(!slices.Contains(servers, l.Server), path+".server", suggest(l.Server, servers), "there is no server %q",
		l.Server)
	list.AddErr(path, profile.Load{Concurrency: l.Concurrency, Rate: l.Rate, Prompt: l.Prompt,
		Output: l.Output}.Validate())
	list.If(l.Output == 1, path+".output", "use 2 or more", "with one token there are no decode steps to measure")
	list.AddErr(path+".slo", l.SLO.Validate())
}

func (p *Plan) checkCase(list *problem.List, path string, names, loads []string) {
	list.If(len(names) < 2, path+".loads", "every load is run isolated anyway", "must name at least two loads")
	var servers []string
	for j, name := range names {
		at := fmt.Sprintf("%s.loads[%d]", path, j)
		if !slices.Contains(loads, name) {
			list.Addf(at, suggest(name, loads), "there is no load %q", name)
			continue
		}
		s := p.load(name).Server
		list.If(slices.Contains(servers, s), at, "a case has one load for each server",
			"server %q has a load in this case already", s)
		servers = append(servers, s)
	}
}

func suggest(word string, names []string) string {
	return problem.Meant(word, names, "there are "+strings.Join(names, ", "))
}

// copyMark is replaced by the number of a copy, from 1, in the command and the addresses of a server that is copied:
// each listens on a port of its own ("800{copy}").
const copyMark = "{copy}"

// mostCopies bounds the copies that a plan may start.
const mostCopies = 32

// copyServer replaces the plan's servers and cases by numbers of copies of its first server, or tenant, each with its
// first load. Every plan has a run of one isolated copy.
func (p *Plan) copyServer(numbers []int, list *problem.List) {
	for _, n := range numbers {
		list.If(n < 1 || n > mostCopies, "copies", fmt.Sprintf("use 1 to %d", mostCopies), "%d is out of range", n)
	}
	from, to := &p.Servers, len(p.Servers)
	if to == 0 {
		from, to = &p.Tenants, len(p.Tenants)
	}
	if to == 0 || list.Len() > 0 {
		return // check reports it
	}
	first := (*from)[0]
	at := slices.IndexFunc(p.Loads, func(l Load) bool { return l.Server == first.Name })
	var load Load
	if at >= 0 {
		load = p.Loads[at]
	}
	p.Servers, p.Tenants, p.Loads, p.Cases = nil, nil, nil, nil
	p.Modes = slices.DeleteFunc(p.Modes, func(m sharing.Mechanism) bool { return m == sharing.MechanismMIGLikeEmulation })
	var names []string
	for i := range slices.Max(numbers) {
		s, n := first, fmt.Sprint(i+1)
		s.Name, s.Model = first.Name+"-"+n, first.Model
		s.Command = slices.Clone(first.Command)
		for k := range s.Command {
			s.Command[k] = strings.ReplaceAll(s.Command[k], copyMark, n)
		}
		s.URL = strings.ReplaceAll(s.URL, copyMark, n)
		if at >= 0 {
			l := load
			l.Name, l.Server = load.Name+"-"+n, s.Name
			p.Servers, p.Loads, names = append(p.Servers, s), append(p.Loads, l), append(names, l.Name)
		} else {
			s.Model = first.Name
			p.Tenants, names = append(p.Tenants, s), append(names, s.Name)
		}
	}
	for _, n := range numbers {
		if n > 1 {
			p.Cases = append(p.Cases, Case{Name: fmt.Sprintf("copies-%d", n), Loads: names[:n]})
		}
	}
	p.copied = true
}
