// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// maxLayers, maxSize and maxVocabulary bound the figures of a config.
const maxLayers, maxSize, maxVocabulary = 1 << 12, 1 << 20, 1 << 24

// check names every field that is missing or cannot be used.
func (d *decoder) check() error {
	c := d.modelConfig
	var l problem.List
	kinds := d.kinds()
	if c.Pattern != "" || c.Layers == 0 && c.LayerTypes == nil {
		if c.Layers > 0 && c.Layers != len(kinds) {
			d.note("num_hidden_layers is %d and hybrid_override_pattern has %d, which were counted", c.Layers, len(kinds))
		}
		c.Layers = len(kinds)
	}
	width := max(c.Intermediate.at(0), c.ExpertWidth)
	for _, f := range []struct {
		name string
		v    int
		most int
	}{{"num_hidden_layers", c.Layers, maxLayers}, {"hidden_size", c.Hidden, maxSize},
		{"num_attention_heads", c.Heads, maxSize}, {"intermediate_size", width, maxSize},
		{"vocab_size", c.Vocabulary, maxVocabulary}} {
		l.If(f.v < 1 || f.v > f.most, f.name, instead, "is %d or missing", f.v)
	}
	c.sizes(func(name string, v int) {
		l.If(v < 0 || v > maxSize && name != "vocab_size", name, instead, "%d is out of range", v)
	})
	field := "layer_types"
	if c.LayerTypes == nil {
		field = "layers_block_type"
	}
	if c.Pattern != "" {
		field = "hybrid_override_pattern"
	}
	for i, kind := range kinds {
		m, known := mixers[kind]
		known = known && (m != mixLinear || max(c.ValueHeads, c.MHeads, c.MHeadsToo) > 0)
		l.If(!known, fmt.Sprintf("%s[%d]", field, i), instead, "%q is a layer that is not read here", problem.Clip(kind))
	}
	l.If(l.Len() == 0 && len(kinds) > 0 && len(kinds) < c.Layers, field, instead, "has %d of %d layers", len(kinds),
		c.Layers)
	return l.Err()
}

// count fills in the modules of all layers and their cache of a sequence.
func (d *decoder) count() error {
	c := d.modelConfig
	for i := range c.Layers {
		at := fmt.Sprintf("layers.%d.", i)
		switch d.mixer(i) {
		case mixFull:
			d.attention(at, i, true)
		case mixWindow:
			d.attention(at, i, false)
		case mixLinear:
			d.linear(at)
		case mixBoth:
			d.attention(at, i, true)
			d.linear(at)
		}
		d.feedForward(at, i)
		d.keep(at+"norms", 2*float64(c.Hidden))
		if c.LayerHidden > 0 {
			d.matrix(at+"per_layer_input_gate", c.Hidden, c.LayerHidden)
			d.matrix(at+"per_layer_projection", c.Hidden, c.LayerHidden)
		}
	}
	if c.LayerHidden > 0 { // of each token, one row
		d.modules = append(d.modules, module{name: "embed_tokens_per_layer",
			size: float64(c.LayerVocab) * float64(c.Layers*c.LayerHidden), read: float64(c.Layers * c.LayerHidden)})
		d.matrix("per_layer_model_projection", c.Hidden, c.Layers*c.LayerHidden)
	}
	embedding := float64(c.Vocabulary) * float64(c.Hidden)
	if tied := c.Tied != nil && *c.Tied; tied {
		d.keep("embed_tokens", embedding)
	} else {
		d.modules = append(d.modules, module{name: "embed_tokens", size: embedding},
			module{name: "lm_head", size: embedding, read: embedding, linear: true, head: true})
	}
	all := 0.0
	for i := range d.modules {
		all += d.modules[i].size
	}
	if most := max(all, d.state); most > 1e14 {
		return &problem.Problem{Path: "num_hidden_layers", Remedy: instead,
			Message: fmt.Sprintf("%.3g parameters or bytes of state are out of range", most)}
	}
	d.cache.State = int64(d.state)
	return nil
}

// positive is a field's number where it has one above 0.
func positive(field *int) int {
	if field == nil {
		return 0
	}
	return max(0, *field)
}

// heads are the number and dimension of a layer's keys and values.
func (d *decoder) heads(full bool) (kv, dim int) {
	c := d.modelConfig
	kv, dim = cmp.Or(positive(c.KVHeads), c.Heads), cmp.Or(positive(c.HeadDim), c.Hidden/max(1, c.Heads))
	if full && c.GlobalDim > 0 {
		dim = c.GlobalDim
		if c.KeyIsValue && c.GlobalHeads > 0 {
			kv = c.GlobalHeads
		}
	}
	return kv, dim
}

// attention adds a layer that keeps keys and values of the whole context, or of the last tokens.
func (d *decoder) attention(at string, layer int, full bool) {
	c := d.modelConfig
	at += "self_attn."
	if d.family.MLP == "mixer" {
		at = strings.TrimSuffix(at, "self_attn.") + "mixer."
	}
	kept := 0
	if c.KVRank > 0 {
		head, rank := c.NopeDim+c.RopeDim, positive(c.QRank)
		if rank > 0 {
			d.matrix(at+"q_a_proj", c.Hidden, rank)
			d.matrix(at+"q_b_proj", rank, c.Heads*head)
		} else {
			d.matrix(at+"q_proj", c.Hidden, c.Heads*head)
		}
		d.matrix(at+"kv_a_proj_with_mqa", c.Hidden, c.KVRank+c.RopeDim)
		d.matrix(at+"kv_b_proj", c.KVRank, c.Heads*(c.NopeDim+c.ValueDim))
		d.matrix(at+"o_proj", c.Heads*c.ValueDim, c.Hidden)
		if c.IndexDim > 0 {
			d.matrix(at+"indexer.wq_b", cmp.Or(rank, c.Hidden), c.IndexHeads*c.IndexDim)
			d.matrix(at+"indexer.wk", c.Hidden, c.IndexDim)
			d.keep(at+"indexer.weights_proj", float64(c.Hidden)*float64(c.IndexHeads))
			// Its keys have 8 bits, with a scale of 32 for 128 of them (vllm/model_executor/models/deepseek_v2.py).
			d.cache.Extra += int64(c.IndexDim) + 4*int64((c.IndexDim+127)/128)
		}
		kept = c.KVRank + c.RopeDim
	} else {
		kv, dim := d.heads(full)
		query, gates := c.Heads*dim, 1
		if d.family.Gated {
			gates = 2
		}
		d.matrix(at+"q_proj", c.Hidden, gates*query)
		if layer < c.Layers-c.KVShared {
			d.matrix(at+"k_proj", c.Hidden, kv*dim)
			if !full || !c.KeyIsValue {
				d.matrix(at+"v_proj", c.Hidden, kv*dim)
			}
		}
		d.matrix(at+"o_proj", query, c.Hidden)
		kept = 2 * kv * dim
	}
	if layer >= c.Layers-c.KVShared {
		return // it reads the keys and values of a layer before
	}
	if full {
		d.cache.Elements += int64(kept)
		return
	}
	d.cache.WindowElements += int64(kept)
	d.cache.Window = cmp.Or(positive(c.Chunk), positive(c.Window))
}

// feedForward adds the modules after a layer's attention.
func (d *decoder) feedForward(at string, layer int) {
	c := d.modelConfig
	kinds := d.kinds()
	kind := ""
	if len(kinds) > 0 {
		kind = kinds[layer]
	}
	mlp := cmp.Or(d.family.MLP, "mlp") + "."
	if mlp == "mixer." && (mixers[kind] != mixNothing) {
		return // a layer is one thing
	}
	experts := max(c.Experts, c.LocalExperts, c.RoutedExperts)
	sparse := experts > 0 && d.sparse(layer, kind)
	width := c.Intermediate.at(layer)
	if c.DoubleWide && layer >= c.Layers-c.KVShared {
		width *= 2
	}
	if !sparse || c.MoEBlock {
		d.gate(at+mlp, c.Hidden, cmp.Or(c.DenseWidth, width, c.SharedMLP), 1, 1)
		if !sparse {
			return
		}
	}
	width = cmp.Or(c.ExpertWidth, c.Intermediate.at(layer))
	through := cmp.Or(c.LatentWidth, c.Hidden)
	if c.LatentWidth > 0 {
		d.matrix(at+mlp+"fc1_latent_proj", c.Hidden, through)
		d.matrix(at+mlp+"fc2_latent_proj", through, c.Hidden)
	}
	d.keep(at+mlp+"gate", float64(c.Hidden)*float64(experts))
	used := min(max(c.Used, c.UsedToo, c.TopK, 1), experts)
	d.gate(at+mlp+"experts.0.", through, width, experts, used)
	shared := cmp.Or(c.SharedWidth, c.SharedMLP, c.SharedRouted, max(c.SharedExperts, c.SharedToo)*width)
	d.gate(at+mlp+cmp.Or(d.family.Shared, "shared_experts")+".", c.Hidden, shared, 1, 1)
}

// gate adds the matrices of a feed-forward, or of so many experts.
func (d *decoder) gate(at string, hidden, width, all, read int) {
	names := []string{"gate_proj", "up_proj", "down_proj"}
	if d.family.Ungated {
		names = names[1:]
	}
	for _, name := range names {
		d.matrices(at+name, hidden, width, all, read)
	}
}

// sparse reports whether a layer has experts.
func (d *decoder) sparse(layer int, kind string) bool {
	c := d.modelConfig
	switch {
	case d.family.MLP == "mixer":
		return kind == "moe" || kind == "E"
	case layer < len(c.MLPTypes):
		return c.MLPTypes[layer] != "dense"
	case c.MoELayers != nil:
		return slices.Contains(c.MoELayers, layer)
	case c.MoEStep > 0:
		return (layer+1)%c.MoEStep == 0
	}
	return layer >= c.DenseFirst && !slices.Contains(c.DenseLayers, layer) &&
		(c.SparseStep <= 1 || (layer+1)%c.SparseStep == 0)
}

// gatedTowers have a feed-forward of three matrices.
var gatedTowers = []string{"qwen2_5_vl", "pixtral", "mistral3", "gemma4", "glm4v"}

// tower counts the parameters of the encoder of images and of its projection into the language model.
func (d *decoder) tower() float64 {
	v := d.Vision
	if v == nil {
		return 0
	}
	width, depth := cmp.Or(v.EmbedDim, v.Width), cmp.Or(v.Depth, v.Layers)
	if strings.HasPrefix(v.ModelType, "siglip") { // the defaults of SigLIP's class, and 4304 of the So400m of Gemma 3
		width, depth = cmp.Or(width, 768), cmp.Or(depth, 12)
	}
	inner := float64(v.Intermediate)
	switch {
	case inner > 0:
	case v.Ratio > 0:
		inner = v.Ratio * float64(width)
	case width == 1152:
		inner = 4304
	default:
		inner = 4 * float64(width)
	}
	if width <= 0 || depth <= 0 || inner < 0 || width > maxSize || depth > maxLayers || inner > maxSize {
		d.note("vision_config is not understood: its weights are not counted")
		return 0
	}
	w, matrices := float64(width), 2.0
	for _, kind := range gatedTowers {
		if strings.HasPrefix(v.ModelType, kind) {
			matrices = 3
		}
	}
	all := float64(depth)*(4*w*w+matrices*w*inner) + 3*2*16*16*w + float64(max(0, min(v.Positions, maxSize)))*w
	hidden := float64(d.Hidden)
	switch {
	case v.Merge > 0 && v.Merge <= 8 && (v.OutHidden > 0 || v.EmbedDim > 0): // Qwen's
		merged := w * float64(v.Merge*v.Merge)
		all += float64(1+min(len(v.DeepStack), depth)) * merged * (merged + hidden)
	default: // two matrices at most
		all += w*hidden + hidden*hidden
	}
	d.note("the %.2f billion parameters of its encoder of images are in the bytes of its weights, in 16 bits, and not in "+
		"parameters", all/1e9)
	return all
}

// mixer is the kind of context that a layer keeps.
type mixer uint8

const (
	mixNothing mixer = iota // only a feed-forward
	mixFull                 // keeps keys and values of the whole context
	mixWindow               // keeps those of a window or chunk
	mixLinear               // keeps a state
	mixBoth                 // keeps keys and values, and a state
)

// mixers are the layer types of transformers, under their present and older names.
var mixers = map[string]mixer{"full_attention": mixFull, "attention": mixFull, "*": mixFull, "global": mixFull,
	"deepseek_sparse_attention": mixFull, "indexed_attention": mixFull, "sliding_attention": mixWindow,
	"chunked_attention": mixWindow, "linear_attention": mixLinear, "mamba": mixLinear, "M": mixLinear,
	"hybrid": mixBoth, "mlp": mixNothing, "moe": mixNothing, "-": mixNothing, "E": mixNothing}

// kinds are the types of the layers where the config has them one by one.
func (d *decoder) kinds() []string {
	switch {
	case d.Pattern != "":
		return strings.Split(strings.ReplaceAll(d.Pattern, "|", ""), "")
	case d.LayerTypes != nil:
		return d.LayerTypes
	}
	return d.BlockTypes
}

// mixer returns the mixer of layer i.
func (d *decoder) mixer(i int) mixer {
	window := positive(d.Window) > 0 && (d.UseWindow == nil || *d.UseWindow)
	sliding := func(slides bool) mixer {
		if slides && window {
			return mixWindow
		}
		return mixFull
	}
	full := func(is bool) mixer {
		if is {
			return mixFull
		}
		return mixLinear
	}
	kinds := d.kinds()
	switch {
	case len(kinds) > 0:
		m := mixers[kinds[i]]
		if kinds[i] == "sliding_attention" {
			m = sliding(true)
		}
		return m
	case d.FullLayers != nil:
		return full(slices.Contains(d.FullLayers, i))
	case d.ModelType == "falcon_h1":
		return mixBoth
	case d.FullStep > 0:
		return full((i+1)%d.FullStep == 0)
	case positive(d.Chunk) > 0 && (i < len(d.Rotary) && d.Rotary[i] != 0 ||
		len(d.Rotary) == 0 && (i+1)%max(1, d.RotaryStep) != 0):
		return mixWindow
	case d.Chunk != nil:
		return mixFull
	case d.WindowPattern > 0:
		return sliding((i+1)%int(d.WindowPattern) != 0)
	}
	return sliding(i >= d.WindowFrom)
}

// linear adds a layer that keeps a state.
func (d *decoder) linear(at string) {
	c := d.modelConfig
	wide := 2.0
	if strings.Contains(cmp.Or(c.StateType, c.StateToo), "32") {
		wide = 4
	}
	state := func(elements, size, conv int) { d.state += wide*float64(elements)*float64(size) + 2*float64(conv) }
	switch {
	case c.ValueHeads > 0: // gated delta network
		key, value := c.KeyHeads*c.KeyDim, c.ValueHeads*c.LinearDim
		d.matrix(at+"linear_attn.in_proj_qkvz", c.Hidden, 2*key+2*value)
		d.keep(at+"linear_attn.in_proj_ba", float64(c.Hidden)*float64(2*c.ValueHeads))
		d.keep(at+"linear_attn.conv1d", float64(2*key+value)*float64(c.Kernel))
		d.matrix(at+"linear_attn.out_proj", value, c.Hidden)
		state(value, c.KeyDim, (2*key+value)*max(0, c.Kernel-1))
	default: // Mamba 2
		name := at + "mamba."
		if d.family.MLP == "mixer" {
			name = at + "mixer."
		}
		heads, size := cmp.Or(c.MHeads, c.MHeadsToo), cmp.Or(c.MState, c.MStateToo)
		inner := cmp.Or(c.Inner, c.MHeadsToo*c.MHeadDim, c.Expand*c.Hidden)
		mixed := inner + 2*cmp.Or(c.MGroups, c.MGroupsToo)*size
		d.matrix(name+"in_proj", c.Hidden, inner+mixed+heads)
		d.keep(name+"conv1d", float64(mixed)*float64(cmp.Or(c.MKernel, c.MKernelToo)))
		d.matrix(name+"out_proj", inner, c.Hidden)
		state(inner, size, mixed*max(0, cmp.Or(c.MKernel, c.MKernelToo)-1))
	}
}
