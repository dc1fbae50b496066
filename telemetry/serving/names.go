// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"cmp"
	"math"
	"reflect"
	"slices"

	dto "github.com/prometheus/client_model/go"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/promtext"
	"github.com/cotenant/cotenant/sharing"
)

// figure maps a metric to a field, which one family of a page fills. A former name fills it only where the
// present one is not there: versions between have both, with the same figures.
type figure struct {
	field  string
	former bool
	set    func(*Reading, *value)
}

// of is the figure that take reads into a field of a reading.
func of[T any](field string, take func(*value, *T)) figure {
	at, _ := reflect.TypeFor[Reading]().FieldByName(field)
	return figure{field: field, set: func(r *Reading, v *value) {
		take(v, reflect.ValueOf(r).Elem().FieldByIndex(at.Index).Addr().Interface().(*T))
	}}
}

func (f figure) formerly() figure {
	f.former = true
	return f
}

var (
	running       = of("Running", (*value).sum)
	waiting       = of("Waiting", (*value).sum)
	kvUsage       = of("KVUsage", (*value).share)
	promptTokens  = of("PromptTokens", (*value).sum)
	generation    = of("GenerationTokens", (*value).sum)
	requests      = of("Requests", (*value).sum)
	prefixQueries = of("PrefixQueries", (*value).sum)
	prefixHits    = of("PrefixHits", (*value).sum)
	itl           = of("ITL", (*value).latency)
	e2e           = of("E2E", (*value).latency)
	queue         = of("Queue", (*value).histogram)
	promptLength  = of("PromptLength", (*value).histogram)
	outputLength  = of("OutputLength", (*value).histogram)
)

// names maps a metric's name to the field of its figure, without the engine's prefix. Sources: vLLM's
// vllm/engine/metrics.py (before 0.8, "V0") and vllm/v1/metrics/loggers.py (from a6f0308c); SGLang's
// python/sglang/srt/observability/metrics_collector.py (44cedc2b); llama.cpp's tools/server/server.cpp (its pages
// name no model).
//
// vLLM called the KV cache's gauge gpu_cache_usage_perc and the prefix cache's counters gpu_prefix_cache_* until 0.10,
// and until 0.11 called the time between tokens time_per_output_token_seconds, as SGLang did until 0.4.5: both observe
// every token, so that the figure is ITL. The time per token of a request is request_time_per_output_token_seconds.
var names = map[string]figure{
	"num_requests_running":                  running,
	"num_running_reqs":                      running,
	"requests_processing":                   running,
	"num_requests_waiting":                  waiting,
	"num_queue_reqs":                        waiting,
	"requests_deferred":                     waiting,
	"kv_cache_usage_perc":                   kvUsage,
	"gpu_cache_usage_perc":                  kvUsage.formerly(),
	"kv_cache_usage_ratio":                  kvUsage,
	"token_usage":                           kvUsage,
	"prompt_tokens_total":                   promptTokens,
	"generation_tokens_total":               generation,
	"tokens_predicted_total":                generation,
	"request_success_total":                 requests,
	"num_requests_total":                    requests,
	"prefix_cache_queries_total":            prefixQueries,
	"gpu_prefix_cache_queries_total":        prefixQueries.formerly(),
	"prefix_cache_hits_total":               prefixHits,
	"gpu_prefix_cache_hits_total":           prefixHits.formerly(),
	"cached_tokens_total":                   prefixHits,
	"prompt_seconds_total":                  of("PromptSeconds", (*value).sum),
	"tokens_predicted_seconds_total":        of("DecodeSeconds", (*value).sum),
	"spec_decode_num_draft_tokens_total":    of("Drafted", (*value).sum),
	"spec_decode_num_accepted_tokens_total": of("Accepted", (*value).sum),
	"time_to_first_token_seconds":           of("TTFT", (*value).latency),
	"inter_token_latency_seconds":           itl,
	"time_per_output_token_seconds":         itl.formerly(),
	"e2e_request_latency_seconds":           e2e,
	"request_time_per_output_token_seconds": of("TPOT", (*value).latency),
	"request_queue_time_seconds":            queue,
	"queue_time_seconds":                    queue,
	"request_prompt_tokens":                 promptLength,
	"prompt_tokens_histogram":               promptLength,
	"request_generation_tokens":             outputLength,
	"generation_tokens_histogram":           outputLength,
	"iteration_tokens_total":                of("StepTokens", (*value).histogram),
}

// value is a figure on its way into a reading.
type value struct {
	probs *problem.List
	path  string
	m     *dto.Metric
}

func (v *value) problem(format string, args ...any) {
	if v.probs.Len() < problem.Enough {
		v.probs.Addf(v.path, "", format, args...)
	}
}

func (v *value) number() (float64, bool) {
	x, ok := promtext.Value(v.m)
	if !ok || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		v.problem("%v is no figure", x)
		return 0, false
	}
	return x, true
}

// sum adds the series of a figure over labels that are not kept: a reason, or whether a request streams.
func (v *value) sum(to *sharing.Optional[float64]) {
	if x, ok := v.number(); ok {
		*to = optional.Of(to.Or(0) + x)
	}
}

// share takes a share of 1.
func (v *value) share(to *sharing.Optional[float64]) {
	switch x, ok := v.number(); {
	case ok && x > 1.001:
		v.problem("%v is no share", x)
	case ok:
		*to = optional.Of(max(min(x, 1), to.Or(0)))
	}
}

// latency takes a histogram of times that are never 0: a sum of 0 over requests is one that was not filled.
func (v *value) latency(to **Histogram) {
	if h := v.m.Histogram; h == nil || h.GetSampleCount() == 0 || h.GetSampleSum() != 0 {
		v.histogram(to)
	}
}

func (v *value) histogram(to **Histogram) {
	in := v.m.Histogram
	if in == nil {
		v.problem("no histogram")
		return
	}
	h := &Histogram{Count: in.GetSampleCount(), Sum: in.GetSampleSum()}
	for _, b := range in.Bucket {
		h.Buckets = append(h.Buckets, Bucket{b.GetUpperBound(), b.GetCumulativeCount()})
	}
	slices.SortFunc(h.Buckets, func(a, b Bucket) int { return cmp.Compare(a.Upper, b.Upper) })
	if n := len(h.Buckets); n == 0 || !math.IsInf(h.Buckets[n-1].Upper, 1) {
		h.Buckets = append(h.Buckets, Bucket{math.Inf(1), h.Count})
	}
	switch why := h.wrong(); {
	case why != "":
		v.problem("%s", why)
	case *to == nil:
		*to = h
	case !(*to).add(h): // its labels are not kept
		v.problem("other buckets than the series before it")
	}
}
