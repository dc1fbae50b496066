package fleet_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
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

// A model that is counted from a config has the parameters, the bytes and the KV cache that the model has.
func TestParseModelConfig(t *testing.T) {
	for _, c := range configs {
		m, err := fleet.ParseModelConfig([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		near := func(what string, got, want, by float64) {
			if math.Abs(got/want-1) > by {
				t.Errorf("%s: %s is %.4g, want %.4g", c.name, what, got, want)
			}
		}
		near("parameters", float64(m.Parameters)/1e9, c.billions, 0.01)
		if c.active > 0 {
			near("active parameters", float64(m.Active)/1e9, c.active, 0.12)
		} else if m.Active != m.Parameters-m.Embedding {
			t.Errorf("%s: a token uses %d of %d", c.name, m.Active, m.Parameters)
		}
		near("weights", m.WeightBytes(m.Parameters)/1e9, c.weights, 0.09)
		if kv, known := m.KVPerToken(); !known || int(kv) != c.kv {
			t.Errorf("%s: %d bytes of KV cache a token, want %d", c.name, kv, c.kv)
		}
		if all, some := m.WeightBytes(m.Parameters), m.WeightBytes(m.Active); some > all || some < all/2 && c.active == 0 {
			t.Errorf("%s: a token reads %.3g of %.3g bytes", c.name, some, all)
		}
	}
}

// Windows keep a part of a long context: half of gpt-oss's layers keep 128 tokens, and half of Gemma 2's 4096.
func TestKVAt(t *testing.T) {
	for _, c := range configs[len(configs)-2:] {
		m, err := fleet.ParseModelConfig([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		const context = 8192
		full, _ := m.KVPerToken()
		kept := 0.5 + 0.5*float64(m.Window)/context
		if got, _ := m.KVAt(context); math.Abs(float64(got)-kept*float64(full)) > 1 {
			t.Errorf("%s: a token of a long context keeps %d of %d bytes", c.name, got, full)
		}
		if got, _ := m.KVAt(100); got != full {
			t.Errorf("%s: a token of a short context keeps %d of %d bytes", c.name, got, full)
		}
	}
}

// Each way to quantize is the precision that servers load the weights in.
func TestParseModelConfigPrecisions(t *testing.T) {
	for quantized, want := range map[string]fleet.Precision{
		``:                                              fleet.PrecisionFP16,
		`,"torch_dtype":"bfloat16"`:                     fleet.PrecisionBF16,
		`,"dtype":"bfloat16"`:                           fleet.PrecisionBF16,
		`,"torch_dtype":"float32"`:                      fleet.PrecisionFP16,
		quantization(`"fbgemm_fp8"`):                    fleet.PrecisionFP8,
		quantization(`"gptq","bits":8`):                 fleet.PrecisionINT8,
		quantization(`"bitsandbytes"`):                  fleet.PrecisionINT4,
		quantization(`"mxfp4"`):                         fleet.PrecisionFP4,
		quantization(`"modelopt","quant_algo":"NVFP4"`): fleet.PrecisionFP4,
		quantization(`"modelopt"`):                      fleet.PrecisionFP8,
		quantization(`"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}}`): fleet.PrecisionFP8,
		quantization(`"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int"}}}`):   fleet.PrecisionINT4,
	} {
		m, err := fleet.ParseModelConfig([]byte(strings.Replace(configs[0].config, `,"tie_word`, quantized+`,"tie_word`, 1)))
		if err != nil || m.Weights != want {
			t.Errorf("%s: %v, want %v: %v", quantized, m.Weights, want, err)
		}
	}
}

func quantization(method string) string {
	return `,"quantization_config":{"quant_method":` + method + `}`
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
		if m, err := fleet.ParseModelConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %+v, %v; want %q", text, m, err, want)
		}
	}
	if _, err := fleet.ParseModelConfig([]byte(`{"model_type":"llama"}`)); strings.Count(err.Error(), "missing") != 5 {
		t.Errorf("not every field is named: %v", err)
	}
}

func FuzzParseModelConfig(f *testing.F) {
	for _, c := range configs {
		f.Add([]byte(c.config))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := fleet.ParseModelConfig(data); err == nil && (m.Weights == fleet.PrecisionUnknown || m.Layers.IsZero()) {
			t.Errorf("%+v", m)
		}
	})
}

const withConfig = `
version: v1
pools: [{name: p, gpu: L40S, count: 2}]
workloads:
  - {name: chat, kind: online-inference, gpu_busy: 0.2, model: {config: models/chat.json}}
`

// The model of a config is the one that is stated in numbers, but for what these leave out; what stands beside it counts.
func TestParseFleetWith(t *testing.T) {
	read := func(name string) ([]byte, error) {
		if name != "models/chat.json" {
			return nil, fs.ErrNotExist
		}
		return []byte(configs[0].config), nil
	}
	f, err := fleet.ParseFleetWith([]byte(withConfig), read)
	if err != nil {
		t.Fatal(err)
	}
	stated, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "config: models/chat.json", "parameters: 8030000000, weights: fp16, layers: 32, kv_heads: 8, head_dim: 128", 1)))
	if err != nil {
		t.Fatal(err)
	}
	got, want := f.Workloads[0].MemoryNeed(), stated.Workloads[0].MemoryNeed()
	if off := got.Total - want.Total; off < -sharing.MiB || off > sharing.MiB {
		t.Errorf("%+v, stated %+v", got, want)
	}
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
	beside, err := fleet.ParseFleetWith([]byte(strings.Replace(withConfig, "chat.json", "chat.json, weights: int4, kv_cache: 2GiB", 1)), read)
	if err != nil {
		t.Fatal(err)
	}
	m := beside.Workloads[0].Model
	if need := beside.Workloads[0].MemoryNeed(); m.Weights != fleet.PrecisionINT4 || need.KVCache != 2*sharing.GiB || need.Weights > 6*sharing.GiB || need.Weights < 5*sharing.GiB {
		t.Errorf("%+v, %+v", m, need)
	}
	whole, err := fleet.ParseFleetWith([]byte(strings.Replace(withConfig, "chat.json", "chat.json, parameters: 9e9, layers: 40, kv_heads: 8, head_dim: 64", 1)), read)
	if err != nil {
		t.Fatal(err)
	}
	if m := whole.Workloads[0].Model; m.Parameters != 9e9 || m.Active != 0 || m.Layers.Or(0) != 40 {
		t.Errorf("%+v", m)
	}
}

// One error with the path in the fleet, the file and a remedy; a model that was not read has no problems of its own.
func TestParseFleetWithBad(t *testing.T) {
	text := func(s string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(s), nil }
	}
	for want, read := range map[string]func(string) ([]byte, error){
		`workloads[0].model.config: models/chat.json cannot be opened: the fleet was read from text (name the fleet as a file, give ParseFleetWith a way to open files, or state parameters, weights, layers, kv_heads and head_dim instead of config)`: nil,
		`workloads[0].model.config: file does not exist (write the path from the fleet's file to the model's config.json)`:                                                                                                                              func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		`workloads[0].model.config: models/chat.json: is a page in HTML, as a login gives, and no config.json (download it with a token)`:                                                                                                               text("<html>"),
		`workloads[0].model.config: models/chat.json: layer_types[0]: "linear_attention" is a layer that is not read here (state parameters, weights, layers, kv_heads and head_dim instead of config)`:                                                 text(strings.Replace(configs[0].config, `{`, `{"layer_types":["linear_attention"],`, 1)),
	} {
		_, err := fleet.ParseFleetWith([]byte(withConfig), read)
		if err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	_, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "gpu_busy: 0.2", "gpu_busy: 20", 1)))
	if err == nil || !strings.Contains(err.Error(), "model.config") || !strings.Contains(err.Error(), "workloads[0].gpu_busy") {
		t.Errorf("not every problem is named: %v", err)
	}
	for _, model := range []string{"{weights: fp16}", "{parameters: 8e9}", "{config: ''}"} {
		_, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "{config: models/chat.json}", model, 1)))
		if err == nil || !strings.Contains(err.Error(), "workloads[0].model.") {
			t.Errorf("%s: %v", model, err)
		}
	}
	made := fleet.Fleet{Version: "v1", Pools: []fleet.Pool{{Name: "p", GPU: "L40S", Count: 1}},
		Workloads: []fleet.Workload{{Name: "w", Kind: fleet.KindOnlineInference, Model: &fleet.LanguageModel{Config: "config.json"}}}}
	if err := made.Validate(); err == nil || err.Error() != "workloads[0].model.config: was not read (fill the model in by ParseModelConfig)" {
		t.Error(err)
	}
}

// A file's paths are looked for from its folder, whatever the working folder is.
func TestLoadFleetConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	config := write("models/chat.json", configs[0].config)
	for name, in := range map[string]string{"fleet.yaml": "models/chat.json", "fleets/fleet.yaml": "../models/chat.json", "absolute.yaml": config} {
		f, err := fleet.LoadFleet(write(name, strings.Replace(withConfig, "models/chat.json", in, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if n := f.Workloads[0].Model.Parameters; n != 8_030_257_152 {
			t.Errorf("%s: %d parameters", name, n)
		}
	}
	large := write("large.yaml", withConfig)
	write("models/chat.json", strings.Repeat(" ", 5<<20))
	if _, err := fleet.LoadFleet(large); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
}
