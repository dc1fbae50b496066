package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/prompt"
	"github.com/cotenant/cotenant/sharing"
)

// verified is an arrangement as it was predicted and measured under the same part of
// the trace.
type verified struct {
	Kind      capacity.Kind    `json:"kind"`
	GPU       string           `json:"gpu"`
	GPUs      int              `json:"gpus"`
	Basis     string           `json:"basis"` // simulated or measured
	Seconds   float64          `json:"seconds"`
	Tenants   []verifiedTenant `json:"tenants"`
	Endpoints int              `json:"endpoints"`
	Notes     []string         `json:"notes,omitempty"` // what makes the two hard to compare
}

type verifiedTenant struct {
	Name      string             `json:"name"`
	Requests  int64              `json:"requests"`
	Failed    int64              `json:"failed"`
	Predicted map[string]float64 `json:"predicted"`
	Measured  map[string]float64 `json:"measured"`
	HitRate   *float64           `json:"hit_rate,omitempty"` // of prompt tokens, where servers say
}

// verify runs the three best arrangements, or with given endpoints the chosen one.
func (in *input) verify(ctx context.Context, r *capacity.Result, o *options, stderr io.Writer) ([]verified, error) {
	given := in.endpoints
	var best []*capacity.Arrangement
	for _, want := range []capacity.Verdict{capacity.VerdictKept, capacity.VerdictUnknown} {
		for i := range r.Arrangements {
			if a := &r.Arrangements[i]; a.Verdict == want && len(best) < 3 {
				best = append(best, a)
			}
		}
	}
	if len(given) > 0 && len(best) > 1 {
		best = best[:1]
	}
	var out []verified
	for _, a := range best {
		fmt.Fprintf(stderr, "\r\033[Kverifying %s on %d %s for %v", a.Kind, a.GPUs, a.GPU, o.verifyFor)
		v, err := in.verifyOne(ctx, r, a, o, given)
		if v != nil {
			out = append(out, *v)
		}
		if err != nil {
			fmt.Fprintln(stderr)
			return out, fmt.Errorf("verifying %s: %w", a.Kind, err)
		}
	}
	fmt.Fprint(stderr, "\r\033[K")
	return out, nil
}

// readEndpoints reads the servers of each model.
func (o *options) readEndpoints(tenants []capacity.Tenant) (map[string][]loadgen.Endpoint, error) {
	if len(o.endpoints) == 0 {
		return nil, nil
	}
	var errs []error
	if !o.verify {
		errs = append(errs, errors.New("-endpoint: is for -verify: ask for that too"))
	}
	out := map[string][]loadgen.Endpoint{}
	for _, text := range o.endpoints {
		name, urls, ok := strings.Cut(text, "=")
		if !ok || name == "" || urls == "" {
			errs = append(errs, fmt.Errorf("-endpoint: %q: write the model and its servers, like llama-8b=http://host:8000", text))
			continue
		}
		if !slices.ContainsFunc(tenants, func(t capacity.Tenant) bool { return t.Name == name }) {
			errs = append(errs, fmt.Errorf("-endpoint: %q: no model is called %s", text, name))
		}
		for u := range strings.SplitSeq(urls, ",") {
			out[name] = append(out[name], loadgen.Endpoint{URL: u})
		}
	}
	for i := range tenants {
		if name := tenants[i].Name; len(out[name]) == 0 {
			errs = append(errs, fmt.Errorf("-endpoint: %s has none: name the servers of every model", name))
		}
	}
	return out, errors.Join(errs...)
}

func (in *input) verifyOne(ctx context.Context, r *capacity.Result, a *capacity.Arrangement, o *options, given map[string][]loadgen.Endpoint) (*verified, error) {
	drill, err := a.Drill(ctx, o.verifyFor)
	if err != nil {
		return nil, err
	}
	v := &verified{Kind: a.Kind, GPU: a.GPU, GPUs: a.GPUs, Basis: "simulated", Seconds: o.verifyFor.Seconds()}
	endpoints := make([][]loadgen.Endpoint, len(drill.Cluster.Services))
	if len(given) > 0 {
		v.Basis = "measured"
		for i := range drill.Cluster.Services {
			name := drill.Cluster.Services[i].Name
			if endpoints[i] = given[name]; len(endpoints[i]) == 0 {
				return nil, fmt.Errorf("no -endpoint for %s", name)
			}
			if n := len(drill.Cluster.Services[i].Replicas); n != len(endpoints[i]) {
				v.Notes = append(v.Notes, fmt.Sprintf("%s is predicted on %d and measured on %d servers", name, n, len(endpoints[i])))
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
	plan := loadgen.LoadPlan{Scenario: a.Kind.String(), Duration: o.verifyFor, Drain: 2 * o.verifyFor, Seed: o.seed, Simulated: len(given) == 0}
	for t := range in.plan.Tenants {
		own := drill.Of(t)
		if len(own) == 0 {
			continue
		}
		route := drill.Routes[t]
		lt, err := in.tenant(t, own, &drill.Cluster.Services[route], endpoints[route], o.seed)
		if err != nil {
			return nil, err
		}
		v.Endpoints += len(endpoints[route])
		plan.Tenants = append(plan.Tenants, lt)
	}
	res, err := loadgen.Run(ctx, plan, loadgen.Options{})
	if res == nil {
		return nil, err
	}
	for i := range res.Summary.Tenants {
		m := &res.Summary.Tenants[i]
		tenant := verifiedTenant{Name: m.Name, Requests: m.Counts.Total, Failed: m.Counts.Failed, Predicted: drill.Predicted[m.Name], Measured: map[string]float64{}}
		for name, ms := range map[string]float64{"ttft_p50": float64(m.TTFT.P50), "ttft_p99": float64(m.TTFT.P99), "tpot_p50": float64(m.TPOT.P50), "tpot_p99": float64(m.TPOT.P99)} {
			if ms > 0 {
				tenant.Measured[name] = ms
			}
		}
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
		if m.Goodput != nil {
			if share, ok := m.Goodput.Fraction.Get(); ok {
				tenant.Measured["share"] = share
			}
		}
		if c := m.PromptCache; c != nil {
			if rate, ok := c.HitRate.Get(); ok {
				tenant.HitRate = &rate
			}
		}
		v.Tenants = append(v.Tenants, tenant)
	}
	return v, err
}

// tenant is the load of a tenant's part of the trace, through the arrangement's router.
func (in *input) tenant(t int, own []capacity.Request, service *predict.Service, at []loadgen.Endpoint, seed uint64) (loadgen.Tenant, error) {
	spec := &in.plan.Tenants[t]
	trace := &prompt.Trace{BlockTokens: in.plan.PrefixTokens}
	for i := range own {
		r := prompt.TraceRequest{At: own[i].At, InputTokens: own[i].Input, OutputTokens: own[i].Output, Session: sessionName(own[i].Session)}
		for _, h := range own[i].Prefix {
			r.Blocks = append(r.Blocks, int64(h>>1))
		}
		trace.Requests = append(trace.Requests, r)
	}
	source, err := trace.Prompts(prompt.TraceOptions{Seed: seed, IgnoreEOS: true})
	if err != nil {
		return loadgen.Tenant{}, err
	}
	good := spec.Objectives
	slo := loadgen.RequestSLO{}
	for _, l := range good.Limits {
		for latency, to := range map[capacity.Latency]*time.Duration{capacity.LatencyTTFT: &slo.TTFT, capacity.LatencyTPOT: &slo.TPOT, capacity.LatencyE2E: &slo.E2E} {
			if l.Latency == latency && (*to == 0 || l.Most < *to) {
				*to = l.Most
			}
		}
	}
	return loadgen.Tenant{
		Name: spec.Name, Model: spec.Model, API: loadgen.APICompletions, Endpoints: at, Prompts: source, SLO: slo,
		Load: loadgen.OfferedLoad{Schedule: trace.Schedule(1)}, Requests: len(own), Router: &router{service.Routing.Router(len(at)), service},
	}, nil
}

func sessionName(s uint64) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprint(s)
}

// router lets the simulator's router choose among real endpoints.
type router struct {
	predict.Router
	service *predict.Service
}

// Pick implements loadgen.Router.
func (r *router) Pick(p *loadgen.Prompt, at []loadgen.EndpointState) int {
	states := make([]predict.ReplicaState, len(at))
	for i := range at {
		states[i] = predict.ReplicaState{Running: int(at[i].InFlight), KVUsed: int(at[i].TokensInFlight)}
	}
	q := &predict.Request{Input: max(p.PromptTokens, 1), Output: max(p.MaxTokens, 1)}
	for _, b := range p.Blocks {
		q.Prefix = append(q.Prefix, uint64(b))
	}
	if p.Session != "" {
		fmt.Sscan(p.Session, &q.Session)
	}
	return r.Route(q, states)
}

// simulate starts a server for each replica, on simulated GPUs shared as the cluster
// says. It is another simulation than the one that predicted: kernel by kernel, in
// real time, over HTTP.
func simulate(c *predict.Cluster) (*loadgentest.Simulation, [][]loadgen.Endpoint, error) {
	var gpus []loadgentest.GPUOptions
	for i := range c.GPUs {
		how := loadgentest.SharingPartitioned
		switch c.GPUs[i].Mechanism {
		case sharing.MechanismTimeSlicing:
			how = loadgentest.SharingTimeSliced
		case sharing.MechanismMPS:
			how = loadgentest.SharingConcurrent
		}
		gpus = append(gpus, loadgentest.GPUOptions{Sharing: how, Seed: uint64(i)})
	}
	var seats []loadgentest.Seat
	for i := range c.Services {
		s := &c.Services[i]
		for _, rep := range s.Replicas {
			memory := rep.Memory
			if memory == 0 {
				memory = c.GPUs[rep.GPU].Memory
			}
			tokens, err := s.Engine.KVTokens(memory)
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

// serverOf is a test server whose steps and prefills take what the engine's do.
func serverOf(e *predict.Engine, kvTokens int) loadgentest.Options {
	const kernels = 16
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	sequences := e.Sequences
	if sequences == 0 {
		sequences = 256
	}
	step := e.Step.Value + e.StepMatrix.Value + e.StepSequence.Value // of several sequences, as most are
	m := loadgentest.Model{
		StepKernels: kernels, KernelMean: ms(step / kernels), BatchCost: e.StepSequence.Value / step, ContextCost: ms(e.StepContext.Value),
		PrefillPerToken: ms(e.PrefillToken.Value / 1e3), PrefillLeast: ms(e.Prefill.Value), SMDemand: min(1, max(e.DecodeSM.Value, 0.05)), BandwidthDemand: min(1, max(e.DecodeSM.Value, 0.05)), SMHold: min(1, max(e.DecodeSM.Value, 0)),
	}
	o := loadgentest.Options{Model: m, Slots: sequences, NoLog: true}
	if !e.NoPrefixCache {
		o.CacheBlocks = max(kvTokens/loadgentest.CacheBlockTokens, 1)
	}
	return o
}

// writeVerified writes predicted beside measured.
func writeVerified(w io.Writer, all []verified) {
	for _, v := range all {
		fmt.Fprintf(w, "\n%s on %d %s, %.0f s of load on %d %s servers; predicted/measured, in ms\n", v.Kind, v.GPUs, shortGPU(v.GPU), v.Seconds, v.Endpoints, v.Basis)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "tenant\trequests\tttft p50\tp99\ttpot p50\tp99\tgood %\t")
		for _, t := range v.Tenants {
			fmt.Fprintf(tw, "%s\t%d", t.Name, t.Requests)
			for _, m := range []string{"ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99"} {
				fmt.Fprintf(tw, "\t%s/%s", figure(t.Predicted[m]), figure(t.Measured[m]))
			}
			fmt.Fprintf(tw, "\t%.1f/%.1f\t\n", 100*t.Predicted["share"], 100*t.Measured["share"])
		}
		_ = tw.Flush() // into a buffer
		for _, n := range v.Notes {
			wrap(w, "note: "+n)
		}
	}
}

func figure(ms float64) string {
	switch {
	case ms == 0 || math.IsNaN(ms):
		return "-"
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}
