package report

import (
	"cmp"
	_ "embed" // the definitions
	"encoding/json"
	"fmt"
	"slices"
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

// What the definitions say was read in each tool's source, or measured against a server that records its own truth.
//
//go:embed tools.json
var toolsJSON []byte

// toolMetrics are those of each tool; a test holds that the file can be read.
var toolMetrics = sync.OnceValue(func() (all map[Tool][]toolMetric) {
	_ = json.Unmarshal(toolsJSON, &all)
	return all
})

// statisticOf is the statistic of each name that tools have for one, and statisticNames is their order.
var (
	statisticOf = map[string]string{"mean": "mean", "avg": "mean", "Value": "mean", "median": "p50", "p50": "p50",
		"p90": "p90", "p95": "p95", "p99": "p99", "max": "max"}
	statisticNames = []string{"mean", "avg", "median", "p50", "p90", "p95", "p99", "max"}
)

func reported(tool Tool, run string) ToolResult {
	return ToolResult{Tool: tool, Run: run, Basis: "reported"}
}

// add adds a statistic of a metric under the tool's own name for it.
func (r *ToolResult) add(m toolMetric, name, statistic string, v float64) {
	r.Figures = append(r.Figures, ToolFigure{Name: name, Metric: m.Key, Statistic: statistic, Quantity: m.Quantity,
		Value: v, Unit: m.Unit, Definition: m.Definition})
}

// statistics adds those of a distribution that r does not have yet, and of a plain figure the mean alone. get finds
// one by the tool's name for it, with the figure's own name.
func (r *ToolResult) statistics(m toolMetric, names []string,
	get func(name string) (figure string, v float64, ok bool)) {
	for _, name := range names {
		statistic := statisticOf[name]
		if statistic == "" || !m.latency() && statistic != "mean" {
			continue
		}
		if !m.latency() {
			statistic = ""
		}
		if slices.ContainsFunc(r.Figures, func(f ToolFigure) bool { return f.Metric == m.Key && f.Statistic == statistic }) {
			continue
		}
		if figure, v, ok := get(name); ok {
			r.add(m, figure, statistic, v)
		}
	}
}

// distribution adds the statistics that an object holds, whose names are prefix and the tool's own.
func (r *ToolResult) distribution(m toolMetric, d *document, prefix string) {
	r.statistics(m, statisticNames, func(name string) (string, float64, bool) {
		v, ok := d.number(name)
		return prefix + name, v, ok
	})
}

// flat reads one flat object of vLLM's kind.
func (d *document) flat(name string, tool Tool) []ToolResult {
	r := reported(tool, cmp.Or(d.text("label"), name))
	r.Model = d.text("model_id")
	if run := d.text("run_number"); run != "" { // of a sweep
		r.Run += ", run " + run
	}
	r.Load = d.firstSettings([]string{""}, "max_concurrency", "request_rate", "burstiness")
	if d.has("request_goodput:") && tool == ToolVLLM {
		r.Notes = append(r.Notes, "written by vLLM's benchmark_serving before the middle of 2025, or by a copy of it: "+
			"there tpot may be 0 where the server reports no usage")
	}
	completed, known := d.number("completed")
	if known && completed == 0 {
		r.nothingCompleted()
	}
	for _, m := range toolMetrics()[tool] {
		if !m.latency() {
			if v, ok := d.number(m.Key); ok {
				r.add(m, m.Key, "", v)
			}
		} else if !known || completed != 0 {
			r.statistics(m, statisticNames, func(name string) (string, float64, bool) {
				v, ok := d.number(name + "_" + m.Key)
				return name + "_" + m.Key, v, ok
			})
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
		r := reported(ToolGuideLLM, name)
		if len(raw) > 1 {
			r.Run = fmt.Sprintf("%s[%d]", name, i)
		}
		r.Load = bench.guideLLMLoad()
		r.Model = cmp.Or(bench.firstText("config.backend.model"), d.firstText("args.model", "args.backend_kwargs.model"))
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
			r.distribution(m, dist, m.Key+".successful.")
			r.distribution(m, dist.child("percentiles"), m.Key+".successful.percentiles.")
		}
		results = append(results, r)
	}
	return results
}

func (d *document) aiPerf(name string) []ToolResult {
	r := reported(ToolAIPerf, name)
	r.Model = d.child("input_config").firstText("endpoint.model_names", "models.items", "model_names", "models")
	r.Load = d.firstSettings([]string{"input_config.loadgen", "input_config.load", "input_config"}, "concurrency",
		"request_rate", "request_count")
	completed, known := d.child("request_count").number("avg")
	if failures, ok := d.child("error_request_count").number("avg"); ok && failures > 0 && (!known || completed == 0) {
		r.nothingCompleted()
	}
	for _, m := range toolMetrics()[ToolAIPerf] {
		dist := d.child(m.Key)
		// The file carries its own units; a time in seconds is shown as such.
		if m.latency() {
			m.Unit = cmp.Or(dist.text("unit"), m.Unit)
		}
		r.distribution(m, dist, m.Key+".")
	}
	var cancelled bool
	if json.Unmarshal(d.fields["was_cancelled"], &cancelled) == nil && cancelled {
		r.Notes = append(r.Notes, "the run was cancelled")
	}
	return []ToolResult{r}
}

// inferencePerf reads a lifecycle report of kubernetes-sigs/inference-perf, of a stage or of the whole run.
func (d *document) inferencePerf(name string) []ToolResult {
	r := reported(ToolInferencePerf, name)
	r.Load = d.child("load_summary").firstSettings([]string{""}, "concurrency", "requested_rate", "achieved_rate",
		"send_duration")
	successes := d.child("successes")
	latency := successes.child("latency")
	completed, counted := successes.number("count")
	for _, m := range toolMetrics()[ToolInferencePerf] {
		if m.latency() {
			if !counted || completed != 0 {
				r.distribution(m, latency.child(m.Key), "successes.latency."+m.Key+".")
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
			if text := d.firstText(strings.TrimPrefix(object+"."+key, ".")); text != "" {
				parts = append(parts, key+" "+text)
			}
		}
		if len(parts) > 0 {
			return strings.Join(parts, ", ")
		}
	}
	return ""
}

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
