// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
)

// Fields that a config.json leaves out are those of its class, and null is not the same as absence.
func TestClassDefaults(t *testing.T) {
	for _, c := range []struct {
		name, config string
		billions     float64
		kv           int64
	}{
		// The language model of a file with other parts leaves out the defaults of its class.
		{"gemma-3-1b's shape as a part", `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":1152,"intermediate_size":6912,"num_attention_heads":4,"num_key_value_heads":1,"vocab_size":262144,"sliding_window":512}}`, 1.0, 26 * 2 * 256 * 2},
		{"gemma-3-27b without its head_dim", `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":5376,"intermediate_size":21504,"num_attention_heads":32,"num_hidden_layers":62,"num_key_value_heads":16}}`, 30.99, 62 * 2 * 16 * 256 * 2},
		{"a part that names no type", `{"model_type":"gemma3","text_config":{"hidden_size":3840,"intermediate_size":15360,"num_attention_heads":16,"num_hidden_layers":48,"num_key_value_heads":8}}`, 11.77, 393216},
		{"llava-1.5-7b", `{"model_type":"llava","text_config":{"model_type":"llama","vocab_size":32064}}`, 6.74, 524288},
		{"Qwen3-VL-32B", `{"model_type":"qwen3_vl","text_config":{"model_type":"qwen3_vl_text","hidden_size":5120,"intermediate_size":25600,"num_hidden_layers":64,"num_attention_heads":64,"num_key_value_heads":8}}`, 32.76, 262144},
		{"Llama 4 Scout, all its class's", `{"model_type":"llama4","text_config":{"model_type":"llama4_text"}}`, 107.77, 196608},

		// A file of its own has its sizes, and leaves out fields that follow from them or from its class.
		{"gemma-2-27b", `{"model_type":"gemma2","num_hidden_layers":46,"hidden_size":4608,"num_attention_heads":32,"num_key_value_heads":16,"head_dim":128,"intermediate_size":36864,"vocab_size":256000}`, 27.2, 376832},
		{"gemma-2b without head_dim", `{"model_type":"gemma","num_hidden_layers":18,"hidden_size":2048,"num_attention_heads":8,"num_key_value_heads":1,"intermediate_size":16384,"vocab_size":256000}`, 2.51, 18432},
		{"Mistral-Nemo with head_dim", `{"model_type":"mistral","num_hidden_layers":40,"hidden_size":5120,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":14336,"vocab_size":131072}`, 12.25, 163840},
		{"Mistral whose head_dim is null", `{"model_type":"mistral","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":null,"intermediate_size":14336,"vocab_size":32768}`, 7.25, 131072},
		{"Seed-OSS whose head_dim is null", `{"model_type":"seed_oss","num_hidden_layers":64,"hidden_size":5120,"num_attention_heads":80,"num_key_value_heads":8,"head_dim":null,"intermediate_size":27648,"vocab_size":155136}`, 32.4, 131072},
		{"Qwen2.5-0.5B, tied", `{"model_type":"qwen2","num_hidden_layers":24,"hidden_size":896,"num_attention_heads":14,"num_key_value_heads":2,"intermediate_size":4864,"vocab_size":151936,"tie_word_embeddings":true}`, 0.494, 12288},
		{"Qwen2.5-0.5B, whose class is not tied", `{"model_type":"qwen2","num_hidden_layers":24,"hidden_size":896,"num_attention_heads":14,"num_key_value_heads":2,"intermediate_size":4864,"vocab_size":151936}`, 0.63, 12288},
		{"command-r7b, tied by its class", `{"model_type":"cohere2","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":256000}`, 8.03, 131072},
		{"starcoder2-7b, two matrices a feed-forward", `{"model_type":"starcoder2","num_hidden_layers":32,"hidden_size":4608,"num_attention_heads":36,"num_key_value_heads":4,"intermediate_size":18432,"vocab_size":49152,"tie_word_embeddings":true}`, 7.17, 65536},
		{"phi-4", `{"model_type":"phi3","num_hidden_layers":40,"hidden_size":5120,"num_attention_heads":40,"num_key_value_heads":10,"intermediate_size":17920,"vocab_size":100352,"tie_word_embeddings":false,"sliding_window":null}`, 14.66, 204800},
		{"Qwen3.5-27B, a hybrid of its class's", `{"model_type":"qwen3_5","tie_word_embeddings":false,"text_config":{"model_type":"qwen3_5_text","hidden_size":5120,"intermediate_size":17408,"num_hidden_layers":64,"num_attention_heads":24,"num_key_value_heads":4,"linear_num_value_heads":48}}`, 26.9, 65536},
		{"one of EXAONE 4's pattern in letters", `{"model_type":"exaone4","num_hidden_layers":64,"hidden_size":5120,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"intermediate_size":27392,"vocab_size":102400,"sliding_window":4096,"sliding_window_pattern":"LLLG"}`, 32.0, 262144},
		{"GLM-4.7-Flash, latent", `{"model_type":"glm4_moe_lite","num_hidden_layers":47,"hidden_size":2048,"num_attention_heads":20,"num_key_value_heads":20,"kv_lora_rank":512,"q_lora_rank":768,"qk_rope_head_dim":64,"qk_nope_head_dim":192,"v_head_dim":256,"intermediate_size":10240,"moe_intermediate_size":1536,"n_routed_experts":64,"n_shared_experts":1,"num_experts_per_tok":4,"first_k_dense_replace":1,"vocab_size":154880}`, 30, 47 * 1152},
		{"GLM-5, latent with an indexer", `{"model_type":"glm_moe_dsa","num_hidden_layers":78,"hidden_size":6144,"num_attention_heads":64,"intermediate_size":12288,"vocab_size":154880}`, 744, 78 * (1152 + 132)},
		{"Gemma 4, whose full layers have heads of their own and the last ones none", `{"model_type":"gemma4","text_config":{"model_type":"gemma4_text","hidden_size":1536,"intermediate_size":6144,"num_hidden_layers":35,"num_attention_heads":8,"num_key_value_heads":1,"num_kv_shared_layers":20,"use_double_wide_mlp":true,"sliding_window_pattern":5}}`, 4.6, (3*512 + 12*256) * 2 * 2},
	} {
		m, err := fleet.ParseModelConfig([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := float64(m.Parameters) / 1e9; math.Abs(got/c.billions-1) > 0.02 {
			t.Errorf("%s: %.4g billion parameters, want %.4g", c.name, got, c.billions)
		}
		if kv, _ := m.KVPerToken(); int64(kv) != c.kv {
			t.Errorf("%s: %d bytes of KV cache a token, want %d", c.name, kv, c.kv)
		}
		if indexed := strings.Contains(strings.Join(m.Notes, ""), "656 bytes"); len(m.Notes) > 0 && !indexed || indexed != (m.Cache.Extra > 0) {
			t.Errorf("%s: %q", c.name, m.Notes)
		}
	}
}

// Python's numbers that are none of JSON are read, and the same words in texts stay; so is a mark of the byte order.
func TestNumbersOfPython(t *testing.T) {
	want, err := fleet.ParseModelConfig(configOf(t, "Llama-3.1-8B", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(configOf(t, "Llama-3.1-8B", "{}"))
	for _, fields := range []string{`"rope_scaling":{"attn_factor": Infinity},`, `"time_step_limit":[0.0,Infinity],"low":-Infinity,"no":NaN,`,
		`"head_dim":NaN,`, `"_name_or_path":"C:\\NaN\\\"Infinity","x":[-Infinity],`} {
		for _, mark := range []string{"", "\xef\xbb\xbf"} {
			m, err := fleet.ParseModelConfig([]byte(mark + strings.Replace(config, "{", "{"+fields, 1)))
			if err != nil || m.Parameters != want.Parameters || m.Cache != want.Cache {
				t.Errorf("%s: %+v, %v", fields, m, err)
			}
		}
	}
	if _, err := fleet.ParseModelConfig([]byte(strings.Replace(config, `"llama"`, `"Infinity"`, 1))); err != nil {
		t.Errorf("a type that nobody knows with all fields of a decoder: %v", err)
	}
	for text, want := range map[string]string{
		`{"model_type":"llama","num_hidden_layers":Infinity}`: "num_hidden_layers: is 0 or missing",
		`{"model_type":"llama","num_hidden_layers":Infinite}`: "is no config.json",
		`{"model_type":"NaN`: "is no config.json",
	} {
		if _, err := fleet.ParseModelConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What is not known is read with a note where it has all of a decoder with grouped heads, or refused with its name.
func TestStrangers(t *testing.T) {
	m, err := fleet.ParseModelConfig(configOf(t, "Llama-3.1-8B", `{"model_type":"cwm"}`))
	if err != nil || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], `model_type "cwm" is not known`) || m.Parameters != 8_030_257_152 {
		t.Errorf("%+v, %v", m, err)
	}
	for name, fields := range map[string]string{
		"rwkv7":                                  `{"model_type":"rwkv7","num_key_value_heads":null}`,
		"jamba":                                  `{"model_type":"jamba","mamba_d_state":16}`,
		"deepseek_v4 (it has compress_ratios)":   `{"model_type":"deepseek_v4","compress_ratios":[0,4,128]}`,
		"mllama (it has cross_attention_layers)": `{"model_type":"mllama_text_model","cross_attention_layers":[3,8]}`,
		"zamba2 (it has hybrid_layer_ids)":       `{"model_type":"zamba2","hybrid_layer_ids":[6,12]}`,
	} {
		name, because, _ := strings.Cut(strings.Replace(name, "mllama", "mllama_text_model", 1), " ")
		_, err := fleet.ParseModelConfig(configOf(t, "Llama-3.1-8B", fields))
		if err == nil || !strings.Contains(err.Error(), `"`+name+`" is an architecture that is not read here`) || !strings.Contains(err.Error(), because) || !strings.Contains(err.Error(), "layers (those that keep a KV cache)") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The pattern of the layers counts, as transformers takes it.
	m, err = fleet.ParseModelConfig([]byte(`{"model_type":"nemotron_h","num_hidden_layers":52,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":21504,"vocab_size":131072,"time_step_limit":[0.0, Infinity],"hybrid_override_pattern":"M-M-M-M*-"}`))
	if kv, _ := m.KVPerToken(); err != nil || kv != 2*8*128*2 || m.Layers.Or(0) != 9 || len(m.Notes) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
}

// The remedy for a refused model leads to the right figures: twelve layers of Qwen3-Next keep a cache.
func TestRemedy(t *testing.T) {
	stated, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "config: models/chat.json", "parameters: 80e9, weights: bf16, layers: 12, kv_heads: 2, head_dim: 256", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := fleet.ParseFleet([]byte(withConfig), func(string) ([]byte, error) { return configOf(t, "Qwen3-Next-80B-A3B", "{}"), nil })
	if err != nil {
		t.Fatal(err)
	}
	a, _ := stated.Workloads[0].Model.KVPerToken()
	b, _ := read.Workloads[0].Model.KVPerToken()
	if a != b || a != 24576 {
		t.Errorf("%d bytes of KV cache a token where it is stated, %d from the config", a, b)
	}
	if depth := read.Workloads[0].Model.Depth(); depth != 48 {
		t.Errorf("a token goes through %v layers", depth)
	}
}
