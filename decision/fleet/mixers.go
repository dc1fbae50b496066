// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"strings"
)

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
