package decision

import "testing"

// nearLimit has a model server whose objective an L40S is expected to miss and an H100 keeps.
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

// TestWhatIsExpectedToMissIsNoPlan: the plan keeps its objectives, where the cheaper GPU may miss them.
func TestWhatIsExpectedToMissIsNoPlan(t *testing.T) {
	r := decideText(t, nearLimit)
	d := r.Decision("chat")
	if d.Pool != "h100" || d.Placed != 4 || d.Status != StatusDecided {
		t.Errorf("%d placed on %s, %v: %s", d.Placed, d.Pool, d.Status, d.Why)
	}
	if r := decideText(t, nearLimit[:len(nearLimit)-len("    tenant: a\n")]+"    pool: l40s\n    tenant: a\n"); r.Decision("chat").Placed > 0 && r.Decision("chat").Consequences[0].Value > 50 {
		t.Errorf("on L40S alone a plan that is expected to miss: %s", r.Decision("chat").Why)
	}
}

// TestNoPlanIsExpectedToMiss: of the experts' fleets no decision's figure lies beyond its limit.
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
