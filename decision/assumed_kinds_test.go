package decision

import (
	"fmt"
	"strings"
	"testing"
)

// placedOf counts the replicas of a workload that have a place.
func placedOf(t *testing.T, text, name string) int {
	t.Helper()
	return decideText(t, text).Decision(name).Placed
}

// TestWhatNobodyStatesRefusesNoPlace: rates of work without objectives, peaks of neighbours and limits that are wide
// leave nobody waiting beside a GPU that has room.
func TestWhatNobodyStatesRefusesNoPlace(t *testing.T) {
	const pool = "trust: all\npools: [{name: p, gpu: A100-SXM4-80GB, count: %d, price_per_gpu_hour: 2 USD}]\nworkloads:\n"
	for _, c := range []struct {
		name, workload string
		gpus, want     int
	}{
		{"trainings", "- {name: w, kind: training, replicas: 2, memory: 24GiB, gpu_busy: 0.6}", 1, 2},
		{"renders on two GPUs", "- {name: w, kind: batch, replicas: 3, memory: 20GiB, gpu_busy: 0.75}", 2, 3},
		{"simulations", "- {name: w, kind: hpc, replicas: 3, memory: 16GiB, gpu_busy: 0.55}", 1, 3},
		{"notebooks with peaks", "- {name: w, kind: notebook, replicas: 14, memory: 8GiB, gpu_busy: 0.05, peak_busy: 0.8}", 2, 14},
		{"a class that peaks together", "- {name: w, kind: notebook, replicas: 14, memory: 8GiB, gpu_busy: 0.05, peak_busy: 0.3, peaks_together: true}", 2, 14},
	} {
		if n := placedOf(t, fmt.Sprintf(pool, c.gpus)+c.workload, "w"); n != c.want {
			t.Errorf("%s: %d of %d have a place", c.name, n, c.want)
		}
	}
	objective := fmt.Sprintf(pool, 1) + "- {name: w, kind: online-inference, replicas: 2, memory: 20GiB, gpu_busy: 0.6, evidence: measured, solo: {e2e_p99: 100ms}, slo: {e2e_p99: 110ms}}"
	if n := placedOf(t, objective, "w"); n != 1 {
		t.Errorf("an objective that is stated refuses: %d of 2 share a GPU", n)
	}
}

// TestWiderLimitsPlaceNoLess: a server with neighbours keeps its place as its objectives get wider, or go.
func TestWiderLimitsPlaceNoLess(t *testing.T) {
	const text = `
trust: all
pools: [{name: p, gpu: A100-SXM4-80GB, count: 1, price_per_gpu_hour: 2 USD}]
workloads:
- {name: w, kind: online-inference, model: {parameters: 7e9, weights: fp16, layers: 32, kv_heads: 32, head_dim: 128}, load: {requests_per_s: 0.8, input_tokens: 500, output_tokens: 120}, slo: {SLO}}
- {name: nb, kind: notebook, replicas: 3, memory: 4GiB, gpu_busy: 0.05}
`
	for _, slo := range []string{"tpot_p99: 120ms, ttft_p99: 3s", "tpot_p99: 200ms, ttft_p99: 3s", "tpot_p99: 500ms, ttft_p99: 30s", "tpot_p99: 2s", "e2e_p99: 100s"} {
		r := decideText(t, strings.Replace(text, "SLO", slo, 1))
		if r.Decision("w").Status != StatusDecided || r.Decision("nb").Placed != 3 {
			t.Errorf("%s: %s, and %d notebooks: %s", slo, r.Decision("w").Status, r.Decision("nb").Placed, r.Decision("w").Why)
		}
	}
}

// TestPriorities: where a GPU holds one of two, the server has it, unless the fleet says otherwise; who waits is named
// in the first line.
func TestPriorities(t *testing.T) {
	const text = `
pools: [{name: p, gpu: L4, count: 1}]
workloads:
- {name: nb, kind: notebook, replicas: 2, memory: 9GiB, gpu_busy: 0.05, tenant: aPRIORITY}
- {name: web, kind: online-inference, memory: 18GiB, gpu_busy: 0.2, tenant: b}
`
	for priority, want := range map[string]string{"": "web", ", priority: 8": "nb"} {
		r := decideText(t, strings.Replace(text, "PRIORITY", priority, 1))
		if r.Decision(want).Placed != r.Decision(want).Replicas {
			t.Errorf("priority %q: %d of %s have a place", priority, r.Decision(want).Placed, want)
		}
		if first := textOf(t, r, TextOptions{})[0]; !strings.HasPrefix(first, "partly placed: ") || !strings.HasSuffix(first, "must wait") {
			t.Errorf("the first line is %q", first)
		}
	}
	d := decideText(t, "pools: [{name: p, gpu: L4, count: 1}]\nworkloads: [{name: w, kind: training, replicas: 3, memory: 20GiB, gpu_busy: 0.9}]").Decision("w")
	if d.Status != StatusPartlyPlaced || d.Placed != 1 || d.Unplaced != 2 {
		t.Errorf("%s, %d placed, %d wait", d.Status, d.Placed, d.Unplaced)
	}
}

// TestLengthsOfThreeTimesTheMean: to state them changes no answer, since they are what is assumed.
func TestLengthsOfThreeTimesTheMean(t *testing.T) {
	const text = `
pools: [{name: l4, gpu: L4, count: 4, price_per_gpu_hour: 0.8 USD}, {name: l40s, gpu: L40S, count: 4, price_per_gpu_hour: 1.1 USD}, {name: h100, gpu: H100-SXM5-80GB, count: 8, price_per_gpu_hour: 3 USD}]
workloads: [{name: w, kind: online-inference, replicas: 2, model: {parameters: PARAMETERS, weights: fp8, layers: 32, kv_heads: 8, head_dim: 128}, load: {requests_per_s: 1, input_tokens: 800, output_tokens: 200P99}, slo: {ttft_p99: 2s, tpot_p99: 70ms}}]
`
	for _, parameters := range []string{"1e9", "3e9", "8e9", "14e9", "24e9", "32e9", "70e9"} {
		var got [2]string
		for i, p99 := range []string{"", ", input_tokens_p99: 2400, output_tokens_p99: 600"} {
			d := decideText(t, strings.NewReplacer("PARAMETERS", parameters, "P99", p99).Replace(text)).Decision("w")
			got[i] = fmt.Sprint(d.Placed, " ", d.Mechanism, " ", d.Profile, " on ", d.Pool, ", ", d.Status)
		}
		if got[0] != got[1] {
			t.Errorf("%s parameters: %s, with P99s stated %s", parameters, got[0], got[1])
		}
	}
}

// TestAdaptersInHostMemory: of many adapters those that are on the GPU at once take its memory.
func TestAdaptersInHostMemory(t *testing.T) {
	const text = `
pools: [{name: p, gpu: A10G, count: 2}]
workloads: [{name: w, kind: online-inference, replicas: 2, model: {parameters: 8e9, weights: bf16, layers: 32, kv_heads: 8, head_dim: 128}, adapters: {ADAPTERS}, load: {requests_per_s: 0.5, input_tokens: 300, output_tokens: 100}, slo: {tpot_p99: 150ms}, framework: {name: sglang}}]
`
	for adapters, want := range map[string]int{"count: 4, rank: 64": 2, "count: 40, rank: 64": 2, "count: 1000, rank: 32": 2, "count: 1000, rank: 64, max_loras: 100": 0} {
		r := decideText(t, strings.Replace(text, "ADAPTERS", adapters, 1))
		if d := r.Decision("w"); d.Placed != want || strings.Contains(adapters, "000") != (len(r.Remarks) > 0) && want > 0 && !strings.Contains(adapters, "40") {
			t.Errorf("%s: %d placed, %q: %s", adapters, d.Placed, r.Remarks, d.Why)
		}
	}
}

// TestBesideKernelsThatNobodyMeasured: a server of 20 ms shares with a training where 100 ms are allowed, not where 60.
func TestBesideKernelsThatNobodyMeasured(t *testing.T) {
	const text = `
trust: all
pools: [{name: p, gpu: L40S, count: 2, price_per_gpu_hour: 1 USD}]
workloads:
- {name: train, kind: training, memory: 30GiB, gpu_busy: 0.9}
- {name: web, kind: online-inference, memory: 6GiB, gpu_busy: 0.1, evidence: measured, solo: {e2e_p99: 20ms}, slo: {e2e_p99: LIMIT}}
`
	for limit, want := range map[string]int{"60ms": 2, "110ms": 1} {
		if r := decideText(t, strings.Replace(text, "LIMIT", limit, 1)); r.Totals.GPUsAfter != want {
			t.Errorf("of %s: %d GPUs, want %d: %s", limit, r.Totals.GPUsAfter, want, r.Decision("web").Why)
		}
	}
}
