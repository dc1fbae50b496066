// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

const embeddings = `
pools: [{name: l4, gpu: L4, count: 12, price_per_gpu_hour: 0.80 USD}]
workloads:
- name: embed
  kind: online-inference
  replicas: 12
  model: {parameters: 109e6, weights: fp16, kv_cache: 0GiB}
  service: {task: embedding, gpu_time: 8ms, host_time: 5ms, batch: {max: 32, wait: 5ms}}
  load: {requests_per_s: 495}
  slo: {e2e_p99: 200ms}
`

const speech = `
pools: [{name: l40s, gpu: L40S, count: 4, price_per_gpu_hour: 1.80 USD}]
trust: all
workloads:
- name: chat
  kind: online-inference
  model: {parameters: 8e9, weights: fp8, layers: 32, kv_heads: 8, head_dim: 128}
  load: {requests_per_s: 1, input_tokens: 500, output_tokens: 150}
  slo: {ttft_p99: 1.5s, tpot_p99: 80ms}
- name: whisper
  kind: online-inference
  model: {parameters: 1.55e9, weights: fp16, kv_cache: 0GiB}
  service: {task: speech-to-text, gpu_time: 150ms, host_time: 40ms}
  load: {requests_per_s: 1}
  slo: {e2e_p99: 2s}
- name: rerank
  kind: online-inference
  model: {parameters: 568e6, weights: fp16, kv_cache: 0GiB}
  service: {task: reranking, gpu_time: 40ms}
  load: {requests_per_s: 4}
  slo: {e2e_p99: 500ms}
`

// TestServicesShare has twelve embedding servers that each keep a GPU 33% busy, and servers of speech and reranking
// next to a language model.
func TestServicesShare(t *testing.T) {
	for text, most := range map[string]int{embeddings: 6, speech: 1} {
		r := decideText(t, text)
		if r.Totals.GPUsAfter > most {
			t.Errorf("%d GPUs, want %d at most", r.Totals.GPUsAfter, most)
		}
		for _, d := range r.Decisions {
			if d.Status != StatusDecided || d.Mechanism == sharing.MechanismExclusive || d.Unplaced > 0 {
				t.Errorf("%s: %s under %s, %d unplaced: %s", d.Workload, d.Status, d.Mechanism, d.Unplaced, d.Why)
			}
		}
	}
}

// TestPriorsOfServicesDecideNothing leaves measurements out: no answer rests on a prior only, and each names the figure
// to measure.
func TestPriorsOfServicesDecideNothing(t *testing.T) {
	for _, text := range []string{embeddings, speech} {
		for _, times := range []string{", gpu_time: 8ms, host_time: 5ms", ", gpu_time: 150ms, host_time: 40ms", ", gpu_time: 40ms"} {
			text = strings.Replace(text, times, "", 1)
		}
		for _, d := range decideText(t, text).Decisions {
			if d.Workload == "chat" {
				continue
			}
			if d.Status != StatusProvisional || d.Measurement == nil || d.Measurement.Endpoint ||
				!strings.Contains(d.Measurement.Text, "service.gpu_time") {
				t.Errorf("%s: %s, %+v", d.Workload, d.Status, d.Measurement)
			}
		}
	}
}

// TestServiceIsSlower: longer requests, more of them and a longer wait for a batch never shorten the latency.
func TestServiceIsSlower(t *testing.T) {
	latency := func(text string) float64 {
		d := decideText(t, text).Decision("whisper")
		if d == nil || len(d.Consequences) == 0 {
			t.Fatal("no consequence")
		}
		return d.Consequences[0].Value
	}
	pinned := strings.Replace(speech, "  slo: {e2e_p99: 2s}", "  slo: {e2e_p99: 2s}\n  isolation: {compute: hardware}", 1)
	before := latency(pinned)
	for from, to := range map[string]string{"gpu_time: 150ms": "gpu_time: 300ms", "host_time: 40ms": "host_time: 200ms",
		"load: {requests_per_s: 1}": "load: {requests_per_s: 3}",
		"host_time: 40ms}":          "host_time: 40ms, batch: {max: 8, wait: 300ms}}"} {
		if after := latency(strings.Replace(pinned, from, to, 1)); after <= before {
			t.Errorf("%s: %.0f ms, and %.0f with %s", to, after, before, from)
		}
	}
}
