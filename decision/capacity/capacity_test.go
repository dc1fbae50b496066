package capacity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
)

var (
	llama8B = costs.Model{Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128, Hidden: 4096, Heads: 32, Intermediate: 14336}
	llama1B = costs.Model{Parameters: 1.24e9, Layers: 16, KVHeads: 8, HeadDim: 64, Hidden: 2048, Heads: 32, Intermediate: 8192}
)

func usd(t testing.TB, micros int64) cost.Money {
	m, err := cost.FromMicros(micros, "USD")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stream is a Poisson stream of n requests.
func stream(n int, perS float64, seed uint64, fill func(rng *rand.Rand, r *capacity.Request)) []capacity.Request {
	rng := rand.New(rand.NewPCG(seed, 7))
	var out []capacity.Request
	at := 0.0
	for range n {
		at += rng.ExpFloat64() / perS
		r := capacity.Request{At: time.Duration(at * 1e9), Input: 200 + rng.IntN(800), Output: 20 + rng.IntN(200)}
		fill(rng, &r)
		out = append(out, r)
	}
	return out
}

func limits(ttft, tpot time.Duration) capacity.Objectives {
	return capacity.Objectives{Limits: []capacity.Limit{{Latency: capacity.LatencyTTFT, Percentile: 99, Most: ttft}, {Latency: capacity.LatencyTPOT, Percentile: 99, Most: tpot}}}
}

const ms = time.Millisecond

func found(t *testing.T, p capacity.Plan) *capacity.Result {
	t.Helper()
	r, err := p.Search(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// page is a result as a test keeps it: what is chosen, what else there is, and why.
func page(r *capacity.Result) []byte {
	var b strings.Builder
	line := func(a *capacity.Arrangement) {
		fmt.Fprintf(&b, "%-14s %2d %-16s router %-19s %-8s %6.2f an hour\n", a.Kind, a.GPUs, a.GPU, a.Router, a.Verdict, float64(a.CostPerHour.Micros())/1e6)
	}
	for i := range r.Arrangements {
		line(&r.Arrangements[i])
	}
	if r.Chosen != nil {
		b.WriteString("chosen: ")
		line(r.Chosen)
	}
	for _, w := range r.Why {
		b.WriteString("- " + w + "\n")
	}
	return []byte(b.String())
}

// TestRouterChangesTheNumber: agents whose sessions have long histories. A router that
// sends a session where its prefix is cached needs fewer GPUs.
func TestRouterChangesTheNumber(t *testing.T) {
	race.Long(t)
	r := found(t, capacity.Plan{
		Tenants:      []capacity.Tenant{{Name: "agents", Model: "8b", Shape: llama8B, Objectives: limits(2000*ms, 80*ms)}},
		PrefixTokens: 512, Kinds: []capacity.Kind{capacity.KindOwnGPU},
		Requests: slices.Values(stream(1500, 6, 1, func(rng *rand.Rand, r *capacity.Request) {
			session := 1 + rng.Uint64N(60)
			r.Session, r.Input, r.Output = session, 12*512+100+rng.IntN(300), 60+rng.IntN(100)
			for k := range uint64(12) {
				r.Prefix = append(r.Prefix, session<<8|k)
			}
		})),
		GPUs: []capacity.GPU{{Name: "L40S", PricePerHour: usd(t, 900_000)}},
	})
	robin := r.Chosen.ByRouter[serving.RoutePolicyRoundRobin]
	if r.Chosen.Router == "round-robin" || robin.GPUs <= r.Chosen.GPUs && !robin.More {
		t.Errorf("%s on %d GPUs, round robin on %+v", r.Chosen.Router, r.Chosen.GPUs, robin)
	}
	golden.Check(t, "testdata/router.txt", page(r))
}

// small is a plan that is searched in a moment.
func small(t *testing.T, perS float64, edit func(*capacity.Plan)) capacity.Plan {
	o := limits(800*ms, 40*ms)
	p := capacity.Plan{
		Tenants: []capacity.Tenant{{Name: "chat", Model: "8b", Shape: llama8B, Objectives: o}, {Name: "tags", Model: "1b", Shape: llama1B, Objectives: o}},
		Requests: slices.Values(stream(400, perS, 3, func(rng *rand.Rand, r *capacity.Request) {
			if r.Tenant = rng.IntN(2); r.Tenant == 1 {
				r.Output = 1 + rng.IntN(30)
			}
		})),
		GPUs: []capacity.GPU{{Name: "L40S", PricePerHour: usd(t, 900_000)}, {Name: "H100-SXM5-80GB", PricePerHour: usd(t, 2_900_000)}},
	}
	if edit != nil {
		edit(&p)
	}
	return p
}

// TestFewest: with one GPU fewer than the search says, a kind keeps the objectives
// nowhere; checked by forbidding that many.
func TestFewest(t *testing.T) {
	race.Long(t)
	for _, k := range []capacity.Kind{capacity.KindOwnGPU, capacity.KindMPS, capacity.KindTimeSlicing} {
		plan := small(t, 20, func(p *capacity.Plan) { p.Kinds, p.GPUs = []capacity.Kind{k}, p.GPUs[:1] })
		r := found(t, plan)
		first := r.Arrangements[0]
		for i := range r.Arrangements {
			if r.Arrangements[i].GPUs < first.GPUs {
				first = r.Arrangements[i]
			}
		}
		if first.GPUs < 3 {
			t.Fatalf("%v: %d GPUs leave nothing to forbid", k, first.GPUs)
		}
		plan.GPUs[0].Most = first.GPUs - 1
		if r := found(t, plan); len(r.Arrangements) != 1 || r.Arrangements[0].Verdict == capacity.VerdictKept {
			t.Errorf("%v: %d GPUs are found, and %d do: %s", k, first.GPUs, first.GPUs-1, page(r))
		}
		plan.GPUs[0].Most = first.GPUs
		if r := found(t, plan); r.Arrangements[0].GPUs != first.GPUs || r.Arrangements[0].Verdict == capacity.VerdictMissed {
			t.Errorf("%v: with at most %d: %s", k, first.GPUs, page(r))
		}
	}
}

// TestDeterministic: the same plan gives the same bytes.
func TestDeterministic(t *testing.T) {
	race.Long(t)
	var first []byte
	for range 2 {
		data, err := json.Marshal(found(t, small(t, 10, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, data) {
			t.Error("two searches differ")
		}
		first = data
	}
}

// TestEachOnItsOwnKindOfGPU: with GPUs of their own, tenants together cost what they cost
// one by one, each on the GPU that is cheapest for it.
func TestEachOnItsOwnKindOfGPU(t *testing.T) {
	race.Long(t)
	own := func(p *capacity.Plan) { p.Kinds, p.Loads = []capacity.Kind{capacity.KindOwnGPU}, []float64{1} }
	mixed := 0
	for _, perS := range []float64{10, 60} {
		together := found(t, small(t, perS, own)).Arrangements
		sum := int64(0)
		for tenant := range 2 {
			alone := found(t, small(t, perS, func(p *capacity.Plan) {
				own(p)
				all := p.Requests
				p.Tenants = p.Tenants[tenant : tenant+1]
				p.Requests = func(yield func(capacity.Request) bool) {
					for r := range all {
						if was := r.Tenant; was == tenant {
							if r.Tenant = 0; !yield(r) {
								return
							}
						}
					}
				}
			})).Arrangements
			sum += alone[0].CostPerHour.Micros()
		}
		if got := together[0].CostPerHour.Micros(); got != sum {
			t.Errorf("%g/s: %d together, %d one by one: %s on %s (%s)", perS, got, sum, together[0].Kind, together[0].GPU, together[0].Division)
		}
		for _, a := range together {
			if strings.Contains(a.GPU, " + ") {
				mixed++
			}
		}
	}
	if mixed == 0 {
		t.Error("no arrangement has GPUs of two kinds")
	}
}

// TestInvariants: what must hold of every result.
func TestInvariants(t *testing.T) {
	race.Long(t)
	for _, perS := range []float64{0.5, 10, 60} {
		r := found(t, small(t, perS, func(p *capacity.Plan) { p.Loads = []float64{0.5, 1} }))
		for i, a := range r.Arrangements {
			if i > 0 && a.CostPerHour.Micros() < r.Arrangements[i-1].CostPerHour.Micros() {
				t.Errorf("%g/s: arrangements are not sorted by cost", perS)
			}
			replicas := 0
			for _, s := range a.Servers {
				replicas += s.Replicas
			}
			// A price has the GPUs in it, a copy a replica, an interval its value.
			prices := map[string]int64{"L40S": 900_000, "H100-SXM5-80GB": 2_900_000}
			price := prices[a.GPU] * int64(a.GPUs)
			if strings.Contains(a.GPU, " + ") {
				for part := range strings.SplitSeq(a.Division, ", ") {
					var model, name string
					var n int64
					if _, err := fmt.Sscanf(part, "%s on %d %s", &model, &n, &name); err != nil {
						t.Fatalf("%q: %v", a.Division, err)
					}
					price += n * prices[name]
				}
			}
			if a.CostPerHour.Micros() != price || a.Kind != capacity.KindOwnGPU && replicas != 2*a.GPUs*a.CopiesPerGPU || a.Kind == capacity.KindOwnGPU && replicas != a.GPUs {
				t.Errorf("%g/s, %v: %d GPUs, %d copies, %d replicas for %v", perS, a.Kind, a.GPUs, a.CopiesPerGPU, replicas, a.CostPerHour)
			}
			over := false
			for name, i := range a.Predicted {
				if !(i.Low <= i.Value && i.Value <= i.High) {
					t.Errorf("%g/s, %v: %s is %+v", perS, a.Kind, name, i)
				}
				over = over || name == "ttft_p99" && i.High > 800 || name == "tpot_p99" && i.High > 40
			}
			if over == (a.Verdict == capacity.VerdictKept) {
				t.Errorf("%g/s, %v: %v with %v", perS, a.Kind, a.Verdict, a.Predicted)
			}
			if a.Verdict == capacity.VerdictUnknown && a.Settle == "" || a.FirstLimit == "" || a.Gap < 0 || a.Gap >= 1 {
				t.Errorf("%g/s: %+v", perS, a)
			}
			if million, ok := a.PerMillion.Get(); a.GoodputPerS > 0 && !ok || ok && million.Sign() <= 0 {
				t.Errorf("%g/s, %v: goodput %v, %v a million", perS, a.Kind, a.GoodputPerS, million)
			}
		}
		if r.Chosen == nil || r.Chosen.Verdict != capacity.VerdictKept {
			t.Errorf("%g/s: chosen %+v", perS, r.Chosen)
		}
	}
}

// TestAdapters: tenants that are adapters of one model share a server with slots.
func TestAdapters(t *testing.T) {
	o := limits(800*ms, 60*ms)
	p := capacity.Plan{
		Tenants:  []capacity.Tenant{{Name: "sql", Model: "8b", Shape: llama8B, AdapterRank: 16, Objectives: o}, {Name: "law", Model: "8b", Shape: llama8B, AdapterRank: 8, Objectives: o}, {Name: "base", Model: "8b", Shape: llama8B, Objectives: o}},
		Requests: slices.Values(stream(600, 3, 3, func(rng *rand.Rand, r *capacity.Request) { r.Tenant = rng.IntN(3) })),
		GPUs:     []capacity.GPU{{Name: "L40S", PricePerHour: usd(t, 900_000)}},
	}
	r := found(t, p)
	if c := r.Chosen; c == nil || c.Kind != capacity.KindAdapters || c.Adapters != 2 || len(c.Tenants) != 3 || len(c.Servers) != 1 {
		t.Errorf("%s", page(r))
	}
}

// TestSleep: two models that are asked for at different hours take turns on one GPU.
func TestSleep(t *testing.T) {
	o := capacity.Objectives{Limits: []capacity.Limit{{Latency: capacity.LatencyTPOT, Percentile: 99, Most: 80 * ms}}}
	var requests []capacity.Request
	for hour := range 4 {
		for i := range 60 {
			requests = append(requests, capacity.Request{At: time.Duration(hour)*time.Hour + time.Duration(i)*20*time.Second, Tenant: hour % 2, Input: 500, Output: 100})
		}
	}
	big := costs.Model{Parameters: 14e9, Layers: 40, KVHeads: 8, HeadDim: 128, Hidden: 5120, Heads: 40, Intermediate: 13824}
	r := found(t, capacity.Plan{
		Tenants:  []capacity.Tenant{{Name: "day", Model: "a", Shape: big, Objectives: o}, {Name: "night", Model: "b", Shape: big, Objectives: o}},
		Requests: slices.Values(requests), GPUs: []capacity.GPU{{Name: "L40S", PricePerHour: usd(t, 900_000)}},
	})
	if c := r.Chosen; c == nil || c.Kind != capacity.KindSleep || c.GPUs != 1 {
		t.Errorf("%s", page(r))
	}
}

// TestTooSmall: what does not fit is excluded with the reason.
func TestTooSmall(t *testing.T) {
	r := found(t, small(t, 1, func(p *capacity.Plan) {
		p.GPUs = []capacity.GPU{{Name: "L4", PricePerHour: usd(t, 500_000)}}
		p.Requests = slices.Values([]capacity.Request{{Tenant: 0, Input: 60_000, Output: 1000}})
	}))
	if r.Chosen != nil || len(r.Why) != 1 || !strings.Contains(r.Why[0], "chat: its weights (14.96GiB) and the KV cache of its longest request (61000 tokens) take at least 2 L4. ") {
		t.Errorf("%q", r.Why)
	}
	r = found(t, small(t, 1, func(p *capacity.Plan) {
		p.GPUs = []capacity.GPU{{Name: "L4", PricePerHour: usd(t, 500_000)}, {Name: "H100-SXM5-80GB", PricePerHour: usd(t, 2_900_000)}}
		p.Requests = slices.Values([]capacity.Request{{Tenant: 0, Input: 60_000, Output: 1000}})
	}))
	if !slices.ContainsFunc(r.Excluded, func(e capacity.Exclusion) bool {
		return e.Kind == "own-gpu" && e.GPU == "L4" && strings.Contains(e.Reason, "is smaller than one request of 61000")
	}) {
		t.Errorf("%+v", r.Excluded)
	}
}

func TestRefuses(t *testing.T) {
	one := []capacity.Request{{Input: 10, Output: 10}}
	for want, p := range map[string]capacity.Plan{
		"tenants: none":                      {},
		"gpus: none":                         {Requests: slices.Values(one)},
		"gpus[0].name":                       small(t, 1, func(p *capacity.Plan) { p.GPUs[0].Name = "Abacus" }),
		"gpus[0].price":                      small(t, 1, func(p *capacity.Plan) { p.GPUs[0].PricePerHour = cost.Money{} }),
		"requests: the trace has":            small(t, 1, func(p *capacity.Plan) { p.Requests = slices.Values([]capacity.Request{}) }),
		"requests[0]: 0 tokens in and 5 out": small(t, 1, func(p *capacity.Plan) { p.Requests = slices.Values([]capacity.Request{{Output: 5}}) }),
		"requests[0].tenant: 7 is no index": small(t, 1, func(p *capacity.Plan) {
			p.Requests = slices.Values([]capacity.Request{{Tenant: 7, Input: 1, Output: 1}})
		}),
		"requests[1].at: 0s is before 1s": small(t, 1, func(p *capacity.Plan) {
			p.Requests = slices.Values([]capacity.Request{{At: time.Second, Input: 1, Output: 1}, {Input: 1, Output: 1}})
		}),
		"tenants[0].adapter_rank: must lie between 0 and 512": small(t, 1, func(p *capacity.Plan) { p.Tenants[0].AdapterRank = 1024 }),
		"tenants[0].objectives.limits[0].percentile":          small(t, 1, func(p *capacity.Plan) { p.Tenants[0].Objectives.Limits = []capacity.Limit{{Percentile: 98, Most: 1}} }),
		"tenants[0].objectives.limits[0]: e2e_p99=1s is below ttft_p95=2s (raise it": small(t, 1, func(p *capacity.Plan) {
			p.Tenants[0].Objectives.Limits = []capacity.Limit{{capacity.LatencyE2E, 99, time.Second}, {capacity.LatencyTTFT, 95, 2 * time.Second}}
		}),
		"tenants[0].objectives.limits[1]: tpot_p99=10ms is below tpot_p50=20ms (raise it": small(t, 1, func(p *capacity.Plan) {
			p.Tenants[0].Objectives.Limits = []capacity.Limit{{capacity.LatencyTPOT, 50, 20 * time.Millisecond}, {capacity.LatencyTPOT, 99, 10 * time.Millisecond}}
		}),
		"tenants[0].objectives.share: is 2": small(t, 1, func(p *capacity.Plan) { p.Tenants[0].Objectives.Share = 2 }),
		"percents[0]: 1 for 2 tenants":      small(t, 1, func(p *capacity.Plan) { p.Percents = [][]float64{{50}} }),
		"percents[0][1]: is 0":              small(t, 1, func(p *capacity.Plan) { p.Percents = [][]float64{{50, 0}} }),
		"loads[0]: is 0":                    small(t, 1, func(p *capacity.Plan) { p.Loads = []float64{0} }),
		"tenants[1].shape: is incomplete":   small(t, 1, func(p *capacity.Plan) { p.Tenants[1].Shape.Layers = 0 }),
		"requests[0].adapter: names adapter 3": small(t, 1, func(p *capacity.Plan) {
			p.Requests = slices.Values([]capacity.Request{{Input: 1, Output: 1, Adapter: 3}})
		}),
	} {
		if _, err := p.Search(context.Background()); !errors.Is(err, capacity.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// TestCutShort: what was searched when the context ended comes with its error.
func TestCutShort(t *testing.T) {
	race.Long(t)
	whole, err := small(t, 10, nil).Search(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for plays := 1; plays < whole.Plays; plays += 1 + plays/3 {
		ctx, cancel := context.WithCancel(context.Background())
		p := small(t, 10, nil)
		p.Progress = func(x capacity.Progress) {
			if x.Plays >= plays {
				cancel()
			}
		}
		r, err := p.Search(ctx)
		if !errors.Is(err, context.Canceled) || r == nil {
			t.Fatalf("after %d plays: %v, %v", plays, r, err)
		}
		for i := range r.Arrangements { // those that were found are as in the whole search
			if a := &r.Arrangements[i]; !slices.ContainsFunc(whole.Arrangements, func(w capacity.Arrangement) bool {
				return w.Kind == a.Kind && w.GPUs == a.GPUs && w.Verdict == a.Verdict && w.FirstLimit == a.FirstLimit && w.Reason == a.Reason
			}) {
				t.Errorf("after %d of %d plays: %v on %d: %v, %s", plays, whole.Plays, a.Kind, a.GPUs, a.Verdict, a.FirstLimit)
			}
		}
	}
}

// TestLongTrace: of a long trace the busiest stretch is searched, and the whole of it
// played at the end, with memory that does not grow with it.
func TestLongTrace(t *testing.T) {
	n := 60_000
	p := small(t, 1, func(p *capacity.Plan) {
		p.Kinds, p.Tenants, p.WindowRequests = []capacity.Kind{capacity.KindOwnGPU}, p.Tenants[1:], 500
		p.Requests = func(yield func(capacity.Request) bool) {
			at := time.Duration(0)
			for i := range n {
				gap := 200 * ms
				if i > 30_000 && i < 32_000 {
					gap = 20 * ms
				}
				at += gap
				if !yield(capacity.Request{At: at, Input: 300, Output: 20}) {
					return
				}
			}
		}
	})
	r := found(t, p)
	if r.Trace.Requests != n || r.Trace.WindowRequests != 500 || r.Trace.PerS < 45 || r.Trace.WindowFromS < 6000 || r.Trace.WindowFromS > 6040 {
		t.Errorf("%+v", r.Trace)
	}
	if r.Whole == nil || r.Whole.Requests != n || r.Whole.Tenants[0].Predicted["ttft_p50"].Value <= 0 {
		t.Errorf("%+v", r.Whole)
	}
}

func FuzzParseObjectives(f *testing.F) {
	f.Add("ttft_p99=500ms,tpot_p99=30ms,share=0.99")
	f.Add("e2e_p50=1h")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := capacity.ParseObjectives(text)
		if err == nil && len(o.Limits) == 0 && o.Share == 0 {
			t.Errorf("%q: nothing and no error", text)
		}
		for _, l := range o.Limits {
			if l.Most <= 0 {
				t.Errorf("%q: %v", text, l)
			}
		}
	})
}

// TestProperties: what the answer cannot depend on, and which way it must move. A plan costs the same with its
// tenants and GPUs in another order, doubles with its prices, never costs more with one more GPU to choose from, and
// never less with more load.
func TestProperties(t *testing.T) {
	race.Long(t)
	kinds := []capacity.Kind{capacity.KindOwnGPU, capacity.KindMPS}
	costOf := func(perS float64, edit func(*capacity.Plan)) int64 {
		r := found(t, small(t, perS, func(p *capacity.Plan) {
			p.Kinds = kinds
			if edit != nil {
				edit(p)
			}
		}))
		if r.Chosen == nil {
			t.Fatalf("%g/s: %s", perS, page(r))
		}
		return r.Chosen.CostPerHour.Micros()
	}
	last := int64(0)
	for _, perS := range []float64{3, 12, 40} {
		base := costOf(perS, nil)
		permuted := costOf(perS, func(p *capacity.Plan) {
			slices.Reverse(p.Tenants)
			slices.Reverse(p.GPUs)
			all := p.Requests
			p.Requests = func(yield func(capacity.Request) bool) {
				for r := range all {
					if r.Tenant = 1 - r.Tenant; !yield(r) {
						return
					}
				}
			}
		})
		if permuted != base {
			t.Errorf("%g/s: %d, permuted %d", perS, base, permuted)
		}
		if twice := costOf(perS, func(p *capacity.Plan) {
			for i := range p.GPUs {
				p.GPUs[i].PricePerHour = usd(t, 2*p.GPUs[i].PricePerHour.Micros())
			}
		}); twice != 2*base {
			t.Errorf("%g/s: %d, at twice the prices %d", perS, base, twice)
		}
		if more := costOf(perS, func(p *capacity.Plan) {
			p.GPUs = append(p.GPUs, capacity.GPU{Name: "A100-SXM4-80GB", PricePerHour: usd(t, 1_500_000)})
		}); more > base {
			t.Errorf("%g/s: %d, with one more GPU to choose from %d", perS, base, more)
		}
		if base < last {
			t.Errorf("%g/s: %d, less load %d", perS, base, last)
		}
		last = base
	}
}
