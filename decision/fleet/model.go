// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/sharing"
)

// MemoryNeed computes the memory of one replica on each of its GPUs: the stated amount, or weights divided by its GPUs,
// KV cache and the contexts of its processes. Without memory and model it is unknown.
func (w *Workload) MemoryNeed() filter.MemoryNeed {
	if total, stated := w.Memory.Get(); stated {
		return filter.MemoryNeed{Total: total}
	}
	if w.Model == nil {
		return filter.MemoryNeed{Unknown: true}
	}
	var n filter.MemoryNeed
	gpus := sharing.Bytes(w.GPUCount())
	each := func(all sharing.Bytes) sharing.Bytes { return (all + gpus - 1) / gpus }
	n.Weights = each(sharing.Bytes(w.Model.halfWeights(w.Model.Parameters)/2+
		w.Model.Draft*halfBytes[w.Model.Weights]/2)) + w.adapterMemory()/gpus
	if kv, stated := w.Model.KVCache.Get(); stated {
		n.KVCache = kv
	} else if w.Service == nil {
		kv, prior := w.kvNeed()
		n.KVCache, n.KVPrior = each(kv), prior
		n.Request = min(n.KVCache, each(w.kvOfRequest()))
	}
	n.Context = filter.ContextMemory * sharing.Bytes(w.ProcessCount())
	n.Total = n.Weights + n.KVCache + n.Context
	return n
}

// ProcessCount is the number of processes of one replica on each of its GPUs, at least 1.
func (w *Workload) ProcessCount() int {
	if w.Framework != nil && w.Framework.Processes > 1 {
		return w.Framework.Processes
	}
	return 1
}

// ReplicaCount returns the number of replicas to place: the maximum, at least 1.
func (w *Workload) ReplicaCount() int { return max(1, w.Replicas.Max) }

// GPUCount returns the number of GPUs of one replica, at least 1.
func (w *Workload) GPUCount() int { return max(1, w.GPUs) }

// Decodes reports whether a workload serves a language model.
func (w *Workload) Decodes() bool {
	return w.Model != nil && w.Service == nil && (w.Kind == "online-inference" || w.Kind == "offline-inference")
}

// KVPerToken returns the KV cache of one token of context, and whether the model's shape is stated: two vectors (key
// and value) of KVHeads x HeadDim elements in each layer, or as counted by its config while no window is full.
func (m *LanguageModel) KVPerToken() (sharing.Bytes, bool) { return m.KVAt(0) }

// KVAt returns the mean cache memory per token of a context of that many tokens: as KVPerToken, but less for layers
// that keep only a window of the context, and with its part of the states.
func (m *LanguageModel) KVAt(context float64) (sharing.Bytes, bool) {
	half := halfBytes[cmp.Or(m.KVDtype, precisionFP16)]
	if s := m.Cache; s != (KVShape{}) {
		kept, state, each := 1.0, 0.0, float64(half)
		if m.KVDtype == precisionFP4 {
			each *= 1 + 8.0/16/4 // a scale of 8 bits for each 16 elements
		}
		if context > 0 {
			state = float64(s.State) / context
		}
		if s.Window > 0 && context > 0 {
			kept = min(1, float64(s.Window)/context)
		}
		elements := float64(s.Elements) + kept*float64(s.WindowElements)
		return sharing.Bytes(math.Ceil(each/2*elements + float64(s.Extra) + state)), true
	}
	layers, a := m.Layers.Get()
	heads, b := m.KVHeads.Get()
	dim, c := m.HeadDim.Get()
	return sharing.Bytes(2 * int64(layers) * int64(heads) * int64(dim) * half / 2), a && b && c
}

// kvPerToken is KVPerToken with a prior where the shape is not stated.
func (m *LanguageModel) kvPerToken() (perToken sharing.Bytes, known bool) {
	if perToken, known = m.KVPerToken(); !known {
		perToken = PriorKVPerToken(m.Parameters)
	}
	return perToken, known
}

// PriorKVPerToken is the KV cache per token of a model without a stated shape: 128 KiB for 8B and 320 KiB for 70B, by
// Llama 3's configurations in FP16, and for other sizes on the line through both in logarithmic scales. Models without
// grouped-query attention need several times as much.
func PriorKVPerToken(parameters int64) sharing.Bytes {
	const b8, b70 = 131072.0, 327680.0
	slope := math.Log(b70/b8) / math.Log(70.6/8.03)
	return sharing.Bytes(math.Round(b8 * math.Pow(float64(parameters)/8.03e9, slope)))
}

// priorKVTokens is the context, all sequences together, that a server is
// assumed to hold where neither its KV cache nor its load is stated.
const priorKVTokens = 16384

// usualTPOT and usualTTFT are latencies in seconds at which the sequences of a server are counted, whatever its
// objectives are: a wider one makes no server slower.
const usualTPOT, usualTTFT = 0.050, 1.0

// sequences is the number of requests that a replica holds at once in the busiest hour, by Little's law with three
// standard deviations of a Poisson number on top.
func (w *Workload) sequences(output int) int {
	each := w.Load.PeakPerS() / float64(w.ReplicaCount()) * (usualTTFT + usualTPOT*float64(output))
	return max(1, int(math.Ceil(each+3*math.Sqrt(each))))
}

// kvOfRequest is the KV cache of one request, all GPUs together; a server with no more than that queues the others.
func (w *Workload) kvOfRequest() sharing.Bytes {
	perToken, _ := w.Model.kvPerToken()
	tokens := priorKVTokens / 4
	if l := w.Load; l != nil {
		if n := l.InputTokens.Or(0) + l.OutputTokens.Or(0); n > 0 {
			tokens = n
		}
		tokens = max(tokens, l.ContextTokens)
	}
	return perToken * sharing.Bytes(tokens)
}

// kvNeed is the KV cache of one replica, all its GPUs together, and whether any part of it is a prior.
func (w *Workload) kvNeed() (need sharing.Bytes, prior bool) {
	perToken, known := w.Model.kvPerToken()
	l := w.Load
	if l == nil {
		return perToken * priorKVTokens, true
	}
	input, a := l.InputTokens.Get()
	output, b := l.OutputTokens.Get()
	if !a || !b {
		return perToken * sharing.Bytes(max(priorKVTokens, l.ContextTokens)), true
	}
	of := func(tokens, context int) sharing.Bytes {
		each := perToken
		if known {
			each, _ = w.Model.KVAt(float64(context))
		}
		return each * sharing.Bytes(tokens)
	}
	return max(of(w.sequences(output)*(input+output), input+output), of(l.ContextTokens, l.ContextTokens)), !known
}

// adapterMemory is the memory of a server's adapters: on every layer, for each of the four attention projections, two
// matrices of rank x width in 16 bits. The width follows from the parameters where the shape is not stated (a
// decoder has about 12 x layers x width^2 of them, and width is about 128 x layers).
func (w *Workload) adapterMemory() sharing.Bytes {
	if w.Adapters == nil || w.Model == nil {
		return 0
	}
	width := math.Cbrt(float64(w.Model.Parameters) * 128 / 12)
	layers := width / 128
	if n, stated := w.Model.Layers.Get(); stated {
		layers = float64(n)
		width = math.Sqrt(float64(w.Model.Parameters) / (12 * layers))
	}
	return sharing.Bytes(float64(w.adaptersOnGPU()) * layers * 4 * 2 * float64(w.Adapters.Rank) * width * 2)
}

// leastOfMemory is the part of a server's stated memory that its weights take at least: the rest is KV cache. Those
// of the 1B of decision/predict/testdata are 13% of its server's memory.
const leastOfMemory = 0.1

// Reads returns the bytes that a decode step reads on all GPUs together, for one sequence and with the full KV cache,
// and the number of layers; 0 without model and memory.
func (w *Workload) Reads() (least, most, layers float64) {
	n := float64(w.GPUCount())
	if w.Model == nil {
		all, stated := w.Memory.Get()
		if !stated {
			return 0, 0, 0
		}
		most = n * float64(all)
		return leastOfMemory * most, most, priorLayers(int64(most / 2))
	}
	kv, stated := w.Model.KVCache.Get()
	cache := n * float64(kv)
	if !stated {
		prior, _ := w.kvNeed()
		cache = float64(prior)
	}
	m := w.Model
	return m.ActiveBytes(), m.WeightBytes(m.Parameters) + cache, m.Depth()
}

// WeightBytes returns the bytes of that many parameters of the model, all of them or those that a token uses; 0 if
// their precision is not known.
func (m *LanguageModel) WeightBytes(parameters int64) float64 {
	return float64(m.halfWeights(parameters)) / 2
}

// halfWeights is WeightBytes in half bytes. Parameters are at most 1e14, so the product stays far below 2^63.
func (m *LanguageModel) halfWeights(parameters int64) int64 {
	if m.Size > 0 && parameters == m.Parameters {
		return 2 * int64(m.Size)
	} else if m.Size > 0 {
		return int64(2 * float64(m.ActiveSize) / float64(max(1, m.Active)) * float64(parameters))
	}
	half, kept, towers := halfBytes[m.Weights], m.Unquantized, 2*int64(m.Towers)
	if parameters < m.Parameters {
		kept, towers = kept-m.Embedding, 0
	}
	return parameters*half + min(kept, parameters)*max(0, halfBytes[precisionFP16]-half) + towers
}

// ActiveBytes returns the bytes of weights that one token reads; 0 if their precision is not known.
func (m *LanguageModel) ActiveBytes() float64 {
	if m.Size > 0 {
		return float64(m.ActiveSize)
	}
	bytes := m.WeightBytes(m.ActiveParameters())
	if m.ActiveParameters() >= m.Parameters { // with the bytes of encoders, of which a token reads none
		bytes -= float64(m.Towers)
	}
	return bytes
}

// Width returns the bytes of a parameter by its precision; 0 if that is not known.
func (m *LanguageModel) Width() float64 { return float64(halfBytes[m.Weights]) / 2 }

// hardwareSince is the compute capability from which on GPUs multiply numbers of a precision: BF16 since Ampere, FP8
// since Ada, FP4 since Blackwell (CUDA C++ Programming Guide, compute capabilities).
var hardwareSince = map[Precision]sharing.ComputeCapability{
	precisionBF16: {Major: 8}, precisionFP8: {Major: 8, Minor: 9},
	precisionFP4: {Major: 10}}

// Converted answers whether the GPU must convert weights of this precision because it has no arithmetic for them;
// unknown without its compute capability.
func (p Precision) Converted(gpu *sharing.GPU) sharing.Answer {
	since, newer := hardwareSince[p]
	is, known := gpu.ComputeCapability.Get()
	switch {
	case !newer:
		return sharing.AnswerNo
	case !known:
		return sharing.AnswerUnknown
	case is.Major < since.Major || is.Major == since.Major && is.Minor < since.Minor:
		return sharing.AnswerYes
	}
	return sharing.AnswerNo
}

// ActiveParameters counts the parameters that one token uses.
func (m *LanguageModel) ActiveParameters() int64 { return cmp.Or(m.Active, m.Parameters) }

// Depth returns the model's number of layers, stated or a prior.
func (m *LanguageModel) Depth() float64 {
	if n, stated := m.Layers.Get(); stated {
		return float64(n)
	}
	return priorLayers(m.Parameters)
}

// priorLayers is used where the number of layers is not stated: 32 for 8B, 80
// for 70B, and between and beyond on the line through both on logarithmic scales.
func priorLayers(parameters int64) float64 {
	slope := math.Log(80.0/32) / math.Log(70.6/8.03)
	return 32 * math.Pow(float64(parameters)/8.03e9, slope)
}

// Precedence returns the workload's priority, stated or by its kind.
func (w *Workload) Precedence() int {
	byKind := 4
	switch w.Kind {
	case "online-inference":
		byKind = 6
	case "notebook":
		byKind = 2
	}
	return w.Priority.Or(byKind)
}

// defaultLoras are the adapters that engines keep on the GPU at once where nothing sets it: vLLM's --max-loras,
// SGLang's --max-loras-per-batch; of others as many as the larger of the two.
var defaultLoras = map[string]int{"vllm": 1, "sglang": 8, "": 8}

// adaptersOnGPU is the number of adapters that are on the GPU at once.
func (w *Workload) adaptersOnGPU() int {
	most, known := 0, false
	if w.Framework != nil {
		most, known = defaultLoras[w.Framework.Name]
	}
	if !known {
		most = defaultLoras[""]
	}
	return min(w.Adapters.Count, cmp.Or(w.Adapters.MaxLoras, most))
}

// Trusts lists the tenants that a workload trusts, in the form of layout.Workload.Trusts, given the fleet's trust among
// workloads without a tenant.
func (w *Workload) Trusts(among Trust) []string {
	if among == "all" && w.Tenant == "" {
		return append(slices.Clip(w.Trust), "")
	}
	return w.Trust
}
