// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// modelConfig holds the fields of Hugging Face's config.json that memory and time follow from, under the names that
// the configuration classes of transformers use. A pointer is a field of which null means something else than absence.
type modelConfig struct {
	ModelType string          `json:"model_type"`
	Text      json.RawMessage `json:"text_config"` // of models that read images as well
	LLM       json.RawMessage `json:"llm_config"`  // the same of InternVL and Nemotron VL
	Vision    *visionConfig   `json:"vision_config"`
	Audio     json.RawMessage `json:"audio_config"`
	within    bool            // it is the language model of a config with other parts

	Layers       int   `json:"num_hidden_layers"`
	Hidden       int   `json:"hidden_size"`
	Heads        int   `json:"num_attention_heads"`
	KVHeads      *int  `json:"num_key_value_heads"`
	HeadDim      *int  `json:"head_dim"`
	Intermediate sizes `json:"intermediate_size"`
	Vocabulary   int   `json:"vocab_size"`
	Tied         *bool `json:"tie_word_embeddings"`

	Type    string `json:"dtype"` // of unquantized modules
	OldType string `json:"torch_dtype"`

	// Multi-head latent attention, as DeepSeek's, with the indexer of its sparse attention.
	KVRank     int  `json:"kv_lora_rank"`
	QRank      *int `json:"q_lora_rank"`
	RopeDim    int  `json:"qk_rope_head_dim"`
	NopeDim    int  `json:"qk_nope_head_dim"`
	ValueDim   int  `json:"v_head_dim"`
	IndexDim   int  `json:"index_head_dim"`
	IndexHeads int  `json:"index_n_heads"`

	// Experts, by the names of different model types.
	Experts       int      `json:"num_experts"`
	LocalExperts  int      `json:"num_local_experts"`
	RoutedExperts int      `json:"n_routed_experts"`
	Used          int      `json:"num_experts_per_tok"`
	UsedToo       int      `json:"num_experts_per_token"`
	TopK          int      `json:"top_k_experts"`
	ExpertWidth   int      `json:"moe_intermediate_size"`
	LatentWidth   int      `json:"moe_latent_size"`
	DenseWidth    int      `json:"intermediate_size_mlp"`
	SharedExperts int      `json:"n_shared_experts"`
	SharedToo     int      `json:"num_shared_experts"`
	SharedWidth   int      `json:"shared_expert_intermediate_size"`
	SharedMLP     int      `json:"shared_intermediate_size"`
	SharedRouted  int      `json:"moe_shared_expert_intermediate_size"`
	DenseFirst    int      `json:"first_k_dense_replace"`
	DenseLayers   []int    `json:"mlp_only_layers"`
	MoELayers     []int    `json:"moe_layers"`
	MoEStep       int      `json:"interleave_moe_layer_step"`
	SparseStep    int      `json:"decoder_sparse_step"`
	MLPTypes      []string `json:"mlp_layer_types"`
	MoEBlock      bool     `json:"enable_moe_block"`

	// The layers' windows: the part of a context that each keeps.
	Window        *int     `json:"sliding_window"`
	UseWindow     *bool    `json:"use_sliding_window"`
	WindowFrom    int      `json:"max_window_layers"`
	WindowPattern pattern  `json:"sliding_window_pattern"` // every so many layers has no window
	Chunk         *int     `json:"attention_chunk_size"`
	Rotary        []int    `json:"no_rope_layers"` // 1: with chunks
	RotaryStep    int      `json:"no_rope_layer_interval"`
	LayerTypes    []string `json:"layer_types"`
	BlockTypes    []string `json:"layers_block_type"`
	Pattern       string   `json:"hybrid_override_pattern"`
	FullStep      int      `json:"full_attention_interval"`
	FullLayers    []int    `json:"attn_layer_indices"`
	KVShared      int      `json:"num_kv_shared_layers"`

	// Of the full layers of Gemma 4, and of all layers' own embeddings.
	GlobalDim   int  `json:"global_head_dim"`
	GlobalHeads int  `json:"num_global_key_value_heads"`
	KeyIsValue  bool `json:"attention_k_eq_v"`
	DoubleWide  bool `json:"use_double_wide_mlp"`
	LayerVocab  int  `json:"vocab_size_per_layer_input"`
	LayerHidden int  `json:"hidden_size_per_layer_input"`

	recurrent

	Predicted    int           `json:"num_nextn_predict_layers"`
	PredictedToo int           `json:"mtp_num_hidden_layers"`
	Quantization *quantization `json:"quantization_config"`
}

// recurrent holds the shape of layers with a state instead of a cache: gated delta networks and Mamba 2.
type recurrent struct {
	KeyHeads   int    `json:"linear_num_key_heads"`
	ValueHeads int    `json:"linear_num_value_heads"`
	KeyDim     int    `json:"linear_key_head_dim"`
	LinearDim  int    `json:"linear_value_head_dim"`
	Kernel     int    `json:"linear_conv_kernel_dim"`
	Inner      int    `json:"mamba_d_ssm"`
	Expand     int    `json:"mamba_expand"`
	MHeads     int    `json:"mamba_n_heads"`
	MHeadsToo  int    `json:"mamba_num_heads"`
	MHeadDim   int    `json:"mamba_head_dim"`
	MGroups    int    `json:"mamba_n_groups"`
	MGroupsToo int    `json:"n_groups"`
	MState     int    `json:"mamba_d_state"`
	MStateToo  int    `json:"ssm_state_size"`
	MKernel    int    `json:"mamba_d_conv"`
	MKernelToo int    `json:"conv_kernel"`
	StateType  string `json:"mamba_ssm_cache_dtype"`
	StateToo   string `json:"mamba_ssm_dtype"`
}

// sizes is a size for all layers, or one for each.
type sizes []int

// UnmarshalJSON reads one number or a list.
func (s *sizes) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]int)(s))
	}
	var one int
	err := json.Unmarshal(data, &one)
	*s = sizes{one}
	return err
}

func (s sizes) at(layer int) int {
	if len(s) == 0 {
		return 0
	}
	return s[min(layer, len(s)-1)]
}

// pattern is every how many layers one has no window, as a number or spelled out (LLLG).
type pattern int

// UnmarshalJSON reads a number or letters.
func (p *pattern) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		*p = pattern(len(data) - 2)
		return nil
	}
	return json.Unmarshal(data, (*int)(p))
}

// sizes calls visit for each size that is there, with the name of its field. A window is none: it may exceed any
// context.
func (c *modelConfig) sizes(visit func(name string, v int)) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[modelConfig]()) {
		name := f.Tag.Get("json")
		if !f.IsExported() || name == "sliding_window" || name == "attention_chunk_size" {
			continue
		}
		switch v := reflect.ValueOf(c).Elem().FieldByIndex(f.Index).Interface().(type) {
		case int:
			visit(name, v)
		case *int:
			if v != nil {
				visit(name, *v)
			}
		case sizes:
			for _, size := range v {
				visit(name, size)
			}
		}
	}
}

// visionConfig is a language model's encoder of images, by the names of different model types.
type visionConfig struct {
	ModelType    string  `json:"model_type"`
	Depth        int     `json:"depth"`
	Layers       int     `json:"num_hidden_layers"`
	Width        int     `json:"hidden_size"`
	EmbedDim     int     `json:"embed_dim"`
	Intermediate int     `json:"intermediate_size"`
	Ratio        float64 `json:"mlp_ratio"`
	OutHidden    int     `json:"out_hidden_size"`
	Merge        int     `json:"spatial_merge_size"`
	DeepStack    []int   `json:"deepstack_visual_indexes"`
	Positions    int     `json:"num_position_embeddings"`
}

// quantization holds the number formats of weights by config.json, as transformers
// (src/transformers/utils/quantization_config.py), compressed-tensors and NVIDIA's Model Optimizer write it.
type quantization struct {
	Method string  `json:"quant_method"`
	Bits   float64 `json:"bits"`
	Group  *int    `json:"group_size"`
	Head   bool    `json:"lm_head"`

	// Of bitsandbytes.
	Load4  *bool `json:"load_in_4bit"`
	Load8  *bool `json:"load_in_8bit"`
	Double bool  `json:"bnb_4bit_use_double_quant"`

	// Modules that keep 16 bits, by the names of different quantizers.
	NotConverted   []string `json:"modules_to_not_convert"`
	Skipped        []string `json:"llm_int8_skip_modules"`
	Ignore         []string `json:"ignore"`
	IgnoredLayers  []string `json:"ignored_layers"`
	ExcludeModules []string `json:"exclude_modules"`

	Algorithm   string        `json:"quant_algo"`
	KVAlgorithm string        `json:"kv_cache_quant_algo"`
	KVScheme    *number       `json:"kv_cache_scheme"`
	Nested      *quantization `json:"quantization"`
	Groups      map[string]struct {
		Weights *number  `json:"weights"`
		Targets []string `json:"targets"`
	} `json:"config_groups"`
	Block []int `json:"weight_block_size"`

	// Formats of single modules, which are not read: of GPTQModel, and of Model Optimizer.
	Dynamic json.RawMessage `json:"dynamic"`
	ByLayer json.RawMessage `json:"quantized_layers"`
}

// number is a format of numbers as compressed-tensors writes it.
type number struct {
	Bits      float64 `json:"num_bits"`
	Type      string  `json:"type"`
	Group     *int    `json:"group_size"`
	Symmetric *bool   `json:"symmetric"`
	Scale     string  `json:"scale_dtype"`
}

// family holds the facts about some model types that their config.json leaves out: the defaults of the configuration
// class in transformers (src/transformers/models/*/configuration_*.py), and the names of modules in lists such as the
// ignore list of quantization_config.
type family struct {
	Types    []string        // model_type, without the suffix _text of a language model that is a part of a larger model
	Defaults json.RawMessage // fields of config.json
	MLP      string          // the feed-forward of a layer; "" = mlp
	Shared   string          // the shared expert within it; "" = shared_experts
	Ungated  bool            // a feed-forward has two matrices instead of three
	Gated    bool            // attention has a gate of the query's size
}

//go:embed families.json
var familiesJSON []byte

// families reads the table once; the tests of its rows find an error in it.
var families = sync.OnceValue(func() (all []family) {
	_ = json.Unmarshal(familiesJSON, &all)
	return all
})

// familyOf finds the family of a model type.
func familyOf(modelType string) (*family, bool) {
	for i, f := range families() {
		if slices.Contains(f.Types, strings.TrimSuffix(modelType, "_text")) {
			return &families()[i], true
		}
	}
	return &family{}, false
}

// familyNames lists the known model types.
func familyNames() (names []string) {
	for _, f := range families() {
		names = append(names, f.Types...)
	}
	return names
}

// decoder is a language model as its config.json describes it, and the counts of its parts.
type decoder struct {
	*modelConfig
	family  *family
	modules []module
	cache   KVShape
	state   float64 // bytes
	notes   []string
}

func (d *decoder) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// module is a part of a checkpoint with a name of its own: one of each kind of a layer, one expert for all.
type module struct {
	name   string
	size   float64 // parameters
	read   float64 // those of them that a token reads
	linear bool    // a matrix that may be quantized
	head   bool    // the output's embedding
}

// instead is the remedy for a config.json that is not understood.
const instead = "state parameters, weights, layers (those that keep a KV cache), kv_heads and head_dim instead of " +
	"config"

// matrix adds a matrix that may be quantized, of which a token reads all.
func (d *decoder) matrix(name string, rows, columns int) { d.matrices(name, rows, columns, 1, 1) }

// matrices adds so many equal ones, of which a token reads some.
func (d *decoder) matrices(name string, rows, columns, all, read int) {
	if one := float64(rows) * float64(columns); one > 0 {
		d.modules = append(d.modules, module{name: name, size: one * float64(all), read: one * float64(read), linear: true})
	}
}

// keep adds a module that is never quantized.
func (d *decoder) keep(name string, size float64) {
	d.modules = append(d.modules, module{name: name, size: size, read: size})
}
