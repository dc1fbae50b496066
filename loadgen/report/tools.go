package report

import (
	_ "embed" // the definitions
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// toolMetric is a figure in a tool's file, with what it means there.
type toolMetric struct {
	Key        string
	Quantity   Quantity
	Unit       string
	Definition string
}

// latency reports whether the figure is a distribution of times.
func (m *toolMetric) latency() bool { return m.Quantity >= QuantityFirstToken }

func (m *toolMetric) rate() bool {
	return m.Quantity == QuantityRequestRate || m.Quantity == QuantityOutputRate
}

// What the definitions say was read in each tool's source, or measured against a server that records its own truth.
//
//go:embed tools.json
var toolsJSON []byte

// toolMetrics are those of each tool; a test holds that the file can be read.
var toolMetrics = sync.OnceValue(func() (all map[Tool][]toolMetric) {
	_ = json.Unmarshal(toolsJSON, &all)
	return all
})

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
	for _, m := range toolMetrics()[tool] {
		if v, ok := d.number(m.Key); ok && !m.latency() {
			r.add(m, m.Key, "", v)
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
	for _, m := range toolMetrics()[tool] {
		if !m.latency() {
			continue
		}
		got := map[string]bool{}
		for _, s := range statisticPrefixes {
			key := s.prefix + "_" + m.Key
			if v, ok := d.number(key); ok && !got[s.statistic] {
				got[s.statistic] = true
				r.add(m, key, s.statistic, v)
			}
		}
	}
	return []ToolResult{r}
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
		if v, ok := made.number("incomplete"); ok && v > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%v requests were cut off at the end and are in no figure", v))
		}
		metrics := bench.child("metrics")
		for _, m := range toolMetrics()[ToolGuideLLM] {
			if v, ok := made.number(m.Key); ok {
				m.Key = "requests." + m.Key
				r.add(m, m.Key, "", v)
				continue
			}
			dist := metrics.child(m.Key).child("successful")
			if count, ok := dist.number("count"); ok && count == 0 {
				continue // guidellm writes zeros for what it has not seen
			}
			r.statistics(dist, m, m.Key+".successful.", "mean", map[string]string{"median": "p50", "max": "max"}, m.rate())
			if !m.rate() {
				r.statistics(dist.child("percentiles"), m, m.Key+".successful.percentiles.", "",
					map[string]string{"p90": "p90", "p95": "p95", "p99": "p99"}, false)
			}
		}
		results = append(results, r)
	}
	return results
}

// add adds a statistic of a metric under the tool's own name for it.
func (r *ToolResult) add(m toolMetric, name, statistic string, v float64) {
	r.Figures = append(r.Figures, ToolFigure{Name: name, Metric: m.Key, Statistic: statistic, Quantity: m.Quantity,
		Value: v, Unit: m.Unit, Definition: m.Definition})
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
	for _, m := range toolMetrics()[ToolAIPerf] {
		dist := d.child(m.Key)
		if dist.fields == nil {
			continue
		}
		plain := !m.latency()
		// The file carries its own units; a time in seconds is shown as such.
		if unit := dist.text("unit"); !plain && unit != "" {
			m.Unit = unit
		}
		r.statistics(dist, m, m.Key+".", "avg",
			map[string]string{"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max"}, plain)
	}
	var cancelled bool
	if json.Unmarshal(d.fields["was_cancelled"], &cancelled) == nil && cancelled {
		r.Notes = append(r.Notes, "the run was cancelled")
	}
	return []ToolResult{r}
}

// inferencePerf reads a lifecycle report of kubernetes-sigs/inference-perf, of a stage or of the whole run.
func (d *document) inferencePerf(name string) []ToolResult {
	load := d.child("load_summary")
	r := ToolResult{Tool: ToolInferencePerf, Run: name, Basis: "reported",
		Load: load.settings("concurrency", "requested_rate", "achieved_rate", "send_duration")}
	successes := d.child("successes")
	latency := successes.child("latency")
	completed, counted := successes.number("count")
	for _, m := range toolMetrics()[ToolInferencePerf] {
		if m.latency() {
			if !counted || completed != 0 {
				r.statistics(latency.child(m.Key), m, "successes.latency."+m.Key+".", "mean", map[string]string{"median": "p50",
					"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max"}, false)
			}
			continue
		}
		at, key := d, m.Key
		for parent, rest, ok := strings.Cut(key, "."); ok; parent, rest, ok = strings.Cut(key, ".") {
			at, key = at.child(parent), rest
		}
		if v, ok := at.number(key); ok {
			r.add(m, m.Key, "", v)
		}
	}
	if counted && completed == 0 {
		r.nothingCompleted()
	}
	return []ToolResult{r}
}

// settings are the named fields that are there, e.g. "max_concurrency 8, rate inf".
func (d *document) settings(keys ...string) string {
	var parts []string
	for _, key := range keys {
		if v := d.text(key); v != "" {
			parts = append(parts, key+" "+v)
		}
	}
	return strings.Join(parts, ", ")
}

// nothingCompleted says why a result has no latencies.
func (r *ToolResult) nothingCompleted() {
	r.Notes = append(r.Notes, "no request completed: the file's zeros for latencies are no measurements and are left out")
}

// firstText is the first text that one of the paths leads to; the last element of a
// path may be a list, or a list of objects with a name.
func (d *document) firstText(paths ...string) string {
	for _, path := range paths {
		at := d
		steps := strings.Split(path, ".")
		for _, step := range steps[:len(steps)-1] {
			next := &document{l: d.l, path: at.path}
			if json.Unmarshal(at.fields[step], &next.fields) != nil {
				next.fields = nil
			}
			at = next
		}
		key := steps[len(steps)-1]
		if text := at.text(key); text != "" {
			return text
		}
		var texts []string
		if json.Unmarshal(at.fields[key], &texts) == nil && len(texts) > 0 {
			return strings.Join(texts, ", ")
		}
		var named []struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(at.fields[key], &named) == nil && len(named) > 0 && named[0].Name != "" {
			return named[0].Name
		}
	}
	return ""
}

// firstSettings are the first settings that one of the objects has.
func (d *document) firstSettings(objects []string, keys ...string) string {
	for _, object := range objects {
		var parts []string
		for _, key := range keys {
			if text := d.firstText(object + "." + key); text != "" {
				parts = append(parts, key+" "+text)
			}
		}
		if len(parts) > 0 {
			return strings.Join(parts, ", ")
		}
	}
	return ""
}

// guideLLMLoad describes how guidellm loaded the server.
func (d *document) guideLLMLoad() string {
	for _, at := range []string{"config.strategy", "scheduler.strategy"} {
		kind := d.firstText(at + ".type_")
		if kind == "" {
			continue
		}
		if more := d.firstSettings([]string{at}, "streams", "rate", "max_concurrency"); more != "" {
			return kind + ", " + more
		}
		return kind
	}
	return ""
}
