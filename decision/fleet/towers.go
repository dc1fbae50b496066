// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"strings"
)

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
