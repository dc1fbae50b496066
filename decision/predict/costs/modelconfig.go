package costs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
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
		Method     string `json:"quant_method"`
		Bits       int    `json:"bits"`
		Activation string `json:"activation_scheme"`
		Algorithm  string `json:"quant_algo"`
		Groups     map[string]struct {
			Weights     *struct{ Num_bits int } `json:"weights"`
			Activations *struct{ Num_bits int } `json:"input_activations"`
		} `json:"config_groups"`
	} `json:"quantization_config"`
}

// modelTypes are the decoders whose layers are as modelConfig counts them: attention with grouped heads or a latent
// vector, and a gated inner layer or experts of such. The number is 1 where a window holds every other layer and the
// config does not say so.
var modelTypes = map[string]int{
	"llama": 0, "mistral": 0, "mistral3": 0, "mixtral": 0, "qwen2": 0, "qwen3": 0, "qwen2_moe": 0, "qwen3_moe": 0,
	"deepseek_v2": 0, "deepseek_v3": 0, "kimi_k2": 0, "gemma": 0, "gemma2": 1, "gemma3": 0, "gemma3_text": 0, "phi3": 0,
	"gpt_oss": 0, "olmo2": 0, "granite": 0, "glm4": 0, "glm4_moe": 0, "internlm2": 0, "smollm3": 0,
}

// ParseModelConfig reads a model's shape from Hugging Face's config.json: layers, heads, experts, windows and
// quantization; the parameters are counted. The error names every field that is missing or cannot be used.
func ParseModelConfig(data []byte) (Model, error) {
	if t := bytes.TrimSpace(data); bytes.HasPrefix(t, []byte("<")) {
		return Model{}, fmt.Errorf("is a page in HTML, as a login gives, and no config.json: download it with a token")
	}
	var c modelConfig
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &c); errors.As(err, &odd) && odd.Field != "" {
		return Model{}, fmt.Errorf("%s: is a %s and must be of type %v", odd.Field, odd.Value, odd.Type.Kind())
	} else if err != nil {
		return Model{}, fmt.Errorf("is no config.json: %w", err)
	}
	if c.Text != nil {
		outer := c
		if c = *c.Text; c.Quantization == nil {
			c.Quantization = outer.Quantization
		}
		if _, known := modelTypes[c.ModelType]; !known && c.ModelType == "" {
			c.ModelType = outer.ModelType
		}
	}
	var l problem.List
	alternate, known := modelTypes[c.ModelType]
	l.If(!known, "model_type", "use one of "+strings.Join(slices.Sorted(maps.Keys(modelTypes)), ", ")+
		", or state the size, like params:7e9,bf16", "%q is an architecture that is not read here", problem.Clip(c.ModelType))
	for _, f := range []struct {
		name string
		v    int
	}{{"num_hidden_layers", c.Layers}, {"hidden_size", c.Hidden}, {"num_attention_heads", c.Heads},
		{"intermediate_size", max(c.Intermediate, c.ExpertWidth)}, {"vocab_size", c.Vocabulary}} {
		l.If(f.v < 1 || f.v > 1<<24, f.name, "", "is %d or missing", f.v)
	}
	for i, kind := range c.LayerTypes {
		l.If(kind != "full_attention" && kind != "sliding_attention", fmt.Sprintf("layer_types[%d]", i), "",
			"%q is a layer that is not read here", problem.Clip(kind))
	}
	if err := l.Err(); err != nil {
		return Model{}, err
	}
	m := Model{
		Layers: c.Layers, Hidden: c.Hidden, Heads: c.Heads, KVHeads: cmp.Or(c.KVHeads, c.Heads),
		HeadDim: cmp.Or(c.HeadDim, c.Hidden/c.Heads), Intermediate: c.Intermediate,
	}
	attention := 2*m.Hidden*m.Heads*m.HeadDim + 2*m.Hidden*m.KVHeads*m.HeadDim
	if c.KVRank > 0 {
		m.Latent, m.HeadDim = c.KVRank+c.RopeDim, c.NopeDim+c.RopeDim
		query := m.Hidden * m.Heads * m.HeadDim
		if c.QRank > 0 {
			query = c.QRank * (m.Hidden + m.Heads*m.HeadDim)
		}
		attention = query + m.Hidden*m.Latent + c.KVRank*m.Heads*(c.NopeDim+c.ValueDim) + m.Heads*c.ValueDim*m.Hidden
	}
	inner := func(width int) float64 { return 3 * float64(m.Hidden) * float64(width) }
	embedding := float64(c.Vocabulary) * float64(m.Hidden)
	tied := c.Tied != nil && *c.Tied || c.Tied == nil && strings.HasPrefix(c.ModelType, "gemma")
	m.Parameters = float64(m.Layers)*(float64(attention)+2*float64(m.Hidden)) + embedding
	if !tied {
		m.Parameters += embedding
	}
	m.Experts = max(c.Experts, c.LocalExperts, c.RoutedExperts)
	if m.Experts > 0 {
		m.ExpertsUsed = min(max(c.Used, 1), m.Experts)
		routing := float64(m.Layers - min(m.Layers, c.DenseFirst+len(c.DenseLayers)))
		width := cmp.Or(c.ExpertWidth, c.Intermediate)
		always := inner(max(c.SharedWidth, c.SharedExperts*width)) + float64(m.Hidden*m.Experts)
		m.Parameters += (float64(m.Layers)-routing)*inner(c.Intermediate) + routing*always
		m.Active = m.Parameters + routing*inner(width)*float64(m.ExpertsUsed)
		m.Parameters += routing * inner(width) * float64(m.Experts)
	} else {
		m.Parameters += float64(m.Layers) * inner(c.Intermediate)
	}
	m.Active = cmp.Or(m.Active, m.Parameters)
	m.Unquantized = 2 * embedding
	if tied {
		m.Unquantized = embedding
	} else {
		m.Active -= embedding // of the input's a token reads one row
	}
	if m.Experts > 0 && c.Quantization != nil && strings.EqualFold(c.Quantization.Method, "mxfp4") {
		m.Unquantized += float64(m.Layers * attention) // experts alone are
	}
	m.Window, m.WindowLayers = c.Window, c.windowed(alternate == 1)
	return m, c.quantize(&m)
}

func (c *modelConfig) windowed(alternate bool) (n int) {
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
	case alternate:
		return c.Layers / 2
	case c.WindowPattern > 1:
		return c.Layers - c.Layers/c.WindowPattern
	case strings.HasPrefix(c.ModelType, "gemma3"):
		return c.Layers - c.Layers/6
	}
	return max(0, c.Layers-c.WindowFrom)
}

func (c *modelConfig) quantize(m *Model) error {
	q := c.Quantization
	if q == nil {
		return nil
	}
	switch method := strings.ToLower(q.Method); method {
	case "fp8", "fbgemm_fp8":
		m.WeightBits, m.ActivationBits = 8, 8
	case "awq", "gptq", "bitsandbytes":
		m.WeightBits = cmp.Or(q.Bits, 4)
	case "mxfp4":
		m.WeightBits = 4
	case "modelopt":
		m.WeightBits, m.ActivationBits = 8, 8
		if strings.Contains(strings.ToUpper(q.Algorithm), "FP4") {
			m.WeightBits, m.ActivationBits = 4, 4
		}
	case "compressed-tensors":
		for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
			g := q.Groups[name]
			if g.Weights != nil {
				m.WeightBits = g.Weights.Num_bits
			}
			if g.Activations != nil {
				m.ActivationBits = g.Activations.Num_bits
			}
		}
	default:
		return fmt.Errorf("quantization_config.quant_method: %q is not read here: state the size, like params:7e9,fp8",
			problem.Clip(method))
	}
	if w := m.WeightBits; w != 4 && w != 8 && w != 16 {
		return fmt.Errorf("quantization_config: weights of %d bits are not read here", w)
	}
	return nil
}

// Runs says why servers cannot run the model's weights on a GPU, nil where they can or nothing is known: vLLM has
// kernels for 8-bit and 4-bit floating point from compute capability 8.0 on, where the weights alone are that
// narrow, and for 4-bit integers from 7.5 on (docs.vllm.ai, features/quantization: supported hardware).
func (m Model) Runs(gpu *sharing.GPU) error {
	cc, known := gpu.ComputeCapability.Get()
	if !known || m.WeightBits == 0 || m.WeightBits >= 16 {
		return nil
	}
	least := sharing.ComputeCapability{Major: 8}
	if m.WeightBits == 4 && m.ActivationBits == 0 {
		least = sharing.ComputeCapability{Major: 7, Minor: 5}
	}
	if cc.Major < least.Major || cc.Major == least.Major && cc.Minor < least.Minor {
		return fmt.Errorf("weights of %d bits need compute capability %v, %s has %v", m.WeightBits, least, gpu.Name, cc)
	}
	return nil
}

// GPUsFor is the least number of GPUs with so much usable memory each that hold the weights and the KV cache of a
// context of so many tokens, with the engine's overhead on each; 0 where that overhead leaves nothing.
func (e *Engine) GPUsFor(memory sharing.Bytes, context int) int {
	free := float64(memory - e.Overhead)
	if free <= 0 {
		return 0
	}
	return int(math.Ceil((float64(e.Model.Weights()) + float64(context)*float64(e.Model.KVPerToken())) / free))
}
