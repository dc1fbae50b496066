// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/nightly"
)

// autoServices are services of 1B to 70B and embeddings, each with a pool of each of four GPUs.
func autoServices() (texts []string) {
	const pools = `
pools:
- {name: l4, gpu: L4, count: 8, price_per_gpu_hour: 0.80 USD}
- {name: a10, gpu: A10, count: 8, price_per_gpu_hour: 1.20 USD}
- {name: a100, gpu: A100-SXM4-80GB, count: 6, price_per_gpu_hour: 2.10 USD}
- {name: h100, gpu: H100-SXM5-80GB, count: 6, price_per_gpu_hour: 3.50 USD}
workloads:
- {name: s, kind: online-inference, replicas: auto, `
	for _, size := range []string{"1e9", "3e9", "8e9", "14e9", "32e9", "70e9"} {
		for _, load := range []string{"1", "9"} {
			texts = append(texts, pools+"model: {parameters: "+size+", weights: fp8}, load: {requests_per_s: "+load+
				", input_tokens: 600, output_tokens: 120}, slo: {ttft_p99: 2s, tpot_p99: 120ms}}\n")
		}
	}
	for _, service := range []string{"gpu_time: 8ms, host_time: 5ms, batch: {max: 32, wait: 5ms}", "gpu_time: 3ms, host_time: 9ms",
		"gpu_time: 40ms", "gpu_time: 20ms, host_time: 1ms, batch: {max: 8}"} {
		for _, load := range []string{"20", "150"} {
			texts = append(texts, pools+"memory: 2GiB, service: {"+service+"}, load: {requests_per_s: "+load+"}, slo: {e2e_p99: 400ms}}\n")
		}
	}
	return texts
}

// TestAutoIsTheCheapest compares replicas: auto with every number tried by hand.
func TestAutoIsTheCheapest(t *testing.T) {
	texts := autoServices()
	for i := 0; i < len(texts); i += len(texts) / nightly.Cases(5, len(texts)) {
		r := decideText(t, texts[i])
		if len(r.Replicas) != 1 {
			t.Fatalf("%v", r.Replicas)
		}
		chosen := r.Replicas[0]
		var best *replicaTrial
		for n := 1; n <= max(32, chosen.Replicas); n++ {
			f, err := ParseFleet([]byte("version: v1\n" + strings.Replace(texts[i], "auto", fmt.Sprint(n), 1)))
			if err != nil {
				continue // more work than so few have time for
			}
			trial, err := tryFleet(context.Background(), f, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if best == nil || trial.before(best) {
				best = trial
			}
		}
		t.Logf("%d: %+v", i, chosen)
		if chosen.Replicas != best.replicas && (best.missed == 0 || chosen.LoadPerS > 0) {
			t.Errorf("%s\n%d replicas for %s a month, by hand %d for %.2f", texts[i], chosen.Replicas, r.Totals.MonthlyAfter,
				best.replicas, best.monthly)
		}
	}
}

// TestAutoSaysWhatBreaks holds the load that is said to be enough, and that more is not.
func TestAutoSaysWhatBreaks(t *testing.T) {
	text := strings.Replace(embeddings, "replicas: 12", "replicas: auto", 1)
	c := decideText(t, text).Replicas[0]
	if c.PerGPU < 2 || c.LoadPerS < 495 || c.Breaks == "" {
		t.Fatalf("%+v", c)
	}
	for _, v := range []struct {
		load float64
		more bool
	}{{c.LoadPerS * 0.999, false}, {c.LoadPerS * 1.06, true}} {
		at := strings.Replace(text, "replicas: auto", fmt.Sprintf("replicas: %d", c.Replicas), 1)
		r := decideText(t, strings.Replace(at, "requests_per_s: 495", fmt.Sprintf("requests_per_s: %v", v.load), 1))
		if more := r.Totals.GPUsAfter > 5 || r.Decisions[0].Status != StatusDecided; more != v.more {
			t.Errorf("%.4g/s: %s on %d GPUs", v.load, r.Decisions[0].Status, r.Totals.GPUsAfter)
		}
	}
}

// TestAutoBesideOthers decides a whole fleet: the numbers chosen are those that the rest of the answer is for, and
// deciding the resolved fleet answers the same.
func TestAutoBesideOthers(t *testing.T) {
	text := strings.ReplaceAll(speech, "kind: online-inference", "kind: online-inference\n  replicas: auto")
	r := decideText(t, text)
	f, err := ParseFleet([]byte("version: v1\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	resolved, chosen, err := ResolveReplicas(t.Context(), f, Options{})
	if err != nil || len(chosen) != 3 || f.Workloads[0].Replicas.Max != 0 {
		t.Fatal(chosen, err)
	}
	again := decide(t, resolved)
	for i, c := range r.Replicas {
		if d := r.Decision(c.Workload); d.Replicas != c.Replicas || c != chosen[i] {
			t.Errorf("%s: %d decided, %+v and %+v chosen", c.Workload, d.Replicas, c, chosen[i])
		}
	}
	if again.Totals.MonthlyAfter != r.Totals.MonthlyAfter || r.Totals.GPUsAfter != 1 {
		t.Errorf("%s and %s on %d GPUs", again.Totals.MonthlyAfter, r.Totals.MonthlyAfter, r.Totals.GPUsAfter)
	}
}

func TestAutoIsChecked(t *testing.T) {
	const head = "version: v1\npools: [{name: l4, gpu: L4, count: 1}]\nworkloads:\n- {name: a, kind: online-inference, replicas: auto, "
	for text, want := range map[string]string{
		"memory: 2GiB": "replicas: auto chooses their number by it",
		"memory: 2GiB, gpu_busy: 0.3, load: {requests_per_s: 3}": "is of one replica",
	} {
		if _, err := ParseFleet([]byte(head + text + "}\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
