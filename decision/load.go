package decision

import (
	"cmp"
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// Traffic is the load of a whole workload, all replicas together, with the mean lengths of a request.
type Traffic struct {
	RequestsPerS  float64       `yaml:"requests_per_s,required"`
	InputTokens   Optional[int] `yaml:"input_tokens"`
	OutputTokens  Optional[int] `yaml:"output_tokens"`
	ContextTokens int           `yaml:"context_tokens,nonzero"` // longest of a request; 0 = input and output together
	// ByHour are 24 multiples of RequestsPerS, from midnight; none = even.
	// The busiest hour decides about latency and memory.
	ByHour []float64 `yaml:"by_hour"`
}

// PeakPerS is the rate of requests in the busiest hour.
func (l *Traffic) PeakPerS() float64 {
	peak := 1.0
	for i, f := range l.ByHour {
		if i == 0 || f > peak {
			peak = f
		}
	}
	return l.RequestsPerS * peak
}

// Replicas is the number of equal replicas of a workload: Max of them at its busiest, never fewer than Min where it
// scales (0 = it does not). In a file it is a number or {min, max}. The zero value is one replica.
type Replicas struct {
	Min, Max int
}

// DecodeNode reads a number or a mapping of min and max.
func (r *Replicas) DecodeNode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.Value(path, n, &r.Max)
		if n.Kind == yaml.ScalarNode && r.Max == 0 && d.Err() == nil {
			d.Addf(path, n, "leave the key out for the default", "must not be 0")
		}
		return
	}
	var v struct {
		Min int `yaml:"min,required"`
		Max int `yaml:"max,required"`
	}
	d.Value(path, n, &v)
	r.Min, r.Max = v.Min, v.Max
}

// Adapters are the LoRA adapters that a model server serves beside its base.
type Adapters struct {
	Count int `yaml:"count,required"`
	Rank  int `yaml:"rank,required"`
}

// Video states one replica's use of a GPU's video engines: mean shares of all of them, 0 to 1.
type Video struct {
	NVDECBusy Optional[float64] `yaml:"nvdec_busy"`
	NVENCBusy Optional[float64] `yaml:"nvenc_busy"`
}

// Tariff prices those of a pool's GPUs that are not bought on demand.
type Tariff struct {
	Count           int        `yaml:"count,nonzero"` // 0 = any number
	PricePerGPUHour cost.Money `yaml:"price_per_gpu_hour,required"`
}

// Trust says who trusts whom where workloads name no tenant.
type Trust uint8

// The answers for workloads without a tenant. The zero value trusts nobody.
const (
	TrustUnstated Trust = iota // different workloads are strangers
	TrustAll                   // all workloads without a tenant are one tenant's
)

var trustNames = enum.Of[Trust](ErrUnknownName, "trust", "", "all")

// KVPerToken is the KV cache that one token of context takes, exactly, and whether the model's shape is stated: two
// vectors (key and value) of KVHeads x HeadDim elements in each layer.
func (m *LanguageModel) KVPerToken() (sharing.Bytes, bool) {
	layers, a := m.Layers.Get()
	heads, b := m.KVHeads.Get()
	dim, c := m.HeadDim.Get()
	if !a || !b || !c {
		return 0, false
	}
	half := halfBytes[PrecisionFP16]
	if m.KVDtype != PrecisionUnknown && int(m.KVDtype) < len(halfBytes) {
		half = halfBytes[m.KVDtype]
	}
	return sharing.Bytes(2 * int64(layers) * int64(heads) * int64(dim) * half / 2), true
}

// PriorKVPerToken stands for the KV cache per token of a model whose shape is not stated: 128 KiB for 8B and 320
// KiB for 70B, as Llama 3's configurations give them in FP16, and between and beyond them on the line through both
// on logarithmic scales. Models without grouped queries need several times as much.
func priorKVPerToken(parameters int64) sharing.Bytes {
	const b8, b70 = 131072.0, 327680.0
	slope := math.Log(b70/b8) / math.Log(70.6/8.03)
	return sharing.Bytes(math.Round(b8 * math.Pow(float64(parameters)/8.03e9, slope)))
}

// priorKVTokens is the context, all sequences together, that a server is
// assumed to hold where neither its KV cache nor its load is stated.
const priorKVTokens = 16384

// sequences is the number of requests that a replica holds at once in the busiest hour, by Little's law with three
// standard deviations of a Poisson number on top. Where no objective bounds TPOT, 50 ms is assumed.
func (w *Workload) sequences(output int) int {
	tpot, ttft := 0.050, 1.0
	if limit, ok := w.SLO.TPOTP99.Get(); ok {
		tpot = limit.Seconds()
	}
	if limit, ok := w.SLO.TTFTP99.Get(); ok {
		ttft = limit.Seconds()
	}
	each := w.Load.PeakPerS() / float64(w.replicas()) * (ttft + tpot*float64(output))
	return max(1, int(math.Ceil(each+3*math.Sqrt(each))))
}

// kvNeed is the KV cache of one replica, all its GPUs together, and whether any part of it is a prior.
func (w *Workload) kvNeed() (need sharing.Bytes, prior bool) {
	perToken, known := w.Model.KVPerToken()
	if !known {
		perToken = priorKVPerToken(w.Model.Parameters)
	}
	l := w.Load
	if l == nil {
		return perToken * priorKVTokens, true
	}
	input, a := l.InputTokens.Get()
	output, b := l.OutputTokens.Get()
	if !a || !b {
		return perToken * sharing.Bytes(max(priorKVTokens, l.ContextTokens)), true
	}
	tokens := max(w.sequences(output)*(input+output), l.ContextTokens)
	return perToken * sharing.Bytes(tokens), !known
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
	return sharing.Bytes(float64(w.Adapters.Count) * layers * 4 * 2 * float64(w.Adapters.Rank) * width * 2)
}

func (c *checker) load(path string, w *Workload) {
	r := w.Replicas
	if r.Min < 0 || r.Max < 0 || r.Min > maxReplicas || r.Max > maxReplicas {
		c.Addf(path+".replicas", fmt.Sprintf("use 1 to %d", maxReplicas), "%d is out of range", cmp.Or(min(r.Min, 0), r.Max))
	} else if r.Min > r.Max {
		c.Addf(path+".replicas", "min is at most max", "min %d is above max %d", r.Min, r.Max)
	}
	if l := w.Load; l != nil {
		at := path + ".load"
		if !(l.RequestsPerS >= 0 && l.RequestsPerS <= 1e6) {
			c.Addf(at+".requests_per_s", "write the requests of all replicas together, for example 4.5", "%v is out of range",
				l.RequestsPerS)
		}
		c.optional(at+".input_tokens", l.InputTokens, 10_000_000)
		c.optional(at+".output_tokens", l.OutputTokens, 10_000_000)
		c.within(at+".context_tokens", l.ContextTokens, 0, 10_000_000)
		if l.ContextTokens > 0 && l.ContextTokens < l.InputTokens.Or(0)+l.OutputTokens.Or(0) {
			c.Addf(at+".context_tokens", "it is the longest context of a request: input and output together",
				"%d is below input_tokens + output_tokens", l.ContextTokens)
		}
		if n := len(l.ByHour); n != 0 && n != 24 {
			c.Addf(at+".by_hour", "write 24 multiples of requests_per_s, from midnight", "has %d values", n)
		}
		for i, f := range l.ByHour {
			if !(f >= 0 && f <= 1000) {
				c.Addf(fmt.Sprintf("%s.by_hour[%d]", at, i), "write a multiple of requests_per_s, for example 1.5",
					"%v is out of range", f)
			}
		}
	}
	if a := w.Adapters; a != nil {
		c.within(path+".adapters.count", a.Count, 1, 100_000)
		c.within(path+".adapters.rank", a.Rank, 1, 4096)
		if w.Model == nil && !c.partial {
			c.Addf(path+".adapters", "state model, which the adapters belong to", "stand beside no model")
		}
	}
	if v := w.Video; v != nil {
		c.share(path+".video.nvdec_busy", v.NVDECBusy)
		c.share(path+".video.nvenc_busy", v.NVENCBusy)
	}
	if m := w.Model; m != nil {
		at := path + ".model"
		c.optional(at+".layers", m.Layers, 10_000)
		c.optional(at+".kv_heads", m.KVHeads, 10_000)
		c.optional(at+".head_dim", m.HeadDim, 10_000)
		stated := 0
		for _, v := range []Optional[int]{m.Layers, m.KVHeads, m.HeadDim} {
			if !v.IsZero() {
				stated++
			}
		}
		if stated == 1 || stated == 2 {
			c.Addf(at, "state layers, kv_heads and head_dim together: they give the KV cache of a token",
				"its shape is stated in part")
		}
		if m.Active < 0 || m.Active > m.Parameters {
			c.Addf(at+".active_parameters", "write how many of the parameters one token uses", "%d is out of range", m.Active)
		}
	}
}

// capacity checks what a pool's reserved or spot GPUs cost.
func (c *checker) capacity(path string, p *Pool, currency *string) {
	if p.Reserved != nil && !p.Owned.Or(true) {
		c.Addf(path+".reserved", "remove it, or owned: false", "reserved GPUs are paid for, and owned is false")
	}
	for _, v := range []struct {
		key string
		c   *Tariff
	}{{"reserved", p.Reserved}, {"spot", p.Spot}} {
		if v.c == nil {
			continue
		}
		c.price(path+"."+v.key+".price_per_gpu_hour", v.c.PricePerGPUHour, currency)
		c.within(path+"."+v.key+".count", v.c.Count, 0, maxGPUs)
		if v.c.Count > p.Count && p.Count > 0 {
			c.Addf(path+"."+v.key+".count", "it is a part of the pool's GPUs", "%d is more than the pool's %d", v.c.Count,
				p.Count)
		}
	}
}

// priorLayers stands for a number of layers that is not stated: 32 for 8B, 80
// for 70B, and between and beyond on the line through both on logarithmic scales.
func priorLayers(parameters int64) float64 {
	slope := math.Log(80.0/32) / math.Log(70.6/8.03)
	return 32 * math.Pow(float64(parameters)/8.03e9, slope)
}
