package serving_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

var compareOptionals = cmp.Comparer(func(a, b optional.Value[float64]) bool { return a == b })

// randomCluster draws a cluster: services on GPUs of their own and shared ones,
// small KV caches, chunks or none, adapters, sleepers.
func randomCluster(rng *rand.Rand) serving.Cluster {
	mechanisms := []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS}
	c := serving.Cluster{PrefixTokens: 32}
	gpus := 1 + rng.IntN(3)
	for range gpus {
		c.GPUs = append(c.GPUs, serving.SharedGPU{Mechanism: mechanisms[rng.IntN(2)], Memory: 24 * sharing.GiB})
	}
	for i := range 1 + rng.IntN(3) {
		e := costs.NewEngine(costs.Model{Parameters: 1e9, Layers: 16, KVHeads: 8, HeadDim: 64}, costs.Machine{Bandwidth: 3e12, FLOPs: 9e14})
		e.Sequences, e.BlockTokens, e.NoPrefixCache = 1+rng.IntN(20), 1<<rng.IntN(6), rng.IntN(3) == 0
		if e.ChunkTokens = 0; rng.IntN(2) == 0 {
			e.ChunkTokens = 64 + rng.IntN(512)
		}
		e.Overhead = sharing.GiB
		s := serving.Service{Name: fmt.Sprint(i), Engine: e, Routing: serving.Routing{Policy: serving.RoutePolicy(rng.IntN(8)), PrefixBlocks: 50}, Objective: serving.Objective{TTFT: time.Second}}
		if rng.IntN(2) == 0 {
			s.Engine.Adapters.Slots, s.Engine.Adapters.HostSlots = 2, 3
		}
		tight := e.Model.Weights() + e.Overhead + s.Engine.Adapters.Bytes(e.Model)*sharing.Bytes(s.Engine.Adapters.Slots) + sharing.Bytes(1200+rng.IntN(4000))*e.Model.KVPerToken()
		for range 1 + rng.IntN(3) {
			s.Replicas = append(s.Replicas, serving.Replica{GPU: rng.IntN(gpus), Memory: tight})
		}
		if rng.IntN(2) == 0 {
			s.Engine.Sleep.Level, s.Engine.Sleep.Idle = costs.SleepLevel(1+rng.IntN(2)), time.Duration(rng.IntN(3))*time.Second
			s.Engine.Sleep.Turn = 2 * time.Second
		}
		c.Services = append(c.Services, s)
	}
	if rng.IntN(2) == 0 && c.Services[0].Engine.Sleep.Level != costs.SleepNever { // too small for all at once
		for i := range c.Services {
			c.Services[i].Engine.Sleep.Level = max(1, c.Services[i].Engine.Sleep.Level)
			for k := range c.Services[i].Replicas {
				c.Services[i].Replicas[k].Memory = 12 * sharing.GiB
			}
		}
	}
	return c
}

func randomRequests(c *serving.Cluster, n int, perS float64, seed uint64) iter.Seq[serving.Request] {
	return poisson(n, perS, seed, func(rng *rand.Rand, r *serving.Request) {
		r.Service = rng.IntN(len(c.Services))
		r.Input, r.Output = 1+rng.IntN(700), 1+rng.IntN(200)
		if rng.IntN(200) == 0 {
			r.Input = 1 << 22 // never fits
		}
		if c.Services[r.Service].Engine.Adapters.Slots > 0 {
			r.Adapter = rng.IntN(6)
		}
		r.Session = uint64(rng.IntN(10))
		for k := range 3 {
			if r.Input%2 == 0 {
				r.Answer = append(r.Answer, uint64(99+k)<<48|uint64(r.Input))
			}
		}
		for k := range r.Input / 32 {
			if k > 30 {
				break
			}
			r.Prefix = append(r.Prefix, uint64(1+k)<<32|uint64(rng.IntN(4))<<8|r.Session)
			if k > 0 { // it depends on all that comes before
				r.Prefix[k] += 31 * r.Prefix[k-1]
			}
		}
	})
}

// Nothing is lost and nothing is made: every request ends once, with all of its
// tokens, and no replica holds more KV cache than it has.
func TestConservation(t *testing.T) {
	race.Long(t)
	var preempted, waitedForAdapters, evicted, wakes, hits int64
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := randomCluster(rng)
		if c.Validate() != nil {
			continue // placed too tightly
		}
		var input, output, requests int64
		counted := func(yield func(serving.Request) bool) {
			input, output, requests = 0, 0, 0
			for r := range randomRequests(&c, 400, 5+40*rng.Float64(), seed) {
				requests++
				input += int64(r.Input)
				if r.Input < 1<<20 {
					output += int64(r.Output)
				}
				if !yield(r) {
					return
				}
			}
		}
		report := played(t, c, counted)
		var got serving.Served
		for _, s := range report.Services {
			got.Requests += s.Requests
			got.Completed += s.Completed
			got.Rejected += s.Rejected
			got.Unfinished += s.Unfinished
			got.InputTokens += s.InputTokens
			got.OutputTokens += s.OutputTokens
			got.CachedTokens += s.CachedTokens
			adapters := int64(0)
			for _, a := range s.Adapters {
				adapters += a.Completed
			}
			if len(s.Adapters) > 0 && adapters != s.Completed {
				t.Errorf("seed %d: the adapters' requests are %d of %d", seed, adapters, s.Completed)
			}
			for k, r := range s.Replicas {
				if r.KVHighWater > r.KVCapacity || r.BusyFraction > 1+1e-9 {
					t.Errorf("seed %d: replica %d held %d of %d tokens, busy %g", seed, k, r.KVHighWater, r.KVCapacity, r.BusyFraction)
				}
				preempted += r.Preemptions
				evicted += r.Evictions
				waitedForAdapters += r.WaitedForAdapter
				wakes += int64(r.Wakes)
			}
		}
		hits += got.CachedTokens
		if got.Requests != requests || got.Completed+got.Rejected != requests || got.Unfinished != 0 || got.InputTokens != input || got.OutputTokens < output-got.Rejected*200 || got.OutputTokens > output {
			t.Errorf("seed %d: of %d requests with %d and %d tokens came %+v", seed, requests, input, output, got)
		}
	}
	for what, n := range map[string]int64{"preemption": preempted, "wait for an adapter": waitedForAdapters, "eviction": evicted, "waking": wakes, "hit": hits} {
		if n == 0 {
			t.Errorf("no %s in any cluster", what)
		}
	}
}

// The same input gives the same report, however often it is played.
func TestPlayIsDeterministic(t *testing.T) {
	for seed := range uint64(30) {
		c := randomCluster(rand.New(rand.NewPCG(seed, 2)))
		if c.Validate() != nil {
			continue
		}
		first := played(t, c, randomRequests(&c, 300, 20, seed))
		if diff := cmp.Diff(first, played(t, c, randomRequests(&c, 300, 20, seed)), compareOptionals); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

func TestPlayRefuses(t *testing.T) {
	c := oneService(costs.NewEngine(llama8B, machineOf(t, "H100-SXM5-80GB")), 1, 80*sharing.GiB)
	for _, r := range []struct {
		name string
		in   []serving.Request
		want string
	}{
		{"order", []serving.Request{{At: 2, Input: 1, Output: 1}, {At: 1, Input: 1, Output: 1}}, "requests[1]"},
		{"service", []serving.Request{{Service: 7, Input: 1, Output: 1}}, "no index among 1 services"},
		{"lengths", []serving.Request{{}}, "input"},
	} {
		if _, err := c.Play(context.Background(), slices.Values(r.in)); err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: %v, want %q", r.name, err, r.want)
		}
	}
	closed := c
	closed.Services = slices.Clone(c.Services)
	closed.Services[0].Clients = &serving.Clients{N: 1, Requests: slices.Values([]serving.Request{{Input: 1}})}
	if _, err := closed.Play(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "services[0].clients: output") {
		t.Errorf("a client's request without output: %v", err)
	}
	small := c
	small.GPUs = []serving.SharedGPU{{Mechanism: sharing.MechanismMIG, Memory: 12 * sharing.GiB}}
	if _, err := small.Play(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "leave no KV cache") {
		t.Errorf("a GPU too small for the weights: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	report, err := c.Play(ctx, func(yield func(serving.Request) bool) {
		for i := 0; yield(serving.Request{At: time.Duration(i) * time.Second, Input: 10, Output: 10}); i++ {
			if i == 5000 {
				cancel()
			}
		}
	})
	if !errors.Is(err, context.Canceled) || report.Services[0].Completed == 0 {
		t.Errorf("cut short: %v, %+v", err, report)
	}
}

// Priors widen an answer, exact costs leave the errors of the predictor itself.
func TestForesee(t *testing.T) {
	c := oneService(costs.NewEngine(llama8B, machineOf(t, "H100-SXM5-80GB")), 2, 80*sharing.GiB)
	c.Services[0].Objective = serving.Objective{TTFT: 200 * time.Millisecond}
	requests := poisson(8000, 20, 1, func(rng *rand.Rand, r *serving.Request) { r.Input, r.Output = 200+rng.IntN(1000), 20+rng.IntN(200) })
	widths := map[string]float64{}
	for _, name := range []string{"priors", "exact"} {
		report, err := c.Foresee(context.Background(), requests)
		if err != nil {
			t.Fatal(err)
		}
		s := &report.Services[0]
		for m, i := range s.Foreseen {
			v, _ := s.Metric(m)
			if i.Value != v || i.Low > v || i.High < v {
				t.Errorf("%s: %s is %v, foreseen %+v", name, m, v, i)
			}
		}
		widths[name] = s.Foreseen[profile.MetricTPOTP50].WidthFraction()
		good, _ := s.GoodFractionRange.Get()
		if len(s.Foreseen) != int(profile.MetricStepP50) || good.Low > good.Value || good.High > 1 || good.Value == 0 {
			t.Errorf("%s: foreseen %v, good %+v", name, s.Foreseen, good)
		}
		e := &c.Services[0].Engine
		for _, cost := range []*costs.Cost{&e.Step, &e.StepSequence, &e.StepContext, &e.HostFraction, &e.Prefill, &e.PrefillToken, &e.PrefillContext, &e.PrefillBusy} {
			cost.Sigma = 0
		}
	}
	if widths["priors"] < 1.5*widths["exact"] {
		t.Errorf("TPOT's interval is %.2f wide with priors and %.2f with exact costs", widths["priors"], widths["exact"])
	}
}

// What is expected of sharing does not touch a server with a GPU of its own.
func TestForeseeAlone(t *testing.T) {
	requests := poisson(2000, 5, 1, func(rng *rand.Rand, r *serving.Request) { r.Input, r.Output = 200+rng.IntN(1000), 20+rng.IntN(200) })
	widths := func(mechanism sharing.Mechanism, factor float64) float64 {
		p := predict.NewPredictor()
		for _, m := range profile.Metrics() {
			p.TimeSlicing[m] = costs.Residual{HalfWidth: factor * p.TimeSlicing[m].HalfWidth}
			p.MPS[m] = costs.Residual{HalfWidth: factor * p.MPS[m].HalfWidth}
		}
		c := oneService(costs.NewEngine(llama8B, machineOf(t, "H100-SXM5-80GB")), 1, 80*sharing.GiB)
		c.Calibration, c.GPUs[0].Mechanism = &p.Calibration, mechanism
		report, err := c.Foresee(context.Background(), requests)
		if err != nil {
			t.Fatal(err)
		}
		return report.Services[0].Foreseen[profile.MetricTTFTP99].WidthFraction()
	}
	if one, two := widths(sharing.MechanismExclusive, 1), widths(sharing.MechanismExclusive, 2); one != two {
		t.Errorf("alone, TTFT's interval is %g wide, and %g where sharing is less sure", one, two)
	}
	if one, two := widths(sharing.MechanismMPS, 1), widths(sharing.MechanismMPS, 2); one >= two {
		t.Errorf("under MPS, TTFT's interval is %g wide, and %g where sharing is less sure", one, two)
	}
}
