package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/decision/simgpu"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/prompt"
	"github.com/cotenant/cotenant/sharing"
)

// Verified holds an arrangement's prediction beside its measurement under the same part of the trace.
type Verified struct {
	Kind      capacity.Kind    `json:"kind"`
	GPU       string           `json:"gpu"`
	GPUs      int              `json:"gpus"`
	Basis     sharing.Basis    `json:"basis"` // simulated or measured
	Seconds   float64          `json:"seconds"`
	Tenants   []VerifiedTenant `json:"tenants"`
	Endpoints int              `json:"endpoints"`
	Notes     []string         `json:"notes,omitempty"` // reasons why the two are hard to compare
}

// VerifiedTenant holds a tenant's figures by name ("ttft_p99", "share"); latencies in
// ms. A figure that was not measured is absent.
type VerifiedTenant struct {
	Name      string             `json:"name"`
	Requests  int64              `json:"requests"`
	Failed    int64              `json:"failed"`
	Predicted map[string]float64 `json:"predicted"`
	Measured  map[string]float64 `json:"measured"`
	HitRate   *float64           `json:"hit_rate,omitempty"` // of prompt tokens, where servers tell it
}

// VerifyOptions tune Verify. The zero value is the documented default.
type VerifyOptions struct {
	For time.Duration // part of the trace that each run replays; 0 = 20 s
	// Endpoints are the servers of each model ("llama-8b=http://a:8000,http://b:8000").
	// With them the best arrangement is run, else the three best on simulated servers.
	Endpoints []string
	Progress  func(*capacity.Arrangement) // called before each run; may be nil
}

const (
	defaultFor = 20 * time.Second
	verifyMost = 3 // arrangements
)

// Endpoints reads VerifyOptions.Endpoints. The error names everything that is wrong.
func (s *Study) Endpoints(texts []string) (map[string][]loadgen.Endpoint, error) {
	var errs []error
	out := map[string][]loadgen.Endpoint{}
	for _, text := range texts {
		name, urls, ok := strings.Cut(text, "=")
		if !ok || name == "" || urls == "" {
			errs = append(errs, fmt.Errorf("endpoint: %q: write model and servers, like llama-8b=http://host:8000", text))
			continue
		}
		if !slices.ContainsFunc(s.Plan.Tenants, func(t capacity.Tenant) bool { return t.Name == name }) {
			errs = append(errs, fmt.Errorf("endpoint: %q: no model is called %s", text, name))
		}
		for u := range strings.SplitSeq(urls, ",") {
			out[name] = append(out[name], loadgen.Endpoint{URL: u})
		}
	}
	for i := range s.Plan.Tenants {
		if name := s.Plan.Tenants[i].Name; len(texts) > 0 && len(out[name]) == 0 {
			errs = append(errs, fmt.Errorf("endpoint: %s has none: name the servers of every model", name))
		}
	}
	return out, errors.Join(errs...)
}

// Verify runs the best arrangements of r as load, in real time and through the arrangement's own router, and adds
// the measurements to r.Verified. Simulated servers are another simulation than the one that predicted: kernel by
// kernel, over HTTP ([loadgentest]).
func (s *Study) Verify(ctx context.Context, r *Report, opts VerifyOptions) error {
	given, err := s.Endpoints(opts.Endpoints)
	if err != nil {
		return err
	}
	opts.For = cmp.Or(opts.For, defaultFor)
	var best []*capacity.Arrangement
	for _, want := range []capacity.Verdict{capacity.VerdictKept, capacity.VerdictUnknown} {
		for i := range r.Arrangements {
			if a := &r.Arrangements[i]; a.Verdict == want && len(best) < verifyMost {
				best = append(best, a)
			}
		}
	}
	if len(given) > 0 && len(best) > 1 {
		best = best[:1]
	}
	for _, a := range best {
		if opts.Progress != nil {
			opts.Progress(a)
		}
		v, err := s.verify(ctx, a, opts.For, given)
		if v != nil {
			r.Verified = append(r.Verified, *v)
		}
		if err != nil {
			return fmt.Errorf("verifying %s: %w", a.Kind, err)
		}
	}
	return nil
}

func (s *Study) verify(ctx context.Context, a *capacity.Arrangement, length time.Duration,
	given map[string][]loadgen.Endpoint) (*Verified, error) {
	drill, err := a.Drill(ctx, length)
	if err != nil {
		return nil, err
	}
	v := &Verified{Kind: a.Kind, GPU: a.GPU, GPUs: a.GPUs, Basis: sharing.BasisSimulated, Seconds: length.Seconds()}
	endpoints := make([][]loadgen.Endpoint, len(drill.Cluster.Services))
	if len(given) > 0 {
		v.Basis = sharing.BasisMeasured
		for i := range drill.Cluster.Services {
			service := &drill.Cluster.Services[i]
			if endpoints[i] = given[service.Name]; len(endpoints[i]) == 0 {
				return nil, fmt.Errorf("no endpoint for %s", service.Name)
			}
			if n := len(service.Replicas); n != len(endpoints[i]) {
				v.Notes = append(v.Notes, fmt.Sprintf("%s is predicted on %d and measured on %d servers",
					service.Name, n, len(endpoints[i])))
			}
		}
	} else {
		sim, at, err := simulate(&drill.Cluster)
		if err != nil {
			return nil, err
		}
		defer sim.Close()
		endpoints = at
	}
	plan := loadgen.LoadPlan{
		Scenario: a.Kind.String(), Duration: length, Drain: 2 * length, Seed: s.Plan.Seed, Simulated: len(given) == 0,
	}
	for t := range s.Plan.Tenants {
		own := drill.Of(t)
		if len(own) == 0 {
			continue
		}
		route := drill.Routes[t]
		tenant, err := s.tenant(t, own, &drill.Cluster.Services[route], endpoints[route])
		if err != nil {
			return nil, err
		}
		v.Endpoints += len(endpoints[route])
		plan.Tenants = append(plan.Tenants, tenant)
	}
	res, err := loadgen.Run(ctx, plan, loadgen.Options{})
	if res == nil {
		return nil, err
	}
	for i := range res.Summary.Tenants {
		m := &res.Summary.Tenants[i]
		v.Tenants = append(v.Tenants, measured(m, drill.Predicted[m.Name]))
		if m.Counts.Failed > 0 {
			text := fmt.Sprintf("%d of %s's %d requests failed", m.Counts.Failed, m.Name, m.Counts.Total)
			for _, class := range slices.Sorted(maps.Keys(m.Counts.Examples)) {
				text += fmt.Sprintf("; %s: %s", class, m.Counts.Examples[class])
			}
			v.Notes = append(v.Notes, text)
			if m.Counts.Failed == m.Counts.Total {
				err = errors.Join(err, errors.New(text))
			}
		}
	}
	return v, err
}

// measured puts a tenant's measurements beside its prediction.
func measured(m *loadgen.TenantSummary, predicted map[string]float64) VerifiedTenant {
	out := VerifiedTenant{
		Name: m.Name, Requests: m.Counts.Total, Failed: m.Counts.Failed, Predicted: predicted, Measured: map[string]float64{},
	}
	for name, ms := range map[string]float64{
		"ttft_p50": float64(m.TTFT.P50), "ttft_p99": float64(m.TTFT.P99),
		"tpot_p50": float64(m.TPOT.P50), "tpot_p99": float64(m.TPOT.P99),
	} {
		if ms > 0 {
			out.Measured[name] = ms
		}
	}
	if m.Goodput != nil {
		if share, ok := m.Goodput.Fraction.Get(); ok {
			out.Measured["share"] = share
		}
	}
	if c := m.PromptCache; c != nil {
		if rate, ok := c.HitRate.Get(); ok {
			out.HitRate = &rate
		}
	}
	return out
}

// tenant makes the load of a tenant's part of the trace, through the arrangement's router.
func (s *Study) tenant(t int, own []capacity.Request, service *serving.Service,
	at []loadgen.Endpoint) (loadgen.Tenant, error) {
	spec := &s.Plan.Tenants[t]
	trace := &prompt.Trace{BlockTokens: s.Plan.PrefixTokens}
	for i := range own {
		r := prompt.TraceRequest{At: own[i].At, InputTokens: own[i].Input, OutputTokens: own[i].Output}
		if own[i].Session > 0 {
			r.Session = strconv.FormatUint(own[i].Session, 10)
		}
		for _, h := range own[i].Prefix {
			r.Blocks = append(r.Blocks, int64(h>>1))
		}
		trace.Requests = append(trace.Requests, r)
	}
	source, err := trace.Prompts(prompt.TraceOptions{Seed: s.Plan.Seed, IgnoreEOS: true})
	if err != nil {
		return loadgen.Tenant{}, err
	}
	good := spec.Objectives.PerRequest()
	return loadgen.Tenant{
		Name: spec.Name, Model: spec.Model, API: loadgen.APICompletions, Endpoints: at, Prompts: source,
		SLO:  loadgen.RequestSLO{TTFT: good.TTFT, TPOT: good.TPOT, E2E: good.E2E},
		Load: loadgen.OfferedLoad{Schedule: trace.Schedule(1)}, Requests: len(own),
		Router: &router{service.Routing.Router(len(at))},
	}, nil
}

// router lets the simulator's router choose among real endpoints.
type router struct{ serving.Router }

// Pick implements loadgen.Router.
func (r *router) Pick(p *loadgen.Prompt, at []loadgen.EndpointState) int {
	states := make([]serving.ReplicaState, len(at))
	for i := range at {
		states[i] = serving.ReplicaState{Running: int(at[i].InFlight), KVUsed: int(at[i].TokensInFlight)}
	}
	q := &serving.Request{Input: max(p.PromptTokens, 1), Output: max(p.MaxTokens, 1)}
	for _, b := range p.Blocks {
		q.Prefix = append(q.Prefix, uint64(b))
	}
	q.Session, _ = strconv.ParseUint(p.Session, 10, 64) // 0 without a session
	return r.Route(q, states)
}

// simulate starts a server for each replica, on simulated GPUs shared as the cluster's.
func simulate(c *serving.Cluster) (*loadgentest.Simulation, [][]loadgen.Endpoint, error) {
	constants := costs.H200().Parameters
	var gpus []loadgentest.GPUOptions
	for i := range c.GPUs {
		gpus = append(gpus, loadgentest.GPUOptions{Seed: uint64(i), Device: simgpu.New(c.GPUs[i].Mechanism, &constants)})
	}
	var seats []loadgentest.Seat
	for i := range c.Services {
		s := &c.Services[i]
		for _, rep := range s.Replicas {
			tokens, err := s.Engine.KVTokens(cmp.Or(rep.Memory, c.GPUs[rep.GPU].Memory))
			if err != nil {
				return nil, nil, err
			}
			seats = append(seats, loadgentest.Seat{Index: rep.GPU, Options: serverOf(&s.Engine, tokens)})
		}
	}
	sim, err := loadgentest.NewSimulation(gpus, seats...)
	if err != nil {
		return nil, nil, err
	}
	at := make([][]loadgen.Endpoint, len(c.Services))
	all := sim.Endpoints()
	for i := range c.Services {
		n := len(c.Services[i].Replicas)
		at[i], all = all[:n], all[n:]
	}
	return sim, at, nil
}

const (
	stepKernels      = 16   // kernels that a simulated step is divided into
	defaultSequences = 256  // in a batch (vLLM's max_num_seqs)
	leastDemand      = 0.05 // of the SMs and the bandwidth, where the engine states none
)

// serverOf returns a test server whose steps and prefills take as long as the engine's.
func serverOf(e *costs.Engine, kvTokens int) loadgentest.Options {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	step := e.Step.Value + e.StepMatrix.Value + e.StepSequence.Value // of several sequences, as most are
	demand := min(1, max(e.DecodeSM.Value, leastDemand))
	o := loadgentest.Options{
		Slots: cmp.Or(e.Sequences, defaultSequences), NoLog: true,
		Model: loadgentest.Model{
			StepKernels: stepKernels, KernelMean: ms(step / stepKernels), BatchCost: e.StepSequence.Value / step,
			ContextCost: ms(e.StepContext.Value), PrefillPerToken: ms(e.PrefillToken.Value / 1e3),
			PrefillLeast: ms(e.Prefill.Value), SMDemand: demand, BandwidthDemand: demand,
		},
	}
	if !e.NoPrefixCache {
		o.CacheBlocks = max(kvTokens/loadgentest.CacheBlockTokens, 1)
	}
	return o
}
