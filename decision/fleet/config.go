package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// modelConfig holds the fields of Hugging Face's config.json that memory and time follow from, under the names that
// the model types below use.
type modelConfig struct {
	ModelType string       `json:"model_type"`
	Text      *modelConfig `json:"text_config"` // of what reads images as well

	Layers       int   `json:"num_hidden_layers"`
	Hidden       int   `json:"hidden_size"`
	Heads        int   `json:"num_attention_heads"`
	KVHeads      int   `json:"num_key_value_heads"`
	HeadDim      int   `json:"head_dim"`
	Intermediate int   `json:"intermediate_size"`
	Vocabulary   int   `json:"vocab_size"`
	Tied         *bool `json:"tie_word_embeddings"`

	Type    string `json:"dtype"` // of what is not quantized
	OldType string `json:"torch_dtype"`

	// Multi-head latent attention, as DeepSeek's.
	KVRank   int `json:"kv_lora_rank"`
	QRank    int `json:"q_lora_rank"`
	RopeDim  int `json:"qk_rope_head_dim"`
	NopeDim  int `json:"qk_nope_head_dim"`
	ValueDim int `json:"v_head_dim"`

	// Experts, by the names of different model types.
	Experts       int   `json:"num_experts"`
	LocalExperts  int   `json:"num_local_experts"`
	RoutedExperts int   `json:"n_routed_experts"`
	Used          int   `json:"num_experts_per_tok"`
	ExpertWidth   int   `json:"moe_intermediate_size"`
	SharedExperts int   `json:"n_shared_experts"`
	SharedWidth   int   `json:"shared_expert_intermediate_size"`
	DenseFirst    int   `json:"first_k_dense_replace"`
	DenseLayers   []int `json:"mlp_only_layers"`

	Window        int      `json:"sliding_window"`
	UseWindow     *bool    `json:"use_sliding_window"`
	WindowFrom    int      `json:"max_window_layers"`
	WindowPattern int      `json:"sliding_window_pattern"` // every so many layers has no window
	LayerTypes    []string `json:"layer_types"`

	Quantization *struct {
		Method    string `json:"quant_method"`
		Bits      int    `json:"bits"`
		Algorithm string `json:"quant_algo"`
		Groups    map[string]struct {
			Weights *struct {
				Bits int    `json:"num_bits"`
				Type string `json:"type"`
			} `json:"weights"`
		} `json:"config_groups"`
	} `json:"quantization_config"`
}

// modelTypes are the decoders whose layers are as modelConfig counts them: attention with grouped heads or a latent
// vector, and a gated inner layer or experts of such.
var modelTypes = map[string]bool{
	"llama": true, "mistral": true, "mistral3": true, "mixtral": true, "qwen2": true, "qwen3": true, "qwen2_moe": true,
	"qwen3_moe": true, "deepseek_v2": true, "deepseek_v3": true, "kimi_k2": true, "gemma": true, "gemma2": true,
	"gemma3": true, "gemma3_text": true, "phi3": true, "gpt_oss": true, "olmo2": true, "granite": true, "glm4": true,
	"glm4_moe": true, "internlm2": true, "smollm3": true,
}

// instead is the remedy for a model whose config.json is not understood.
const instead = "state parameters, weights, layers, kv_heads and head_dim instead of config"

// ParseModelConfig reads a model from Hugging Face's config.json: layers, heads, experts, windows and quantization; the
// parameters are counted. The error names every field that is missing or cannot be used. A model of a fleet file is
// read so where it names a config; see [ParseFleetWith].
func ParseModelConfig(data []byte) (LanguageModel, error) {
	c, err := decodeConfig(data)
	if err != nil {
		return LanguageModel{}, err
	}
	if err := c.check(); err != nil {
		return LanguageModel{}, err
	}
	kvHeads, headDim := cmp.Or(c.KVHeads, c.Heads), cmp.Or(c.HeadDim, c.Hidden/c.Heads)
	attention := 2*c.Hidden*c.Heads*headDim + 2*c.Hidden*kvHeads*headDim
	if c.KVRank > 0 {
		latent, head := c.KVRank+c.RopeDim, c.NopeDim+c.RopeDim
		query := c.Hidden * c.Heads * head
		if c.QRank > 0 {
			query = c.QRank * (c.Hidden + c.Heads*head)
		}
		attention = query + c.Hidden*latent + c.KVRank*c.Heads*(c.NopeDim+c.ValueDim) + c.Heads*c.ValueDim*c.Hidden
		kvHeads, headDim = 1, (latent+1)/2 // one vector in the place of a key and a value
	}
	m := LanguageModel{Layers: Some(c.Layers), KVHeads: Some(kvHeads), HeadDim: Some(headDim)}
	embedding := int64(c.Vocabulary) * int64(c.Hidden)
	m.Unquantized = embedding
	if tied := c.Tied != nil && *c.Tied || c.Tied == nil && strings.HasPrefix(c.ModelType, "gemma"); !tied {
		m.Embedding, m.Unquantized = embedding, 2*embedding
	}
	m.Parameters = int64(c.Layers)*int64(attention+2*c.Hidden) + m.Unquantized
	inner := func(width int) int64 { return 3 * int64(c.Hidden) * int64(width) }
	if experts := max(c.Experts, c.LocalExperts, c.RoutedExperts); experts > 0 {
		routing := int64(c.Layers - min(c.Layers, c.DenseFirst+len(c.DenseLayers)))
		width := cmp.Or(c.ExpertWidth, c.Intermediate)
		always := inner(max(c.SharedWidth, c.SharedExperts*width)) + int64(c.Hidden*experts)
		m.Parameters += (int64(c.Layers)-routing)*inner(c.Intermediate) + routing*always
		m.Active = m.Parameters + routing*inner(width)*int64(min(max(c.Used, 1), experts)) - m.Embedding
		m.Parameters += routing * inner(width) * int64(experts)
		if c.Quantization != nil && strings.EqualFold(c.Quantization.Method, "mxfp4") {
			m.Unquantized += int64(c.Layers * attention) // experts alone are
		}
	} else {
		m.Parameters += int64(c.Layers) * inner(c.Intermediate)
		m.Active = m.Parameters - m.Embedding
	}
	m.Window, m.WindowLayers = c.Window, c.windowed()
	m.Weights, err = c.precision()
	return m, err
}

// decodeConfig reads the fields, of a model that reads images as well those of its language model.
func decodeConfig(data []byte) (*modelConfig, error) {
	if t := bytes.TrimSpace(data); bytes.HasPrefix(t, []byte("<")) {
		return nil, &problem.Problem{Message: "is a page in HTML, as a login gives, and no config.json",
			Remedy: "download it with a token"}
	}
	var c modelConfig
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &c); errors.As(err, &odd) && odd.Field != "" {
		return nil, &problem.Problem{Path: odd.Field, Remedy: instead,
			Message: fmt.Sprintf("is a %s and must be of type %v", odd.Value, odd.Type.Kind())}
	} else if err != nil {
		return nil, &problem.Problem{Message: fmt.Sprintf("is no config.json: %v", err),
			Remedy: "download it again, or " + instead}
	}
	if c.Text == nil {
		return &c, nil
	}
	text := c.Text
	text.Quantization = cmp.Or(text.Quantization, c.Quantization)
	text.ModelType = cmp.Or(text.ModelType, c.ModelType)
	return text, nil
}

func (c *modelConfig) check() error {
	var l problem.List
	l.If(!modelTypes[c.ModelType], "model_type", instead, "%q is an architecture that is not read here: known are %s",
		problem.Clip(c.ModelType), strings.Join(slices.Sorted(maps.Keys(modelTypes)), ", "))
	for _, f := range []struct {
		name string
		v    int
	}{{"num_hidden_layers", c.Layers}, {"hidden_size", c.Hidden}, {"num_attention_heads", c.Heads},
		{"intermediate_size", max(c.Intermediate, c.ExpertWidth)}, {"vocab_size", c.Vocabulary}} {
		l.If(f.v < 1 || f.v > 1<<24, f.name, instead, "is %d or missing", f.v)
	}
	for i, kind := range c.LayerTypes {
		l.If(kind != "full_attention" && kind != "sliding_attention", fmt.Sprintf("layer_types[%d]", i), instead,
			"%q is a layer that is not read here", problem.Clip(kind))
	}
	return l.Err()
}

// windowed counts the layers that keep a window of tokens only.
func (c *modelConfig) windowed() (n int) {
	if c.Window <= 0 || c.UseWindow != nil && !*c.UseWindow {
		return 0
	}
	for _, kind := range c.LayerTypes {
		if kind == "sliding_attention" {
			n++
		}
	}
	switch {
	case len(c.LayerTypes) > 0:
		return n
	case c.ModelType == "gemma2": // every other layer
		return c.Layers / 2
	case c.WindowPattern > 1:
		return c.Layers - c.Layers/c.WindowPattern
	case strings.HasPrefix(c.ModelType, "gemma3"):
		return c.Layers - c.Layers/6
	}
	return max(0, c.Layers-c.WindowFrom)
}

// precision is the number format of the weights: 16 bits where they are not quantized, as servers load them.
func (c *modelConfig) precision() (Precision, error) {
	q := c.Quantization
	if q == nil {
		if cmp.Or(c.Type, c.OldType) == "bfloat16" {
			return PrecisionBF16, nil
		}
		return PrecisionFP16, nil
	}
	bits, kind := 0, "int"
	switch method := strings.ToLower(q.Method); method {
	case "fp8", "fbgemm_fp8":
		bits, kind = 8, "float"
	case "awq", "gptq", "bitsandbytes":
		bits = cmp.Or(q.Bits, 4)
	case "mxfp4":
		bits, kind = 4, "float"
	case "modelopt":
		bits, kind = 8, "float"
		if strings.Contains(strings.ToUpper(q.Algorithm), "FP4") {
			bits = 4
		}
	case "compressed-tensors":
		for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
			if w := q.Groups[name].Weights; w != nil {
				bits, kind = w.Bits, w.Type
			}
		}
	default:
		return 0, &problem.Problem{Path: "quantization_config.quant_method", Remedy: instead,
			Message: fmt.Sprintf("%q is not read here", problem.Clip(method))}
	}
	for _, p := range []struct {
		bits int
		kind string
		is   Precision
	}{{4, "float", PrecisionFP4}, {4, "int", PrecisionINT4}, {8, "float", PrecisionFP8}, {8, "int", PrecisionINT8},
		{16, kind, PrecisionFP16}} {
		if p.bits == bits && p.kind == kind {
			return p.is, nil
		}
	}
	return 0, &problem.Problem{Path: "quantization_config", Remedy: instead,
		Message: fmt.Sprintf("weights of %d bits are not read here", bits)}
}

// take fills in what the model does not state from that of its config. Parameters that are stated are all that is
// known of them.
func (m *LanguageModel) take(c *LanguageModel) {
	if m.Parameters == 0 {
		m.Parameters, m.Active = c.Parameters, cmp.Or(m.Active, c.Active)
		m.Unquantized, m.Embedding = c.Unquantized, c.Embedding
	}
	m.Weights = cmp.Or(m.Weights, c.Weights)
	if m.Layers.IsZero() && m.KVHeads.IsZero() && m.HeadDim.IsZero() {
		m.Layers, m.KVHeads, m.HeadDim = c.Layers, c.KVHeads, c.HeadDim
		m.Window, m.WindowLayers = c.Window, c.WindowLayers
	}
}

// readConfigs fills in the models of a fleet that name a config.json.
func (f *Fleet) readConfigs(readFile func(name string) ([]byte, error)) error {
	var l problem.List
	for i := range f.Workloads {
		m, at := f.Workloads[i].Model, fmt.Sprintf("workloads[%d].model.config", i)
		if m == nil || m.Config == "" {
			continue
		}
		if readFile == nil {
			l.Addf(at, "name the fleet as a file, give ParseFleetWith a way to open files, or "+instead,
				"%s cannot be opened: the fleet was read from text", problem.Clip(m.Config))
			continue
		}
		data, err := readFile(m.Config)
		if err != nil {
			l.Addf(at, "write the path from the fleet's file to the model's config.json", "%v", err)
			continue
		}
		c, err := ParseModelConfig(data)
		var odd problem.List
		odd.AddErr("", err)
		for _, p := range odd.Problems() {
			l.Addf(at, p.Remedy, "%s: %s", m.Config, (&problem.Problem{Path: p.Path, Message: p.Message}).Error())
		}
		if err == nil {
			m.take(&c)
		}
	}
	return l.Err()
}
