package report

import (
	"encoding/json"
	"strings"
)

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
