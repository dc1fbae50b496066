// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// errNone is returned for a page without a known metric of a model server.
var errNone = errors.New("serving: no metric of vLLM, SGLang, llama.cpp, TEI, Triton or a FastAPI server (SGLang " +
	"needs --enable-metrics, llama.cpp --metrics)")

// ErrReset is returned when a server was restarted between two readings.
var ErrReset = errors.New("serving: a counter went back: the server was restarted")

// Engine is the model server: vllm, sglang, llama.cpp, tei (Hugging Face Text Embeddings Inference), triton (NVIDIA's),
// or fastapi (latencies by prometheus-fastapi-instrumentator: Infinity, Whisper servers).
type Engine string

// The engines.
const (
	EngineVLLM     Engine = "vllm"
	engineSGLang   Engine = "sglang"
	EngineLlamaCpp Engine = "llama.cpp"
	engineTEI      Engine = "tei"
	engineTriton   Engine = "triton"
	engineFastAPI  Engine = "fastapi"
)

// speaksTokens reports whether the server generates text.
func (e Engine) speaksTokens() bool {
	return e == EngineVLLM || e == engineSGLang || e == EngineLlamaCpp
}

// Reading holds a page's figures of one model of one replica. Times are seconds.
type Reading struct {
	Engine Engine
	Model  string
	// Replica is vLLM's engine or SGLang's data-parallel rank, after the instance where Prometheus adds that; empty
	// where the page does not distinguish replicas.
	Replica string
	At      time.Time // of the figures, if the page has it; else the zero Time

	Running sharing.Optional[float64] // requests in the batch
	Waiting sharing.Optional[float64] // requests in the queue
	KVUsage sharing.Optional[float64] // of the KV cache, 0 to 1

	// Counters since the server started.
	PromptTokens     sharing.Optional[float64]
	GenerationTokens sharing.Optional[float64]
	Requests         sharing.Optional[float64] // that ended
	PrefixQueries    sharing.Optional[float64] // tokens of prompts that were looked up in the prefix cache
	PrefixHits       sharing.Optional[float64] // of these, found
	Drafted          sharing.Optional[float64] // tokens that speculation proposed
	Accepted         sharing.Optional[float64] // of these, kept
	PromptSeconds    sharing.Optional[float64] // spent in prefills (llama.cpp)
	DecodeSeconds    sharing.Optional[float64] // that requests spent between their tokens, in total (llama.cpp)

	// Of servers without tokens; seconds are summed over requests.
	Passes        sharing.Optional[float64] // of the model, each for a batch
	PassSeconds   sharing.Optional[float64] // that requests spent in passes
	QueuedSeconds sharing.Optional[float64]
	ServedSeconds sharing.Optional[float64] // whole requests (Triton)

	TTFT  *Histogram // time to the first token, s
	ITL   *Histogram // time between tokens, one for each token, s
	TPOT  *Histogram // mean time per token, one for each request, s (vLLM)
	E2E   *Histogram // whole request, s
	Queue *Histogram // time in the queue, s

	PromptLength *Histogram // tokens of a request
	OutputLength *Histogram
	StepTokens   *Histogram // tokens that an engine step computed, prompts' and answers' (vLLM)
}

// Same reports whether two readings are of the same model and replica.
func (r *Reading) Same(o *Reading) bool {
	return r.Engine == o.Engine && r.Model == o.Model && r.Replica == o.Replica
}

func (r *Reading) counters() []*sharing.Optional[float64] {
	return []*sharing.Optional[float64]{&r.PromptTokens, &r.GenerationTokens, &r.Requests, &r.PrefixQueries, &r.PrefixHits,
		&r.Drafted, &r.Accepted, &r.PromptSeconds, &r.DecodeSeconds,
		&r.Passes, &r.PassSeconds, &r.QueuedSeconds, &r.ServedSeconds}
}

func (r *Reading) histograms() []**Histogram {
	return []**Histogram{&r.TTFT, &r.ITL, &r.TPOT, &r.E2E, &r.Queue, &r.PromptLength, &r.OutputLength, &r.StepTokens}
}

// Add adds the counters and histograms of another period, a result of [Reading.Since]. Histograms with other buckets
// than r's are left out.
func (r *Reading) Add(o Reading) {
	r.Engine, r.Model = o.Engine, o.Model
	for i, c := range r.counters() {
		if v, ok := o.counters()[i].Get(); ok {
			*c = optional.Of(c.Or(0) + v)
		}
	}
	for i, h := range r.histograms() {
		switch from := *o.histograms()[i]; {
		case from == nil:
		case *h == nil:
			sum := *from
			sum.Buckets = slices.Clone(from.Buckets)
			*h = &sum
		default:
			(*h).add(from)
		}
	}
}

// Since returns the change between two readings of the same replica: the differences of counters and histograms, and
// the gauges of the later one. A figure that either lacks is missing. It fails with ErrReset if the server was
// restarted in between.
func (r Reading) Since(before Reading) (Reading, error) {
	if !r.Same(&before) {
		return Reading{}, fmt.Errorf("serving: %v %q %q is another than %v %q %q", r.Engine, r.Model, r.Replica,
			before.Engine, before.Model, before.Replica)
	}
	for i, c := range r.counters() {
		now, ok := c.Get()
		then, was := before.counters()[i].Get()
		switch {
		case !ok || !was:
			*c = sharing.Optional[float64]{}
		case now < then:
			return Reading{}, ErrReset
		default:
			*c = optional.Of(now - then)
		}
	}
	for i, h := range r.histograms() {
		d, err := (*h).since(*before.histograms()[i])
		if err != nil {
			return Reading{}, err
		}
		*h = d
	}
	return r, nil
}

// Bucket counts the observations of at most Upper.
type Bucket struct {
	Upper float64
	Count uint64 // cumulative
}

// Histogram is a distribution by buckets, in ascending order; the last one's Upper is +Inf.
type Histogram struct {
	Buckets []Bucket
	Count   uint64
	Sum     float64
}

// Interval bounds a value: above Low and at most High, which is +Inf beyond the last bucket.
type Interval struct{ Low, High float64 }

// Quantile returns the interval that contains the q-quantile of the observations, q from 0 to 1. It returns false
// without observations.
func (h *Histogram) Quantile(q float64) (Interval, bool) {
	if h == nil || h.Count == 0 || !(q >= 0 && q <= 1) {
		return Interval{}, false
	}
	rank := uint64(max(math.Ceil(q*float64(h.Count)), 1))
	low := 0.0
	for _, b := range h.Buckets {
		if b.Count >= rank {
			return Interval{Low: min(low, b.Upper), High: b.Upper}, true
		}
		low = b.Upper
	}
	return Interval{Low: low, High: math.Inf(1)}, true
}

// AtMost bounds the number of observations of at most x by low and high, which are equal if x is a bucket's bound.
func (h *Histogram) AtMost(x float64) (low, high uint64) {
	if h == nil {
		return 0, 0
	}
	for _, b := range h.Buckets {
		switch {
		case b.Upper == x:
			return b.Count, b.Count
		case b.Upper > x:
			return low, b.Count
		}
		low = b.Count
	}
	return low, h.Count
}

// Mean is the mean of all observations. It returns false without observations.
func (h *Histogram) Mean() (float64, bool) {
	if h == nil || h.Count == 0 {
		return 0, false
	}
	return h.Sum / float64(h.Count), true
}

// add adds a histogram of the same buckets; it answers false where o has others.
func (h *Histogram) add(o *Histogram) bool {
	if !slices.EqualFunc(h.Buckets, o.Buckets, func(a, b Bucket) bool { return a.Upper == b.Upper }) {
		return false
	}
	for i, b := range o.Buckets {
		h.Buckets[i].Count += b.Count
	}
	h.Count, h.Sum = h.Count+o.Count, h.Sum+o.Sum
	return true
}

// since is the difference to an earlier state; nil where there is none.
func (h *Histogram) since(then *Histogram) (*Histogram, error) {
	if h == nil || then == nil || len(h.Buckets) != len(then.Buckets) {
		return nil, nil
	}
	d := &Histogram{Count: h.Count - then.Count, Sum: h.Sum - then.Sum}
	if h.Count < then.Count {
		return nil, ErrReset
	}
	for i, b := range h.Buckets {
		was := then.Buckets[i]
		if b.Upper != was.Upper {
			return nil, nil // another version's buckets
		}
		if b.Count < was.Count {
			return nil, ErrReset
		}
		d.Buckets = append(d.Buckets, Bucket{b.Upper, b.Count - was.Count})
	}
	if d.wrong() != "" {
		return nil, ErrReset // restarted, and busier since
	}
	return d, nil
}

// wrong is the reason why counts and sum contradict each other; "" = they don't, give or take one current observation.
func (h *Histogram) wrong() string {
	least, most, last := 0.0, 0.0, Bucket{}
	for i, b := range h.Buckets {
		if math.IsNaN(b.Upper) || b.Count < last.Count || i > 0 && b.Upper == last.Upper {
			return fmt.Sprintf("its buckets do not grow to its count of %d", h.Count)
		}
		if n := float64(b.Count - last.Count); n > 0 {
			least, most = least+n*min(last.Upper, b.Upper), most+n*b.Upper
		}
		last = b
	}
	switch n := float64(h.Count); {
	case last.Count != h.Count:
		return fmt.Sprintf("its buckets do not grow to its count of %d", h.Count)
	case math.IsInf(h.Sum, 0) || !(h.Sum*n >= least*(n-1) && h.Sum*n <= most*(n+1)):
		return fmt.Sprintf("its sum of %g is not that of its buckets, %.4g to %.4g", h.Sum, least, most)
	}
	return ""
}
