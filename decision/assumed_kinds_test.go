// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"strings"
	"testing"
)

// TestPriorities: where a GPU has room for one of two workloads, the server gets it, unless priorities differ. The
// first line names the waiting ones.
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

// TestLengthsOfThreeTimesTheMean: stating the assumed lengths changes no answer.
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
