package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// settings are the flags of a measurement.
type settings struct {
	endpoint, model, promptsFile, out, scenario, planFile, apiKeyEnv, serverLog string
	api                                                                         loadgen.API
	usage                                                                       loadgen.UsageMode
	concurrency                                                                 intList
	rate                                                                        floatList
	arrivals                                                                    string
	burstiness                                                                  float64
	requests, maxTokens, warmup, repeats, retries                               int
	duration, drain, timeout, ramp, think                                       time.Duration
	window                                                                      windowFlag
	seed                                                                        uint64
	progress, report, nonStreaming, study, telemetry, asJSON                    bool
	trace                                                                       traceFlags
	slo                                                                         loadgen.RequestSLO
	search                                                                      floatList
	header                                                                      headerFlag
	simulate                                                                    scenarioList

	set map[string]bool // the flags that were given
}

type traceFlags struct {
	file  string
	speed float64
	slice windowFlag
}

func (s *settings) register(fs *flag.FlagSet) {
	fs.StringVar(&s.endpoint, "endpoint", "", "base `URL` of an OpenAI-compatible server; without it the embedded server is measured")
	fs.TextVar(&s.api, "api", loadgen.APIChat, "chat or completions")
	fs.StringVar(&s.model, "model", "", "model name sent with each request (default: none is sent)")
	fs.StringVar(&s.promptsFile, "prompts", "", "JSON Lines `FILE` of prompts, used in order, over and over; - is stdin (default: a small built-in set)")
	fs.Var(&s.concurrency, "concurrency", "closed loop with this many users; a comma-separated `list` is a sweep (default 8 users, without -rate, -search, -trace and -plan)")
	fs.Var(&s.rate, "rate", "open loop with this many requests/s; a comma-separated `list` is a sweep")
	fs.StringVar(&s.arrivals, "arrivals", "constant", "arrivals of the open loop: constant, poisson or gamma")
	fs.Float64Var(&s.burstiness, "burstiness", 1, "shape of -arrivals gamma: 1 is Poisson, less is burstier")
	fs.IntVar(&s.requests, "requests", 100, "requests of each run; with -duration alone there is no bound")
	fs.DurationVar(&s.duration, "duration", 0, "stop offering load after this time, e.g. 30s; what is in flight is finished (default: -requests decides)")
	fs.DurationVar(&s.drain, "drain", 0, "once no more load is offered, wait this long for what is in flight, then cancel it (default: until each request's -timeout)")
	fs.DurationVar(&s.timeout, "timeout", loadgen.DefaultTimeoutTotal, "bound of a whole request; besides, 10s to connect, 5m to the first token and 1m between events")
	fs.IntVar(&s.maxTokens, "max-tokens", 100, "max_tokens of prompts that set none")
	fs.IntVar(&s.warmup, "warmup", 0, "requests before the run, measured by nobody (default: none)")
	fs.DurationVar(&s.ramp, "ramp", 0, "spread the users' first requests over this time, e.g. 2s, and cut it from the figures (default: all at once)")
	fs.DurationVar(&s.think, "think", 0, "pause of a user between answer and next request, e.g. 1s (default: none)")
	fs.Var(&s.window, "window", "count only this part of the run: `FROM[,TO]`, e.g. 5s,25s (default: all of it)")
	fs.Uint64Var(&s.seed, "seed", 1, "seed of all randomness")
	fs.BoolVar(&s.progress, "progress", true, "live progress on stderr")
	fs.BoolVar(&s.report, "report", false, "draw figures and write report.html into -out")
	fs.StringVar(&s.out, "out", "", "`DIR` for the artifacts; must not exist or must be empty (default: nothing is kept, but without any flags a new benchmark-... folder)")
	fs.StringVar(&s.scenario, "scenario", "", "name of what is measured, for tables (default \"endpoint\", or the simulated scenario)")
	fs.IntVar(&s.repeats, "repeats", 1, "runs of each point, for compare")
	fs.IntVar(&s.retries, "retries", 0, "further attempts after 429, 5xx and failed connections; counted (default: none)")
	fs.BoolVar(&s.nonStreaming, "non-streaming", false, "ask for whole answers")
	fs.TextVar(&s.usage, "usage", loadgen.UsageFinal, "usage reports asked for: final, continuous or none")
	fs.Var(&s.header, "header", "`NAME: VALUE` added to each request; may be repeated")
	fs.StringVar(&s.apiKeyEnv, "api-key-env", "", "environment `VARIABLE` that holds the API key")
	fs.DurationVar(&s.slo.TTFT, "slo-ttft", 0, "bound of ttft, e.g. 500ms, for goodput and searches (default: none; so too below)")
	fs.DurationVar(&s.slo.TPOT, "slo-tpot", 0, "bound of tpot")
	fs.DurationVar(&s.slo.E2E, "slo-e2e", 0, "bound of e2e")
	fs.Var(&s.search, "search", "find the highest rate that keeps the SLOs between `LOW,HIGH` requests/s")
	fs.StringVar(&s.trace.file, "trace", "", "replay a Mooncake, Qwen Bailian, Azure LLM or BurstGPT trace `FILE`: arrivals and lengths")
	fs.Float64Var(&s.trace.speed, "trace-speed", 1, "replay the trace this many times as fast")
	fs.Var(&s.trace.slice, "trace-slice", "replay this part of the trace: `FROM[,TO]`")
	fs.StringVar(&s.planFile, "plan", "", "YAML or JSON `FILE` with several tenants; see testdata/plan.yaml")
	fs.BoolVar(&s.study, "study", false, "with -plan: run each tenant alone, then all together, and show the slowdowns")
	fs.BoolVar(&s.telemetry, "telemetry", false, "sample this machine's GPUs through NVML beside each run: telemetry.csv in -out")
	fs.StringVar(&s.serverLog, "server-log", "", "copy what the server appends to this `FILE` during a run: server.log in -out")
	fs.BoolVar(&s.asJSON, "json", false, "print the summaries as JSON instead of tables")
	fs.Var(&s.simulate, "simulate", "scenarios of the embedded server, comma-separated `list`: baseline, time-slicing, mps, mig, mig-emulation (default baseline)")
}

// measureCommand reads the flags and measures.
func measureCommand(ctx context.Context, a *app, args []string) error {
	s, err := a.settings(args)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		s.demo(time.Now())
	}
	if err := s.check(); err != nil {
		return err
	}
	return a.measure(ctx, s, args)
}

// settings reads the flags of a measurement, which check judges.
func (a *app) settings(args []string) (*settings, error) {
	s := &settings{}
	fs := a.flags("", "[flags]", "Measure OpenAI-compatible LLM endpoints.")
	s.register(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	s.set = map[string]bool{}
	fs.Visit(func(f *flag.Flag) { s.set[f.Name] = true })
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return s, nil
}

// demo is what is measured without arguments.
func (s *settings) demo(now time.Time) {
	s.simulate = scenarioList{"baseline", "mps", "mig-emulation"}
	s.concurrency = intList{8, 16, 24}
	s.duration, s.maxTokens, s.warmup = 2*time.Second, 16, 8
	s.report = true
	s.out = now.UTC().Format("benchmark-20060102T150405Z")
}

// check names every flag that is wrong.
func (s *settings) check() error {
	var l problem.List
	given := func(names ...string) (have []string) {
		for _, n := range names {
			if s.set[n] {
				have = append(have, "-"+n)
			}
		}
		return have
	}
	if load := given("concurrency", "rate", "search", "trace", "plan"); len(load) > 1 {
		l.Addf("", "keep one", "%s exclude one another", strings.Join(load, " and "))
	}
	if s.endpoint != "" && s.planFile != "" {
		l.Addf("-endpoint", "put it into the plan", "the plan names its endpoints")
	}
	if s.endpoint != "" && len(s.simulate) > 0 {
		l.Addf("-simulate", "keep one", "-endpoint and -simulate exclude one another")
	}
	if !slices.Contains([]string{"constant", "poisson", "gamma"}, s.arrivals) {
		l.Addf("-arrivals", "use constant, poisson or gamma", "is %q", s.arrivals)
	}
	if s.set["burstiness"] && s.arrivals != "gamma" {
		l.Addf("-burstiness", "add -arrivals gamma", "has no effect on %s arrivals", s.arrivals)
	}
	if open := given("arrivals"); len(open) > 0 && len(s.rate) == 0 && len(s.search) == 0 {
		l.Addf("-arrivals", "add -rate", "has no effect without an open loop")
	}
	if closed := given("ramp", "think"); len(closed) > 0 && (len(s.rate) > 0 || len(s.search) > 0 || s.trace.file != "") {
		l.Addf(strings.Join(closed, ", "), "use -concurrency, or -window to cut the start", "belongs to a closed loop")
	}
	if s.requests < 0 || s.requests == 0 && s.duration == 0 {
		l.Addf("-requests", "use 1 or more, or 0 with -duration", "is %d", s.requests)
	}
	if s.duration > 0 && !s.set["requests"] {
		s.requests = 0
	}
	if s.timeout <= 0 {
		l.Addf("-timeout", "use a duration above 0", "is %v", s.timeout)
	}
	if inPlan := given("drain", "timeout"); len(inPlan) > 0 && s.planFile != "" {
		l.Addf(strings.Join(inPlan, ", "), "put drain into the plan", "has no effect on -plan")
	}
	if s.repeats < 1 {
		l.Addf("-repeats", "use 1 or more", "is %d", s.repeats)
	}
	if !(s.trace.speed > 0) || math.IsInf(s.trace.speed, 0) {
		l.Addf("-trace-speed", "use a factor above 0", "is %v", s.trace.speed)
	}
	if s.study && s.planFile == "" {
		l.Addf("-study", "add -plan", "needs a plan with tenants")
	}
	if len(s.search) > 0 {
		if len(s.search) != 2 || s.search[0] >= s.search[1] {
			l.Addf("-search", "write LOW,HIGH, e.g. 1,50", "is %s", s.search.String())
		}
		if s.slo.IsZero() {
			l.Addf("-search", "add -slo-ttft, -slo-tpot or -slo-e2e", "needs an SLO")
		}
	}
	if s.report && s.out == "" {
		l.Addf("-report", "add -out", "needs a directory to write into")
	}
	for _, name := range given("telemetry", "server-log") {
		if s.out == "" {
			l.Addf(name, "add -out", "needs a directory to write into")
		}
		if s.endpoint == "" && s.planFile == "" {
			l.Addf(name, "add -endpoint or -plan", "the embedded server has no GPU and no log")
		}
	}
	if s.apiKeyEnv != "" && os.Getenv(s.apiKeyEnv) == "" {
		l.Addf("-api-key-env", "export it first", "the variable %s is empty", s.apiKeyEnv)
	}
	return l.Err()
}

// intList is a comma-separated list of counts above 0.
type intList []int

func (v *intList) String() string {
	if v == nil {
		return ""
	}
	var parts []string
	for _, n := range *v {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ",")
}

func (v *intList) Set(text string) error {
	*v = nil
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a whole number above 0", part)
		}
		*v = append(*v, n)
	}
	return nil
}

// floatList is a comma-separated list of finite numbers above 0.
type floatList []float64

func (v *floatList) String() string {
	if v == nil {
		return ""
	}
	var parts []string
	for _, n := range *v {
		parts = append(parts, strconv.FormatFloat(n, 'g', -1, 64))
	}
	return strings.Join(parts, ",")
}

func (v *floatList) Set(text string) error {
	*v = nil
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return fmt.Errorf("%q is not a number above 0", part)
		}
		*v = append(*v, n)
	}
	return nil
}

// windowFlag is FROM[,TO].
type windowFlag struct{ from, to time.Duration }

func (w *windowFlag) String() string {
	switch {
	case w == nil || *w == windowFlag{}:
		return ""
	case w.to == 0:
		return w.from.String()
	}
	return w.from.String() + "," + w.to.String()
}

func (w *windowFlag) Set(text string) error {
	from, to, two := strings.Cut(text, ",")
	var err error
	if w.from, err = time.ParseDuration(from); err == nil && two {
		w.to, err = time.ParseDuration(to)
	}
	if err != nil || w.from < 0 || two && w.to <= w.from {
		return errors.New("write FROM or FROM,TO with FROM before TO, e.g. 5s,25s")
	}
	return nil
}

// headerFlag gathers headers.
type headerFlag struct{ http.Header }

func (h *headerFlag) String() string { return "" } // may hold credentials

func (h *headerFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return errors.New("write NAME: VALUE")
	}
	if h.Header == nil {
		h.Header = http.Header{}
	}
	h.Add(name, strings.TrimSpace(value))
	return nil
}

// scenarioList names embedded scenarios.
type scenarioList []string

func (v *scenarioList) String() string {
	if v == nil {
		return ""
	}
	return strings.Join(*v, ",")
}

func (v *scenarioList) Set(text string) error {
	*v = nil
	for _, name := range strings.Split(text, ",") {
		if _, ok := embeddedScenarios[name]; !ok {
			return fmt.Errorf("unknown scenario %q (known: %s)", name, strings.Join(scenarioNames(), ", "))
		}
		*v = append(*v, name)
	}
	return nil
}
