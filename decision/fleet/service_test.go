// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

const servicePool = "version: v1\npools: [{name: l4, gpu: L4, count: 1}]\nworkloads:\n- {name: a, kind: online-inference, "

func TestServiceIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"service: {gpu_time: 8ms, host_time: 5ms, batch: {max: 32, wait: 5ms}}":                 "",
		"service: {task: embedding}, model: {parameters: 109e6, weights: fp16, kv_cache: 0GiB}": "",
		"service: {task: vision}, gpu_busy: 0.3":                                                "",
		"service: {}":                                                                           "nothing states how long a request takes (state gpu_time",
		"service: {task: embedding}":                                                            "one is enough",
		"service: {task: diffusion}, model: {parameters: 2e9, weights: fp16}":                   "a task (not diffusion)",
		"service: {task: singing}":                                                              "singing",
		"service: {gpu_time: 0s}":                                                               "0s is no time",
		"service: {gpu_time: 8ms, gpu: X9000}":                                                  "X9000",
		"service: {gpu_time: 8ms}, slo: {ttft_p99: 1s}":                                         "it speaks no tokens",
		"service: {gpu_time: 100ms}, replicas: 2, load: {requests_per_s: 30}":                   "are 1.50 seconds of GPU time",
		"service: {gpu_time: 8ms, host_time: -1ms, batch: {max: 0, wait: -5ms}}":                "host_time",
	} {
		_, err := ParseFleet([]byte(servicePool+text+"}\n"), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTaskPriors compares the priors with published servers: nine in ten of their times lie within the stated scatter,
// 1.645 sigma on either side.
func TestTaskPriors(t *testing.T) {
	text, err := os.ReadFile("testdata/nontoken-servers.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Rows []struct {
			ID, GPU    string
			Class      string  `json:"model_class"`
			Parameters float64 `json:"parameters_billion"`
			Figures    []struct {
				GPU     string
				MIG     string `json:"mig_profile"`
				Clients int
				Batch   int
				Mean    float64 `json:"latency_mean_ms"`
				P50     float64 `json:"latency_p50_ms"`
				Rate    float64 `json:"requests_per_second"`
				Speed   float64 `json:"x_real_time"`
			}
		}
	}
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	tasks := map[string]Task{"embedding": "embedding", "asr": "speech-to-text", "tts": "text-to-speech", "vision": "vision"}
	seen, within := 0, 0
	for _, r := range f.Rows {
		for i, fig := range r.Figures {
			if fig.MIG != "" || i+1 < len(r.Figures) && r.Figures[i+1].Clients > fig.Clients {
				continue // of a part of a GPU, or with less load than it was given
			}
			name := r.GPU
			if fig.GPU != "" {
				name = fig.GPU
			}
			gpu, err := sharing.LookupGPU(name)
			task := tasks[r.Class]
			took := max(fig.Mean, fig.P50) / 1e3
			switch {
			case fig.Speed > 0:
				took = 30 / fig.Speed
			case fig.Rate > 0 && fig.Clients > 0:
				took = 1 / fig.Rate // one after another
			}
			if err != nil || task == "" || r.Parameters == 0 || took == 0 || fig.Batch > 1 {
				continue
			}
			w := Workload{Service: &Service{Task: task}, Model: &LanguageModel{Parameters: int64(1e9 * r.Parameters)}}
			got, known := w.RequestTime(gpu)
			if !known {
				continue
			}
			off := math.Log((got.GPU + got.Host) / took)
			seen++
			if math.Abs(off) <= 1.645*got.Sigma {
				within++
			}
			t.Logf("%s %s %.3fB on %s: took %.1f ms, prior %.1f ms", r.ID, r.Class, r.Parameters, gpu.Name, 1e3*took, 1e3*(got.GPU+got.Host))
		}
	}
	if seen < 12 || within*10 < seen*9 {
		t.Errorf("%d of %d times lie within", within, seen)
	}
}

// TestProblemsKeepTheirOrder: the same file gives the same error, byte for byte, with problems in the order of checks.
func TestProblemsKeepTheirOrder(t *testing.T) {
	text := []byte(`{version: v1, pools: [{name: p, gpu: L4, count: 4}], workloads: [{name: a, kind: batch, memory: 1GiB,
  gpu_busy: {mean: 0.1, on: X1}, solo: {e2e_p99: 1s, on: X2}, job: {duration: -1s, deadline: -2s, on: X3}}]}`)
	_, first := ParseFleet(text, nil)
	for range 20 {
		if _, err := ParseFleet(text, nil); fmt.Sprint(err) != fmt.Sprint(first) {
			t.Fatalf("%v, and before %v", err, first)
		}
	}
	for at, key := -1, []string{"job.duration", "job.deadline", "gpu_busy.on", "solo.on", "job.on"}; len(key) > 0; key = key[1:] {
		next := strings.Index(fmt.Sprint(first), "workloads[0]."+key[0])
		if next <= at {
			t.Fatalf("%s is not in its place in %v", key[0], first)
		}
		at = next
	}
}
