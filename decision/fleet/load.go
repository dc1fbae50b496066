// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// Traffic is the load of a workload, all replicas together, with a request's mean lengths.
type Traffic struct {
	RequestsPerS float64               `yaml:"requests_per_s,required"`
	InputTokens  sharing.Optional[int] `yaml:"input_tokens"`
	OutputTokens sharing.Optional[int] `yaml:"output_tokens"`
	// The 99th percentiles of a request's lengths, both or neither. Without them lengths are assumed to spread as in
	// public traces, which needs more room for latency objectives.
	InputTokensP99  sharing.Optional[int] `yaml:"input_tokens_p99"`
	OutputTokensP99 sharing.Optional[int] `yaml:"output_tokens_p99"`
	ContextTokens   int                   `yaml:"context_tokens,nonzero"` // a request's longest; 0 = input plus output
	// ByHour are 24 multiples of RequestsPerS, from midnight; empty = even. The busiest hour determines latency and
	// memory.
	ByHour []float64 `yaml:"by_hour"`
}

// PeakPerS returns the rate of requests a second in the busiest hour.
func (l *Traffic) PeakPerS() float64 {
	if len(l.ByHour) == 0 {
		return l.RequestsPerS
	}
	return l.RequestsPerS * slices.Max(l.ByHour)
}

// lengths are the mean and the 99th percentile of a request's prompt and of its answer.
func (l *Traffic) lengths() [2][2]sharing.Optional[int] {
	return [2][2]sharing.Optional[int]{{l.InputTokens, l.InputTokensP99}, {l.OutputTokens, l.OutputTokensP99}}
}

var z99 = stats.NormalQuantile(0.99)

// LengthSigma returns the standard deviation of the logarithm of a request's lengths, from their means and 99th
// percentiles as log-normal: the larger of prompts' and answers'. It is 0 if these are not stated.
func (l *Traffic) LengthSigma() (sigma float64) {
	for _, v := range l.lengths() {
		if v[0].IsZero() || v[1].IsZero() {
			return 0
		}
		above := math.Log(float64(v[1].Or(0)) / float64(v[0].Or(0)))
		sigma = max(sigma, z99-math.Sqrt(max(0, z99*z99-2*above)))
	}
	return sigma
}

// Replicas is the number of equal replicas of a workload: Max at its peak, never fewer than Min if it scales (0 = it
// does not). In a file it is a number, {min, max}, or auto. The zero value is one replica.
type Replicas struct {
	Min, Max int
	Auto     bool // the decision chooses Max for the workload's load
}

// decode reads a number, a mapping of min and max, or auto.
func (r *Replicas) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	if r.Auto = n.Kind == yaml.ScalarNode && n.Value == "auto"; r.Auto {
		return
	}
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

// Adapters are the LoRA adapters that a model server serves in addition to its base.
type Adapters struct {
	Count    int `yaml:"count,required"`
	Rank     int `yaml:"rank,required"`
	MaxLoras int `yaml:"max_loras,nonzero"` // on the GPU at once; 0 = the engine's default
}

// Video states one replica's use of a GPU's video engines: mean shares of all of them, 0 to 1.
type Video struct {
	NVDECBusy sharing.Optional[float64] `yaml:"nvdec_busy"`
	NVENCBusy sharing.Optional[float64] `yaml:"nvenc_busy"`
}

// Job states the deadline of a replica of finite work: 12h for "train overnight". Places where it would take longer
// next to its neighbours are refused.
type Job struct {
	// Duration is the run time of a replica from start to end, isolated on its number of whole GPUs.
	Duration profile.Duration `yaml:"duration,required"`
	On       string           `yaml:"on"`                // GPU of the measurement; empty: as for Workload.SoloOn
	Deadline profile.Duration `yaml:"deadline,required"` // the longest allowed run time
}

// Service states the work of a request to a server without tokens: embedding, reranking, speech, vision. A
// request is work on the host and work on the GPU; objectives limit its latency, e2e_p99.
type Service struct {
	Task     Task                               `yaml:"task"`      // with model, a prior for missing times
	GPUTime  sharing.Optional[profile.Duration] `yaml:"gpu_time"`  // of a mean request on a whole GPU, its part of a batch
	HostTime sharing.Optional[profile.Duration] `yaml:"host_time"` // of a mean request, while its GPU part waits
	GPU      string                             `yaml:"gpu"`       // where gpu_time was measured; empty: each pool's
	Batch    *Batch                             `yaml:"batch"`     // nil: one request after another
}

// Batch configures the batching of a service's requests for one pass of the GPU.
type Batch struct {
	Max  int              `yaml:"max,required"`
	Wait profile.Duration `yaml:"wait"` // longest that a request waits for others
}

// Task is the kind of work of a service: embedding, reranking, speech-to-text, text-to-speech, vision or diffusion.
// Empty: not stated.
type Task string

var tasks = []Task{"embedding", "reranking", "speech-to-text", "text-to-speech", "vision", "diffusion"}

// UnmarshalText reads the text of a task.
func (t *Task) UnmarshalText(text []byte) error {
	return enum.ParseText(t, sharing.ErrUnknownName, "task", tasks, text)
}

// Pricing is the price of a pool's GPUs that are reserved or spot.
type Pricing struct {
	Count           int        `yaml:"count,nonzero"` // 0 = any number
	PricePerGPUHour cost.Money `yaml:"price_per_gpu_hour,required"`
}

// Trust is the trust among workloads without a tenant: "all" makes them trust one another. Empty: different workloads
// do not trust each other.
type Trust string

// UnmarshalText reads "all".
func (t *Trust) UnmarshalText(text []byte) error {
	return enum.ParseText(t, sharing.ErrUnknownName, "trust", []Trust{"all"}, text)
}

func (c *checker) load(path string, w *Workload) {
	r := w.Replicas
	if r.Min < 0 || r.Max < 0 || r.Min > maxReplicas || r.Max > maxReplicas {
		c.Addf(path+".replicas", fmt.Sprintf("use 1 to %d", maxReplicas), "%d is out of range", cmp.Or(min(r.Min, 0), r.Max))
	} else if r.Min > r.Max {
		c.Addf(path+".replicas", "min is at most max", "min %d is above max %d", r.Min, r.Max)
	}
	c.If(r.Auto && w.Load == nil && !c.partial, path+".load", "state requests_per_s of all replicas together",
		"is missing, and replicas: auto chooses their number by it")
	c.If(r.Auto && !w.GPUBusy.IsZero(), path+".gpu_busy", "state service, or a model with its load's lengths, instead",
		"is of one replica, and replicas: auto chooses how many share the load")
	if l := w.Load; l != nil {
		at := path + ".load"
		c.If(!(l.RequestsPerS >= 0 && l.RequestsPerS <= 1e6), at+".requests_per_s",
			"write the requests of all replicas together, for example 4.5", "%v is out of range", l.RequestsPerS)
		c.optional(at+".input_tokens", l.InputTokens, 10_000_000)
		c.optional(at+".output_tokens", l.OutputTokens, 10_000_000)
		c.If(l.InputTokensP99.IsZero() != l.OutputTokensP99.IsZero(), at,
			"state input_tokens_p99 and output_tokens_p99, or neither", "states the 99th percentile of one length only")
		for i, v := range l.lengths() {
			name := [...]string{".input_tokens", ".output_tokens"}[i]
			c.optional(at+name+"_p99", v[1], 10_000_000)
			c.If(v[0].IsZero() && !v[1].IsZero(), at+name, "state the mean with its 99th percentile", "is missing")
			c.If(!v[1].IsZero() && v[1].Or(0) < v[0].Or(0), at+name+"_p99", "a 99th percentile is at least the mean",
				"%d is below the mean, %d", v[1].Or(0), v[0].Or(0))
		}
		c.within(at+".context_tokens", l.ContextTokens, 0, 10_000_000)
		c.If(l.ContextTokens > 0 && l.ContextTokens < l.InputTokens.Or(0)+l.OutputTokens.Or(0), at+".context_tokens",
			"it is the longest context of a request: input and output together", "%d is below input_tokens + output_tokens",
			l.ContextTokens)
		if n := len(l.ByHour); n != 0 && n != 24 {
			c.Addf(at+".by_hour", "write 24 multiples of requests_per_s, from midnight", "has %d values", n)
		}
		for i, f := range l.ByHour {
			c.If(!(f >= 0 && f <= 1000), fmt.Sprintf("%s.by_hour[%d]", at, i),
				"write a multiple of requests_per_s, for example 1.5", "%v is out of range", f)
		}
	}
	if a := w.Adapters; a != nil {
		c.within(path+".adapters.count", a.Count, 1, 100_000)
		c.within(path+".adapters.rank", a.Rank, 1, 4096)
		c.within(path+".adapters.max_loras", a.MaxLoras, 0, 100_000)
		c.If(w.Model == nil && !c.partial, path+".adapters", "state model, which the adapters belong to",
			"are stated without a model")
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
		c.If(m.Layers.IsZero() != m.KVHeads.IsZero() || m.Layers.IsZero() != m.HeadDim.IsZero(), at,
			"state layers, kv_heads and head_dim together: they give the KV cache of a token", "its shape is stated in part")
		c.If(m.Active < 0 || m.Active > m.Parameters && m.Parameters > 0, at+".active_parameters",
			"write how many of the parameters one token uses", "%d is out of range", m.Active)
	}
}

// capacity checks the prices of a pool's reserved or spot GPUs.
func (c *checker) capacity(path string, p *Pool, currency *string) {
	c.If(p.Reserved != nil && !p.Owned.Or(true), path+".reserved", "remove it, or owned: false",
		"reserved GPUs are paid for, and owned is false")
	for _, v := range []struct {
		key string
		c   *Pricing
	}{{"reserved", p.Reserved}, {"spot", p.Spot}} {
		if v.c == nil {
			continue
		}
		c.price(path+"."+v.key+".price_per_gpu_hour", v.c.PricePerGPUHour, currency)
		c.within(path+"."+v.key+".count", v.c.Count, 0, maxGPUs)
		c.If(v.c.Count > p.Count && p.Count > 0, path+"."+v.key+".count", "it is a part of the pool's GPUs",
			"%d is more than the pool's %d", v.c.Count, p.Count)
	}
}
