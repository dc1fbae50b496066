// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

const loadFleet = `
version: v1
trust: all
pools:
  - {name: p, gpu: H100-80GB, count: 4, price_per_gpu_hour: "3.00 USD", reserved: {count: 2, price_per_gpu_hour: "1.80 USD"}, spot: {price_per_gpu_hour: "1.10 USD"}}
workloads:
  - name: chat
    kind: online-inference
    replicas: {min: 2, max: 4}
    model: {parameters: 8.03e9, weights: bf16, layers: 32, kv_heads: 8, head_dim: 128, kv_dtype: fp8}
    load: {requests_per_s: 8, input_tokens: 512, output_tokens: 128, context_tokens: 8192,
           by_hour: [0,0,0,0,0,0,0,1,1,1,2,2,2,2,2,2,1,1,1,1,1,1,1,2]}
    slo: {ttft_p99: 1s, tpot_p99: 50ms}
    adapters: {count: 8, rank: 16}
    video: {nvdec_busy: 0.4}
    spot: true
`

func TestLoadOfAWorkload(t *testing.T) {
	f, err := ParseFleet([]byte(loadFleet))
	if err != nil {
		t.Fatal(err)
	}
	w := &f.Workloads[0]
	if w.Replicas != (Replicas{Min: 2, Max: 4}) || f.Trust != "all" || f.Pools[0].Reserved.Count != 2 {
		t.Errorf("got replicas %v, trust %v, reserved %v", w.Replicas, f.Trust, f.Pools[0].Reserved)
	}
	if got := w.Load.PeakPerS(); got != 16 {
		t.Errorf("peak %v, want 16", got)
	}
	// 2 x 32 layers x 8 heads x 128 elements of one byte.
	if b, ok := w.Model.KVPerToken(); b != 65536 || !ok {
		t.Errorf("KV per token %d, %v", b, ok)
	}
	// 4 requests/s a replica, 7.4 s each: 29.6 and three deviations, 46 sequences of 640 tokens, whatever the
	// objectives.
	wide := *w
	wide.SLO.TTFTP99, wide.SLO.TPOTP99 = sharing.Some(profile.Duration(time.Minute)), sharing.Some(profile.Duration(time.Minute))
	for _, w := range []*Workload{w, &wide} {
		if n := w.MemoryNeed(); n.KVCache != 46*640*65536 || n.KVPrior {
			t.Errorf("KV cache %v (prior %v), want %v", n.KVCache, n.KVPrior, sharing.Bytes(46*640*65536))
		}
	}
	// 8 adapters x 32 layers x 4 projections x 2 matrices x 16 x 4,573 x 2 bytes, about 0.3 GB.
	bare := *w
	bare.Adapters = nil
	if m := w.MemoryNeed().Weights - bare.MemoryNeed().Weights; m < 280e6 || m > 320e6 {
		t.Errorf("adapters take %v", m)
	}
}

// TestStatedLengths: 99th percentiles of lengths tell how far they spread, by the wider of both, and an objective's
// bounds are nearer to each other than without them.
func TestStatedLengths(t *testing.T) {
	load := func(in, out int) *fleet.Traffic {
		return &fleet.Traffic{RequestsPerS: 2, InputTokens: sharing.Some(500), OutputTokens: sharing.Some(100), InputTokensP99: sharing.Some(in), OutputTokensP99: sharing.Some(out)}
	}
	for _, c := range []struct {
		load *fleet.Traffic
		want float64
	}{
		{&fleet.Traffic{InputTokens: sharing.Some(500), OutputTokens: sharing.Some(100)}, 0},
		{load(500, 100), 0},
		{load(2335, 100), 0.8}, // exp(0.8 x 2.3263 - 0.32) times the mean
		{load(500, 467), 0.8},
		{load(5_000_000, 100), 2.3263},
	} {
		if got := c.load.LengthSigma(); math.Abs(got-c.want) > 0.002 {
			t.Errorf("%+v: %v, want %v", c.load, got, c.want)
		}
	}
	wide := func(old, new string) float64 {
		f, err := ParseFleet([]byte(strings.Replace(loadFleet, old, new, 1)))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range decide(t, f).Decision("chat").Consequences {
			if c.Metric == "TTFT P99 ms" {
				return c.High / c.Low
			}
		}
		t.Fatal("nothing is expected of the TTFT")
		return 0
	}
	// What is assumed has a P99 of three times the mean: to state it changes nothing.
	a, b := wide("context_tokens", "context_tokens"), wide("context_tokens", "input_tokens_p99: 1536, output_tokens_p99: 384, context_tokens")
	if math.Abs(a-b) > 0.01*a {
		t.Errorf("from the low to the high bound %.2f times with lengths' P99s stated, %.2f without", b, a)
	}
}

func TestKVPriors(t *testing.T) {
	for p, want := range map[int64]sharing.Bytes{8_030_000_000: 131072, 70_600_000_000: 327680} {
		if got := fleet.PriorKVPerToken(p); got != want {
			t.Errorf("%d parameters: %d bytes a token, want %d", p, got, want)
		}
	}
	w := Workload{Model: &fleet.LanguageModel{Parameters: 70e9, Weights: "fp16"}}
	if n := w.MemoryNeed(); n.KVCache < 4*sharing.GiB || !n.KVPrior {
		t.Errorf("a 70B model's KV prior is %v", n.KVCache)
	}
}

func TestBadLoads(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"{min: 2, max: 4}", "{min: 5, max: 4}", "workloads[0].replicas: min 5 is above max 4"},
		{"{min: 2, max: 4}", "{min: 5}", "workloads[0].replicas.max: is missing"},
		{"{min: 2, max: 4}", "0", "workloads[0].replicas: must not be 0"},
		{"{min: 2, max: 4}", "-3", "workloads[0].replicas: -3 is out of range"},
		{"requests_per_s: 8", "requests_per_s: -8", "workloads[0].load.requests_per_s: -8 is out of range"},
		{"requests_per_s: 8", "request_per_s: 8", `did you mean "requests_per_s"?`},
		{"context_tokens: 8192", "context_tokens: 100", "workloads[0].load.context_tokens: 100 is below"},
		{"context_tokens: 8192", "input_tokens_p99: 900", "workloads[0].load: states the 99th percentile of one length only"},
		{"context_tokens: 8192", "input_tokens_p99: 900, output_tokens_p99: 90", "output_tokens_p99: 90 is below the mean, 128"},
		{"input_tokens: 512, output_tokens: 128", "output_tokens: 1, input_tokens_p99: 9, output_tokens_p99: 9", "input_tokens: is missing"},
		{"context_tokens: 8192", "input_tokens_p99: 0, output_tokens_p99: 900", "input_tokens_p99: 0 is out of range"},
		{"[0,0,0,", "[0,", "workloads[0].load.by_hour: has 22 values"},
		{"layers: 32, ", "", "workloads[0].model: its shape is stated in part"},
		{"rank: 16", "rank: 0", "workloads[0].adapters.rank: 0 is out of range"},
		{"nvdec_busy: 0.4", "nvdec_busy: 40", "workloads[0].video.nvdec_busy: 40 is out of range"},
		{"trust: all", "trust: some", `trust "some"`},
		{"count: 2", "count: 9", "pools[0].reserved.count: 9 is more than the pool's 4"},
		{"1.10 USD", "1.10 EUR", "pools[0].spot.price_per_gpu_hour: is in EUR"},
	} {
		_, err := ParseFleet([]byte(strings.Replace(loadFleet, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.new, err, c.want)
		}
	}
}

// TestReservedGPUs: reserved GPUs are used before others are bought, and are still not wasted.
func TestReservedGPUs(t *testing.T) {
	f, err := ParseFleet([]byte(`
version: v1
pools:
  - {name: bought, gpu: L4, count: 4, price_per_gpu_hour: "0.80 USD"}
  - {name: owned, gpu: A10, count: 3, price_per_gpu_hour: "1.00 USD", reserved: {count: 1, price_per_gpu_hour: "0.90 USD"}}
workloads:
  - {name: one, kind: batch, memory: 18GiB, gpu_busy: 0.9, tenant: t}
  - {name: two, kind: batch, memory: 18GiB, gpu_busy: 0.9, tenant: t}
  - {name: idle, kind: batch, replicas: 3, memory: 2GiB, gpu_busy: 0.1, tenant: t}
`))
	if err != nil {
		t.Fatal(err)
	}
	r := decide(t, f)
	if bought, owned := r.Pools[0].GPUsNeeded, r.Pools[1].GPUsNeeded; owned != 1 || bought == 0 {
		t.Errorf("%d of owned's GPUs in use and %d of bought's; one is paid for, and a further one is dearer than bought's", owned, bought)
	}
	f.Workloads = f.Workloads[2:]
	f.Pools[1].Reserved.Count = 3
	r = decide(t, f)
	if got := r.Pools[1].GPUsNeeded; got != 3 {
		t.Errorf("three light jobs take %d of three GPUs that are paid for", got)
	}
	// Three reserved GPUs at 0.90 are paid for before and after, four at 0.80 before.
	if b := r.Totals.Costs; b.MonthlyToday != "4307.00" || b.MonthlyAfter != "1971.00" || b.GPUsAfter != 3 || r.Decision("idle").Cost.ExclusiveHour != "2.70" {
		t.Errorf("%+v, %s an hour", b, r.Decision("idle").Cost.ExclusiveHour)
	}
}

// TestSpotGPUs: GPUs with interruptible tenants only are bought and priced as spot, as many as there are.
func TestSpotGPUs(t *testing.T) {
	decided := func(text string) *Result {
		t.Helper()
		f, err := ParseFleet([]byte("version: v1\npools:\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		return decide(t, f)
	}
	const pool = "  - {name: p, gpu: L4, count: 4, price_per_gpu_hour: \"0.80 USD\", spot: {count: 1, price_per_gpu_hour: \"0.30 USD\"}}\nworkloads:\n"
	r := decided(pool + `
  - {name: a, kind: batch, memory: 18GiB, gpu_busy: 0.9, tenant: t, spot: true}
  - {name: b, kind: batch, memory: 18GiB, gpu_busy: 0.9, tenant: t, spot: true}
  - {name: c, kind: batch, memory: 18GiB, gpu_busy: 0.9, tenant: t}
`)
	// 0.30 + 0.80 + 0.80 an hour for 730 hours, of which c alone is 0.80, and one more at 0.80 before.
	if b := r.Totals.Costs; b.MonthlyAfter != "1387.00" || b.MonthlyToday != "1971.00" || b.MonthlyFreed != "584.00" || r.Pools[0].SpotGPUs != 1 {
		t.Errorf("%+v, %d spot GPUs", b, r.Pools[0].SpotGPUs)
	}
	if got := r.Decision("c").Cost.PerWorkloadHour; got != "0.80" {
		t.Errorf("c costs %s", got)
	}
	r = decided(pool + `
  - {name: a, kind: batch, memory: 4GiB, gpu_busy: 0.2, tenant: t, spot: true}
  - {name: c, kind: batch, memory: 4GiB, gpu_busy: 0.2, tenant: t}
`)
	if r.Totals.GPUsAfter != 1 || r.Totals.MonthlyAfter != "584.00" || r.Pools[0].SpotGPUs != 0 {
		t.Errorf("%d GPUs for %s a month, %d spot; beside c, which must stay, a's GPU can't be spot", r.Totals.GPUsAfter, r.Totals.MonthlyAfter, r.Pools[0].SpotGPUs)
	}
	if r := decided("  - {name: p, gpu: L4, count: 4, spot: {price_per_gpu_hour: \"0.30 USD\"}}\nworkloads:\n  - {name: a, kind: batch, memory: 4GiB, gpu_busy: 0.2, spot: true}\n"); r.Decision("a").Placed != 1 {
		t.Error("a spot price without another stops the decision")
	}
}
