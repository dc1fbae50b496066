package costs

import (
	"cmp"
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Model is the shape of a language model, as far as memory and time follow from it. Grouped-query attention has fewer
// KV heads than query heads; multi-head latent attention keeps one vector of Latent elements a layer instead of heads.
type Model struct {
	Parameters float64 // all of them
	Active     float64 // those that one token uses (mixture of experts); 0 = all
	// Experts are those that a layer routes tokens to, ExpertsUsed those of one token: a larger batch reads more of
	// them. 0 = not known, and every step reads what one token uses.
	Experts, ExpertsUsed int
	Layers               int
	KVHeads              int
	HeadDim              int
	Latent               int // elements a layer of a compressed KV cache; 0 = KVHeads and HeadDim say
	WeightBits           int // of a parameter; 0 = 16
	// Unquantized are the parameters that keep 16 bits whatever WeightBits says: embeddings, mostly.
	Unquantized float64
	KVBits      int // of an element of the KV cache; 0 = 16
	// ActivationBits are those of what is multiplied with the weights; 0 = 16, as where weights alone are quantized.
	ActivationBits int
	// WindowLayers of the layers attend to the last Window tokens only, and keep no others.
	WindowLayers, Window int
	// Widths, for the memory of adapters; 0 = inferred.
	Hidden, Heads, Intermediate int

	cacheless float64 // layers that keep nothing of a token, by At
}

// Weights is the memory that the weights take.
func (m Model) Weights() sharing.Bytes {
	bits := float64(orBits(m.WeightBits))
	return sharing.Bytes(math.Ceil((m.Parameters*bits + min(m.Unquantized, m.Parameters)*max(0, 16-bits)) / 8))
}

// At is the model as a context of so many tokens shows it: layers with a window shorter than that keep a part of the
// tokens, and count as so many fewer layers of the KV cache.
func (m Model) At(context float64) Model {
	if w := float64(m.Window); m.WindowLayers > 0 && w < context {
		m.cacheless, m.WindowLayers = float64(m.WindowLayers)*(1-w/context), 0
	}
	return m
}

// KVPerToken is the KV cache of one token of context, exactly: a key and a value of KVHeads x HeadDim elements in
// each layer, or one latent vector; on average over a context that [Model.At] was given.
func (m Model) KVPerToken() sharing.Bytes {
	elements := 2 * m.KVHeads * m.HeadDim
	if m.Latent > 0 {
		elements = m.Latent
	}
	return sharing.Bytes(math.Ceil((float64(m.Layers) - m.cacheless) * float64(elements*orBits(m.KVBits)) / 8))
}

// activations are the bytes that a token of a step takes while a layer is computed: its inner layer twice, and its
// attention's inputs and outputs, in 16 bits.
func (m Model) activations() int { return 4*m.Intermediate + 12*m.Hidden }

func orBits(v int) int { return cmp.Or(v, 16) }

// ActiveParameters returns the number of parameters that one token uses.
func (m Model) ActiveParameters() float64 { return cmp.Or(m.Active, m.Parameters) }

// UnusedExperts is the share of the routed experts that a token leaves out; 0 without experts.
func (m Model) UnusedExperts() float64 {
	if m.Experts < 1 {
		return 0
	}
	return max(0, 1-float64(m.ExpertsUsed)/float64(m.Experts))
}

func (m Model) routed() float64 {
	if u := m.UnusedExperts(); u > 0 {
		return (m.Parameters - m.ActiveParameters()) / u
	}
	return 0
}

func (m Model) check(list *problem.List, path string) {
	list.If(!(m.Parameters > 0 && m.Parameters <= 1e14), problem.Join(path, "parameters"), "",
		"must be positive and at most 1e14, is %v", m.Parameters)
	list.If(!(m.Active >= 0 && m.Active <= m.Parameters), problem.Join(path, "active"), "",
		"must lie between 0 and the parameters, is %v", m.Active)
	list.If(m.Layers < 1 || m.Layers > 10_000, problem.Join(path, "layers"), "", "must lie between 1 and 10000, is %d",
		m.Layers)
	switch {
	case m.Latent < 0 || m.Latent > 1<<20:
		list.Addf(problem.Join(path, "latent"), "", "must lie between 0 and %d, is %d", 1<<20, m.Latent)
	case m.Latent == 0 && (m.KVHeads < 1 || m.HeadDim < 1 || m.KVHeads > 10_000 || m.HeadDim > 1<<20):
		list.Addf(problem.Join(path, "kv_heads"), "the KV cache of a token follows from layers, kv_heads and head_dim",
			"heads %d of %d elements make no KV cache", m.KVHeads, m.HeadDim)
	}
	for _, n := range []struct {
		name    string
		v, most int
	}{{"experts", m.Experts, 1 << 16}, {"experts_used", m.ExpertsUsed, m.Experts},
		{"window_layers", m.WindowLayers, m.Layers}, {"window", m.Window, 1 << 30}} {
		list.If(n.v < 0 || n.v > n.most, problem.Join(path, n.name), "", "must lie between 0 and %d, is %d", n.most, n.v)
	}
	for _, b := range []struct {
		name string
		bits int
	}{{"weight_bits", m.WeightBits}, {"kv_bits", m.KVBits}, {"activation_bits", m.ActivationBits}} {
		list.If(b.bits < 0 || b.bits > 64, problem.Join(path, b.name), "", "must lie between 0 (16) and 64, is %d",
			b.bits)
	}
}

// KVTokens is the number of tokens of KV cache that fit a replica with so much memory on its GPU: what is left beside
// the weights, the adapters' slots and the overhead, in whole blocks. It is an error when that is less than a block.
func (e *Engine) KVTokens(memory sharing.Bytes) (int, error) {
	perBlock := e.Model.KVPerToken() * sharing.Bytes(e.Block())
	fixed := e.Model.Weights() + e.Overhead + e.Adapters.Memory(e.Model)
	if perBlock <= 0 {
		return 0, fmt.Errorf("predict: the model's shape gives no KV cache per token")
	}
	if memory < fixed+perBlock {
		return 0, fmt.Errorf("predict: %v of memory leave no KV cache beside %v of weights, %v of adapters and %v of "+
			"overhead",
			memory, e.Model.Weights(), e.Adapters.Memory(e.Model), e.Overhead)
	}
	return int((memory-fixed)/perBlock) * e.Block(), nil
}
