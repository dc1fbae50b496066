package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// Tool is a load generator whose result files can be read. The zero value is no tool.
type Tool uint8

// The tools.
const (
	ToolUnknown Tool = iota
	ToolLoadgen      // this package: summary.json
	ToolVLLM         // vLLM's bench serve: --save-result, also --append-result
	ToolInferenceX
	ToolSGLang        // SGLang's bench_serving: JSON Lines
	ToolGuideLLM      // guidellm: its JSON, YAML or CSV, of report version 2
	ToolAIPerf        // aiperf: profile_export_aiperf.json or .csv
	ToolInferencePerf // inference-perf: *_lifecycle_metrics.json
)

var toolNames = enum.Of[Tool](loadgen.ErrUnknownName, "tool", "unknown", "loadgen", "vllm", "inferencex", "sglang",
	"guidellm", "aiperf", "inference-perf")

// Quantity says roughly what a tool's figure is about, so that a table has a column for it. Figures of one quantity
// need not be comparable: see ToolFigure.Definition. The zero value is no quantity.
type Quantity uint8

// The quantities.
const (
	QuantityUnknown Quantity = iota
	QuantityCompleted
	QuantityFailures
	QuantityDuration
	QuantityRequestRate
	QuantityOutputRate
	QuantityFirstToken
	QuantityPerToken
	QuantityGap
	QuantityEndToEnd
)

var quantityNames = enum.Of[Quantity](loadgen.ErrUnknownName, "quantity", "unknown", "completed", "failed", "duration",
	"requests/s", "output tokens/s", "first token", "per output token", "inter token", "end to end")

// ToolFigure is one figure as its tool names, counts and defines it.
type ToolFigure struct {
	Name      string   `json:"name"`                // the key in the tool's file, e.g. "p99_ttft_ms"
	Metric    string   `json:"metric"`              // the key without the statistic, e.g. "ttft_ms"
	Statistic string   `json:"statistic,omitempty"` // mean, p50, p90, p95, p99 or max; "" for a plain number
	Quantity  Quantity `json:"quantity"`
	Value     float64  `json:"value"`
	Unit      string   `json:"unit,omitempty"` // ms, s, 1/s; "" for a count
	// Definition tells the quantity that the tool measures under that name.
	Definition string `json:"definition"`
}

// ToolResult is one run of a tool.
type ToolResult struct {
	Tool  Tool   `json:"tool"`
	Run   string `json:"run"`             // the file's name, or the run's id or scenario
	Model string `json:"model,omitempty"` // absent if the file doesn't say
	Load  string `json:"load,omitempty"`  // as the file says, e.g. "max_concurrency 8, request_rate inf"
	// Basis is "measured" or "simulated" for this package's runs and "reported" for
	// other tools', whose files cannot tell.
	Basis   string       `json:"basis"`
	Figures []ToolFigure `json:"figures"`
	// Notes hold reservations about the run.
	Notes []string `json:"notes,omitempty"`
}

// maxResultBytes bounds a result file; guidellm's hold every request's text.
const maxResultBytes = 512 << 20

// ReadResults reads a result file of any Tool (JSON, JSON Lines, a JSON array of results, YAML or CSV), told by its
// content, as one result for each run in it. name labels runs that have no name of their own. Python's NaN is taken
// as a missing value. Figures keep the tool's names, units and definitions; nothing is converted. The error wraps
// ErrInput.
func ReadResults(name string, r io.Reader) (ToolResults, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxResultBytes+1))
	if err != nil {
		return nil, fmt.Errorf("loadgen: read %s: %w", name, err)
	}
	if len(data) > maxResultBytes {
		return nil, fmt.Errorf("%w: %s is larger than %d MiB", loadgen.ErrInput, name, maxResultBytes>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var l problem.List
	var results ToolResults
	switch text := bytes.TrimSpace(data); {
	case len(text) > 0 && text[0] != '{' && text[0] != '[' && yamlReport.Match(text):
		if data, err = fromYAML(text); err != nil {
			l.Addf(name, "give guidellm's own report", "%v", err)
			break
		}
		results = readDocuments(name, data, &l)
	case len(text) > 0 && text[0] != '{' && text[0] != '[':
		results = readTable(name, data, &l)
	default:
		results = readDocuments(name, fromPython(data), &l)
	}
	l.If(len(results) == 0 && l.Len() == 0, name, "give the tool's own JSON file", "holds no result")
	if err := l.Under(loadgen.ErrInput); err != nil {
		return nil, err
	}
	return results, nil
}

// yamlReport matches the beginning of guidellm's report in YAML.
var yamlReport = regexp.MustCompile(`(?m)^(benchmarks|metadata|args|type_):`)

func fromYAML(data []byte) ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	return json.Marshal(finite(v))
}

// finite leaves numbers out that JSON cannot hold.
func finite(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = finite(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = finite(v[k])
		}
	case map[any]any:
		return nil // no report has keys that are no texts
	}
	return v
}

// readDocuments reads JSON objects, one after another or in arrays.
func readDocuments(name string, data []byte, l *problem.List) (results ToolResults) {
	dec := json.NewDecoder(bytes.NewReader(data))
	n := 0
	read := func(raw json.RawMessage) {
		d := &document{l: l, path: fmt.Sprintf("%s[%d]", name, n)}
		n++
		if err := json.Unmarshal(raw, &d.fields); err != nil {
			l.Addf(d.path, "give the tool's own JSON file", "not a JSON object: %v", err)
			return
		}
		results = append(results, d.read(name)...)
	}
	for l.Len() <= problem.Enough {
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			l.Addf(fmt.Sprintf("%s[%d]", name, n), "give the tool's own JSON file", "not a JSON object: %v", err)
			break
		}
		var list []json.RawMessage
		if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
			read(raw)
			continue
		}
		for _, raw := range list {
			read(raw)
		}
	}
	return results
}

// ReadFiles reads the result files of any tools, see [ReadResults]. The error names every file that cannot be read.
func ReadFiles(paths ...string) (all ToolResults, err error) {
	for _, path := range paths {
		f, openErr := os.Open(path)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		results, readErr := ReadResults(filepath.Base(path), f)
		err = errors.Join(err, readErr, f.Close())
		all = append(all, results...)
	}
	return all, err
}

// pythonNumber matches what Python writes for numbers that JSON cannot hold, and texts.
var pythonNumber = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// fromPython turns what Python writes for numbers that JSON cannot hold into
// JSON: Infinity into "inf", NaN into null. Texts are left alone.
func fromPython(data []byte) []byte {
	if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		return data
	}
	into := map[string]string{"NaN": "null", "Infinity": `"inf"`, "-Infinity": `"-inf"`}
	return pythonNumber.ReplaceAllFunc(data, func(b []byte) []byte {
		return []byte(cmp.Or(into[string(b)], string(b)))
	})
}

// document is one JSON object of a result file.
type document struct {
	l      *problem.List
	path   string
	fields map[string]json.RawMessage
}

func (d *document) has(name string) bool { return len(d.fields[name]) > 0 }

func (d *document) bad(field, remedy, format string, args ...any) {
	d.l.Addf(problem.Join(d.path, field), remedy, format, args...)
}

// read tells the tool and reads its result.
func (d *document) read(name string) []ToolResult {
	switch {
	case d.has("client_health") && d.has("definitions"):
		return d.loadgen()
	case d.has("benchmarks"):
		return d.guideLLM(name)
	case d.has("load_summary") && d.has("successes"):
		return d.inferencePerf(name)
	case d.has("aiperf_version") || d.has("input_config") &&
		(d.has("error_summary") || d.has("was_cancelled") || d.has("error_request_count")) ||
		d.has("request_latency") && (d.has("time_to_first_token") || d.has("output_token_throughput") ||
			d.has("request_throughput")):
		return d.aiPerf(name)
	case d.has("mean_e2e_latency_ms") || d.has("median_e2e_latency_ms"):
		return d.flat(name, ToolSGLang)
	// vLLM wrote this key with a colon too, until the middle of 2025; what only
	// InferenceX's copy adds tells the two apart.
	case d.has("request_goodput:") && (d.has("benchmark_start_time_unix") || d.has("benchmark_outcome")):
		return d.flat(name, ToolInferenceX)
	case d.has("request_throughput") && d.has("completed"):
		return d.flat(name, ToolVLLM)
	}
	d.bad("", "give a summary.json of this package, or a result of vllm, sglang, guidellm, aiperf or inference-perf",
		"no known tool's result")
	return nil
}

// number reads a number; a missing or null one is absent.
func (d *document) number(name string) (float64, bool) {
	raw := d.fields[name]
	if len(raw) == 0 || string(raw) == "null" {
		return 0, false
	}
	var v float64
	if err := json.Unmarshal(raw, &v); err != nil || math.IsInf(v, 0) {
		d.bad(name, "give the tool's own JSON file", "is %s, not a number", problem.Clip(string(raw)))
		return 0, false
	}
	return v, true
}

// text reads a text or a number as a text, "" if it is neither.
func (d *document) text(name string) string {
	raw := d.fields[name]
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return problem.Clip(s)
	}
	var v json.Number
	if json.Unmarshal(raw, &v) == nil {
		return v.String()
	}
	return ""
}

// child reads an object; a missing one is empty.
func (d *document) child(name string) *document {
	c := &document{l: d.l, path: problem.Join(d.path, name)}
	if raw := d.fields[name]; len(raw) > 0 && string(raw) != "null" {
		if json.Unmarshal(raw, &c.fields) != nil {
			d.bad(name, "give the tool's own JSON file", "is not an object")
		}
	}
	return c
}

func (d *document) loadgen() []ToolResult {
	var s loadgen.Summary
	raw, err := json.Marshal(d.fields)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		d.bad("", "give a summary.json of this package", "%v", err)
		return nil
	}
	if s.SchemaVersion != loadgen.SchemaVersion {
		d.bad("schema_version", "read it with a version of the library that wrote it", "is %d, this version reads %d",
			s.SchemaVersion, loadgen.SchemaVersion)
		return nil
	}
	return []ToolResult{resultOf(&s)}
}

// resultOf gives a run of this package the shape of other tools' results. Only figures that exist are in it.
func resultOf(s *loadgen.Summary) ToolResult {
	r := ToolResult{Tool: ToolLoadgen, Run: strings.TrimPrefix(s.Scenario+" "+s.RunID, " "), Basis: s.Basis}
	loads := distinct(s.Tenants, func(t *loadgen.TenantSummary) []string { return []string{t.Load} })
	models := distinct(s.Tenants, func(t *loadgen.TenantSummary) []string {
		if t.Model == "" {
			return nil
		}
		return []string{t.Model}
	})
	r.Load, r.Model = strings.Join(loads, "; "), strings.Join(models, ", ")
	def := loadgen.Definitions()
	add := func(name string, q Quantity, v float64, unit, definition string) {
		r.add(toolMetric{name, q, unit, definition}, name, "", v)
	}
	add("counts.ok", QuantityCompleted, float64(s.Counts.OK), "", def["ok"])
	add("counts.failed", QuantityFailures, float64(s.Counts.Failed), "", "Every request that is not ok.")
	add("duration_s", QuantityDuration, s.DurationS, "s", def["duration_s"])
	add("completed_per_s", QuantityRequestRate, s.CompletedPerS, "1/s", "Ok requests / duration_s.")
	add("output_tokens_per_s", QuantityOutputRate, s.OutputTokensPerS, "1/s",
		def["output_tokens_per_s"]+" "+def["output_tokens"])
	quantity := map[loadgen.LatencyMetric]Quantity{loadgen.MetricTTFT: QuantityFirstToken,
		loadgen.MetricTPOT: QuantityPerToken, loadgen.MetricITL: QuantityGap, loadgen.MetricE2E: QuantityEndToEnd}
	for _, dist := range distributions(&s.Measures) {
		q, ok := quantity[dist.Metric]
		if !ok || dist.Count == 0 {
			continue
		}
		name := figureName(dist.Metric)
		for _, st := range statistics {
			m := toolMetric{name, q, "ms", def[dist.Metric.String()] + " Percentiles by nearest rank."}
			r.add(m, name+"."+st.name, st.name, float64(st.of(dist.Figures)))
		}
	}
	r.Notes = append(r.Notes, faults(s)...)
	return r
}
