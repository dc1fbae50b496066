package report

import (
	"encoding/json"
	"fmt"
)

// toolMetric is a distribution in a tool's file, with what it means there. What the definitions say was read in
// each tool's source, or measured against a server that records its own truth.
type toolMetric struct {
	key        string
	quantity   Quantity
	unit       string
	definition string
}

const numpy = " Percentiles by linear interpolation."

var flatMetrics = map[Tool][]toolMetric{
	ToolVLLM: {
		{"ttft_ms", QuantityFirstToken, "ms",
			"First event with choices, a role-only one included, minus the actual send: waiting for a free place under " +
				"max_concurrency is not in it." + numpy},
		{"tpot_ms", QuantityPerToken, "ms",
			"(e2el - ttft)/(output tokens - 1) per request; requests with one token are left out." + numpy},
		{"itl_ms", QuantityGap, "ms", "Gaps between events with choices, pooled, whatever number of tokens an event has; " +
			"the gap from the role event is one of them." + numpy},
		{"e2el_ms", QuantityEndToEnd, "ms", "Last event minus the actual send; the usage event counts for chat." + numpy},
	},
	ToolInferenceX: {
		{"ttft_ms", QuantityFirstToken, "ms",
			"First event with choices, a role-only one included, minus the actual send, on a new connection for each request." +
				numpy},
		{"tpot_ms", QuantityPerToken, "ms",
			"(e2el - ttft)/(output tokens - 1) per request; 0 when the server reports no usage." + numpy},
		{"itl_ms", QuantityGap, "ms", "Gaps between events with choices, pooled, whatever number of tokens an event has." +
			numpy},
		{"e2el_ms", QuantityEndToEnd, "ms", "Last event minus the actual send." + numpy},
	},
	ToolSGLang: {
		{"ttft_ms", QuantityFirstToken, "ms",
			"First non-empty content or reasoning minus the actual send, on a new connection for each request." + numpy},
		{"tpot_ms", QuantityPerToken, "ms",
			"(e2e_latency - ttft)/(n - 1), n the length asked for unless the server reports usage." + numpy},
		{"itl_ms", QuantityGap, "ms", "Gaps between non-empty events, pooled; on the native API divided by the event's new " +
			"tokens." + numpy},
		{"e2e_latency_ms", QuantityEndToEnd, "ms", "[DONE] minus the actual send." + numpy},
	},
}

// flatCounts are the plain numbers of vLLM's kind of file.
var flatCounts = []toolMetric{
	{"completed", QuantityCompleted, "",
		"Requests that ended with status 200: streams that broke off cleanly or reported an error count."},
	{"failed", QuantityFailures, "", "Requests with an error of transport or status."},
	{"duration", QuantityDuration, "s", "First send to last end, ramp and tail included."},
	{"request_throughput", QuantityRequestRate, "1/s", "completed / duration."},
	{"output_throughput", QuantityOutputRate, "1/s",
		"Output tokens of completed requests / duration; by server usage, else by the tokenizer on the text."},
}

// sglangTokens tells SGLang's rate of tokens apart from vLLM's.
const sglangTokens = "Output tokens of completed requests / duration; without usage the length asked for, " +
	"whatever came."

// statisticPrefixes are the statistics of the flat files, by their prefix.
var statisticPrefixes = []struct{ prefix, statistic string }{
	{"mean", "mean"}, {"median", "p50"}, {"p50", "p50"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}, {"max", "max"},
}

// flat reads one flat object of vLLM's kind.
func (d *document) flat(name string, tool Tool) []ToolResult {
	r := ToolResult{Tool: tool, Run: name, Basis: "reported", Model: d.text("model_id")}
	if label := d.text("label"); label != "" {
		r.Run = label
	}
	if run := d.text("run_number"); run != "" { // of a sweep
		r.Run += ", run " + run
	}
	r.Load = d.settings("max_concurrency", "request_rate", "burstiness")
	for _, m := range flatCounts {
		if tool == ToolSGLang && m.quantity == QuantityOutputRate {
			m.definition = sglangTokens
		}
		if v, ok := d.number(m.key); ok {
			r.add(m, m.key, "", v)
		}
	}
	if d.has("request_goodput:") && tool == ToolVLLM {
		r.Notes = append(r.Notes, "written by vLLM's benchmark_serving before the middle of 2025, or by a copy of it: "+
			"there tpot may be 0 where the server reports no usage")
	}
	if v, ok := d.number("completed"); ok && v == 0 {
		r.nothingCompleted()
		return []ToolResult{r}
	}
	for _, m := range flatMetrics[tool] {
		got := map[string]bool{}
		for _, s := range statisticPrefixes {
			key := s.prefix + "_" + m.key
			if v, ok := d.number(key); ok && !got[s.statistic] {
				got[s.statistic] = true
				r.add(m, key, s.statistic, v)
			}
		}
	}
	return []ToolResult{r}
}

var guideLLMMetrics = []toolMetric{
	{"time_to_first_token_ms", QuantityFirstToken, "ms",
		"First event with text, reasoning or a tool call minus the actual start. Percentiles by nearest rank."},
	{"time_per_output_token_ms", QuantityPerToken, "ms",
		"(last token - start)/n per request: the first token's time is in it."},
	{"inter_token_latency_ms", QuantityGap, "ms",
		"(last token - first token)/(n - 1), a mean for each request; the distribution is over requests, not over gaps."},
	{"request_latency", QuantityEndToEnd, "s", "End of the answer minus the actual start, in seconds."},
	{"requests_per_second", QuantityRequestRate, "1/s", "Mean rate of successful requests between the cut transients."},
	{"output_tokens_per_second", QuantityOutputRate, "1/s",
		"Mean rate of output tokens of successful requests; without usage the number of chunks."},
}

func (d *document) guideLLM(name string) []ToolResult {
	var raw []json.RawMessage
	if json.Unmarshal(d.fields["benchmarks"], &raw) != nil || len(raw) == 0 {
		d.bad("benchmarks", "give guidellm's own JSON report", "is not a list of benchmarks")
		return nil
	}
	if v, ok := d.child("metadata").number("version"); ok && v != 2 {
		d.bad("metadata.version", "give a report of version 2", "is %v", v)
		return nil
	}
	var results []ToolResult
	for i, b := range raw {
		bench := &document{l: d.l, path: fmt.Sprintf("%s.benchmarks[%d]", d.path, i)}
		if json.Unmarshal(b, &bench.fields) != nil || bench.fields == nil {
			bench.bad("", "give guidellm's own JSON report", "is not an object")
			continue
		}
		r := ToolResult{Tool: ToolGuideLLM, Run: name, Basis: "reported"}
		if len(raw) > 1 {
			r.Run = fmt.Sprintf("%s[%d]", name, i)
		}
		r.Load = bench.guideLLMLoad()
		if r.Model = bench.firstText("config.backend.model"); r.Model == "" {
			r.Model = d.firstText("args.model", "args.backend_kwargs.model")
		}
		made := bench.child("scheduler_metrics").child("requests_made")
		if made.fields == nil {
			made = bench.child("metrics").child("request_totals")
		}
		for _, c := range []toolMetric{
			{"successful", QuantityCompleted, "", "Requests that guidellm counts as successful."},
			{"errored", QuantityFailures, "", "Requests with an error; incomplete ones are apart."},
		} {
			if v, ok := made.number(c.key); ok {
				c.key = "requests." + c.key
				r.add(c, c.key, "", v)
			}
		}
		if v, ok := made.number("incomplete"); ok && v > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%v requests were cut off at the end and are in no figure", v))
		}
		metrics := bench.child("metrics")
		for _, m := range guideLLMMetrics {
			dist := metrics.child(m.key).child("successful")
			if count, ok := dist.number("count"); ok && count == 0 {
				continue // guidellm writes zeros for what it has not seen
			}
			rate := m.quantity == QuantityRequestRate || m.quantity == QuantityOutputRate
			r.statistics(dist, m, m.key+".successful.", "mean", map[string]string{"median": "p50", "max": "max"}, rate)
			if !rate {
				r.statistics(dist.child("percentiles"), m, m.key+".successful.percentiles.", "",
					map[string]string{"p90": "p90", "p95": "p95", "p99": "p99"}, false)
			}
		}
		results = append(results, r)
	}
	return results
}

// add adds a statistic of a metric under the tool's own name for it.
func (r *ToolResult) add(m toolMetric, name, statistic string, v float64) {
	r.Figures = append(r.Figures, ToolFigure{Name: name, Metric: m.key, Statistic: statistic, Quantity: m.quantity,
		Value: v, Unit: m.unit, Definition: m.definition})
}

// statistics adds a distribution's mean and, unless only the mean makes sense,
// the other statistics, by the tool's names for them.
func (r *ToolResult) statistics(d *document, m toolMetric, prefix, mean string, names map[string]string,
	meanOnly bool) {
	add := func(key, statistic string) {
		if v, ok := d.number(key); ok {
			r.add(m, prefix+key, statistic, v)
		}
	}
	if meanOnly {
		add(mean, "")
		return
	}
	if mean != "" {
		add(mean, "mean")
	}
	for _, key := range []string{"median", "p50", "p90", "p95", "p99", "max"} {
		if s, ok := names[key]; ok {
			add(key, s)
		}
	}
}

// aiPerfMetrics are those of aiperf.
var aiPerfMetrics = []toolMetric{
	{"request_count", QuantityCompleted, "", "Requests with an answer."},
	{"error_request_count", QuantityFailures, "", "Requests with an error."},
	{"benchmark_duration", QuantityDuration, "s", "First request to last answer."},
	{"request_throughput", QuantityRequestRate, "1/s", "request_count / benchmark_duration."},
	{"output_token_throughput", QuantityOutputRate, "1/s",
		"Output tokens / benchmark_duration, by the tokenizer on the text."},
	{"time_to_first_token", QuantityFirstToken, "ms",
		"First response with content or reasoning minus the request's start; a role-only one is skipped." + numpy},
	{"inter_token_latency", QuantityGap, "ms",
		"(request_latency - time_to_first_token)/(n - 1), a mean for each request: what others call TPOT. Gaps between " +
			"chunks are its inter_chunk_latency." + numpy},
	{"request_latency", QuantityEndToEnd, "ms", "Last response with content minus the request's start." + numpy},
}

func (d *document) aiPerf(name string) []ToolResult {
	r := ToolResult{Tool: ToolAIPerf, Run: name, Basis: "reported"}
	config := d.child("input_config")
	r.Model = config.firstText("endpoint.model_names", "models.items", "model_names", "models")
	r.Load = d.firstSettings([]string{"input_config.loadgen", "input_config.load", "input_config"}, "concurrency",
		"request_rate", "request_count")
	completed, known := d.child("request_count").number("avg")
	if failures, ok := d.child("error_request_count").number("avg"); ok && failures > 0 && (!known || completed == 0) {
		r.nothingCompleted()
	}
	for _, m := range aiPerfMetrics {
		dist := d.child(m.key)
		if dist.fields == nil {
			continue
		}
		plain := m.unit != "ms"
		// The file carries its own units; a time in seconds is shown as such.
		if unit := dist.text("unit"); !plain && unit != "" {
			m.unit = unit
		}
		r.statistics(dist, m, m.key+".", "avg",
			map[string]string{"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max"}, plain)
	}
	var cancelled bool
	if json.Unmarshal(d.fields["was_cancelled"], &cancelled) == nil && cancelled {
		r.Notes = append(r.Notes, "the run was cancelled")
	}
	return []ToolResult{r}
}
