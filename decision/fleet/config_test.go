// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// published is a row of testdata/models.json: the fields of a published config.json that determine its shape, with
// the figures of its source: billions of parameters of the language model, all and of one token, the bytes of the
// checkpoint (total_size of its index, or of its files) and, counted by hand, those of the KV cache of a token.
type published struct {
	Name, Source     string
	Config           json.RawMessage
	Billions, Active float64
	Bytes            float64
	KV               int64
	State            int
	Note             string
}

func publishedModels(t testing.TB) (models []published) {
	t.Helper()
	data, err := os.ReadFile("testdata/models.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &models); err != nil {
		t.Fatal(err)
	}
	return models
}

// configOf is the config of a published model with other fields.
func configOf(t testing.TB, name, fields string) []byte {
	t.Helper()
	for _, p := range publishedModels(t) {
		if p.Name != name {
			continue
		}
		of := map[string]any{}
		if err := errors.Join(json.Unmarshal(p.Config, &of), json.Unmarshal([]byte(fields), &of)); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	t.Fatalf("no model %s", name)
	return nil
}

// A model that is counted from a config has the parameters, the bytes and the KV cache that the model has.
func TestPublishedModels(t *testing.T) {
	models := publishedModels(t)
	bytes := 0
	for _, p := range models {
		m, err := fleet.ParseModelConfig(p.Config)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		near := func(what string, got, want, by float64) {
			if want > 0 && math.Abs(got/want-1) > by {
				t.Errorf("%s: %s is %.4g, %s has %.4g", p.Name, what, got, p.Source, want)
			}
		}
		near("parameters", float64(m.Parameters)/1e9, p.Billions, 0.03) // cards round: 48 of 49.1, 1000 of 1026
		near("active parameters", float64(m.Active)/1e9, p.Active, 0.12)
		near("bytes", m.WeightBytes(m.Parameters), p.Bytes, 0.005)
		if p.Bytes > 0 {
			bytes++
		}
		if p.Active == 0 && (m.Active != m.Parameters-m.Embedding) && p.Name != "Qwen3-Next-80B-A3B" {
			t.Errorf("%s: a token uses %d of %d", p.Name, m.Active, m.Parameters)
		}
		if kv, known := m.KVPerToken(); !known || int64(kv) != p.KV {
			t.Errorf("%s: %d bytes of KV cache a token, want %d", p.Name, kv, p.KV)
		}
		if (m.Cache.State > 0) != (p.State > 0) {
			t.Errorf("%s: a state of %d bytes", p.Name, m.Cache.State)
		}
		if all, some := m.WeightBytes(m.Parameters), m.ActiveBytes(); some > all || some < all/2 && m.Active > m.Parameters/2 {
			t.Errorf("%s: a token reads %.3g of %.3g bytes", p.Name, some, all)
		}
		if notes := strings.Join(m.Notes, "; "); p.Note == "" && notes != "" || !strings.Contains(notes, p.Note) {
			t.Errorf("%s: notes %q, want %q", p.Name, notes, p.Note)
		}
	}
	if len(models) < 38 || bytes < 25 {
		t.Errorf("%d models, %d with bytes", len(models), bytes)
	}
}

// Windows and chunks keep a part of a long context, and a state is spread over the context.
func TestKVAt(t *testing.T) {
	for name, want := range map[string]struct {
		context float64
		kv      sharing.Bytes
	}{
		"gpt-oss-20b":        {8192, 24576 + 24576*128/8192},
		"gemma-2-9b":         {8192, 172032 + 172032*4096/8192},
		"gemma-3-12b":        {131072, 8*8192 + 40*8192*1024/131072}, // 8 of 48 layers keep all
		"Llama-4-Scout":      {1 << 20, 12*4096 + 36*4096*8192/(1<<20)},
		"Olmo-3-7B":          {65536, 8*16384 + 24*16384*4096/65536},
		"Phi-3-mini-4k":      {2047 * 2, 393216 / 2},
		"Qwen2.5-7B":         {131072, 57344}, // it does not use its window
		"Qwen3-Next-80B-A3B": {4096, 24576 + 39518208/4096},
	} {
		m, err := fleet.ParseModelConfig(configOf(t, name, "{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := m.KVAt(want.context); got != want.kv {
			t.Errorf("%s: a token of a long context keeps %d bytes, want %d", name, got, want.kv)
		}
		full, _ := m.KVPerToken()
		if got, _ := m.KVAt(100); m.Cache.State == 0 && got != full {
			t.Errorf("%s: a token of a short context keeps %d of %d bytes", name, got, full)
		}
	}
}

func TestParseModelConfigBad(t *testing.T) {
	for text, want := range map[string]string{
		"<!doctype html><title>Log in</title>":               "is a page in HTML, as a login gives",
		`{"model_type":"mamba","num_hidden_layers":2}`:       `model_type: "mamba" is an architecture that is not read here`,
		`{"model_type":"llama","hidden_size":0}`:             "num_hidden_layers: is 0 or missing",
		`{"model_type":"qwen3","layer_types":["retention"]}`: `layer_types[0]: "retention"`,
		`{"model_type":"mamba2","num_key_value_heads":8,"num_hidden_layers":2,"hidden_size":8,"num_attention_heads":8,"state_size":8}`: "is not read here (it has state_size)",
		`[1]`: "is no config.json",
		`{"model_type":"llama","num_hidden_layers":"many"}`:                                                                                                   "num_hidden_layers: is a string and must be of type int",
		`{"model_type":"qwen3","num_hidden_layers":5000}`:                                                                                                     "num_hidden_layers: is 5000 or missing",
		`{"model_type":"qwen3","head_dim":-1}`:                                                                                                                "head_dim: -1 is out of range",
		string(configOf(t, "Llama-3.1-8B", `{"quantization_config":{"quant_method":"squeeze"}}`)):                                                             `quantization_config.quant_method: "squeeze" is not read here (state weights next to config)`,
		string(configOf(t, "Llama-3.1-8B", `{"quantization_config":{"quant_method":"gptq","bits":-3}}`)):                                                      "the format of the weights of gptq is not read here",
		string(configOf(t, "Llama-3.1-8B", `{"quantization_config":{"quant_method":"compressed-tensors"}}`)):                                                  "the format of the weights of compressed-tensors",
		string(configOf(t, "Llama-3.1-8B", `{"quantization_config":{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"x":{}}}}`)): "the format of the weights of modelopt",
		string(configOf(t, "Llama-3.1-8B", `{"quantization_config":{"quant_method":"gptq","bits":4,"dynamic":{"-:.*":{}}}}`)):                                 "the format of the weights of gptq",
		`{"model_type":"minimax","num_hidden_layers":2,"hidden_size":8,"num_attention_heads":8,"num_key_value_heads":8,"vocab_size":9,"intermediate_size":8,"layer_types":["linear_attention","full_attention"]}`: `layer_types[0]: "linear_attention"`,
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
	for _, p := range publishedModels(f) {
		f.Add([]byte(p.Config))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := fleet.ParseModelConfig(data); err == nil && (m.Weights == "" || m.Layers.IsZero()) {
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

// A config gives the same model as stated numbers, except for figures that these leave out; stated figures come first.
func TestParseFleetConfig(t *testing.T) {
	read := func(name string) ([]byte, error) {
		if name != "models/chat.json" {
			return nil, fs.ErrNotExist
		}
		return configOf(t, "Llama-3.1-8B", `{"torch_dtype":"float16"}`), nil
	}
	f, err := fleet.ParseFleet([]byte(withConfig), read)
	if err != nil {
		t.Fatal(err)
	}
	stated, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "config: models/chat.json", "parameters: 8030000000, weights: fp16, layers: 32, kv_heads: 8, head_dim: 128", 1)), nil)
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
	beside, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "chat.json", "chat.json, weights: int4, kv_cache: 2GiB", 1)), read)
	if err != nil {
		t.Fatal(err)
	}
	m := beside.Workloads[0].Model
	if need := beside.Workloads[0].MemoryNeed(); m.Weights != "int4" || need.KVCache != 2*sharing.GiB || need.Weights > 6*sharing.GiB || need.Weights < 5*sharing.GiB {
		t.Errorf("%+v, %+v", m, need)
	}
	whole, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "chat.json", "chat.json, parameters: 9e9, layers: 40, kv_heads: 8, head_dim: 64", 1)), read)
	if err != nil {
		t.Fatal(err)
	}
	if m := whole.Workloads[0].Model; m.Parameters != 9e9 || m.Active != 0 || m.Layers.Or(0) != 40 {
		t.Errorf("%+v", m)
	}
}

// One error with the path in the fleet, the file and a remedy; a model that was not read has no problems of its own.
func TestParseFleetConfigBad(t *testing.T) {
	text := func(s string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(s), nil }
	}
	for want, read := range map[string]func(string) ([]byte, error){
		`workloads[0].model.config: models/chat.json cannot be opened: the fleet was read from text (name the fleet as a file, give ParseFleet a way to open files, or state parameters, weights, layers (those that keep a KV cache), kv_heads and head_dim instead of config)`: nil,
		`workloads[0].model.config: file does not exist (write the path from the fleet's file to the model's config.json)`:                                                                                                                                                       func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		`workloads[0].model.config: models/chat.json: is a page in HTML, as a login gives, and no config.json (download it with a token)`:                                                                                                                                        text("<html>"),
		`workloads[0].model.config: models/chat.json: layer_types[0]: "retention" is a layer that is not read here (state parameters, weights, layers (those that keep a KV cache), kv_heads and head_dim instead of config)`:                                                    text(string(configOf(t, "Llama-3.1-8B", `{"layer_types":["retention"]}`))),
	} {
		_, err := fleet.ParseFleet([]byte(withConfig), read)
		if err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	_, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "gpu_busy: 0.2", "gpu_busy: 20", 1)), nil)
	if err == nil || !strings.Contains(err.Error(), "model.config") || !strings.Contains(err.Error(), "workloads[0].gpu_busy") {
		t.Errorf("not every problem is named: %v", err)
	}
	for _, model := range []string{"{weights: fp16}", "{parameters: 8e9}", "{config: ''}"} {
		_, err := fleet.ParseFleet([]byte(strings.Replace(withConfig, "{config: models/chat.json}", model, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), "workloads[0].model.") {
			t.Errorf("%s: %v", model, err)
		}
	}
	made := fleet.Fleet{Version: "v1", Pools: []fleet.Pool{{Name: "p", GPU: "L40S", Count: 1}},
		Workloads: []fleet.Workload{{Name: "w", Kind: "online-inference", Model: &fleet.LanguageModel{Config: "config.json"}}}}
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
	config := write("models/chat.json", string(configOf(t, "Llama-3.1-8B", "{}")))
	for name, in := range map[string]string{"fleet.yaml": "models/chat.json", "fleets/fleet.yaml": "../models/chat.json", "absolute.yaml": config} {
		f, err := decision.LoadFleet(write(name, strings.Replace(withConfig, "models/chat.json", in, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if n := f.Workloads[0].Model.Parameters; n != 8_030_257_152 {
			t.Errorf("%s: %d parameters", name, n)
		}
	}
	large := write("large.yaml", withConfig)
	write("models/chat.json", strings.Repeat(" ", 5<<20))
	if _, err := decision.LoadFleet(large); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
}
