package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// nearLimit has a model server whose objective an L40S is expected to miss and an
// H100 keeps.
const nearLimit = `
pools:
  - {name: l40s, gpu: L40S, count: 8, price_per_gpu_hour: "1.86 USD"}
  - {name: h100, gpu: H100 80GB HBM3, count: 8, price_per_gpu_hour: "9.10 USD"}
workloads:
  - name: chat
    kind: online-inference
    replicas: 4
    model: {parameters: 8e9, weights: fp16, layers: 32, kv_heads: 8, head_dim: 128}
    load: {requests_per_s: 4, input_tokens: 1000, output_tokens: 250}
    slo: {tpot_p99: 50ms}
    tenant: a
`

// TestWhatIsExpectedToMissIsNoPlan: the plan keeps its objectives, and the cheaper
// GPU that may miss stands beside it with odds and price.
func TestWhatIsExpectedToMissIsNoPlan(t *testing.T) {
	r := decideText(t, nearLimit)
	d := r.Decision("chat")
	if d.Pool != "h100" || d.Placed != 4 || d.Status != StatusDecided {
		t.Errorf("%d placed on %s, %v: %s", d.Placed, d.Pool, d.Status, d.Why)
	}
	g := d.Gamble
	if g == nil || g.Pool != "l40s" || !(g.Odds > 0 && g.Odds < 0.97) || g.Monthly == "" {
		t.Fatalf("beside it: %+v", g)
	}
	if r := decideText(t, nearLimit[:len(nearLimit)-len("    tenant: a\n")]+"    pool: l40s\n    tenant: a\n"); r.Decision("chat").Placed > 0 && r.Decision("chat").Consequences[0].Value > 50 {
		t.Errorf("on L40S alone a plan that is expected to miss: %s", r.Decision("chat").Why)
	}
}

// TestAnswerIsNoGamble: an answer that a simulation decided is no gamble beside itself, and where it is left open how far
// lengths spread, the measurement that settles it says so.
func TestAnswerIsNoGamble(t *testing.T) {
	const fleet = `
trust: all
pools:
  - {name: h100, gpu: H100-80GB, count: 6, price_per_gpu_hour: "3.00 USD"}
workloads:
  - name: chat
    kind: online-inference
    replicas: 4
    model: {parameters: 8.03e9, weights: bf16, layers: 32, kv_heads: 8, head_dim: 128}
    load: {requests_per_s: 8, input_tokens: 1200, output_tokens: 150%s}
    slo: {ttft_p99: 1500ms, tpot_p99: 50ms}
`
	r := decideText(t, fmt.Sprintf(fleet, ", input_tokens_p99: 3600, output_tokens_p99: 420"))
	if d := r.Decision("chat"); d.From != FromSimulation || d.Mechanism == sharing.MechanismExclusive || d.Gamble != nil {
		t.Errorf("%s by %s, beside it %+v", d.Mechanism, d.From, d.Gamble)
	}
	r = decideText(t, fmt.Sprintf(fleet, ""))
	if d := r.Decision("chat"); d.Mechanism != sharing.MechanismExclusive || r.Relaxed == nil || !strings.Contains(r.Relaxed.Settle.Measurement, "state input_tokens_p99") {
		t.Errorf("%s, %+v", d.Mechanism, r.Relaxed)
	}
}

// TestNoPlanIsExpectedToMiss: of the experts' fleets no decision's figure lies
// beyond its limit.
func TestNoPlanIsExpectedToMiss(t *testing.T) {
	for _, c := range decidedCorpus(t) {
		for _, d := range c.result.Decisions {
			for _, k := range d.Consequences {
				latency := k.Metric != "busy %" && k.Metric != "rate %"
				if d.Placed > 0 && latency && k.Limit > 0 && k.Value > k.Limit {
					t.Errorf("%s: %s on %s: %s %v of %v", c.Name, d.Mechanism, d.Pool, k.Metric, k.Value, k.Limit)
				}
			}
		}
	}
}

// TestAlternativesAreDecisions: a fleet of the workload alone that may only do what
// an alternative says takes as many GPUs for as much money.
func TestAlternativesAreDecisions(t *testing.T) {
	race.Long(t)
	tried := 0
	cases := slices.Clone(decidedCorpus(t))
	for rng := rand.New(rand.NewPCG(71, 72)); len(cases) < 160; {
		f := smallFleet(rng)
		cases = append(cases, decidedCase{expertCase{Name: fmt.Sprint("random ", len(cases)), Fleet: *f}, decide(t, f)})
	}
	for _, c := range cases {
		f, r := c.Fleet, c.result
		for i := range r.Decisions {
			d := &r.Decisions[i]
			// An alternative that assumes something else of the workload, or takes
			// less confidence, is not what the fleet as stated would give.
			if d.Safe == nil || d.Safe.Mechanism == sharing.MechanismNone {
				continue
			}
			alone := Fleet{Version: "v1"}
			for _, w := range f.Workloads {
				if w.Name == d.Workload {
					w.Replicas = Replicas{Max: d.Placed}
					alone.Workloads = []Workload{w}
				}
			}
			for _, p := range f.Pools {
				if p.Name == d.Safe.Pool {
					p.Mechanisms = []sharing.Mechanism{d.Safe.Mechanism}
					alone.Pools = []Pool{p}
				}
			}
			got := decide(t, &alone)
			tried++
			if b := got.Totals.Bill; b.GPUsAfter != d.Safe.GPUs || b.MonthlyAfter != d.Safe.Monthly {
				t.Errorf("%s: %s is said to be %s; decided alone it is %d GPUs for %s", c.Name, d.Workload, d.Safe, b.GPUsAfter, b.MonthlyAfter)
			}
		}
	}
	if tried < 5 {
		t.Errorf("%d alternatives were tried", tried)
	}
}

// TestOdds: a log-normal figure keeps its median with even odds, and the bound at
// the confidence of the bound.
func TestOdds(t *testing.T) {
	o := prospect.Prospect{}
	o.Known[costs.LatencyTPOT] = true
	o.P99[costs.LatencyTPOT] = prospect.Bounds{Value: 0.04, Low: 0.02, High: 0.08}
	o.Busy = prospect.Bounds{Value: 0.1, Low: 0.1, High: 0.1}
	for _, tc := range []struct{ limit, want float64 }{{0.04, 0.5}, {0.08, 0.97}, {0.02, 0.03}} {
		d := prospect.Tenant{Online: true}
		d.Limits[costs.LatencyTPOT] = tc.limit
		if got := o.Odds(&d, 0.97); got < tc.want-1e-9 || got > tc.want+1e-9 {
			t.Errorf("limit %v: odds %v, expected %v", tc.limit, got, tc.want)
		}
	}
}
