package study

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// TestArithmetic plans published traces for a 1B, an 8B and a mixture of experts on H100s of their own, with the sums
// that a reader can follow beside the answer: the share of a GPU's time that prompts take, and that steps of one
// sequence would.
func TestArithmetic(t *testing.T) {
	race.Long(t)
	traces := map[string]string{"azure": "../../../loadgen/prompt/testdata/traces/azure2023.csv", "bailian": "../../../loadgen/prompt/testdata/traces/bailian.jsonl",
		"mooncake": "../../../loadgen/prompt/testdata/traces/mooncake.jsonl", "burstgpt": "../../../loadgen/prompt/testdata/traces/burstgpt.csv", "azure, 200 requests": "builtin/azure2023-conv.csv", "stream": "rate=30,in=2000,out=200,n=3000"}
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(`{"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"vocab_size":151936,"tie_word_embeddings":false}`), 0o644); err != nil {
		t.Fatal(err)
	}
	gpu, err := sharing.LookupGPU("H100-SXM5-80GB")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range []string{"azure", "azure, 200 requests", "bailian", "burstgpt", "mooncake", "stream"} {
		for _, of := range []string{"params:1.24e9", "params:8.03e9", config} {
			models := []string{"m=" + of}
			if name == "burstgpt" {
				models = []string{"ChatGPT=" + of, "GPT-4=" + of}
			}
			s, err := Read(Options{Trace: traces[name], Models: models, GPUs: []string{"H100-SXM5-80GB=2.90"}, Seed: 1, SLO: "ttft_p99=2s,tpot_p99=60ms"})
			if err != nil {
				t.Fatal(err)
			}
			s.Plan.Kinds = []capacity.Kind{capacity.KindOwnGPU}
			r, err := s.Plan.Search(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			in, answer := 0.0, 0.0
			for _, q := range s.requests {
				in, answer = in+float64(q.Input), answer+float64(q.Output)
			}
			seconds := max(s.requests[len(s.requests)-1].At.Seconds(), 1)
			e := costs.NewEngine(s.Plan.Tenants[0].Shape, costs.MachineOf(gpu))
			need := "none"
			if r.Chosen != nil {
				need = fmt.Sprint(r.Chosen.GPUs)
			}
			fmt.Fprintf(&out, "%s, %.3gB: %s H100. %.0f tokens in / %.0f s x %.3g ms = %.1f%% of a GPU; %.0f out / %.0f s x %.3g ms / batch = %.1f%% / batch\n",
				name, s.Plan.Tenants[0].Shape.Parameters/1e9, need, in, seconds, e.PrefillToken.Value/1e3, in/seconds*e.PrefillToken.Value/1e4,
				answer, seconds, e.Step.Value, answer/seconds*e.Step.Value/10)
		}
	}
	golden.Check(t, "testdata/arithmetic.txt", []byte(out.String()))
}
