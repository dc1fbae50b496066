package fleet

import "strings"

// family holds what the configuration class of transformers (src/transformers/models/*/configuration_*.py) says of some
// model types: the values of fields that a config.json leaves out, which are those of its class, and the names under
// which its modules stand in lists such as quantization_config's ignore.
type family struct {
	types    string // model_type, without the suffix of a language model beside other parts, _text
	defaults string
	mlp      string // the feed-forward of a layer; "" = mlp
	shared   string // the shared expert within it; "" = shared_experts
	ungated  bool   // two matrices of a feed-forward, instead of three
	gated    bool   // attention has a gate of the query's size
}

var families = []family{
	{types: "llama llava llava_next vipllava", defaults: `{"vocab_size":32000,"hidden_size":4096,
		"intermediate_size":11008,"num_hidden_layers":32,"num_attention_heads":32}`},
	{types: "mistral mistral3 pixtral", defaults: `{"vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,
		"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"sliding_window":4096}`},
	{types: "ministral3", defaults: `{"vocab_size":131072,"hidden_size":4096,"intermediate_size":14336,
		"num_hidden_layers":34,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128}`},
	{types: "mixtral", mlp: "block_sparse_moe", defaults: `{"vocab_size":32000,"hidden_size":4096,
		"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
		"num_local_experts":8,"num_experts_per_tok":2}`},
	{types: "llama4", mlp: "feed_forward", shared: "shared_expert", defaults: `{"vocab_size":202048,"hidden_size":5120,
		"intermediate_size":8192,"intermediate_size_mlp":16384,"num_hidden_layers":48,"num_attention_heads":40,
		"num_key_value_heads":8,"head_dim":128,"num_experts_per_tok":1,"num_local_experts":16,"n_shared_experts":1,
		"interleave_moe_layer_step":1,"attention_chunk_size":8192,"no_rope_layer_interval":4}`},

	{types: "qwen2", defaults: `{"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
		"num_attention_heads":32,"num_key_value_heads":32,"use_sliding_window":false,"max_window_layers":28}`},
	{types: "qwen2_vl qwen2_5_vl", defaults: `{"vocab_size":152064,"hidden_size":8192,"intermediate_size":29568,
		"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"use_sliding_window":false,
		"max_window_layers":80}`},
	{types: "qwen3 qwen3_vl", defaults: `{"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,
		"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,"head_dim":128,
		"use_sliding_window":false,"max_window_layers":28}`},
	{types: "qwen2_moe", shared: "shared_expert", defaults: `{"vocab_size":151936,"hidden_size":2048,
		"intermediate_size":5632,"num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":16,
		"use_sliding_window":false,"num_experts":60,"num_experts_per_tok":4,"moe_intermediate_size":1408,
		"shared_expert_intermediate_size":5632,"decoder_sparse_step":1}`},
	{types: "qwen3_moe", defaults: `{"vocab_size":151936,"hidden_size":2048,"intermediate_size":6144,
		"num_hidden_layers":24,"num_attention_heads":32,"num_key_value_heads":4,"use_sliding_window":false,
		"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,"decoder_sparse_step":1}`},
	{types: "qwen3_vl_moe", defaults: `{"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,
		"num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":16,"num_experts":60,
		"num_experts_per_tok":4,"moe_intermediate_size":1408,"decoder_sparse_step":1}`},
	{types: "qwen3_next", shared: "shared_expert", gated: true, defaults: `{"vocab_size":151936,"hidden_size":2048,
		"intermediate_size":5632,"num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,
		"full_attention_interval":4,"linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_value_head_dim":128,
		"linear_num_key_heads":16,"linear_num_value_heads":32,"decoder_sparse_step":1,"moe_intermediate_size":512,
		"shared_expert_intermediate_size":512,"num_experts_per_tok":10,"num_experts":512}`},
	{types: "qwen3_5", gated: true, defaults: `{"vocab_size":248320,"hidden_size":4096,"intermediate_size":12288,
		"num_hidden_layers":32,"num_attention_heads":16,"num_key_value_heads":4,"head_dim":256,
		"full_attention_interval":4,"linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_value_head_dim":128,
		"linear_num_key_heads":16,"linear_num_value_heads":32}`},
	{types: "qwen3_5_moe", shared: "shared_expert", gated: true, defaults: `{"vocab_size":248320,"hidden_size":2048,
		"num_hidden_layers":40,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,
		"full_attention_interval":4,"linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_value_head_dim":128,
		"linear_num_key_heads":16,"linear_num_value_heads":32,"moe_intermediate_size":512,
		"shared_expert_intermediate_size":512,"num_experts_per_tok":8,"num_experts":256}`},

	{types: "gemma", defaults: `{"vocab_size":256000,"hidden_size":3072,"intermediate_size":24576,"num_hidden_layers":28,
		"num_attention_heads":16,"num_key_value_heads":16,"head_dim":256,"tie_word_embeddings":true}`},
	{types: "gemma2", defaults: `{"vocab_size":256000,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
		"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"sliding_window":4096,"sliding_window_pattern":2,
		"tie_word_embeddings":true}`},
	{types: "gemma3", defaults: `{"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
		"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"sliding_window":4096,"sliding_window_pattern":6,
		"tie_word_embeddings":true}`},
	{types: "gemma3n", defaults: `{"vocab_size":262400,"hidden_size":2048,"intermediate_size":16384,
		"num_hidden_layers":35,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,"sliding_window":512,
		"sliding_window_pattern":5,"vocab_size_per_layer_input":262144,"hidden_size_per_layer_input":256,
		"num_kv_shared_layers":15,"laurel_rank":64,"tie_word_embeddings":true}`},
	{types: "gemma4", defaults: `{"vocab_size":262144,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":30,
		"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"global_head_dim":512,"sliding_window":512,
		"sliding_window_pattern":6,"vocab_size_per_layer_input":262144,"hidden_size_per_layer_input":256,
		"tie_word_embeddings":true}`},

	{types: "deepseek_v2", defaults: `{"vocab_size":102400,"hidden_size":4096,"intermediate_size":11008,
		"num_hidden_layers":30,"num_attention_heads":32,"kv_lora_rank":512,"q_lora_rank":1536,"qk_rope_head_dim":64,
		"qk_nope_head_dim":128,"v_head_dim":128,"moe_intermediate_size":1407}`},
	{types: "deepseek_v3 kimi_k2 kimi_k25 glm4_moe_lite", defaults: `{"vocab_size":129280,"hidden_size":7168,
		"intermediate_size":18432,"num_hidden_layers":61,"num_attention_heads":128,"kv_lora_rank":512,
		"q_lora_rank":1536,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,"moe_intermediate_size":2048,
		"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3}`},
	{types: "deepseek_v32", defaults: `{"vocab_size":129280,"hidden_size":7168,"intermediate_size":18432,
		"num_hidden_layers":61,"num_attention_heads":128,"kv_lora_rank":512,"q_lora_rank":1536,"qk_rope_head_dim":64,
		"qk_nope_head_dim":128,"v_head_dim":128,"moe_intermediate_size":2048,"n_routed_experts":256,
		"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,"index_head_dim":128,
		"index_n_heads":64}`},
	{types: "glm_moe_dsa", defaults: `{"vocab_size":154880,"hidden_size":6144,"intermediate_size":12288,
		"num_hidden_layers":78,"num_attention_heads":64,"kv_lora_rank":512,"q_lora_rank":2048,"qk_rope_head_dim":64,
		"qk_nope_head_dim":192,"v_head_dim":256,"moe_intermediate_size":2048,"n_routed_experts":256,
		"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,"index_head_dim":128,
		"index_n_heads":32}`},
	{types: "kimi_linear", defaults: `{"vocab_size":163840,"hidden_size":2304,"intermediate_size":9216,
		"num_hidden_layers":27,"num_attention_heads":32,"kv_lora_rank":512,"q_lora_rank":null,"qk_rope_head_dim":64,
		"qk_nope_head_dim":128,"v_head_dim":128,"moe_intermediate_size":1024,"num_experts":256,"num_shared_experts":1,
		"num_experts_per_token":8,"first_k_dense_replace":1,"linear_conv_kernel_dim":4,"full_attention_interval":4,
		"linear_head_dim":128,"linear_num_heads":32}`},
	{types: "glm4 glm4v", defaults: `{"vocab_size":151552,"hidden_size":4096,"intermediate_size":13696,
		"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":2,"head_dim":128}`},
	{types: "glm4_moe glm4v_moe", defaults: `{"vocab_size":151552,"hidden_size":4096,"intermediate_size":10944,
		"num_hidden_layers":46,"num_attention_heads":96,"num_key_value_heads":8,"moe_intermediate_size":1408,
		"num_experts_per_tok":8,"n_shared_experts":1,"n_routed_experts":128,"first_k_dense_replace":1}`},

	{types: "gpt_oss", defaults: `{"vocab_size":201088,"hidden_size":2880,"intermediate_size":2880,
		"num_hidden_layers":36,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"sliding_window":128,
		"sliding_window_pattern":2,"num_local_experts":128,"num_experts_per_tok":4}`},
	{types: "minimax_m2", mlp: "block_sparse_moe", defaults: `{"vocab_size":200064,"hidden_size":3072,
		"intermediate_size":1536,"num_hidden_layers":62,"num_attention_heads":48,"num_key_value_heads":8,"head_dim":128,
		"num_local_experts":256,"num_experts_per_tok":8}`},
	{types: "minimax minimax_text_01 minimax_m1", mlp: "block_sparse_moe", defaults: `{"vocab_size":32000,
		"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,
		"num_key_value_heads":8,"num_local_experts":8,"num_experts_per_tok":2}`},
	{types: "olmo3", defaults: `{"vocab_size":50304,"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
		"num_attention_heads":32,"sliding_window":4096,"sliding_window_pattern":4}`},
	{types: "seed_oss", defaults: `{"vocab_size":155136,"hidden_size":4096,"intermediate_size":27648,
		"num_hidden_layers":64,"num_attention_heads":80,"num_key_value_heads":8,"head_dim":128}`},
	{types: "cohere", defaults: `{"vocab_size":256000,"hidden_size":8192,"intermediate_size":22528,
		"num_hidden_layers":40,"num_attention_heads":64,"tie_word_embeddings":true}`},
	{types: "cohere2", defaults: `{"vocab_size":256000,"hidden_size":8192,"intermediate_size":22528,
		"num_hidden_layers":40,"num_attention_heads":64,"sliding_window":4096,"sliding_window_pattern":4,
		"tie_word_embeddings":true}`},
	{types: "smollm3", defaults: `{"vocab_size":128256,"hidden_size":2048,"intermediate_size":11008,
		"num_hidden_layers":36,"num_attention_heads":16,"num_key_value_heads":4,"tie_word_embeddings":true}`},
	{types: "phi3 phi4_multimodal olmo2 granite internlm2 internlm3 stablelm exaone4 ernie4_5 hunyuan_v1_dense " +
		"mimo dots1 granitemoe ernie4_5_moe bailing_moe"},
	{types: "phi starcoder2 nemotron arcee apertus", ungated: true},

	{types: "nemotron_h", mlp: "mixer", ungated: true, defaults: `{"vocab_size":131072,"hidden_size":4096,
		"intermediate_size":21504,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,
		"ssm_state_size":128,"mamba_num_heads":128,"mamba_head_dim":64,"n_groups":8,"conv_kernel":4,
		"mamba_ssm_cache_dtype":"float32"}`},
	{types: "falcon_h1", defaults: `{"vocab_size":128000,"hidden_size":4096,"intermediate_size":14336,
		"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"mamba_d_ssm":1024,"mamba_n_heads":128,
		"mamba_n_groups":1,"mamba_d_state":256,"mamba_d_conv":4}`},
	{types: "granitemoehybrid", mlp: "block_sparse_moe", shared: "shared_mlp", defaults: `{"vocab_size":32000,
		"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,"num_attention_heads":32,
		"num_local_experts":8,"num_experts_per_tok":2,"shared_intermediate_size":1024,"mamba_n_heads":128,
		"mamba_n_groups":1,"mamba_d_state":256,"mamba_d_conv":4,"mamba_expand":2}`},
	{types: "bamba", defaults: `{"vocab_size":128000,"hidden_size":4096,"intermediate_size":14336,
		"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"mamba_n_heads":128,"mamba_n_groups":1,
		"mamba_d_state":256,"mamba_d_conv":4,"mamba_expand":2}`},
	{types: "lfm2", defaults: `{"vocab_size":65536,"hidden_size":2560,"intermediate_size":12288,"num_hidden_layers":32,
		"num_attention_heads":32,"num_key_value_heads":8,"conv_l_cache":3,"tie_word_embeddings":true,
		"block_auto_adjust_ff_dim":true,"block_multiple_of":256,"block_ffn_dim_multiplier":1}`},
}

// familyOf finds the family of a model type.
func familyOf(modelType string) (*family, bool) {
	for i := range families {
		for known := range strings.FieldsSeq(families[i].types) {
			if known == strings.TrimSuffix(modelType, "_text") {
				return &families[i], true
			}
		}
	}
	return &family{}, false
}

// familyNames lists the model types that are known.
func familyNames() (names []string) {
	for i := range families {
		names = append(names, strings.Fields(families[i].types)...)
	}
	return names
}
