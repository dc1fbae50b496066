package costs_test

import (
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/sharing"
)

// configs are the fields of published config.json files that a shape follows from, with the parameters in billions
// that their model cards state: all, and those of one token where that differs.
var configs = []struct {
	name, config     string
	billions, active float64
	weights          float64 // GB on disk, by the repository's files
	kv               int     // bytes of a token
}{
	{"Llama-3.1-8B", `{"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,"tie_word_embeddings":false}`, 8.03, 0, 16.1, 131072},
	{"Llama-3.2-1B", `{"model_type":"llama","num_hidden_layers":16,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":64,"intermediate_size":8192,"vocab_size":128256,"tie_word_embeddings":true}`, 1.24, 0, 2.47, 32768},
	{"Qwen2.5-7B", `{"model_type":"qwen2","num_hidden_layers":28,"hidden_size":3584,"num_attention_heads":28,"num_key_value_heads":4,"intermediate_size":18944,"vocab_size":152064,"tie_word_embeddings":false,"use_sliding_window":false,"sliding_window":131072,"max_window_layers":28}`, 7.62, 0, 15.2, 57344},
	{"Qwen3-8B-FP8", `{"model_type":"qwen3","num_hidden_layers":36,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":12288,"vocab_size":151936,"tie_word_embeddings":false,"quantization_config":{"quant_method":"fp8","activation_scheme":"dynamic"}}`, 8.19, 0, 9.43, 147456},
	{"Qwen3-14B-AWQ", `{"model_type":"qwen3","num_hidden_layers":40,"hidden_size":5120,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"intermediate_size":17408,"vocab_size":151936,"tie_word_embeddings":false,"quantization_config":{"quant_method":"awq","bits":4}}`, 14.8, 0, 9.96, 163840},
	{"Qwen3-30B-A3B", `{"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"mlp_only_layers":[],"vocab_size":151936,"tie_word_embeddings":false}`, 30.5, 3.3, 61.1, 98304},
	{"Mixtral-8x7B", `{"model_type":"mixtral","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"num_local_experts":8,"num_experts_per_tok":2,"vocab_size":32000,"sliding_window":null}`, 46.7, 12.9, 93.4, 131072},
	{"DeepSeek-V2-Lite", `{"model_type":"deepseek_v2","num_hidden_layers":27,"hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":16,"kv_lora_rank":512,"q_lora_rank":null,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,"intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"vocab_size":102400}`, 15.7, 2.4, 31.4, 31104},
	{"gpt-oss-20b", `{"model_type":"gpt_oss","num_hidden_layers":24,"hidden_size":2880,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"intermediate_size":2880,"num_local_experts":32,"num_experts_per_tok":4,"vocab_size":201088,"tie_word_embeddings":false,"sliding_window":128,"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention"],"quantization_config":{"quant_method":"mxfp4"}}`, 20.9, 3.6, 13.8, 49152},
	{"gemma-2-9b", `{"model_type":"gemma2","num_hidden_layers":42,"hidden_size":3584,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":256,"intermediate_size":14336,"vocab_size":256000,"sliding_window":4096}`, 9.24, 0, 18.5, 344064},
}

// A shape that is counted from a config has the parameters, the bytes and the KV cache that the model has.
func TestParseModelConfig(t *testing.T) {
	for _, c := range configs {
		m, err := costs.ParseModelConfig([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		near := func(what string, got, want, by float64) {
			if math.Abs(got/want-1) > by {
				t.Errorf("%s: %s is %.4g, want %.4g", c.name, what, got, want)
			}
		}
		near("parameters", m.Parameters/1e9, c.billions, 0.01)
		if c.active > 0 {
			near("active parameters", m.Active/1e9, c.active, 0.12)
		}
		near("weights", float64(m.Weights())/1e9, c.weights, 0.09)
		if got := int(m.KVPerToken()); got != c.kv {
			t.Errorf("%s: %d bytes of KV cache a token, want %d", c.name, got, c.kv)
		}
	}
}

// Windows keep a part of a long context: half of gpt-oss's layers keep 128 tokens, and half of Gemma 2's 4096.
func TestModelAt(t *testing.T) {
	for _, c := range configs[len(configs)-2:] {
		m, err := costs.ParseModelConfig([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		const context = 8192
		full := float64(m.KVPerToken()) * context
		perLayer := full / float64(m.Layers)
		want := perLayer * (float64(m.Layers-m.WindowLayers) + float64(m.WindowLayers)*float64(m.Window)/context)
		if got := float64(m.At(context).KVPerToken()) * context; math.Abs(got-want) > context || m.At(100) != m {
			t.Errorf("%s: a context of %d keeps %.0f bytes, want %.0f", c.name, context, got, want)
		}
	}
}

func TestParseModelConfigBad(t *testing.T) {
	for text, want := range map[string]string{
		"<!doctype html><title>Log in</title>":                      "is a page in HTML, as a login gives",
		`{"model_type":"mamba","num_hidden_layers":2}`:              `model_type: "mamba" is an architecture that is not read here`,
		`{"model_type":"llama","hidden_size":0}`:                    "num_hidden_layers: is 0 or missing",
		`{"model_type":"qwen3","layer_types":["linear_attention"]}`: `layer_types[0]: "linear_attention"`,
		`[1]`: "is no config.json",
		`{"model_type":"llama","num_hidden_layers":"many"}`:           "num_hidden_layers: is a string and must be of type int",
		strings.Replace(configs[3].config, `"fp8"`, `"squeeze"`, 1):   `quant_method: "squeeze"`,
		strings.Replace(configs[4].config, `"bits":4`, `"bits":3`, 1): "weights of 3 bits",
	} {
		if m, err := costs.ParseModelConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %+v, %v; want %q", text, m, err, want)
		}
	}
	if _, err := costs.ParseModelConfig([]byte(`{"model_type":"llama"}`)); strings.Count(err.Error(), "missing") != 5 {
		t.Errorf("not every field is named: %v", err)
	}
}

// A quantization that a GPU has no kernels for is refused, with what it takes.
func TestModelRuns(t *testing.T) {
	for _, c := range []struct {
		gpu    string
		m      costs.Model
		refuse bool
	}{
		{"Tesla V100-SXM2-16GB", costs.Model{WeightBits: 8, ActivationBits: 8}, true},
		{"T4", costs.Model{WeightBits: 8, ActivationBits: 8}, true},
		{"T4", costs.Model{WeightBits: 4}, false},
		{"T4", costs.Model{}, false},
		{"A100-SXM4-80GB", costs.Model{WeightBits: 8, ActivationBits: 8}, false},
		{"H100-SXM5-80GB", costs.Model{WeightBits: 4, ActivationBits: 4}, false},
	} {
		gpu, err := sharing.LookupGPU(c.gpu)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.m.Runs(gpu); (err != nil) != c.refuse {
			t.Errorf("%s with %d bits: %v", c.gpu, c.m.WeightBits, err)
		}
	}
}

// The engines' defaults by version and GPU, as their source has them.
func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		engine, gpu      string
		chunk, sequences int
		first            bool
		words            string
	}{
		{"", "H100-SXM5-80GB", 8192, 1024, false, "vllm-batch-defaults"},
		{"", "H200", 8192, 1024, false, ""},
		{"", "A100-SXM4-80GB", 2048, 256, false, ""},
		{"", "L40S", 2048, 256, false, ""},
		{"vllm@0.11.0", "B200", 8192, 1024, false, ""},
		{"vllm@0.8.4", "H100-SXM5-80GB", 8192, 1024, false, "vllm-batch-defaults-h100"},
		{"vllm@v0.8", "B200", 2048, 256, false, ""},
		{"vllm@0.6", "H100-SXM5-80GB", 8192, 256, true, "prompts by themselves"},
		{"sglang", "A10", 2048, 2048, true, "sglang-server-args"},
		{"sglang", "L40S", 4096, 2048, true, ""},
		{"sglang", "H200", 8192, 2048, true, ""},
		{"sglang", "B200", 16384, 2048, true, ""},
	} {
		gpu, err := sharing.LookupGPU(c.gpu)
		if err != nil {
			t.Fatal(err)
		}
		memory, _ := gpu.Memory.Get()
		var e costs.Engine
		words, err := costs.Scheduling{Engine: c.engine}.Schedule(&e, gpu, memory)
		if err != nil || e.ChunkTokens != c.chunk || e.Sequences != c.sequences || e.PrefillsFirst != c.first || !strings.Contains(words, c.words) {
			t.Errorf("%s on %s: %d tokens, %d sequences, %v: %s, %v", c.engine, c.gpu, e.ChunkTokens, e.Sequences, e.PrefillsFirst, words, err)
		}
	}
	gpu, _ := sharing.LookupGPU("H100-SXM5-80GB")
	var e costs.Engine
	if words, err := (costs.Scheduling{ChunkTokens: 512, Sequences: 16}).Schedule(&e, gpu, 80*sharing.GiB); err != nil || e.ChunkTokens != 512 || e.Sequences != 16 || strings.Contains(words, "defaults") {
		t.Errorf("%+v, %s, %v", e, words, err)
	}
	for _, bad := range []string{"tgi", "vllm@new", "vllm@0.8.x.y@", "VLLM"} {
		if err := (costs.Scheduling{Engine: bad, ChunkTokens: -1}).Validate(); (err == nil) || strings.Count(err.Error(), "\n") != 1 && bad != "vllm@0.8.x.y@" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
