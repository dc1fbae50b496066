// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// truth is a simulated server whose law of steps the package does not know: a step of n sequences that computes p
// tokens of prompts of k requests takes base + each*n + launch*k + token*p, log-normal about that; stepped says that
// prompts are computed in the steps of the others (vLLM's way), else by themselves (SGLang's). Times in s.
type truth struct {
	stepped                   bool
	base, each, launch, token float64
	slots, chunk              int
	noise                     float64
}

type request struct {
	came, began, first, last float64
	prompt, output           int
	left, done               int
}

// phase is a time of one load.
type phase struct {
	seconds, rate, prompt, output float64
}

// server is a truth while it runs, with the counters of its page.
type server struct {
	truth
	rng              *rand.Rand
	now              float64
	waiting, running []*request
	tokens, prompts  float64
	requests         float64
	hist             map[string]*histogram
}

type histogram struct {
	upper []float64
	n     []int
	sum   float64
}

func (h *histogram) add(v float64) {
	i, _ := slices.BinarySearch(h.upper, v)
	h.n[i]++
	h.sum += v
}

// The buckets of vLLM's vllm/v1/metrics/loggers.py.
var (
	ttftBuckets = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBuckets  = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBuckets  = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

func newServer(t truth, seed uint64) *server {
	s := &server{truth: t, rng: rand.New(rand.NewPCG(seed, 7)), hist: map[string]*histogram{}}
	for name, b := range map[string][]float64{"ttft": ttftBuckets, "itl": itlBuckets, "tpot": itlBuckets, "queue": e2eBuckets, "e2e": e2eBuckets} {
		s.hist[name] = &histogram{upper: b, n: make([]int, len(b)+1)}
	}
	return s
}

// page writes the page as vLLM or SGLang does, with the time behind each figure.
func (s *server) page() string {
	var b strings.Builder
	prefix, at := "sglang", int64(1.7e12+s.now*1e3)
	names := map[string]string{"running": "num_running_reqs", "waiting": "num_queue_reqs", "queue": "queue_time_seconds", "itl": "inter_token_latency_seconds"}
	if s.stepped {
		prefix = "vllm"
		names = map[string]string{"running": "num_requests_running", "waiting": "num_requests_waiting", "queue": "request_queue_time_seconds",
			"itl": "inter_token_latency_seconds", "tpot": "request_time_per_output_token_seconds"}
	}
	names["ttft"], names["e2e"] = "time_to_first_token_seconds", "e2e_request_latency_seconds"
	one := func(name, kind string, v float64) {
		fmt.Fprintf(&b, "# TYPE %s:%s %s\n%s:%s{model_name=\"m\"} %v %d\n", prefix, name, kind, prefix, name, v, at)
	}
	one(names["running"], "gauge", float64(len(s.running)))
	one(names["waiting"], "gauge", float64(len(s.waiting)))
	one("prompt_tokens_total", "counter", s.prompts)
	one("generation_tokens_total", "counter", s.tokens)
	if s.stepped {
		one("request_success_total", "counter", s.requests)
	} else {
		one("num_requests_total", "counter", s.requests)
	}
	for _, k := range []string{"ttft", "itl", "tpot", "queue", "e2e"} {
		h, name := s.hist[k], names[k]
		if name == "" {
			continue
		}
		fmt.Fprintf(&b, "# TYPE %s:%s histogram\n", prefix, name)
		n := 0
		for i, c := range h.n {
			n += c
			le := "+Inf"
			if i < len(h.upper) {
				le = fmt.Sprint(h.upper[i])
			}
			fmt.Fprintf(&b, "%s:%s_bucket{model_name=\"m\",le=%q} %d %d\n", prefix, name, le, n, at)
		}
		fmt.Fprintf(&b, "%s:%s_sum{model_name=\"m\"} %v %d\n%s:%s_count{model_name=\"m\"} %d %d\n", prefix, name, h.sum, at, prefix, name, n, at)
	}
	return b.String()
}

// lengths are log-normal with the coefficients of variation that Azure's 2023 conversation trace has, cut off.
func (s *server) length(mean, sigma float64) int {
	return int(max(2, min(math.Round(mean*math.Exp(sigma*s.rng.NormFloat64()-sigma*sigma/2)), 6*mean)))
}

// run serves Poisson arrivals of a phase, and calls each at every period.
func (s *server) run(p phase, period float64, each func()) {
	until, next := s.now+p.seconds, s.now+period
	arrive := s.now + s.rng.ExpFloat64()/p.rate
	page := func(to float64) {
		for next <= to {
			at := s.now
			s.now = next
			each()
			s.now, next = at, next+period
		}
	}
	for s.now < until {
		for arrive <= s.now {
			s.waiting = append(s.waiting, &request{came: arrive, prompt: s.length(p.prompt, 0.5), output: s.length(p.output, 0.5)})
			arrive += s.rng.ExpFloat64() / p.rate
		}
		if len(s.waiting)+len(s.running) == 0 {
			to := min(arrive, until)
			page(to)
			s.now = to
			if arrive > until {
				break
			}
			continue
		}
		before := s.now
		end := before + s.plan()*math.Exp(s.noise*s.rng.NormFloat64())
		page(min(end, until))
		s.finish(end)
		s.now = end
	}
}

// plan begins a step, and says how long it takes.
func (s *server) plan() float64 {
	budget, tokens, starts, decoding := s.chunk, 0, 0, 0
	for _, r := range s.running {
		if r.left == 0 {
			decoding++
		}
	}
	for len(s.waiting) > 0 && len(s.running) < s.slots {
		r := s.waiting[0]
		if !s.stepped && r.prompt+tokens > s.chunk && tokens > 0 || s.stepped && tokens >= budget-decoding {
			break
		}
		r.began, r.left = s.now, r.prompt
		s.hist["queue"].add(s.now - r.came)
		s.prompts += float64(r.prompt)
		s.waiting, s.running = s.waiting[1:], append(s.running, r)
		tokens += r.prompt
	}
	budget -= decoding
	tokens = 0
	for _, r := range s.running {
		r.done = 0 // tokens of its prompt in this step
		if r.left > 0 && (budget > 0 || !s.stepped) {
			r.done = r.left
			if s.stepped {
				r.done = min(r.left, budget)
				budget -= r.done
			}
			if r.left == r.prompt {
				starts++
			}
			tokens += r.done
		}
	}
	work := s.launch*float64(starts) + s.token*float64(tokens)
	if !s.stepped && tokens > 0 {
		return work
	}
	return s.base + s.each*float64(decoding) + work
}

// finish ends a step.
func (s *server) finish(at float64) {
	prefilled := slices.ContainsFunc(s.running, func(r *request) bool { return r.done > 0 })
	kept := s.running[:0]
	for _, r := range s.running {
		switch {
		case r.left > 0:
			if r.left -= r.done; r.left == 0 && r.done > 0 {
				r.first, r.last = at, at
				r.output--
				s.tokens++
				s.hist["ttft"].add(at - r.came)
				r.prompt = r.output
			}
		case s.stepped || !prefilled:
			s.hist["itl"].add(at - r.last)
			r.last = at
			r.output--
			s.tokens++
		}
		if r.left == 0 && r.output <= 0 {
			s.requests++
			s.hist["e2e"].add(at - r.came)
			if r.prompt > 0 {
				s.hist["tpot"].add((at - r.first) / float64(r.prompt))
			}
			continue
		}
		kept = append(kept, r)
	}
	s.running = kept
}
