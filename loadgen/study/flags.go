// SPDX-License-Identifier: Apache-2.0

package study

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
	"github.com/cotenant/cotenant/loadgen/report"
)

// flags reads a Config from command-line flags.
type flags struct {
	Config
	fl                  *flag.FlagSet
	names               map[string]bool // those of BindFlags; true: given
	server              Endpoint
	search              []float64
	limit               time.Duration
	trace               Trace
	randomIn, randomOut int
}

// BindFlags defines the flags of a load test: of one tenant and its loads, or of a plan. Once fl has been parsed, apply
// checks the flags against one another and completes the Config from them. It reads no file; its error names every
// problem.
func BindFlags(fl *flag.FlagSet) (config *Config, apply func() error) {
	c := &flags{fl: fl, names: map[string]bool{}}
	c.server.Header = map[string]string{}
	f := &c.File
	f.Tenants = []Tenant{{Tenant: loadgen.Tenant{Name: "load", Body: map[string]any{}}}}
	t := &f.Tenants[0]
	fl.StringVar(&c.server.URL, "endpoint", "", "base `URL` of the server; without it a simulated one is measured")
	fl.StringVar(&t.API, "api", "chat", "chat or completions")
	fl.StringVar(&t.Model, "model", "", "model name sent with each request (default: none)")
	fl.StringVar(&t.Prompts, "prompts", "", "JSON Lines `FILE` of prompts, used in order, over and over; - is stdin")
	fl.Func("concurrency", "closed loop with this many users; a `LIST` is a sweep (default 8)", numbers(&c.Concurrency))
	fl.Func("rate", "open loop with this many requests/s; a `LIST` is a sweep", numbers(&c.Rates))
	fl.StringVar(&t.Arrivals, "arrivals", "", "arrivals of the open loop: constant (default), poisson or gamma")
	fl.Float64Var(&t.Burstiness, "burstiness", 1, "shape of gamma arrivals: 1 is Poisson, less is burstier")
	fl.IntVar(&t.Requests, "requests", 100, "requests of each run; with only -duration there is no bound")
	fl.DurationVar(&f.Duration, "duration", 0, "send no new requests after this time; requests in flight are finished")
	fl.DurationVar(&f.Drain, "drain", 0, "then wait this long for requests in flight (default: until their -timeout)")
	fl.DurationVar(&t.Timeouts.Total, "timeout", 30*time.Minute, "limit of a whole request")
	fl.IntVar(&t.MaxTokens, "max-tokens", 100, "max_tokens of prompts without their own")
	fl.IntVar(&t.Warmup, "warmup", 0, "requests before the run, not measured")
	fl.DurationVar(&t.Ramp, "ramp", 0, "spread the users' first requests over this time and exclude it from the figures")
	fl.DurationVar(&t.Think, "think", 0, "pause of a user between answer and next request")
	fl.Func("window", "count only this part of the run: `FROM[,TO]`, e.g. 5s,25s", window(&f.Window))
	fl.Uint64Var(&f.Seed, "seed", 1, "seed of all randomness")
	fl.StringVar(&c.Dir, "out", "", "empty or new `DIR` for the artifacts (default: none)")
	fl.StringVar(&f.Scenario, "scenario", "", "name in tables (default endpoint, or the simulated scenario)")
	fl.IntVar(&c.Repeats, "repeats", 1, "runs of each point, for compare")
	fl.IntVar(&t.Retries, "retries", 0, "further attempts after 429, 5xx and failed connections")
	fl.BoolVar(&t.NonStreaming, "non-streaming", false, "request whole answers instead of streams")
	fl.StringVar(&t.Usage, "usage", "final", "usage reports to request: final, continuous or none")
	fl.Func("header", "`NAME: VALUE` added to each request; may be repeated", c.addHeader)
	fl.Func("body", "`NAME=VALUE` added to the body of each request; VALUE is JSON or text; may be repeated", c.addBody)
	fl.BoolFunc("ignore-eos", "always generate max_tokens, on servers that support ignore_eos", func(string) error {
		return c.addBody("ignore_eos=true")
	})
	fl.IntVar(&c.randomIn, "random-input-len", 1024, "prompts of this many random words")
	fl.IntVar(&c.randomOut, "random-output-len", 128, "max_tokens of random prompts")
	fl.StringVar(&c.server.CAFile, "ca", "", "PEM `FILE` of certificate authorities for https (default: the system's)")
	fl.StringVar(&c.server.CertFile, "cert", "", "PEM `FILE` of this client's certificate for https")
	fl.StringVar(&c.server.KeyFile, "key", "", "PEM `FILE` of the certificate's key")
	fl.StringVar(&c.server.APIKeyEnv, "api-key-env", "", "environment `VARIABLE` that holds the API key")
	fl.DurationVar(&t.SLO.TTFT, "slo-ttft", 0, "limit of TTFT, for goodput and searches")
	fl.DurationVar(&t.SLO.TPOT, "slo-tpot", 0, "limit of TPOT")
	fl.DurationVar(&t.SLO.E2E, "slo-e2e", 0, "limit of end-to-end latency")
	fl.Func("search", "find the highest rate that meets the SLOs, bisecting `LOW,HIGH` requests/s", numbers(&c.search))
	fl.DurationVar(&c.limit, "search-limit", 0, "end the search after this time (default: by its trials, printed first)")
	fl.StringVar(&c.trace.File, "trace", "", "replay a Mooncake, Azure LLM or BurstGPT trace `FILE`")
	fl.Float64Var(&c.trace.Speed, "trace-speed", 1, "replay the trace this many times as fast")
	fl.Func("trace-slice", "replay this part of the trace: `FROM[,TO]`", window(&c.trace.Window))
	fl.StringVar(&c.PlanFile, "plan", "", "YAML or JSON `FILE` with several tenants")
	fl.BoolVar(&c.Interference, "study", false, "with -plan: run each tenant isolated, then all co-located, and compare")
	fl.Func("simulate", "`LIST` of simulated scenarios: "+strings.Join(scenarioNames(), ", "), func(text string) error {
		c.Scenarios = strings.Split(text, ",")
		return nil
	})
	fl.Func("fail-if", "fail if this `CONDITION` of a run holds or is unknown, e.g. failed>1% or ttft.p99>500ms; "+
		"may be repeated", func(text string) error {
		condition, err := report.ParseCondition(text)
		c.FailIf = append(c.FailIf, condition)
		return err
	})
	fl.VisitAll(func(f *flag.Flag) { c.names[f.Name] = false })
	return &c.Config, c.apply
}

var (
	// exclusive holds flags that exclude one another.
	exclusive = []string{
		"concurrency rate search trace plan", "endpoint plan simulate", "think rate search trace", "ramp rate search trace",
		"prompts random-input-len", "prompts random-output-len", "fail-if search",
	}
	// needs holds flags that have an effect only together with one of the others.
	needs = []string{
		"arrivals rate search", "burstiness arrivals", "trace-speed trace", "trace-slice trace", "study plan",
		"search slo-ttft slo-tpot slo-e2e", "search-limit search", "header endpoint",
		"ca endpoint", "cert key", "key cert", "cert endpoint", "api-key-env endpoint",
	}
	// withPlan holds the flags that a plan leaves to the command line.
	withPlan = strings.Fields("plan study out repeats fail-if")
)

func (c *flags) apply() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	c.fl.Visit(func(f *flag.Flag) {
		if _, own := c.names[f.Name]; own {
			c.names[f.Name] = true
			bad(c.PlanFile != "" && !slices.Contains(withPlan, f.Name),
				"-%s: has no effect on -plan (put it into the plan)", f.Name)
		}
	})
	given := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !c.names[name] })
	}
	for _, names := range exclusive {
		both := given(strings.Fields(names))
		bad(len(both) > 1, "-%s exclude one another (keep one)", strings.Join(both, " and -"))
	}
	for _, names := range needs {
		need := strings.Fields(names)
		bad(c.names[need[0]] && len(given(need[1:])) == 0,
			"-%s: has no effect without -%s", need[0], strings.Join(need[1:], " or -"))
	}
	t := &c.File.Tenants[0]
	bad(c.Repeats < 1, "-repeats: is %d (use 1 or more)", c.Repeats)
	bad(t.Timeouts.Total <= 0, "-timeout: is %v (use a duration above 0)", t.Timeouts.Total)
	bad(t.Requests < 0 || t.Requests == 0 && c.File.Duration == 0,
		"-requests: is %d (use 1 or more, or 0 with -duration)", t.Requests)
	bad(c.names["search"] && len(c.search) != 2, "-search: is %v (write LOW,HIGH, e.g. 1,50)", c.search)
	bad(c.randomIn < 1 || c.randomOut < 1, "-random-input-len, -random-output-len: use 1 or more")
	if c.names["random-input-len"] || c.names["random-output-len"] {
		in, out := prompt.Lengths{Fixed: c.randomIn}, prompt.Lengths{Fixed: c.randomOut}
		t.Synthetic = &Synthetic{Input: in, Output: out}
	}
	if c.trace.File != "" {
		t.Trace = &c.trace
	}
	if !c.names["requests"] && (c.File.Duration > 0 || c.trace.File != "") {
		t.Requests = 0
	}
	if len(c.search) == 2 {
		c.Search = loadgen.Search{Low: c.search[0], High: c.search[1], Limit: c.limit}
	} else if len(c.Concurrency)+len(c.Rates) == 0 && c.PlanFile+c.trace.File == "" {
		c.Concurrency = []int{8}
	}
	if c.server.URL != "" {
		t.Endpoints = []Endpoint{c.server}
	} else if len(c.Scenarios) == 0 && c.PlanFile == "" {
		c.Scenarios = []string{"baseline"}
	}
	return errors.Join(errs...)
}

func (c *flags) addHeader(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); !ok || name == "" {
		return errors.New("write NAME: VALUE")
	}
	if value = strings.TrimSpace(value); c.server.Header[name] != "" {
		value = c.server.Header[name] + ", " + value
	}
	c.server.Header[name] = value
	return nil
}

func (c *flags) addBody(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return errors.New("write NAME=VALUE")
	}
	var v any
	if json.Unmarshal([]byte(value), &v) != nil {
		v = value
	}
	c.File.Tenants[0].Body[name] = v
	return nil
}

// numbers reads a comma-separated list of finite numbers above 0.
func numbers[T int | float64](list *[]T) func(string) error {
	return func(text string) error {
		*list = nil
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if err != nil || !(n > 0) || math.IsInf(n, 0) || float64(T(n)) != n {
				return fmt.Errorf("%q is not a number above 0 of this kind", part)
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
