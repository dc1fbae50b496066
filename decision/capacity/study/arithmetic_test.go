package study

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// TestArithmetic plans published traces for a 1B, an 8B and a mixture of experts on H100s of their own, with the sums
// that a reader can follow beside the answer: the share of a GPU's time that prompts take, and that steps of one
// sequence would; the GPU's time for the longest prompt, which no number of GPUs brings below the 2 s of the objective,
// and for the prompts of the busiest second, which that many GPUs must have behind them in 2 s, by the bad ends of the
// intervals. The longer traces are the first requests of github.com/Azure/AzurePublicDataset (CC-BY 4.0) and of
// Mooncake's of FAST'25, github.com/kvcache-ai/Mooncake (Apache 2.0).
func TestArithmetic(t *testing.T) {
	race.Long(t)
	traces := map[string]string{"azure": "../../../loadgen/prompt/testdata/traces/azure2023.csv", "bailian": "../../../loadgen/prompt/testdata/traces/bailian.jsonl",
		"mooncake": "../../../loadgen/prompt/testdata/traces/mooncake.jsonl", "burstgpt": "../../../loadgen/prompt/testdata/traces/burstgpt.csv", "azure, 200 requests": "builtin/azure2023-conv.csv",
		"azure code, 200 requests": "testdata/traces/azure2023-code.csv", "mooncake, 200 requests": "testdata/traces/mooncake-conversation.jsonl",
		"mooncake synthetic, 50 requests": "testdata/traces/mooncake-synthetic.jsonl", "stream": "rate=30,in=2000,out=200,n=3000"}
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(`{"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"vocab_size":151936,"tie_word_embeddings":false}`), 0o644); err != nil {
		t.Fatal(err)
	}
	gpu, err := sharing.LookupGPU("H100-SXM5-80GB")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range []string{"azure", "azure, 200 requests", "azure code, 200 requests", "bailian", "burstgpt", "mooncake", "mooncake, 200 requests", "mooncake synthetic, 50 requests", "stream"} {
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
			e := costs.NewEngine(s.Plan.Tenants[0].Shape, costs.MachineOf(gpu))
			in, answer, longest, burst := 0.0, 0.0, 0.0, 0.0
			first, within := 0, 0.0 // of those that come within a second
			for _, q := range s.requests {
				n := float64(q.Input)
				in, answer = in+n, answer+float64(q.Output)
				longest = max(longest, n/1e6*e.PrefillToken.Value+n*n/2/1e9*e.PrefillContext.Value)
				for within += n; q.At-s.requests[first].At > time.Second; first++ {
					within -= float64(s.requests[first].Input)
				}
				burst = max(burst, within)
			}
			seconds := max(s.requests[len(s.requests)-1].At.Seconds(), 1)
			need := "none"
			if r.Chosen != nil {
				need = fmt.Sprint(r.Chosen.GPUs)
			}
			fmt.Fprintf(&out, "%s, %.3gB: %s H100. %.0f tokens in / %.0f s x %.3g ms = %.1f%% of a GPU; %.0f out / %.0f s x %.3g ms / batch = %.1f%% / batch; longest prompt %.2g s, most within a second %.2g s\n",
				name, s.Plan.Tenants[0].Shape.Parameters/1e9, need, in, seconds, e.PrefillToken.Value/1e3, in/seconds*e.PrefillToken.Value/1e4,
				answer, seconds, e.Step.Value, answer/seconds*e.Step.Value/10, longest, burst/1e6*e.PrefillToken.Value)
		}
	}
	golden.Check(t, "testdata/arithmetic.txt", []byte(out.String()))
}
