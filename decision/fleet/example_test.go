// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// One error names every problem of a file, with its path and remedy.
func ExampleParseFleet() {
	_, err := fleet.ParseFleet([]byte(`
version: v1
pools:
  - {name: prod, gpu: A100-80GB-SXM9, count: 4}
workloads:
  - {name: chat, kind: online-inference, replicas: {min: 4, max: 2}, gpu_busy: 20, memory: 20GiB}
`), nil)
	fmt.Println(err)
	// Output:
	// pools[0].gpu: sharing: unknown GPU "A100-80GB-SXM9"; did you mean "A100-SXM4-80GB" or "A100-SXM4-40GB"? Or describe it: gpu: {name: My GPU, memory: 16GiB, bandwidth: 448, sms: 46, compute: "8.6"}
	// workloads[0].replicas: min 4 is above max 2 (min is at most max)
	// workloads[0].gpu_busy: 20 is out of range (use a share between 0 and 1, for example 0.25)
}

// A model's config.json gives its memory: Qwen3-14B in 4 bits, with embeddings in 16.
func ExampleParseFleet_config() {
	readFile := func(name string) ([]byte, error) { // os.ReadFile, or that of an embed.FS
		return []byte(`{"model_type": "qwen3", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40,
			"num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 17408, "vocab_size": 151936,
			"tie_word_embeddings": false, "quantization_config": {"quant_method": "awq", "bits": 4}}`), nil
	}
	f, err := fleet.ParseFleet([]byte(`
version: v1
pools: [{name: serve, gpu: L40S, count: 2}]
workloads:
  - {name: chat, kind: online-inference, model: {config: qwen3-14b-awq/config.json}, gpu_busy: 0.3}
`), readFile)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, need := f.Workloads[0].Model, f.Workloads[0].MemoryNeed()
	each, _ := m.KVPerToken()
	fmt.Printf("%.1fe9 parameters, %v: %v of weights, %v of KV cache a token\n", float64(m.Parameters)/1e9, m.Weights, need.Weights, each)
	// Output:
	// 14.8e9 parameters, int4: 9.29GiB of weights, 160KiB of KV cache a token
}

// What does a 70B model take of each of the two GPUs that it is spread over? Half of its weights, half of the KV cache
// of the requests that it holds at once, and a CUDA context.
func ExampleWorkload_MemoryNeed() {
	w := fleet.Workload{Kind: "online-inference", GPUs: 2, Model: &fleet.LanguageModel{
		Parameters: 70.6e9, Weights: "fp8",
		Layers: sharing.Some(80), KVHeads: sharing.Some(8), HeadDim: sharing.Some(128),
	}, Load: &fleet.Traffic{RequestsPerS: 2, InputTokens: sharing.Some(1500), OutputTokens: sharing.Some(200)}}
	need := w.MemoryNeed()
	fmt.Println("fp8 weights:", need.Weights, "+", need.KVCache, "+", need.Context, "=", need.Total)
	w.Model.Weights = "bf16"
	need = w.MemoryNeed()
	fmt.Println("bf16 weights:", need.Weights, "+", need.KVCache, "+", need.Context, "=", need.Total)
	// Output:
	// fp8 weights: 32.88GiB + 9.6GiB + 512MiB = 42.97GiB
	// bf16 weights: 65.75GiB + 9.6GiB + 512MiB = 75.85GiB
}

// The stated shape gives the KV cache exactly: how many tokens of an 8B model with grouped queries fit 16 GiB?
func ExampleLanguageModel_KVPerToken() {
	m := fleet.LanguageModel{Parameters: 8.03e9, Weights: "bf16",
		Layers: sharing.Some(32), KVHeads: sharing.Some(8), HeadDim: sharing.Some(128)}
	for _, m.KVDtype = range []fleet.Precision{"fp16", "fp8"} {
		if each, stated := m.KVPerToken(); stated {
			fmt.Println(m.KVDtype, each, "a token:", int64(16*sharing.GiB/each), "tokens")
		}
	}
	// Output:
	// fp16 128KiB a token: 131072 tokens
	// fp8 64KiB a token: 262144 tokens
}

// A fleet that a program makes is checked as a file is.
func ExampleFleet_Validate() {
	f := fleet.Fleet{Version: "v1",
		Pools:     []fleet.Pool{{Name: "lab", GPU: "L40S", Count: 2}},
		Workloads: []fleet.Workload{{Name: "notebooks", Kind: "notebook", Pool: "labs"}},
	}
	fmt.Println(f.Validate())
	f.Workloads[0].Pool = "lab"
	fmt.Println(f.Validate())
	// Output:
	// workloads[0].pool: there is no pool "labs" (did you mean "lab"?)
	// <nil>
}
