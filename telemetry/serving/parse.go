package serving

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/promtext"
)

// key is a reading's place on the pages.
type key struct {
	page           int
	engine         Engine
	model, replica string
}

// maxReadings bounds the memory: a page has a handful.
const maxReadings = 100_000

// names maps a metric's name to the field of its figure, without the engine's prefix. Sources: vLLM's
// vllm/engine/metrics.py (before 0.8, "V0") and vllm/v1/metrics/loggers.py; SGLang's
// python/sglang/srt/metrics/collector.py; llama.cpp's tools/server/server.cpp (its pages name no model).
//
// vLLM called the KV cache's gauge gpu_cache_usage_perc until 0.10, and until 0.11 called the time between tokens
// time_per_output_token_seconds, as SGLang did until 0.4.5: both observe every token, so that the figure is ITL.
// The time per token of a request is request_time_per_output_token_seconds.
var names = map[string]func(*Reading, *value){
	"num_requests_running":                  func(r *Reading, v *value) { v.sum(&r.Running) },
	"requests_processing":                   func(r *Reading, v *value) { v.sum(&r.Running) },
	"requests_deferred":                     func(r *Reading, v *value) { v.sum(&r.Waiting) },
	"kv_cache_usage_ratio":                  func(r *Reading, v *value) { v.share(&r.KVUsage) },
	"tokens_predicted_total":                func(r *Reading, v *value) { v.sum(&r.GenerationTokens) },
	"prompt_seconds_total":                  func(r *Reading, v *value) { v.sum(&r.PromptSeconds) },
	"tokens_predicted_seconds_total":        func(r *Reading, v *value) { v.sum(&r.DecodeSeconds) },
	"prefix_cache_queries_total":            func(r *Reading, v *value) { v.sum(&r.PrefixQueries) },
	"prefix_cache_hits_total":               func(r *Reading, v *value) { v.sum(&r.PrefixHits) },
	"cached_tokens_total":                   func(r *Reading, v *value) { v.sum(&r.PrefixHits) },
	"spec_decode_num_draft_tokens_total":    func(r *Reading, v *value) { v.sum(&r.Drafted) },
	"spec_decode_num_accepted_tokens_total": func(r *Reading, v *value) { v.sum(&r.Accepted) },
	"num_running_reqs":                      func(r *Reading, v *value) { v.sum(&r.Running) },
	"num_requests_waiting":                  func(r *Reading, v *value) { v.sum(&r.Waiting) },
	"num_queue_reqs":                        func(r *Reading, v *value) { v.sum(&r.Waiting) },
	"kv_cache_usage_perc":                   func(r *Reading, v *value) { v.share(&r.KVUsage) },
	"gpu_cache_usage_perc":                  func(r *Reading, v *value) { v.share(&r.KVUsage) },
	"token_usage":                           func(r *Reading, v *value) { v.share(&r.KVUsage) },
	"prompt_tokens_total":                   func(r *Reading, v *value) { v.sum(&r.PromptTokens) },
	"generation_tokens_total":               func(r *Reading, v *value) { v.sum(&r.GenerationTokens) },
	"request_success_total":                 func(r *Reading, v *value) { v.sum(&r.Requests) },
	"num_requests_total":                    func(r *Reading, v *value) { v.sum(&r.Requests) },
	"time_to_first_token_seconds":           func(r *Reading, v *value) { v.histogram(&r.TTFT) },
	"inter_token_latency_seconds":           func(r *Reading, v *value) { v.histogram(&r.ITL) },
	"time_per_output_token_seconds":         func(r *Reading, v *value) { v.older(&r.ITL) },
	"e2e_request_latency_seconds":           func(r *Reading, v *value) { v.histogram(&r.E2E) },
	"request_queue_time_seconds":            func(r *Reading, v *value) { v.histogram(&r.Queue) },
	"queue_time_seconds":                    func(r *Reading, v *value) { v.histogram(&r.Queue) },
	"request_prompt_tokens":                 func(r *Reading, v *value) { v.histogram(&r.PromptLength) },
	"prompt_tokens_histogram":               func(r *Reading, v *value) { v.histogram(&r.PromptLength) },
	"request_generation_tokens":             func(r *Reading, v *value) { v.histogram(&r.OutputLength) },
	"generation_tokens_histogram":           func(r *Reading, v *value) { v.histogram(&r.OutputLength) },
	"iteration_tokens_total":                func(r *Reading, v *value) { v.histogram(&r.StepTokens) },
	"request_time_per_output_token_seconds": func(r *Reading, v *value) { v.histogram(&r.TPOT) },
}

// Parse reads a metrics page of vLLM, SGLang or llama.cpp, or several one after another, as of the pods of a
// deployment. There is one reading for each model and replica of each page, in the order of pages, models and
// replicas. Of SGLang's tensor- and pipeline-parallel ranks, which say the same, the lowest is read.
//
// Lines that cannot be read, and values that cannot be, are named in the error and left out; the readings of the
// rest are returned beside it. ErrNone says that nothing was found.
func Parse(in io.Reader) ([]Reading, error) {
	p := &parser{readings: map[key]*Reading{}, ranks: map[key]int{}}
	p.probs.AddErr("", promtext.Read(in, p.page))
	if len(p.readings) == 0 {
		return nil, errors.Join(ErrNone, p.probs.Err())
	}
	keys := slices.SortedFunc(maps.Keys(p.readings), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.page, b.page), cmp.Compare(a.engine, b.engine), cmp.Compare(a.model, b.model),
			cmp.Compare(a.replica, b.replica))
	})
	out := make([]Reading, len(keys))
	for i, k := range keys {
		out[i] = *p.readings[k]
	}
	return out, p.probs.Err()
}

type parser struct {
	probs    problem.List
	readings map[key]*Reading
	ranks    map[key]int
}

// engineOf splits a metric's name. Some collectors write the colon as an underscore.
func engineOf(name string) (Engine, string) {
	for prefix, e := range map[string]Engine{"vllm": EngineVLLM, "sglang": EngineSGLang,
		"llamacpp": EngineLlamaCpp} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && len(rest) > 1 && (rest[0] == ':' || rest[0] == '_') {
			return e, rest[1:]
		}
	}
	return EngineUnknown, ""
}

// page takes a page: first which ranks there are, then the figures of the lowest.
func (p *parser) page(pg promtext.Page) {
	for _, take := range []bool{false, true} {
		for _, f := range pg.Families {
			engine, name := engineOf(f.GetName())
			into := names[name]
			if into == nil {
				continue
			}
			for i, m := range f.Metric {
				k, rank := labels(m)
				k.page, k.engine = pg.Number, engine
				if low, ok := p.ranks[k]; rank >= 0 && (!ok || rank < low) {
					p.ranks[k] = rank
				}
				if !take || rank >= 0 && rank > p.ranks[k] {
					continue
				}
				r := p.readings[k]
				if r == nil {
					if len(p.readings) >= maxReadings {
						return
					}
					r = &Reading{Engine: engine, Model: k.model, Replica: k.replica}
					p.readings[k] = r
				}
				v := &value{p: p, path: fmt.Sprintf("%s[%d]", f.GetName(), i), m: m}
				if ms := m.GetTimestampMs(); ms > 0 {
					if r.At = time.UnixMilli(ms).UTC(); r.At.Year() < 2001 {
						v.problem("its time, %d, is of the year %d: pages have milliseconds since 1970", ms, r.At.Year())
					}
				}
				into(r, v)
			}
		}
	}
}

// labels name whose figure it is, and the rank that gives it: -1 for none.
func labels(m *dto.Metric) (k key, rank int) {
	rank = -1
	instance := ""
	for _, l := range m.Label {
		switch l.GetName() {
		case "model_name":
			k.model = l.GetValue()
		case "engine", "dp_rank":
			k.replica = l.GetValue()
		case "instance":
			instance = l.GetValue()
		case "tp_rank", "pp_rank", "moe_ep_rank":
			if n, err := strconv.Atoi(l.GetValue()); err == nil && n >= 0 && n < 1<<16 {
				rank = max(rank, 0) + n
			}
		}
	}
	if instance != "" {
		k.replica = strings.TrimSuffix(instance+" "+k.replica, " ")
	}
	return k, rank
}

// value is a figure on its way into a reading.
type value struct {
	p    *parser
	path string
	m    *dto.Metric
}

func (v *value) problem(format string, args ...any) {
	if v.p.probs.Len() < problem.Enough {
		v.p.probs.Addf(v.path, "", format, args...)
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

// sum adds a figure whose series differ in labels that are not told apart: a reason, or whether a request streams.
func (v *value) sum(to *Optional[float64]) {
	if x, ok := v.number(); ok {
		*to = optional.Of(to.Or(0) + x)
	}
}

// share takes a share of 1.
func (v *value) share(to *Optional[float64]) {
	switch x, ok := v.number(); {
	case ok && x > 1.001:
		v.problem("%v is no share", x)
	case ok:
		*to = optional.Of(max(min(x, 1), to.Or(0)))
	}
}

// older takes a histogram under a former name, where the new one is not there.
func (v *value) older(to **Histogram) {
	if *to == nil {
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
	case !(*to).add(h): // its labels are not told apart
		v.problem("other buckets than the series before it")
	}
}

// escape writes a label's value as a page has it.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// ParseRange reads Prometheus' answer to a range query (/api/v1/query_range) for a server's series, such as
// {__name__=~"vllm:.*"}: the readings of each time in order, with At set. Otherwise it is as Parse.
func ParseRange(in io.Reader) ([]Reading, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Values [][2]any // seconds, figure as text
			}
		}
	}
	if err := json.NewDecoder(in).Decode(&answer); err != nil {
		return nil, fmt.Errorf("serving: no answer of Prometheus: %w", err)
	}
	if answer.Status != "success" || answer.Data.ResultType != "matrix" {
		return nil, fmt.Errorf("serving: Prometheus answered %.20q %.20q with a %.20q: ask /api/v1/query_range",
			answer.Status, answer.Error, answer.Data.ResultType)
	}
	histogram := map[string]bool{}
	for _, s := range answer.Data.Result {
		if base, ok := strings.CutSuffix(s.Metric["__name__"], "_bucket"); ok {
			histogram[base] = true
		}
	}
	pages := map[float64]map[string]*strings.Builder{} // by time and family
	for _, s := range answer.Data.Result {
		name, labels := s.Metric["__name__"], []string{}
		for _, l := range slices.Sorted(maps.Keys(s.Metric)) {
			if l != "__name__" {
				labels = append(labels, l+`="`+escape.Replace(s.Metric[l])+`"`)
			}
		}
		family, kind := name, "untyped"
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, end); ok && histogram[base] {
				family, kind = base, "histogram"
			}
		}
		for _, v := range s.Values {
			at, ok := v[0].(float64)
			text, ok2 := v[1].(string)
			if !ok || !ok2 {
				return nil, fmt.Errorf("serving: %s: a value that is no pair of seconds and text", name)
			}
			if pages[at] == nil {
				pages[at] = map[string]*strings.Builder{}
			}
			b := pages[at][family]
			if b == nil {
				b = &strings.Builder{}
				fmt.Fprintf(b, "# TYPE %s %s\n", family, kind)
				pages[at][family] = b
			}
			fmt.Fprintf(b, "%s{%s} %s\n", name, strings.Join(labels, ","), text)
		}
	}
	var out []Reading
	for _, at := range slices.Sorted(maps.Keys(pages)) {
		var page strings.Builder
		for _, family := range slices.Sorted(maps.Keys(pages[at])) {
			page.WriteString(pages[at][family].String())
		}
		readings, err := Parse(strings.NewReader(page.String()))
		if err != nil {
			return out, fmt.Errorf("serving: at %v: %w", at, err)
		}
		for i := range readings {
			readings[i].At = time.UnixMilli(int64(at * 1e3)).UTC()
		}
		out = append(out, readings...)
	}
	if len(out) == 0 {
		return nil, ErrNone
	}
	return out, nil
}
