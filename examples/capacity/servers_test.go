package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/loadgen"
)

// onServers is a tenant under one mechanism at one load, predicted and measured.
type onServers struct {
	Mechanism, Tenant     string
	Load                  float64
	Share                 float64 `json:",omitempty"` // of what is sustained, where the load was chosen so
	Requests              int64
	Limit                 map[string]float64 // ms
	Predicted             map[string]predict.Interval
	Measured              map[string]float64
	Verdict, Was          string
	Near                  bool // a measured figure is within 15% of its limit
	GoodPerS, WasGoodPerS float64
	// AgainGoodPerS is what another H100 did with the same requests, held against the
	// same limits: those of the first 9 s of the second series.
	AgainGoodPerS float64 `json:",omitempty"`
	// RepeatGoodPerS is what the same servers did with the same requests once more.
	RepeatGoodPerS float64 `json:",omitempty"`
}

// within says whether a figure is right to 10%.
func within(v, was float64) bool { return math.Abs(v/was-1) <= 0.1 }

const nearLimit = 0.15

// bursty are requests of both models, at a multiple of the load: gamma arrivals whose
// variance is four times that of a Poisson stream.
func bursty(load float64, during time.Duration) []capacity.Request {
	var out []capacity.Request
	for t, perS := range []float64{8, 3} {
		rng := rand.New(rand.NewPCG(17, uint64(t)))
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

// testbed is a GPU, the models whose servers share it, and their limits.
type testbed struct {
	gpu    string
	models []model
	limits func(*testing.T, *model) []capacity.Limit
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
			Configure: func(e *predict.Engine) { e.ChunkTokens, e.NoPrefixCache, e.Sequences = 0, true, 16 },
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
func (c *onServers) compare(predicted map[string]predict.Interval, limits []capacity.Limit, during time.Duration) {
	c.Predicted, c.Limit, c.Verdict, c.Was, c.Near = predicted, map[string]float64{}, "kept", "kept", false
	for _, l := range limits {
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
	if c.Verdict == "kept" && unsure(c.Predicted, limits) || c.Verdict == "missed" && !surelyMissed(c.Predicted, limits) {
		c.Verdict = "unknown"
	}
	c.GoodPerS = c.Predicted["share"].Value * float64(c.Requests) / during.Seconds()
}

// summed holds the verdicts against what was measured, and counts the cases whose
// goodput is right to 10%, those whose goodput lies in its interval, and those in which
// another GPU repeated it to 10%.
func summed(t *testing.T, all []onServers) (near, inside, again int) {
	t.Helper()
	judged, right, open := 0, 0, 0
	var off []float64
	for _, c := range all {
		if c.WasGoodPerS > 0 {
			off = append(off, math.Abs(c.GoodPerS/c.WasGoodPerS-1))
			if within(c.GoodPerS, c.WasGoodPerS) {
				near++
			}
			if within(c.AgainGoodPerS, c.WasGoodPerS) {
				again++
			}
		}
		// To a thousandth, as the figures are recorded.
		share, all := c.Predicted["share"], c.GoodPerS/c.Predicted["share"].Value
		if c.WasGoodPerS > all*share.Low-1e-3 && c.WasGoodPerS < all*share.High+1e-3 {
			inside++
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
	t.Logf("%d of %d verdicts right that were not near a limit, %d of %d unknown; goodput off by %.1f%% in the middle, %.1f%% at most, within 10%% in %d, inside its interval in %d", right, judged, open, len(all), 100*off[len(off)/2], 100*off[len(off)-1], near, inside)
	if again > 0 {
		t.Logf("another H100 repeated goodput to 10%% in %d of %d", again, len(all))
	}
	if 10*right < 9*judged {
		t.Errorf("%d of %d verdicts are right", right, judged)
	}
	return near, inside, again
}

// TestRecordedServers predicts again what was measured on two H100s.
func TestRecordedServers(t *testing.T) {
	near, inside, cases := 0, 0, 0
	for _, series := range []struct {
		alone, servers string
		during         time.Duration
	}{
		{"h100-alone.json", "h100-servers.json", 9 * time.Second},
		{"h100-alone-2.json", "h100-servers-2.json", 27 * time.Second},
	} {
		data, err := os.ReadFile("testdata/" + series.servers)
		if err != nil {
			t.Fatal(err)
		}
		var all []onServers
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
		o := options{profiles: "testdata/" + series.alone}
		models, err := o.readProfiles()
		if err != nil {
			t.Fatal(err)
		}
		on := testbed{"H100-SXM5-80GB", models, limitsOf}
		for i := 0; i < len(all); {
			group := []int{0, 1}
			if all[i].Mechanism == "exclusive" {
				group = []int{i % 2}
			}
			plan, limits := on.planned(t, all[i].Mechanism, group, bursty(all[i].Load, series.during))
			a := foreseen(t, plan)
			for k := range group {
				if a.Tenants[k].Name != all[i].Tenant {
					t.Fatalf("%s is predicted for %s", a.Tenants[k].Name, all[i].Tenant)
				}
				all[i].compare(a.Tenants[k].Predicted, limits[k], series.during)
				i++
			}
		}
		t.Logf("%s:", series.servers)
		n, in, _ := summed(t, all)
		near, inside, cases = near+n, inside+in, cases+len(all)
	}
	if 36*near < 26*cases {
		t.Errorf("goodput is within 10%% in %d of %d cases", near, cases)
	}
	if 10*inside < 9*cases {
		t.Errorf("goodput is inside its 90%% interval in %d of %d cases", inside, cases)
	}
}

// sustained is the largest multiple of the trace, in tenths, at which every objective of
// a group on one GPU is predicted to be kept: at least 0.2 and at most 8.
func (b *testbed) sustained(t *testing.T, mechanism string, group []int, during time.Duration) float64 {
	t.Helper()
	least, most := 2, 81
	for least+1 < most {
		tenths := (least + most) / 2
		plan, limits := b.planned(t, mechanism, group, bursty(float64(tenths)/10, during))
		a, kept := foreseen(t, plan), true
		for i := range a.Tenants {
			for _, l := range limits[i] {
				kept = kept && a.Tenants[i].Predicted[fmt.Sprintf("%s_p%d", l.Latency, l.Percentile)].Value <= float64(l.Most)/1e6
			}
		}
		if kept {
			least = tenths
		} else {
			most = tenths
		}
	}
	return float64(least) / 10
}

// loadAt is a share of what is sustained, to a hundredth, as records tell it.
func loadAt(sustained, share float64) float64 { return math.Round(100*sustained*share) / 100 }

// operated are a tenant's objectives where an operator set them, the same on every GPU:
// nine of ten requests get their first token within 200 ms from the 1B server and 500 ms
// from the 8B server, and every further one within 12 and 25 ms on average.
func operated(t *testing.T, m *model) []capacity.Limit {
	t.Helper()
	ms := map[string][2]time.Duration{"1b": {200, 12}, "8b": {500, 25}}[m.name]
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
