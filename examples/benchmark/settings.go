package main

import (
	"crypto/tls"
	"encoding/json"
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

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/planfile"
	"github.com/cotenant/cotenant/loadgen/report"
)

// settings are the flags of a measurement.
type settings struct {
	file                            planfile.File // the one tenant of the flags, or those of -plan
	plan, out, serverLog            string
	endpoint, apiKeyEnv             string
	header                          http.Header
	concurrency                     []int
	rate, search                    []float64
	trace                           planfile.Trace
	repeats                         int
	progress, report, study, asJSON bool
	telemetry                       bool
	simulate                        []string // embedded scenarios
	scene, pipe                     bool     // the default scene; its servers in memory, for tests

	price     cost.Money // of an hour of what serves the tenants; zero without -price
	failIf    []report.Condition
	body      map[string]any
	ignoreEOS bool
	ca        string
	randomIn  int
	randomOut int

	set map[string]bool // the flags that were given
}

func (s *settings) tenant() *planfile.Tenant { return &s.file.Tenants[0] }

func (s *settings) register(fs *flag.FlagSet) {
	s.file.Tenants = make([]planfile.Tenant, 1)
	t := s.tenant()
	t.Name = "load"
	fs.StringVar(&s.endpoint, "endpoint", "", "base `URL` of an OpenAI-compatible server; without it the embedded server is measured")
	fs.TextVar(&t.API, "api", loadgen.APIChat, "chat or completions")
	fs.StringVar(&t.Model, "model", "", "model name sent with each request (default: none is sent)")
	fs.StringVar(&t.Prompts, "prompts", "", "JSON Lines `FILE` of prompts, used in order, over and over; - is stdin (default: a small built-in set)")
	fs.Func("concurrency", "closed loop with this many users; a comma-separated `list` is a sweep (default 8 users, without -rate, -search, -trace and -plan)", numbers(&s.concurrency, "whole number"))
	fs.Func("rate", "open loop with this many requests/s; a comma-separated `list` is a sweep", numbers(&s.rate, "number"))
	fs.StringVar(&t.Arrivals, "arrivals", "constant", "arrivals of the open loop: constant, poisson or gamma")
	fs.Float64Var(&t.Burstiness, "burstiness", 1, "shape of -arrivals gamma: 1 is Poisson, less is burstier")
	fs.IntVar(&t.Requests, "requests", 100, "requests of each run; with -duration alone there is no bound")
	fs.DurationVar(&s.file.Duration, "duration", 0, "stop offering load after this time, e.g. 30s; what is in flight is finished (default: -requests decides)")
	fs.DurationVar(&s.file.Drain, "drain", 0, "once no more load is offered, wait this long for what is in flight, then cancel it (default: until each request's -timeout)")
	fs.DurationVar(&t.Timeouts.Total, "timeout", loadgen.DefaultTimeoutTotal, "bound of a whole request; besides, 10s to connect, 5m to the first token and 1m between events")
	fs.IntVar(&t.MaxTokens, "max-tokens", 100, "max_tokens of prompts that set none")
	fs.IntVar(&t.Warmup, "warmup", 0, "requests before the run, measured by nobody (default: none)")
	fs.DurationVar(&t.Ramp, "ramp", 0, "spread the users' first requests over this time, e.g. 2s, and cut it from the figures (default: all at once)")
	fs.DurationVar(&t.Think, "think", 0, "pause of a user between answer and next request, e.g. 1s (default: none)")
	fs.Func("window", "count only this part of the run: `FROM[,TO]`, e.g. 5s,25s (default: all of it)", window(&s.file.Window))
	fs.Uint64Var(&s.file.Seed, "seed", 1, "seed of all randomness")
	fs.BoolVar(&s.progress, "progress", true, "live progress on stderr")
	fs.BoolVar(&s.report, "report", false, "draw figures and write report.html into -out")
	fs.StringVar(&s.out, "out", "", "`DIR` for the artifacts; must not exist or must be empty (default: nothing is kept, but without any flags a new benchmark-... folder)")
	fs.StringVar(&s.file.Scenario, "scenario", "", "name of what is measured, for tables (default \"endpoint\", or the simulated scenario)")
	fs.IntVar(&s.repeats, "repeats", 1, "runs of each point, for compare")
	fs.IntVar(&t.Retries, "retries", 0, "further attempts after 429, 5xx and failed connections; counted (default: none)")
	fs.BoolVar(&t.NonStreaming, "non-streaming", false, "ask for whole answers")
	fs.TextVar(&t.Usage, "usage", loadgen.UsageFinal, "usage reports asked for: final, continuous or none")
	fs.Func("header", "`NAME: VALUE` added to each request; may be repeated", s.addHeader)
	fs.Func("body", "`NAME=VALUE` added to each request's JSON, e.g. temperature=0; VALUE is JSON, or else a text; may be repeated", s.addBody)
	fs.BoolVar(&s.ignoreEOS, "ignore-eos", false, "answers as long as max_tokens, on servers that know ignore_eos")
	fs.StringVar(&t.ShareGPT, "sharegpt", "", "first questions of this ShareGPT `FILE` of conversations, answers as long as the recorded ones")
	fs.IntVar(&s.randomIn, "random-input-len", 1024, "prompts of this many random words; needs no file")
	fs.IntVar(&s.randomOut, "random-output-len", 128, "max_tokens of random prompts")
	fs.StringVar(&s.ca, "ca", "", "PEM `FILE` of the certificate authorities that an https endpoint is checked against (default: the system's)")
	fs.Func("fail-if", "exit with 4 if this `CONDITION` holds of a run, e.g. failed>1% or ttft.p99>500ms, or is unknown; may be repeated", s.addCondition)
	fs.StringVar(&s.apiKeyEnv, "api-key-env", "", "environment `VARIABLE` that holds the API key")
	fs.DurationVar(&t.SLO.TTFT, "slo-ttft", 0, "bound of ttft, e.g. 500ms, for goodput and searches (default: none; so too below)")
	fs.DurationVar(&t.SLO.TPOT, "slo-tpot", 0, "bound of tpot")
	fs.DurationVar(&t.SLO.E2E, "slo-e2e", 0, "bound of e2e")
	fs.Func("search", "find the highest rate that keeps the SLOs between `LOW,HIGH` requests/s", numbers(&s.search, "number"))
	fs.StringVar(&s.trace.File, "trace", "", "replay a Mooncake, Qwen Bailian, Azure LLM or BurstGPT trace `FILE`: arrivals and lengths")
	fs.Float64Var(&s.trace.Speed, "trace-speed", 1, "replay the trace this many times as fast")
	fs.Func("trace-slice", "replay this part of the trace: `FROM[,TO]`", window(&s.trace.Window))
	fs.StringVar(&s.plan, "plan", "", "YAML or JSON `FILE` with several tenants; see testdata/plan.yaml")
	fs.BoolVar(&s.study, "study", false, "with -plan: run each tenant alone, then all together, and show the slowdowns")
	fs.BoolVar(&s.telemetry, "telemetry", false, "sample this machine's GPUs through NVML beside each run: telemetry.csv in -out")
	fs.StringVar(&s.serverLog, "server-log", "", "copy what the server appends to this `FILE` during a run: server.log in -out")
	fs.Func("price", "`PRICE` of an hour of the GPUs that serve the tenants, e.g. \"2.90 USD\": adds what a million tokens cost each", func(text string) (err error) {
		s.price, err = cost.ParsePrice(text)
		return err
	})
	fs.BoolVar(&s.asJSON, "json", false, "print the summaries as JSON instead of tables")
	fs.Func("simulate", "scenarios of the embedded server, comma-separated `list`: baseline, time-slicing, mps, mig, mig-emulation (default baseline)", s.addScenarios)
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

// check names every flag that is wrong.
func (s *settings) check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	given := func(names ...string) string {
		names = slices.DeleteFunc(names, func(n string) bool { return !s.set[n] })
		for i := range names {
			names[i] = "-" + names[i]
		}
		return strings.Join(names, " and ")
	}
	t := s.tenant()
	open := len(s.rate) > 0 || len(s.search) > 0
	loads := given("concurrency", "rate", "search", "trace", "plan")
	bad(strings.Contains(loads, " and "), "%s exclude one another (keep one)", loads)
	bad(s.endpoint != "" && s.plan != "", "-endpoint: the plan names its endpoints (put it into the plan)")
	bad(s.endpoint != "" && len(s.simulate) > 0, "-simulate: -endpoint and -simulate exclude one another (keep one)")
	bad(s.set["burstiness"] && t.Arrivals != "gamma", "-burstiness: has no effect on %s arrivals (add -arrivals gamma)", t.Arrivals)
	bad(s.set["arrivals"] && !open, "-arrivals: has no effect without an open loop (add -rate)")
	closed := given("ramp", "think")
	bad(closed != "" && (open || s.trace.File != ""), "%s: belongs to a closed loop (use -concurrency, or -window to cut the start)", closed)
	bad(t.Requests < 0 || t.Requests == 0 && s.file.Duration == 0, "-requests: is %d (use 1 or more, or 0 with -duration)", t.Requests)
	bad(t.Timeouts.Total <= 0, "-timeout: is %v (use a duration above 0)", t.Timeouts.Total)
	inPlan := given("drain", "timeout")
	bad(inPlan != "" && s.plan != "", "%s: has no effect on -plan (put drain into the plan)", inPlan)
	bad(s.repeats < 1, "-repeats: is %d (use 1 or more)", s.repeats)
	bad(!(s.trace.Speed > 0) || math.IsInf(s.trace.Speed, 0), "-trace-speed: is %v (use a factor above 0)", s.trace.Speed)
	bad(s.study && s.plan == "", "-study: needs a plan with tenants (add -plan)")
	bad(s.set["search"] && (len(s.search) != 2 || s.search[0] >= s.search[1]), "-search: is %v (write LOW,HIGH, e.g. 1,50)", s.search)
	bad(s.set["search"] && t.SLO.IsZero(), "-search: needs an SLO (add -slo-ttft, -slo-tpot or -slo-e2e)")
	bad(s.set["search"] && t.NonStreaming && (t.SLO.TTFT > 0 || t.SLO.TPOT > 0), "-search: whole answers have neither ttft nor tpot (use -slo-e2e, or drop -non-streaming)")
	bad(s.set["search"] && len(s.simulate) > 1, "-search: searches one scenario at a time")
	bad(s.report && s.out == "", "-report: needs a directory to write into (add -out)")
	for _, name := range []string{"telemetry", "server-log"} {
		bad(s.set[name] && s.out == "", "-%s: needs a directory to write into (add -out)", name)
		bad(s.set[name] && s.endpoint == "" && s.plan == "", "-%s: the embedded server has no GPU and no log (add -endpoint or -plan)", name)
	}
	bad(s.apiKeyEnv != "" && os.Getenv(s.apiKeyEnv) == "", "-api-key-env: the variable %s is empty (export it first)", s.apiKeyEnv)
	prompts := given("prompts", "sharegpt", "trace")
	random := given("random-input-len", "random-output-len")
	bad(strings.Contains(prompts, " and ") && !s.set["trace"], "%s exclude one another (keep one)", prompts)
	bad(random != "" && prompts != "", "%s and %s exclude one another (keep one)", prompts, random)
	bad(random != "" && (s.randomIn < 1 || s.randomOut < 1), "-random-input-len, -random-output-len: are %d and %d (use 1 or more)", s.randomIn, s.randomOut)
	bad(s.ca != "" && !strings.HasPrefix(s.endpoint, "https:"), "-ca: has no effect without an https endpoint")
	only := given("body", "ignore-eos", "sharegpt", "random-input-len", "random-output-len")
	bad(only != "" && s.plan != "", "%s: has no effect on -plan (put it into the plan)", only)
	bad(len(s.failIf) > 0 && s.set["search"], "-fail-if: a search goes beyond what a server keeps (drop one of the two)")
	if s.ignoreEOS {
		s.setBody("ignore_eos", true)
	}
	if random != "" {
		t.Synthetic = &planfile.Synthetic{Input: planfile.Lengths{Fixed: s.randomIn}, Output: planfile.Lengths{Fixed: s.randomOut}}
	}
	t.Body = s.body
	if !s.set["requests"] && (s.file.Duration > 0 || s.trace.File != "") {
		t.Requests = 0
	}
	return errors.Join(errs...)
}

// numbers reads a comma-separated list of finite numbers above 0.
func numbers[T int | float64](list *[]T, what string) func(string) error {
	return func(text string) error {
		*list = nil
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if err != nil || !(n > 0) || math.IsInf(n, 0) || float64(T(n)) != n {
				return fmt.Errorf("%q is not a %s above 0", part, what)
			}
			*list = append(*list, T(n))
		}
		return nil
	}
}

// window reads FROM[,TO].
func window(w *loadgen.Window) func(string) error {
	return func(text string) error {
		from, to, two := strings.Cut(text, ",")
		var err error
		if w.From, err = time.ParseDuration(from); err == nil && two {
			w.To, err = time.ParseDuration(to)
		}
		if err != nil || w.From < 0 || two && w.To <= w.From {
			return errors.New("write FROM or FROM,TO with FROM before TO, e.g. 5s,25s")
		}
		return nil
	}
}

func (s *settings) addHeader(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return errors.New("write NAME: VALUE")
	}
	if s.header == nil {
		s.header = http.Header{}
	}
	s.header.Add(name, strings.TrimSpace(value))
	return nil
}

func (s *settings) setBody(name string, value any) {
	if s.body == nil {
		s.body = map[string]any{}
	}
	s.body[name] = value
}

func (s *settings) addBody(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return errors.New("write NAME=VALUE")
	}
	var v any
	if json.Unmarshal([]byte(value), &v) != nil {
		v = value
	}
	s.setBody(name, v)
	return nil
}

func (s *settings) addCondition(text string) error {
	c, err := report.ParseCondition(text)
	s.failIf = append(s.failIf, c)
	return err
}

// trust is the TLS configuration for -ca, nil without it.
func (s *settings) trust() (*tls.Config, error) {
	if s.ca == "" {
		return nil, nil
	}
	t, err := planfile.Trust(s.ca)
	if err != nil {
		return nil, fmt.Errorf("-ca: %w", err)
	}
	return t, nil
}

func (s *settings) addScenarios(text string) error {
	s.simulate = strings.Split(text, ",")
	for _, name := range s.simulate {
		if _, ok := embeddedScenarios[name]; !ok {
			return fmt.Errorf("unknown scenario %q (known: %s)", name, strings.Join(scenarioNames(), ", "))
		}
	}
	return nil
}
