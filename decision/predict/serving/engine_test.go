package serving_test

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

func TestKVPerToken(t *testing.T) {
	for _, c := range []struct {
		name string
		m    costs.Model
		want sharing.Bytes
	}{
		// Hugging Face configurations, in 16 bits unless said.
		{"Llama 3.1 8B", costs.Model{Layers: 32, KVHeads: 8, HeadDim: 128}, 131072},
		{"Llama 3.1 70B", costs.Model{Layers: 80, KVHeads: 8, HeadDim: 128}, 327680},
		{"Llama 2 7B", costs.Model{Layers: 32, KVHeads: 32, HeadDim: 128}, 524288},
		{"Qwen2.5 7B, fp8", costs.Model{Layers: 28, KVHeads: 4, HeadDim: 128, KVBits: 8}, 28672},
		{"DeepSeek V3", costs.Model{Layers: 61, Latent: 576}, 70272},
	} {
		if got := c.m.KVPerToken(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

func TestKVTokens(t *testing.T) {
	e := costs.Engine{Model: llama8B, Overhead: sharing.GiB}
	e.Adapters = costs.Adapters{Slots: 4, Rank: 16, Targets: []costs.Projection{costs.ProjectionQ, costs.ProjectionV}}
	// q: 4096 to 4096, v: 4096 to 1024; two matrices of rank 16 in each of 32 layers.
	if got, want := e.Adapters.Bytes(llama8B), sharing.Bytes(2*16*(4096+4096+4096+1024)*32); got != want {
		t.Errorf("an adapter takes %d bytes, want %d", got, want)
	}
	got, err := e.KVTokens(40 * sharing.GiB)
	left := 39*sharing.GiB - 16_060_000_000 - 4*e.Adapters.Bytes(llama8B)
	if want := int(left/131072/16) * 16; err != nil || got != want {
		t.Errorf("%d tokens, %v, want %d", got, err, want)
	}
	if got, err := e.KVTokens(16 * sharing.GiB); err == nil {
		t.Errorf("%d tokens in 16 GiB", got)
	}
}

// plain is an engine of which one can work out by hand what happens: 10 ms a step,
// 100 ms for 1000 tokens of a prompt.
func plain() costs.Engine {
	return costs.Engine{Model: tinyModel, Step: exact(10), PrefillToken: exact(100), Sequences: 4, NoPrefixCache: true}
}

func request(at time.Duration, in, out int) serving.Request {
	return serving.Request{At: at, Input: in, Output: out}
}

// Latencies of single requests, by hand.
func TestPlayByHand(t *testing.T) {
	chunked := plain()
	chunked.ChunkTokens = 250
	floor := plain()
	floor.Prefill = exact(30)
	for _, c := range []struct {
		name     string
		e        costs.Engine
		memory   sharing.Bytes
		requests []serving.Request
		ttft     float64 // of the last to end, ms
		e2e      float64
		preempt  int64
	}{
		{"alone", plain(), 1 << 20, []serving.Request{request(0, 1000, 5)}, 100, 140, 0},
		{"a short prompt is bound by launches", floor, 1 << 20, []serving.Request{request(0, 10, 2)}, 30, 40, 0},
		// The second comes in the first's prefill, and lets it have a step before its own.
		{"a step between prefills", plain(), 1 << 20, []serving.Request{request(0, 1000, 50), request(50*time.Millisecond, 1000, 100)}, 160, 160 + 990, 0},
		// It comes in a run of steps, which ends at the next.
		{"into a run", plain(), 1 << 20, []serving.Request{request(0, 1000, 50), request(125*time.Millisecond, 1000, 100)}, 105, 105 + 990, 0},
		// Chunks of 250 tokens take 25 ms each.
		{"chunks", chunked, 1 << 20, []serving.Request{request(0, 1000, 5)}, 100, 140, 0},
		// 4 + 4 tokens of KV cache for two of 3 in and 5 out, in blocks of one: the second
		// gives way, computes its 3 + 2 tokens again and ends last.
		{"preempted", func() costs.Engine { e := plain(); e.BlockTokens = 1; return e }(), 1 + 9, []serving.Request{request(0, 3, 5), request(0, 3, 5)}, 10.6, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := played(t, oneService(c.e, 1, c.memory), slices.Values(c.requests))
			s := &report.Services[0]
			longest := func(l profile.LatencyMS) float64 { return l.P99.Or(0) }
			if s.Completed != int64(len(c.requests)) || s.Preemptions != c.preempt {
				t.Fatalf("%d ended, %d preempted", s.Completed, s.Preemptions)
			}
			if got := longest(s.TTFT); math.Abs(got-c.ttft) > 0.002*c.ttft {
				t.Errorf("TTFT is %.2f ms, want %.2f", got, c.ttft)
			}
			if got := longest(s.E2E); c.e2e > 0 && math.Abs(got-c.e2e) > 0.002*c.e2e {
				t.Errorf("E2E is %.2f ms, want %.2f", got, c.e2e)
			}
		})
	}
}

// Two models of which one at a time fits a GPU take turns; what a switch costs is
// what falling asleep and waking cost.
func TestSleep(t *testing.T) {
	e := plain()
	e.Model.Parameters, e.Model.WeightBits = 1<<30, 8 // 1 GiB
	e.Sleep = costs.Sleep{Level: costs.SleepWeights, CopyOut: exact(200), CopyIn: exact(300), Reload: exact(2000), Fixed: exact(50)}
	c := serving.Cluster{GPUs: []serving.SharedGPU{{Mechanism: sharing.MechanismTimeSlicing, Memory: 3 * sharing.GiB}}}
	for _, name := range []string{"a", "b"} {
		c.Services = append(c.Services, serving.Service{Name: name, Engine: e, Replicas: []serving.Replica{{Memory: 2 * sharing.GiB}}})
	}
	var requests []serving.Request
	for i := range 6 {
		requests = append(requests, serving.Request{At: time.Duration(i) * 10 * time.Second, Service: i % 2, Input: 1000, Output: 2})
	}
	play := func() *serving.Report { return played(t, c, slices.Values(requests)) }
	r := play()
	if a, b := r.Services[0], r.Services[1]; a.TTFT.P50.Or(0) < 690 || a.Replicas[0].Wakes != 2 || b.Replicas[0].Wakes != 3 || math.Abs(b.TTFT.P99.Or(0)-700) > 2 {
		t.Errorf("level 1: %v and %v, %d and %d wakes, want 250 + 350 + 100 ms", a.TTFT, b.TTFT, a.Replicas[0].Wakes, b.Replicas[0].Wakes)
	}
	for i := range c.Services {
		c.Services[i].Engine.Sleep.Level = costs.SleepDiscard
	}
	if b := play().Services[1]; math.Abs(b.TTFT.P99.Or(0)-2200) > 4 {
		t.Errorf("level 2: %v, want 50 + 2050 + 100 ms", b.TTFT)
	}
	// With room for both nobody sleeps, unless after a while.
	c.GPUs[0].Memory = 4 * sharing.GiB
	if b := play().Services[1]; b.Replicas[0].Wakes != 0 || math.Abs(b.TTFT.P99.Or(0)-100) > 1 {
		t.Errorf("both fit: %v, %d wakes", b.TTFT, b.Replicas[0].Wakes)
	}
	for i := range c.Services {
		c.Services[i].Engine.Sleep.Level, c.Services[i].Engine.Sleep.Idle = costs.SleepWeights, 5*time.Second
	}
	if b := play().Services[1]; b.Replicas[0].Wakes != 3 {
		t.Errorf("asleep after 5 s: %d wakes, want 3", b.Replicas[0].Wakes)
	}
	// A busy neighbour gives way when its turn is over.
	c.GPUs[0].Memory = 3 * sharing.GiB
	for i := range c.Services {
		c.Services[i].Engine.Sleep.Turn = 2 * time.Second
	}
	requests = nil
	for i := range 2000 {
		requests = append(requests, serving.Request{At: time.Duration(i) * 10 * time.Millisecond, Service: i % 2, Input: 100, Output: 2})
	}
	r = play()
	if a, b := r.Services[0], r.Services[1]; a.Completed != 1000 || b.Completed != 1000 || a.Replicas[0].Wakes < 3 || b.Replicas[0].Wakes < 3 {
		t.Errorf("turns: %d and %d ended, %d wakes, %v", a.Completed, b.Completed, a.Replicas[0].Wakes, b.TTFT)
	}
}

// Cold adapters are fetched and loaded while everybody waits, the least recently
// used one gives its slot up, and one whose slot is missing lets others go first.
func TestAdapters(t *testing.T) {
	e := plain()
	e.Adapters = costs.Adapters{Slots: 2, HostSlots: 2, Rank: 1, Step: exact(1), Each: exact(0.5), Prefill: exact(5), Load: exact(20), Fetch: exact(200)}
	at := func(ms int, adapter, out int) serving.Request {
		return serving.Request{At: time.Duration(ms) * time.Millisecond, Input: 1000, Output: out, Adapter: adapter}
	}
	for _, c := range []struct {
		name     string
		requests []serving.Request
		ttft     float64 // the longest
		loads    int64
		waited   int64
	}{
		{"base", []serving.Request{at(0, 0, 2)}, 100, 0, 0},
		{"cold", []serving.Request{at(0, 1, 2)}, 100 + 5 + 220, 1, 0},
		{"warm", []serving.Request{at(0, 1, 2), at(1000, 1, 2), at(2000, 1, 2)}, 325, 1, 0},
		{"the oldest goes", []serving.Request{at(0, 1, 2), at(1000, 2, 2), at(2000, 1, 2), at(3000, 3, 2), at(4000, 1, 2), at(5000, 2, 2)}, 325, 4, 0},
		{"no slot", []serving.Request{at(0, 1, 300), at(0, 2, 300), at(0, 3, 2), at(10, 1, 2)}, 0, 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := played(t, oneService(e, 1, 1<<21), slices.Values(c.requests)).Services[0]
			if s.Replicas[0].AdapterLoads != c.loads || s.Replicas[0].WaitedForAdapter != c.waited {
				t.Errorf("%d loads, %d waited, want %d and %d", s.Replicas[0].AdapterLoads, s.Replicas[0].WaitedForAdapter, c.loads, c.waited)
			}
			if got := s.TTFT.P99.Or(0); c.ttft > 0 && math.Abs(got-c.ttft) > 0.002*c.ttft {
				t.Errorf("TTFT is %.1f ms, want %.1f", got, c.ttft)
			}
		})
	}
	s := played(t, oneService(e, 1, 1<<21), slices.Values([]serving.Request{at(0, 1, 300), at(0, 2, 300), at(0, 3, 2), at(10, 1, 2)})).Services[0]
	if first, last := s.Adapters[0], s.Adapters[2]; first.Adapter != 1 || first.Completed != 2 || last.Adapter != 3 || last.TTFT.P50.Or(0) < 3000 {
		t.Errorf("adapters: %+v", s.Adapters)
	}
}

// What a hit saves is what need not be computed.
func TestPrefixCacheSaves(t *testing.T) {
	e := plain()
	e.NoPrefixCache, e.BlockTokens = false, 10
	c := oneService(e, 1, 1<<20)
	c.PrefixTokens = 100
	prefix := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	requests := []serving.Request{
		{Input: 1000, Output: 2, Prefix: prefix},
		{At: time.Second, Input: 1000, Output: 2, Prefix: prefix},                                                       // all but its last token
		{At: 2 * time.Second, Input: 1000, Output: 2, Prefix: append(slices.Clone(prefix[:4]), 11, 12, 13, 14, 15, 16)}, // 400 tokens
		{At: 3 * time.Second, Input: 350, Output: 2, Prefix: prefix},                                                    // a hash too many: its block is not full
	}
	s := played(t, c, slices.Values(requests)).Services[0]
	if s.CachedTokens != 999+400+300 || math.Abs(s.TTFT.Mean.Or(0)-(100+0.1+60+5)/4) > 0.1 {
		t.Errorf("%d tokens cached, mean TTFT %v", s.CachedTokens, s.TTFT.Mean)
	}
}

// A conversation's next prompt finds the answer before it in the cache too.
func TestAnswersAreCached(t *testing.T) {
	e := plain()
	e.NoPrefixCache, e.BlockTokens = false, 10
	c := oneService(e, 1, 1<<20)
	c.PrefixTokens = 100
	history := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	for _, turn := range []struct {
		answer []uint64
		want   int64
	}{{nil, 300}, {history[3:5], 500}, {history[3:8], 500}} { // 340 + 250 tokens fill five blocks
		s := played(t, c, slices.Values([]serving.Request{
			{Input: 340, Output: 251, Prefix: history[:3], Answer: turn.answer},
			{At: 10 * time.Second, Input: 810, Output: 2, Prefix: history},
		})).Services[0]
		if s.CachedTokens != turn.want || s.Replicas[0].KVHighWater > s.Replicas[0].KVCapacity {
			t.Errorf("%d tokens cached with answer %v, want %d", s.CachedTokens, turn.answer, turn.want)
		}
	}
}

// Copies on one GPU shrink each copy's KV cache and split the prefix cache.
func TestCopiesSplitTheCache(t *testing.T) {
	var hits, capacity []float64
	for _, copies := range []int{1, 2, 3} {
		e := costs.NewEngine(llama8B, machineOf(t, "H100-SXM5-80GB"))
		c := serving.Cluster{GPUs: []serving.SharedGPU{{Mechanism: sharing.MechanismMPS, Memory: 75 * sharing.GiB}}, PrefixTokens: 512}
		c.Services = []serving.Service{{Engine: e, Replicas: make([]serving.Replica, copies)}}
		s := played(t, c, conversations(3000, 4)).Services[0]
		hits, capacity = append(hits, s.HitFraction()), append(capacity, float64(s.Replicas[0].KVCapacity))
	}
	if !slices.IsSortedFunc(hits, func(a, b float64) int { return cmpDown(a, b) }) || capacity[1] > capacity[0]/2 || capacity[2] > capacity[0]/3 {
		t.Errorf("one, two and three copies hit %.3f with %.0f tokens each", hits, capacity)
	}
}

func cmpDown(a, b float64) int {
	if a > b {
		return -1
	}
	return 1
}

func TestRouters(t *testing.T) {
	cached := func(n int) func([]uint64) int { return func(p []uint64) int { return min(n, len(p)) } }
	states := []serving.ReplicaState{
		{Waiting: 0, Running: 9, KVUsed: 100, KVCapacity: 1000, Cached: cached(0)},
		{Waiting: 3, Running: 2, KVUsed: 700, KVCapacity: 1000, Pending: 2000, Cached: cached(8)},
		{Waiting: 0, Running: 4, KVUsed: 300, KVCapacity: 1000, Cached: cached(4)},
	}
	prefix := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	for _, c := range []struct {
		r    serving.Routing
		want []int // of successive requests
	}{
		{serving.Routing{}, []int{0, 1, 2, 0}},
		{serving.Routing{Policy: serving.RoutePolicyLeastRequests}, []int{2, 2}},
		{serving.Routing{Policy: serving.RoutePolicySession}, []int{2}},                      // no session: fewest
		{serving.Routing{Policy: serving.RoutePolicyPrefixExact}, []int{2}},                  // half cached, no queue
		{serving.Routing{Policy: serving.RoutePolicyPrefixExact, PrefixWeight: 1}, []int{1}}, // all cached
		{serving.Routing{Policy: serving.RoutePolicyPrefixApproximate}, []int{0, 0}},         // empty KV cache, then known there
		{serving.Routing{Policy: serving.RoutePolicyKVAware}, []int{2}},                      // 400 to compute and 300 held
		{serving.Routing{New: func(n int) serving.Router { return fixed(n - 1) }}, []int{2}},
	} {
		router := c.r.Router(3)
		var got []int
		for range c.want {
			got = append(got, router.Route(&serving.Request{Input: 800, Output: 1, Prefix: prefix}, states))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.r.Policy, diff)
		}
	}
	// What was sent somewhere draws the same prompt there, though it is busier.
	router := serving.Routing{Policy: serving.RoutePolicyPrefixApproximate}.Router(2)
	empty := []serving.ReplicaState{{KVCapacity: 100}, {KVCapacity: 100}}
	first := router.Route(&serving.Request{Input: 800, Output: 1, Prefix: prefix}, empty)
	empty[first].KVUsed = 40
	if again := router.Route(&serving.Request{Input: 800, Output: 1, Prefix: prefix}, empty); again != first {
		t.Errorf("the same prompt went to %d and %d", first, again)
	}
	if other := router.Route(&serving.Request{Input: 800, Output: 1, Prefix: []uint64{77}}, empty); other == first {
		t.Errorf("another prompt went to the busier %d", other)
	}
	// Sessions stay, and most stay when a replica is added.
	moved, to := 0, map[int]int{}
	for session := uint64(1); session <= 1000; session++ {
		four := serving.Routing{Policy: serving.RoutePolicySession}.Router(4).Route(&serving.Request{Session: session}, make([]serving.ReplicaState, 4))
		five := serving.Routing{Policy: serving.RoutePolicySession}.Router(5).Route(&serving.Request{Session: session}, make([]serving.ReplicaState, 5))
		to[four]++
		if four != five {
			moved++
		}
	}
	if moved < 150 || moved > 250 || len(to) != 4 || to[0] < 200 || to[0] > 300 {
		t.Errorf("%d of 1000 sessions moved, %v", moved, to)
	}
	// Random policies draw all, and the same again with the same seed.
	for _, p := range []serving.RoutePolicy{serving.RoutePolicyRandom, serving.RoutePolicyPowerOfTwo} {
		draw := func(seed uint64) (got []int) {
			router := serving.Routing{Policy: p, Seed: seed}.Router(3)
			for range 100 {
				got = append(got, router.Route(&serving.Request{}, states))
			}
			return got
		}
		counts := [3]int{}
		for _, i := range draw(1) {
			counts[i]++
		}
		if slices.Equal(draw(1), draw(2)) || !slices.Equal(draw(1), draw(1)) || counts[2] == 0 || p == serving.RoutePolicyPowerOfTwo && counts[0] > counts[2] {
			t.Errorf("%s drew %v", p, counts)
		}
	}
}

type fixed int

func (f fixed) Route(*serving.Request, []serving.ReplicaState) int { return int(f) }

func TestNamesRoundTrip(t *testing.T) {
	for _, p := range serving.RoutePolicies() {
		text, err := p.MarshalText()
		var back serving.RoutePolicy
		if err2 := back.UnmarshalText(text); err != nil || err2 != nil || back != p {
			t.Errorf("%v: %q, %v, %v", p, text, err, err2)
		}
	}
	var p costs.Projection
	if err := p.UnmarshalText([]byte("down_proj")); err != nil || p != costs.ProjectionDown || p.String() != "down_proj" {
		t.Errorf("%v, %v", p, err)
	}
	if err := p.UnmarshalText([]byte("x_proj")); err == nil {
		t.Error("x_proj is read")
	}
}

// Ten times the requests take no more memory.
func TestMemoryIsFlat(t *testing.T) {
	race.Long(t)
	e := costs.NewEngine(llama8B, machineOf(t, "H100-SXM5-80GB"))
	c := oneService(e, 4, 80*sharing.GiB)
	c.PrefixTokens = 512
	c.Services[0].Routing = serving.Routing{Policy: serving.RoutePolicyPrefixApproximate, PrefixBlocks: 2000}
	peak := func(n int) (most uint64) {
		i := 0
		played(t, c, func(yield func(serving.Request) bool) {
			for r := range conversations(n, 25) {
				if i++; i%(n/10) == 0 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
				}
				if !yield(r) {
					return
				}
			}
		})
		return most
	}
	peak(1000) // what the test itself needs
	if few, many := peak(15_000), peak(150_000); float64(many) > 1.25*float64(few) {
		t.Errorf("15,000 requests take %d bytes, 150,000 %d", few, many)
	} else {
		t.Logf("15,000 requests take %.1f MB, 150,000 %.1f MB", float64(few)/1e6, float64(many)/1e6)
	}
}

// A profile under MPS of another load tells what MPS adds to a step.
func TestEngineReadsMPSOfAnotherLoad(t *testing.T) {
	row := func(mechanism sharing.Mechanism, clients int, step float64) profile.SoloProfile {
		return profile.SoloProfile{
			Version: profile.Version, Mechanism: mechanism, Server: profile.Server{Model: "8b", Slots: profile.Some(16)}, GPU: "NVIDIA H200",
			Load: profile.Load{Concurrency: clients, Prompt: 128, Output: 64},
			Outcome: profile.Outcome{
				TokensPerS: profile.Some(1e3 * float64(clients) * 64 / (64*step + 20)), TTFT: profile.LatencyMS{P50: profile.Some(20.0)},
				TPOT: profile.LatencyMS{P50: profile.Some(step)}, ITL: profile.LatencyMS{P50: profile.Some(step)}, E2E: profile.LatencyMS{P50: profile.Some(64*step + 20)},
			},
		}
	}
	one := row(sharing.MechanismTimeSlicing, 1, 7)
	set, err := profile.NewProfiles(one, row(sharing.MechanismTimeSlicing, 8, 7.5), row(sharing.MechanismMPS, 8, 8.75))
	if err != nil {
		t.Fatal(err)
	}
	solo, err := set.Solo(one.Server, one.Load)
	if err != nil {
		t.Fatal(err)
	}
	p := predict.NewPredictor()
	e, err := p.Engine(costs.NewEngine(llama8B, machineOf(t, "H200")), solo)
	if err != nil {
		t.Fatal(err)
	}
	// To a step of eight sequences, in which nothing is seen of a product of matrices.
	if got := e.MPSStep.Value - e.StepMatrix.Value; math.Abs(got-1.25) > 1e-9 {
		t.Errorf("MPS is said to add %v ms, 1.25 were measured", got)
	}
}
