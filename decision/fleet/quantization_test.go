// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// The matrices of Llama 3.1 8B that may be quantized, each of its two embeddings, and its norms.
const (
	linear8B    = 6_979_321_856
	embedding8B = 525_336_576
	norms8B     = 2 * 4096 * 32
	rest8B      = 2 * (2*embedding8B + norms8B) // bytes
)

// quantized is Llama 3.1 8B with a quantization_config.
func quantized(t *testing.T, config string) fleet.LanguageModel {
	t.Helper()
	m, err := fleet.ParseModelConfig(configOf(t, "Llama-3.1-8B", `{"quantization_config":`+config+`}`))
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return m
}

// Each way to quantize has its bytes, with scales and zero points, and the precision that servers compute with.
func TestQuantizations(t *testing.T) {
	group := func(weights, targets string) string {
		return fmt.Sprintf(`{"quant_method":"compressed-tensors","ignore":["lm_head"],"config_groups":{"group_0":{"weights":{%s},"targets":[%s]}}}`, weights, targets)
	}
	for _, c := range []struct {
		config string
		bits   float64 // of a weight that is quantized, with its part of scales and zero points
		is     fleet.Precision
	}{
		{`null`, 16, "bf16"},

		// bitsandbytes: no bits, but how it is to be loaded.
		{`{"quant_method":"bitsandbytes","_load_in_8bit":true,"load_in_8bit":true,"load_in_4bit":false,"bnb_4bit_quant_type":"fp4"}`, 8, "int8"},
		{`{"quant_method":"bitsandbytes","load_in_8bit":false,"load_in_4bit":true,"bnb_4bit_quant_type":"nf4","bnb_4bit_use_double_quant":true}`, 4 + 8./64 + 32./64/256, "int4"},
		{`{"quant_method":"bitsandbytes","load_in_8bit":false,"load_in_4bit":true}`, 4.5, "int4"},
		{`{"quant_method":"bitsandbytes","load_in_8bit":false,"load_in_4bit":false}`, 16, "bf16"},
		{`{"quant_method":"bitsandbytes"}`, 4.5, "int4"}, // as servers load it where nothing is stated

		// GPTQ and AWQ: a scale and a zero point a group.
		{`{"quant_method":"gptq","bits":4,"group_size":128,"sym":true,"desc_act":false}`, 4 + 20./128, "int4"},
		{`{"quant_method":"gptq","bits":4,"group_size":32}`, 4 + 20./32, "int4"},
		{`{"quant_method":"gptq","bits":8,"group_size":128}`, 8 + 24./128, "int8"},
		{`{"quant_method":"gptq","bits":3,"group_size":-1}`, 3, "int4"},
		{`{"quant_method":"awq","bits":4,"group_size":64,"zero_point":true}`, 4 + 20./64, "int4"},
		{`{"quant_method":"awq","bits":4}`, 4 + 20./128, "int4"},

		// compressed-tensors.
		{group(`"num_bits":8,"type":"float","strategy":"channel"`, `"Linear"`), 8, "fp8"},
		{group(`"num_bits":8,"type":"int","strategy":"channel"`, `"Linear"`), 8, "int8"},
		{group(`"num_bits":4,"type":"int","strategy":"group","group_size":32,"symmetric":true`, `"Linear"`), 4.5, "int4"},
		{group(`"num_bits":4,"type":"int","strategy":"group","group_size":128,"symmetric":false`, `"Linear"`), 4 + 20./128, "int4"},
		{group(`"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16`, `"Linear"`), 4.5, "fp4"},
		{group(`"num_bits":4,"type":"float","group_size":32,"scale_dtype":"torch.uint8"`, `"Linear"`), 4.25, "fp4"},
		{group(`"num_bits":8,"type":"float","group_size":32`, `"Linear"`), 8.25, "fp8"},
		{group(`"num_bits":4,"type":"int"`, ``), 4, "int4"},

		// FP8 in blocks, and Model Optimizer's algorithms.
		{`{"quant_method":"fp8","weight_block_size":[128,128]}`, 8 + 32./128/128, "fp8"},
		{`{"quant_method":"fbgemm_fp8"}`, 8, "fp8"},
		{`{"quant_method":"modelopt","quant_algo":"NVFP4","group_size":16,"ignore":["lm_head"]}`, 4.5, "fp4"},
		{`{"quant_method":"modelopt","quantization":{"quant_algo":"NVFP4","group_size":16,"exclude_modules":["lm_head"]}}`, 4.5, "fp4"},
		{`{"quant_method":"modelopt","quant_algo":"W4A16_AWQ","group_size":128,"exclude_modules":["lm_head"]}`, 4 + 16./128, "int4"},
		{`{"quant_method":"modelopt","quant_algo":"MXFP8","ignore":["lm_head"]}`, 8.25, "fp8"},
		{`{"quant_method":"modelopt","ignore":["lm_head"]}`, 8, "fp8"},
	} {
		m := quantized(t, c.config)
		want := linear8B*c.bits/8 + rest8B
		if got := m.WeightBytes(m.Parameters); math.Abs(got/want-1) > 1e-4 || m.Weights != c.is {
			t.Errorf("%s: %.4g bytes in %v, want %.4g in %v", c.config, got, m.Weights, want, c.is)
		}
		if got, less := m.ActiveBytes(), 2.0*embedding8B; math.Abs(got-(m.WeightBytes(m.Parameters)-less)) > 2 {
			t.Errorf("%s: a token reads %.4g bytes of %.4g", c.config, got, m.WeightBytes(m.Parameters))
		}
		if len(m.Notes) > 0 {
			t.Errorf("%s: %q", c.config, m.Notes)
		}
	}
}

// Modules that keep 16 bits are found by name, by a parent's name, by glob and by regular expression, in each
// quantizer's list; some have a format of their own.
func TestQuantizedModules(t *testing.T) {
	const (
		attention = 32 * (2*4096*4096 + 2*4096*1024)
		query     = 32 * 4096 * 4096
		down      = 32 * 4096 * 14336
		layer     = linear8B / 32
	)
	fp8 := func(list string) string { return `{"quant_method":"fp8",` + list + `}` }
	mixed := func(targets string) string {
		return `{"quant_method":"compressed-tensors","ignore":["lm_head"],"config_groups":{` +
			`"group_0":{"weights":{"num_bits":4,"type":"float","group_size":16},"targets":["Linear"]},` +
			`"group_1":{"weights":{"num_bits":8,"type":"float"},"targets":[` + targets + `]}}}`
	}
	for _, c := range []struct {
		config string
		want   float64 // bytes of the matrices
		note   string
	}{
		{fp8(`"ignored_layers":["lm_head"]`), linear8B, ""},
		{fp8(`"modules_to_not_convert":["self_attn"]`), linear8B + attention, ""},
		{fp8(`"modules_to_not_convert":["model.layers.0.self_attn","model.layers.31.mlp.down_proj"]`), linear8B + attention/32 + down/32, ""},
		{fp8(`"modules_to_not_convert":["model.layers.1"]`), linear8B + layer, ""}, // and not 10 to 19
		{fp8(`"modules_to_not_convert":["model.layers.1.*"]`), linear8B + layer, ""},
		{fp8(`"modules_to_not_convert":["model.layers.*.self_attn"]`), linear8B + attention, ""},
		{fp8(`"modules_to_not_convert":["*q_proj"]`), linear8B + query, ""},
		{fp8(`"modules_to_not_convert":["model.layers.0.self_attn.qkv_proj"]`), linear8B + attention/32 - query/32, ""},
		{fp8(`"ignored_layers":["re:.*self_attn.*"]`), linear8B + attention, ""},
		{fp8(`"ignored_layers":["re:self_attn"]`), linear8B, ""}, // from the name's start
		{fp8(`"ignored_layers":["re:.*mlp\\.(?!experts).*"]`), linear8B, "is not understood"},
		{`{"quant_method":"bitsandbytes","load_in_8bit":true,"llm_int8_skip_modules":["lm_head","down_proj"]}`, linear8B + down, ""},
		{`{"quant_method":"modelopt","quant_algo":"FP8","exclude_modules":["lm_head","model.layers.0*"]}`, linear8B + layer, ""},
		{`{"quant_method":"modelopt","quant_algo":"FP8"}`, linear8B - embedding8B, ""}, // of its head too
		{`{"quant_method":"gptq","bits":8,"group_size":-1,"lm_head":true}`, linear8B - embedding8B, ""},
		{mixed(`"re:.*self_attn.*"`), (linear8B-attention)*4.5/8 + attention, ""},
		{mixed(`"re:.*\\.q_proj$","model.layers.0.mlp.down_proj"`), (linear8B-query-down/32)*4.5/8 + query + down/32, ""},
	} {
		m := quantized(t, c.config)
		if got := m.WeightBytes(m.Parameters) - rest8B; math.Abs(got/c.want-1) > 1e-4 {
			t.Errorf("%s: %.5g bytes, want %.5g", c.config, got, c.want)
		}
		if notes := strings.Join(m.Notes, "; "); (notes == "") != (c.note == "") || !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", c.config, notes, c.note)
		}
	}
}

// Experts, shared experts and other modules are distinguished by name.
func TestQuantizedExperts(t *testing.T) {
	const experts, shared, attention = 48 * 512 * 3 * 2048 * 512, 48 * 3 * 2048 * 512, 12*(2048*2*4096+2*2048*512+4096*2048) + 36*(2048*12288+4096*2048)
	all, err := fleet.ParseModelConfig(configOf(t, "Qwen3-Next-80B-A3B", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	for list, kept := range map[string]float64{
		`"re:.*shared_expert.*"`:                          shared,
		`"re:.*linear_attn.*","re:.*self_attn.*"`:         attention,
		`"model.layers.0.mlp.experts"`:                    experts / 48,
		`"re:.*mlp\\.(gate|up|gate_up|down)_proj.*"`:      0,
		`"re:.*mlp.gate$","re:.*mlp.shared_expert_gate$"`: 0,
	} {
		m, err := fleet.ParseModelConfig(configOf(t, "Qwen3-Next-80B-A3B", `{"quantization_config":{"quant_method":"compressed-tensors","ignore":["lm_head",`+list+`],"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float"}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		want := all.WeightBytes(all.Parameters) - (experts + shared + attention - kept)
		if got := m.WeightBytes(m.Parameters); math.Abs(got/want-1) > 1e-4 {
			t.Errorf("%s: %.5g bytes, want %.5g", list, got, want)
		}
	}
}

// Long lists of names, as quantizers write them, take no time to speak of.
func BenchmarkParseModelConfigNames(b *testing.B) {
	var names []string
	for layer := range 61 {
		for expert := range 256 {
			names = append(names, fmt.Sprintf("%q", fmt.Sprintf("model.layers.%d.mlp.experts.%d.up_proj", layer, expert)))
		}
		names = append(names, fmt.Sprintf("%q", fmt.Sprintf("model.layers.%d.self_attn*", layer)))
	}
	config := configOf(b, "DeepSeek-V3", `{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":[`+strings.Join(names, ",")+`]}}`)
	for b.Loop() {
		if _, err := fleet.ParseModelConfig(config); err != nil {
			b.Fatal(err)
		}
	}
}

// Names of a checkpoint with other parts, and of one with mixers as modules, are found as well.
func TestQuantizedNames(t *testing.T) {
	for model, list := range map[string][]string{
		"gemma-3-4b": {"model.language_model.layers.0.mlp", "language_model.model.layers.0.mlp", "re:model.language_model.layers.0.mlp.*",
			"re:language_model.*layers.0.mlp", "language_model.layers.0.mlp*", "model.layers.0.mlp"},
		"Nemotron-Nano-9B-v2": {"backbone.layers.1.mixer", "re:.*layers\\\\.1\\\\.mixer.*", "backbone.layers.1.*"},
	} {
		before := 0.0
		for i, ignored := range append([]string{"lm_head"}, list...) {
			m, err := fleet.ParseModelConfig(configOf(t, model, `{"quantization_config":{"quant_method":"compressed-tensors","ignore":["lm_head","`+ignored+
				`"],"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float"}}}}}`))
			if err != nil {
				t.Fatal(err)
			}
			kept := float64(3 * 2560 * 10240)
			if model != "gemma-3-4b" {
				kept = 2 * 4480 * 15680
			}
			if got := m.WeightBytes(m.Parameters); i == 0 {
				before = got
			} else if got != before+kept {
				t.Errorf("%s without %s: %.0f bytes more, want %.0f", model, ignored, got-before, kept)
			}
		}
	}
}

// A checkpoint that asks for a KV cache of less than 16 bits gets it, with a note; a fleet's statement comes first.
func TestKVSchemes(t *testing.T) {
	const elements = 2 * 32 * 8 * 128
	for config, want := range map[string]struct {
		bytes float64
		asks  string
	}{
		`"quant_method":"fp8"`:                        {2, ""},
		`"quant_method":"fp8","kv_cache_scheme":null`: {2, ""},
		`"quant_method":"fp8","kv_cache_scheme":{"num_bits":8,"type":"float","strategy":"head"}`:    {1, "in fp8 was counted, as kv_cache_scheme asks"},
		`"quant_method":"fp8","kv_cache_scheme":{"num_bits":4,"type":"float","group_size":16}`:      {0.5 * 9 / 8, "in fp4 was counted, as kv_cache_scheme asks"},
		`"quant_method":"fp8","kv_cache_scheme":{"num_bits":8,"type":"int"}`:                        {1, "in int8 was counted, as kv_cache_scheme asks"},
		`"quant_method":"modelopt","quant_algo":"FP8","kv_cache_quant_algo":"FP8"`:                  {1, "as kv_cache_quant_algo asks"},
		`"quant_method":"modelopt","quant_algo":"NVFP4","kv_cache_quant_algo":"NVFP4"`:              {0.5 * 9 / 8, "as kv_cache_quant_algo asks"},
		`"quant_method":"modelopt","quantization":{"quant_algo":"FP8","kv_cache_quant_algo":"FP8"}`: {1, "as kv_cache_quant_algo asks"},
		`"quant_method":"modelopt","quant_algo":"FP8","kv_cache_quant_algo":"TERNARY"`:              {2, `kv_cache_quant_algo "TERNARY" is not understood`},
	} {
		read := func(string) ([]byte, error) {
			return configOf(t, "Llama-3.1-8B", `{"quantization_config":{`+config+`}}`), nil
		}
		f, err := fleet.ParseFleet([]byte(withConfig), read)
		if err != nil {
			t.Fatalf("%s: %v", config, err)
		}
		w := &f.Workloads[0]
		if kv, _ := w.Model.KVPerToken(); kv != sharing.Bytes(elements*want.bytes) {
			t.Errorf("%s: %d bytes a token, want %v", config, kv, elements*want.bytes)
		}
		notes := strings.Join(w.ConfigNotes(), "; ")
		if (notes == "") != (want.asks == "") || !strings.Contains(notes, want.asks) || notes != "" && !strings.HasPrefix(notes, "models/chat.json: ") {
			t.Errorf("%s: notes %q, want %q", config, notes, want.asks)
		}
		f, err = fleet.ParseFleet([]byte(strings.Replace(withConfig, "chat.json", "chat.json, kv_dtype: fp16", 1)), read)
		if err != nil {
			t.Fatal(err)
		}
		w = &f.Workloads[0]
		if kv, _ := w.Model.KVPerToken(); kv != 2*elements || strings.Contains(strings.Join(w.ConfigNotes(), ";"), " asks") {
			t.Errorf("%s with kv_dtype: %d bytes a token, %q", config, kv, w.ConfigNotes())
		}
	}
}

// What is not read is no obstacle where the fleet states it.
func TestStatedWeights(t *testing.T) {
	read := func(string) ([]byte, error) {
		return configOf(t, "Llama-3.1-8B", `{"quantization_config":{"quant_method":"squeeze","ignore":["lm_head"]}}`), nil
	}
	if _, err := fleet.ParseFleet([]byte(withConfig), read); err == nil || !strings.Contains(err.Error(), `models/chat.json: quantization_config.quant_method: "squeeze" is not read here (state weights next to config)`) {
		t.Error(err)
	}
	f, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "chat.json", "chat.json, weights: int4", 1)), read)
	if err != nil {
		t.Fatal(err)
	}
	if m := f.Workloads[0].Model; math.Abs(m.WeightBytes(m.Parameters)/(linear8B/2+rest8B)-1) > 1e-3 {
		t.Errorf("%.4g bytes", m.WeightBytes(m.Parameters))
	}
}
