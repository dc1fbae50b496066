package study

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
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/loadgen"
)

// onServers is a tenant under one mechanism at one load, predicted and measured.
type onServers struct {
	Mechanism, Tenant     string
	Load                  float64
	Share                 float64 `json:",omitempty"` // of what is sustained, where the load was chosen so
	Requests              int64
	Limit                 map[string]float64 // ms
	Predicted             map[string]profile.Interval
	Measured              map[string]float64
	Verdict, Was          string
	Near                  bool // a measured figure is within 15% of its limit
	GoodPerS, WasGoodPerS float64
	// AgainGoodPerS is the goodput of another H100 with the same requests, held against the
	// same limits: those of the first 9 s of the second series.
	AgainGoodPerS float64 `json:",omitempty"`
	// RepeatGoodPerS is the goodput of the same servers with the same requests once more.
	RepeatGoodPerS float64 `json:",omitempty"`
	// StrictGoodPerS is goodput of the same run by the objectives of limitsOf.
	StrictGoodPerS float64 `json:",omitempty"`
}

// within says whether a figure is right to 10%.
func within(v, was float64) bool { return math.Abs(v/was-1) <= 0.1 }

const nearLimit = 0.15

// bursty are requests of both models, at a multiple of the load: gamma arrivals whose
// variance is four times that of a Poisson stream.
func bursty(load float64, during time.Duration, seed uint64) []capacity.Request {
	var out []capacity.Request
	for t, perS := range []float64{8, 3} {
		rng := rand.New(rand.NewPCG(seed, uint64(t)))
		at := 0.0
		for gap := range (loadgen.Gamma{PerS: perS * load, Burstiness: 0.25}).Arrivals(rng) {
			if at = gap.Seconds(); at > during.Seconds() {
				break
			}
			out = append(out, capacity.Request{At: gap, Tenant: t, Input: 96 + rng.IntN(300), Output: 16 + rng.IntN(80)})
		}
	}
	slices.SortStableFunc(out, func(a, b capacity.Request) int { return cmp.Compare(a.At, b.At) })
	return out
}

// firstSeed drew the trace of the first four series.
const firstSeed = 17

// testbed is a GPU, the models whose servers share it, their limits, and the seed of
// their trace.
type testbed struct {
	gpu    string
	models []model
	limits func(*testing.T, *model) []capacity.Limit
	seed   uint64
}

// planned is a group of tenants on one GPU with their requests of a trace, and the
// limits of each.
func (b *testbed) planned(t *testing.T, mechanism string, group []int, requests []capacity.Request) (capacity.Plan, [][]capacity.Limit) {
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
	price, err := cost.ParsePrice("1.00 USD")
	if err != nil {
		t.Fatal(err)
	}
	g := capacity.GPU{Name: b.gpu, Most: 1, PricePerHour: price}
	plan := capacity.Plan{Requests: slices.Values(own), GPUs: []capacity.GPU{g}, Kinds: []capacity.Kind{kind}, MaxCopies: 1, Percents: [][]float64{}}
	var limits [][]capacity.Limit
	for _, k := range group {
		m := b.models[k]
		shape, err := shapeOf(m.name)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, b.limits(t, &m))
		plan.Tenants = append(plan.Tenants, capacity.Tenant{
			Name: m.name, Model: m.name, Shape: shape, Profiles: m.nearest(250, 56), Objectives: capacity.Objectives{Limits: limits[len(limits)-1]},
			// The test servers compute a prompt at once, between two steps, and cache none.
			Configure: func(e *costs.Engine) { e.ChunkTokens, e.NoPrefixCache, e.Sequences = 0, true, 16 },
		})
	}
	return plan, limits
}

// foreseen is the plan's arrangement.
func foreseen(t *testing.T, plan capacity.Plan) capacity.Arrangement {
	t.Helper()
	r, err := plan.Search(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Arrangements) == 0 {
		t.Fatalf("nothing is predicted: %v", r.Excluded)
	}
	return r.Arrangements[0]
}

// compare sets a case's prediction beside what was measured.
func (c *onServers) compare(predicted map[string]profile.Interval, limits []capacity.Limit, during time.Duration) {
	c.Predicted, c.Limit, c.Was, c.Near = predicted, map[string]float64{}, "kept", false
	for _, l := range limits {
		name := fmt.Sprintf("%s_p%d", l.Latency, l.Percentile)
		most := float64(l.Most) / 1e6
		c.Limit[name] = most
		was := c.Measured[name]
		if was > most {
			c.Was = "missed"
		}
		c.Near = c.Near || math.Abs(was/most-1) < nearLimit
	}
	c.Verdict = c.byValue()
	if c.Verdict == "kept" && unsure(c.Predicted, limits) || c.Verdict == "missed" && !surelyMissed(c.Predicted, limits) {
		c.Verdict = "unknown"
	}
	c.GoodPerS = c.Predicted["share"].Value * float64(c.Requests) / during.Seconds()
}

// score counts how near predictions came to measurements, in cases of a tenant.
type score struct {
	cases, clear int // those not near a limit
	// Of the clear ones: verdicts that were given, and right; by values without their
	// intervals every verdict is given.
	judged, right, byValue int
	// Goodput within 10%: of what was measured, and of the requests that were offered.
	near, nearOffered int
	inside            int // in its interval
	// What the same servers, or another H100, repeated to 10% of what was measured, and to
	// 10% of what was offered.
	repeats, again, againOffered int
}

func (s *score) add(o score) {
	s.cases, s.clear, s.judged, s.right, s.byValue = s.cases+o.cases, s.clear+o.clear, s.judged+o.judged, s.right+o.right, s.byValue+o.byValue
	s.near, s.nearOffered, s.inside = s.near+o.near, s.nearOffered+o.nearOffered, s.inside+o.inside
	s.repeats, s.again, s.againOffered = s.repeats+o.repeats, s.again+o.again, s.againOffered+o.againOffered
}

// String reads "18 cases: ...".
func (s score) String() string {
	out := fmt.Sprintf("%d cases, %d not near a limit: %d of %d verdicts given are right, by values %d; goodput within 10%% in %d, within 10%% of the offered requests in %d, inside its interval in %d", s.cases, s.clear, s.right, s.judged, s.byValue, s.near, s.nearOffered, s.inside)
	if s.repeats > 0 {
		out += fmt.Sprintf("; of %d repeated, %d came within 10%%, %d within 10%% of the offered requests", s.repeats, s.again, s.againOffered)
	}
	return out
}

// overloads are the loads beyond what is sustained: they show verdicts, and nobody plans
// with their goodput.
func (c *onServers) overload() bool { return c.Share > 1 }

// summed holds verdicts and goodput against what was measured.
func summed(t *testing.T, all []onServers, during time.Duration) (s score) {
	t.Helper()
	for i := range all {
		c := &all[i]
		share, offered := c.Predicted["share"], float64(c.Requests)/during.Seconds()
		one := score{cases: 1}
		if within(c.GoodPerS, c.WasGoodPerS) {
			one.near = 1
		}
		if math.Abs(c.GoodPerS-c.WasGoodPerS) <= 0.1*offered {
			one.nearOffered = 1
		}
		// To a thousandth, as the figures are recorded.
		if c.WasGoodPerS > offered*share.Low-1e-3 && c.WasGoodPerS < offered*share.High+1e-3 {
			one.inside = 1
		}
		if !c.Near {
			one.clear = 1
			if c.Verdict != "unknown" {
				one.judged = 1
			}
			if c.Verdict == c.Was {
				one.right = 1
			}
			if c.byValue() == c.Was {
				one.byValue = 1
			}
		}
		repeated := ""
		if again := max(c.AgainGoodPerS, c.RepeatGoodPerS); again > 0 {
			one.repeats = 1
			if within(again, c.WasGoodPerS) {
				one.again = 1
			}
			if math.Abs(again-c.WasGoodPerS) <= 0.1*offered {
				one.againOffered = 1
			}
			repeated = fmt.Sprintf(", once more %.2f", again)
		}
		t.Logf("%-12s %-3s load %4g, %3d requests: %-7s was %-6s near %-5v goodput %5.2f (%5.2f to %5.2f), was %5.2f/s of %5.2f, off by %+5.1f%%, %+5.1f points%s; %s", c.Mechanism, c.Tenant, c.Load, c.Requests, c.Verdict, c.Was, c.Near, c.GoodPerS, offered*share.Low, offered*share.High, c.WasGoodPerS, offered, 100*(c.GoodPerS/c.WasGoodPerS-1), 100*(c.GoodPerS-c.WasGoodPerS)/offered, repeated, c.latencies())
		if c.overload() { // its verdict counts, and no more
			one = score{clear: one.clear, judged: one.judged, right: one.right, byValue: one.byValue}
		}
		s.add(one)
	}
	return s
}

// byValue is the verdict of the values that are predicted.
func (c *onServers) byValue() string {
	for name, most := range c.Limit {
		if c.Predicted[name].Value > most {
			return "missed"
		}
	}
	return "kept"
}

// latencies are predicted against measured ones, in ms.
func (c *onServers) latencies() string {
	var out []string
	for _, name := range []string{"ttft_p50", "ttft_p90", "tpot_p50", "tpot_p90"} {
		out = append(out, fmt.Sprintf("%s %.3g/%.3g", name, c.Predicted[name].Value, c.Measured[name]))
	}
	return strings.Join(out, ", ")
}

// TestRecordedServers predicts again what was measured on servers.
func TestRecordedServers(t *testing.T) {
	race.Long(t)
	var all score
	for _, series := range []struct {
		alone, servers, gpu string
		during              time.Duration
		limits              func(*testing.T, *model) []capacity.Limit
		near                int  // cases whose goodput is within 10% at least
		strict              bool // by limitsOf, where operated were the objectives
		seed                uint64
	}{
		{"h100-alone.json", "h100-servers.json", "H100-SXM5-80GB", 9 * time.Second, limitsOf, 10, false, firstSeed},
		{"h100-alone-2.json", "h100-servers-2.json", "H100-SXM5-80GB", 27 * time.Second, limitsOf, 16, false, firstSeed},
		{"h100-alone-3.json", "h100-servers-3.json", "H100-SXM5-80GB", 18 * time.Second, operated, 17, false, firstSeed},
		{"h100-alone-3.json", "h100-servers-3.json", "H100-SXM5-80GB", 18 * time.Second, limitsOf, 15, true, firstSeed},
		{"h100-alone-4.json", "h100-servers-4.json", "H100-SXM5-80GB", 23 * time.Second, operated, 14, false, 23},
		{"h100-alone-4.json", "h100-servers-4.json", "H100-SXM5-80GB", 23 * time.Second, limitsOf, 14, true, 23},
		{"h200-alone.json", "h200-servers.json", "H200-SXM5-141GB", 19 * time.Second, operated, 17, false, firstSeed},
		{"h200-alone.json", "h200-servers.json", "H200-SXM5-141GB", 19 * time.Second, limitsOf, 13, true, firstSeed},
	}[:recordedSeries] {
		var cases []onServers
		data, err := os.ReadFile("testdata/" + series.servers)
		if err == nil {
			err = json.Unmarshal(data, &cases)
		}
		if err != nil {
			t.Fatal(err)
		}
		models, err := readProfiles("testdata/" + series.alone)
		if err != nil {
			t.Fatal(err)
		}
		name := series.servers
		if series.strict {
			name += " with objectives of the series before"
			for i := range cases {
				cases[i].WasGoodPerS, cases[i].RepeatGoodPerS = cases[i].StrictGoodPerS, 0
			}
		} else {
			t.Logf("%s, as it was predicted then: %v", name, summed(t, cases, series.during))
		}
		on := testbed{series.gpu, models, series.limits, series.seed}
		for i := 0; i < len(cases); {
			group := []int{0, 1}
			if cases[i].Mechanism == "exclusive" {
				group = []int{slices.IndexFunc(models, func(m model) bool { return m.name == cases[i].Tenant })}
			}
			plan, limits := on.planned(t, cases[i].Mechanism, group, bursty(cases[i].Load, series.during, on.seed))
			a := foreseen(t, plan)
			for k := range group {
				if a.Tenants[k].Name != cases[i].Tenant {
					t.Fatalf("%s is predicted for %s", a.Tenants[k].Name, cases[i].Tenant)
				}
				cases[i].compare(a.Tenants[k].Predicted, limits[k], series.during)
				i++
			}
		}
		s := summed(t, cases, series.during)
		t.Logf("%s, today: %v", name, s)
		if s.near < series.near {
			t.Errorf("%s: goodput is within 10%% in %d of %d cases", name, s.near, s.cases)
		}
		if 10*s.right < 9*s.judged {
			t.Errorf("%s: %d of %d verdicts are right", name, s.right, s.judged)
		}
		all.add(s)
	}
	t.Logf("all, today: %v", all)
	if recordedSeries > 1 && 10*all.inside < 9*all.cases {
		t.Errorf("goodput is inside its 90%% interval in %d of %d cases", all.inside, all.cases)
	}
}

// operated are a tenant's objectives where an operator set them, the same on every GPU:
// nine of ten requests get their first token within 200 ms from the 1B server, 300 ms from
// a 3B server and 500 ms from the 8B server, and every further one within 12, 16 and 25 ms
// on average.
func operated(t *testing.T, m *model) []capacity.Limit {
	t.Helper()
	ms := map[string][2]time.Duration{"1b": {200, 12}, "3b": {300, 16}, "8b": {500, 25}}[m.name]
	return []capacity.Limit{
		{Latency: capacity.LatencyTTFT, Percentile: 90, Most: ms[0] * time.Millisecond},
		{Latency: capacity.LatencyTPOT, Percentile: 90, Most: ms[1] * time.Millisecond},
	}
}

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

func unsure(p map[string]profile.Interval, limits []capacity.Limit) bool {
	return slices.ContainsFunc(limits, func(l capacity.Limit) bool {
		i := p[fmt.Sprintf("%s_p%d", l.Latency, l.Percentile)]
		return i.High > float64(l.Most)/1e6
	})
}

func surelyMissed(p map[string]profile.Interval, limits []capacity.Limit) bool {
	return slices.ContainsFunc(limits, func(l capacity.Limit) bool {
		i := p[fmt.Sprintf("%s_p%d", l.Latency, l.Percentile)]
		return i.Low > float64(l.Most)/1e6
	})
}
