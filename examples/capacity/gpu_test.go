//go:build gpu

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// onServers is a tenant under one mechanism at one load, predicted and measured.
type onServers struct {
	Mechanism, Tenant     string
	Load                  float64
	Requests              int64
	Limit                 map[string]float64 // ms
	Predicted             map[string]predict.Interval
	Measured              map[string]float64
	Verdict, Was          string
	Near                  bool // a measured figure is within 15% of its limit
	GoodPerS, WasGoodPerS float64
}

const (
	onServersFor = 9 * time.Second
	nearLimit    = 0.15
)

// bursty are requests of both models, at a multiple of the load: gamma arrivals whose
// variance is four times that of a Poisson stream.
func bursty(load float64) []capacity.Request {
	var out []capacity.Request
	for t, perS := range []float64{8, 3} {
		rng := rand.New(rand.NewPCG(17, uint64(t)))
		at := 0.0
		for gap := range (loadgen.Gamma{PerS: perS * load, Burstiness: 0.25}).Arrivals(rng) {
			if at = gap.Seconds(); at > onServersFor.Seconds() {
				break
			}
			out = append(out, capacity.Request{At: gap, Tenant: t, Input: 96 + rng.IntN(300), Output: 16 + rng.IntN(80)})
		}
	}
	slices.SortStableFunc(out, func(a, b capacity.Request) int { return cmp.Compare(a.At, b.At) })
	return out
}

// TestOnServers holds verdicts and goodput against two servers on one GPU under a
// bursty trace at three loads. It wants, in its environment, CAPACITY_ROWS (their rows
// alone in the co-location format), CAPACITY_SERVERS ("1b=URL 8b=URL"), CAPACITY_GPU,
// CAPACITY_MECHANISM (exclusive, time-slicing or mps), and CAPACITY_OUT, a file that
// the results of all mechanisms gather in.
func TestOnServers(t *testing.T) {
	env := func(name string) string {
		v := os.Getenv(name)
		if v == "" {
			t.Skip("no " + name)
		}
		return v
	}
	o := options{profiles: env("CAPACITY_ROWS"), seed: 1}
	mechanism, gpu := env("CAPACITY_MECHANISM"), env("CAPACITY_GPU")
	at := map[string]string{}
	for s := range strings.FieldsSeq(env("CAPACITY_SERVERS")) {
		name, url, _ := strings.Cut(s, "=")
		at[name] = url
	}
	models, err := o.readProfiles()
	if err != nil {
		t.Fatal(err)
	}
	var all []onServers
	if data, err := os.ReadFile(env("CAPACITY_OUT")); err == nil {
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
	}
	warmUp(t, at)
	for _, load := range []float64{0.5, 1, 2} {
		requests := bursty(load)
		groups := [][]int{{0, 1}}
		if mechanism == "exclusive" {
			groups = [][]int{{0}, {1}}
		}
		for _, group := range groups {
			all = append(all, measured(t, mechanism, gpu, load, group, models, at, requests)...)
		}
	}
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(env("CAPACITY_OUT"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	judged, right, open := 0, 0, 0
	var off []float64
	for _, c := range all {
		if c.WasGoodPerS > 0 {
			off = append(off, math.Abs(c.GoodPerS/c.WasGoodPerS-1))
		}
		if c.Verdict == "unknown" {
			open++
		} else if !c.Near {
			judged++
			if c.Verdict == c.Was {
				right++
			}
		}
		t.Logf("%-12s %-3s load %g: %s, was %s (near %v), goodput %.2f/s, was %.2f/s; %v, was %v", c.Mechanism, c.Tenant, c.Load, c.Verdict, c.Was, c.Near, c.GoodPerS, c.WasGoodPerS, c.Predicted, c.Measured)
	}
	if slices.Sort(off); len(off) == 0 {
		t.Fatal("nothing was good: are the servers there?")
	}
	t.Logf("%d of %d verdicts right that were not near a limit, %d of %d unknown; goodput off by %.1f%% in the middle, %.1f%% at most", right, judged, open, len(all), 100*off[len(off)/2], 100*off[len(off)-1])
	if 10*right < 9*judged {
		t.Errorf("%d of %d verdicts are right", right, judged)
	}
}

// measured predicts a group of tenants on one GPU, runs the same requests on the
// servers, and compares.
func measured(t *testing.T, mechanism, gpu string, load float64, group []int, models []model, at map[string]string, requests []capacity.Request) []onServers {
	t.Helper()
	var own []capacity.Request
	for _, r := range requests {
		if i := slices.Index(group, r.Tenant); i >= 0 {
			r.Tenant = i
			own = append(own, r)
		}
	}
	kind := capacity.KindOwnGPU
	if mechanism != "exclusive" {
		if err := kind.UnmarshalText([]byte(mechanism)); err != nil {
			t.Fatal(err)
		}
	}
	g := capacity.GPU{Name: gpu, Most: 1}
	var err error
	if g.PricePerHour, err = oneDollar(); err != nil {
		t.Fatal(err)
	}
	plan := capacity.Plan{Requests: slices.Values(own), GPUs: []capacity.GPU{g}, Kinds: []capacity.Kind{kind}, MaxCopies: 1, Percents: [][]float64{}}
	limits := [][]capacity.Limit{limitsOf(t, &models[0]), limitsOf(t, &models[1])}
	load1 := loadgen.LoadPlan{Duration: onServersFor, Drain: 30 * time.Second}
	var names []string
	for i, k := range group {
		m := models[k]
		shape, err := shapeOf(m.name)
		if err != nil {
			t.Fatal(err)
		}
		plan.Tenants = append(plan.Tenants, capacity.Tenant{
			Name: m.name, Model: m.name, Shape: shape, Profiles: m.nearest(250, 56), Objectives: capacity.Objectives{Limits: limits[k]},
			// The test servers compute a prompt at once, between two steps, and cache none.
			Configure: func(e *predict.Engine) { e.ChunkTokens, e.NoPrefixCache, e.Sequences = 0, true, 16 },
		})
		trace := &prompt.Trace{}
		for _, r := range own {
			if r.Tenant == i {
				trace.Requests = append(trace.Requests, prompt.TraceRequest{At: r.At, InputTokens: r.Input, OutputTokens: r.Output})
			}
		}
		prompts, err := trace.Prompts(prompt.TraceOptions{IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		load1.Tenants = append(load1.Tenants, loadgen.Tenant{
			Name: m.name, Model: "m", API: loadgen.APICompletions, Endpoints: []loadgen.Endpoint{{URL: at[m.name]}}, Prompts: prompts, Load: loadgen.OfferedLoad{Schedule: trace.Schedule(1)},
			SLO: loadgen.RequestSLO{TTFT: limits[k][0].Most, TPOT: limits[k][1].Most},
		})
		names = append(names, m.name)
	}
	r, err := plan.Search(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Arrangements) == 0 {
		t.Fatalf("nothing is predicted: %v", r.Excluded)
	}
	a := r.Arrangements[0]
	res, err := loadgen.Run(t.Context(), load1, loadgen.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out []onServers
	for i, k := range group {
		m, _ := res.Summary.Tenant(names[i])
		c := onServers{Mechanism: mechanism, Tenant: names[i], Load: load, Requests: m.Counts.Total, Limit: map[string]float64{}, Predicted: a.Tenants[i].Predicted, Verdict: "kept", Was: "kept", Measured: map[string]float64{
			"ttft_p50": float64(m.TTFT.P50), "ttft_p90": float64(m.TTFT.P90), "tpot_p50": float64(m.TPOT.P50), "tpot_p90": float64(m.TPOT.P90),
		}}
		for _, l := range limits[k] {
			name := fmt.Sprintf("%s_p%d", l.Latency, l.Percentile)
			most := float64(l.Most) / 1e6
			c.Limit[name] = most
			p, was := c.Predicted[name], c.Measured[name]
			if p.Value > most {
				c.Verdict = "missed"
			}
			if was > most {
				c.Was = "missed"
			}
			c.Near = c.Near || math.Abs(was/most-1) < nearLimit
		}
		if m.Counts.Failed > 0 {
			t.Errorf("%s: %d requests failed: %v", names[i], m.Counts.Failed, m.Counts.Examples)
		}
		if c.Verdict == "kept" && unsure(c.Predicted, limits[k]) || c.Verdict == "missed" && !surelyMissed(c.Predicted, limits[k]) {
			c.Verdict = "unknown"
		}
		c.GoodPerS = c.Predicted["share"].Value * float64(m.Counts.Total) / onServersFor.Seconds()
		if m.Goodput != nil {
			c.WasGoodPerS = float64(m.Goodput.Met) / onServersFor.Seconds()
		}
		out = append(out, c)
	}
	return out
}

func oneDollar() (cost.Money, error) { return cost.ParsePrice("1.00 USD") }

// limitsOf are a tenant's objectives: five times the TTFT and twice the TPOT that the
// median request sees of the server alone with eight clients.
func limitsOf(t *testing.T, m *model) []capacity.Limit {
	t.Helper()
	for i := range m.solos {
		if p := m.solos[i].TimeSlicing; p != nil && p.Load.Concurrency == 8 {
			ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
			return []capacity.Limit{
				{Latency: capacity.LatencyTTFT, Percentile: 90, Most: ms(5 * p.TTFT.P50.Or(0))},
				{Latency: capacity.LatencyTPOT, Percentile: 90, Most: ms(2 * p.TPOT.P50.Or(0))},
			}
		}
	}
	t.Fatalf("%s was not measured with eight clients", m.name)
	return nil
}

func unsure(p map[string]predict.Interval, limits []capacity.Limit) bool {
	return slices.ContainsFunc(limits, func(l capacity.Limit) bool {
		i := p[fmt.Sprintf("%s_p%d", l.Latency, l.Percentile)]
		return i.High > float64(l.Most)/1e6
	})
}

func surelyMissed(p map[string]predict.Interval, limits []capacity.Limit) bool {
	return slices.ContainsFunc(limits, func(l capacity.Limit) bool {
		i := p[fmt.Sprintf("%s_p%d", l.Latency, l.Percentile)]
		return i.Low > float64(l.Most)/1e6
	})
}

// warmUp asks for each length of prompt once: the first of a length is slow.
func warmUp(t *testing.T, at map[string]string) {
	t.Helper()
	plan := loadgen.LoadPlan{}
	for name, url := range at {
		trace := &prompt.Trace{}
		for n := 90; n < 400; n++ {
			trace.Requests = append(trace.Requests, prompt.TraceRequest{InputTokens: n, OutputTokens: 3})
		}
		prompts, err := trace.Prompts(prompt.TraceOptions{IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		plan.Tenants = append(plan.Tenants, loadgen.Tenant{Name: name, Model: "m", API: loadgen.APICompletions, Endpoints: []loadgen.Endpoint{{URL: url}}, Prompts: prompts, Load: loadgen.OfferedLoad{Concurrency: 4}})
	}
	if _, err := loadgen.Run(t.Context(), plan, loadgen.Options{}); err != nil {
		t.Fatal(err)
	}
}
