package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/loadgen"
)

var resultFiles = []string{"vllm.json", "sglang.jsonl", "guidellm.json", "aiperf.json"}

func TestResultTable(t *testing.T) {
	own := runOf("mps-1", 50, 100)
	own.Basis, own.Counts, own.Stopped = "simulated", loadgen.Counts{Total: 100, OK: 91, Failed: 9}, ""
	own.SteadyState.Verdict, own.Definitions = "unknown", loadgen.Definitions()
	ownJSON, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	all, err := ReadResults("summary.json", bytes.NewReader(ownJSON))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resultOf(&own), all[0]); diff != "" {
		t.Error(diff)
	}
	for _, name := range resultFiles {
		rs, err := ReadResults(name, bytes.NewReader(readTestdata(t, name)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rs...)
	}
	var b bytes.Buffer
	if err := all.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/results/table.golden", b.Bytes())
	b.Reset()
	if err := all.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/results/table.csv", b.Bytes())
}

func TestReadResultsTellsTheTool(t *testing.T) {
	for in, want := range map[string]Tool{
		`{"completed": 1, "request_throughput": 2, "request_goodput:": 1, "mean_ttft_ms": 3}`:                                         ToolVLLM,
		`{"completed": 1, "request_throughput": 2, "request_goodput:": null, "benchmark_start_time_unix": 1000.0, "mean_ttft_ms": 3}`: ToolInferenceX,
		`{"completed": 1, "request_throughput": 2, "mean_ttft_ms": NaN}`:                                                              ToolVLLM,
		`{"median_e2e_latency_ms": 1}`:                              ToolSGLang,
		`{"benchmarks": [{}]}`:                                      ToolGuideLLM,
		`{"request_latency": {}, "request_throughput": {"avg": 1}}`: ToolAIPerf,
	} {
		got, err := ReadResults("x", strings.NewReader(in))
		if err != nil || len(got) != 1 || got[0].Tool != want {
			t.Errorf("%s: %+v, %v; want %v", in, got, err, want)
		}
	}
}

func TestReadResultsErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":        "x: holds no result",
		"[1]":     "x[0]: not a JSON object",
		`{"a":1}`: "x[0]: no known tool's result",
		`{"completed": "many", "request_throughput": 1}`:   `x[0].completed: is "many", not a number`,
		`{"benchmarks": {}}`:                               "x[0].benchmarks: is not a list",
		`{"benchmarks": [3]}`:                              "x[0].benchmarks[0]: is not an object",
		`{"benchmarks": [{}], "metadata": {"version": 1}}`: "x[0].metadata.version: is 1",
		"a,b\n1,2\n": "x: no known tool's table",
		"[{\"completed\": 1, \"request_throughput\": 2}, 7]":                   "x[1]: not a JSON object",
		`{"request_latency": 3, "request_throughput": 1}`:                      "x[0].request_latency: is not an object",
		`{"client_health": {}, "definitions": {}, "schema_version": 99}`:       "x[0].schema_version: is 99",
		`{"client_health": 3, "definitions": {}}`:                              "x[0]: json: cannot unmarshal",
		"{\"completed\": 1, \"request_throughput\": 2}\n{\"completed\": 1, ]}": "x[1]: not a JSON object",
	} {
		got, err := ReadResults("x", strings.NewReader(in))
		if got != nil || !errors.Is(err, loadgen.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", in, err, want)
		}
	}
}

func TestFromPythonLeavesTextsAlone(t *testing.T) {
	in := `{"a\"NaN": "Infinity NaN", "b": [NaN, Infinity, -Infinity, "\\"], "c": NaN}`
	want := `{"a\"NaN": "Infinity NaN", "b": [null, "inf", "-inf", "\\"], "c": null}`
	if got := string(fromPython([]byte(in))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzReadResults(f *testing.F) {
	for _, name := range resultFiles {
		f.Add(readTestdata(f, name))
	}
	f.Add([]byte(`{"client_health":{},"definitions":{},"schema_version":1,"ttft_ms":{"count":3}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		results, err := ReadResults("x", bytes.NewReader(data))
		if (err == nil) == (results == nil) {
			t.Fatalf("%v and %v", results, err)
		}
		var b bytes.Buffer
		if err := results.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			for _, fig := range r.Figures {
				if fig.Definition == "" || fig.Name == "" {
					t.Fatalf("a figure without a definition: %+v", fig)
				}
			}
		}
	})
}

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/results/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestToolMetrics: every tool's figures say what they are.
func TestToolMetrics(t *testing.T) {
	for _, tool := range toolNames.Values()[2:] { // neither unknown nor this package
		metrics := toolMetrics()[tool]
		if len(metrics) < 8 {
			t.Errorf("%v has %d figures", tool, len(metrics))
		}
		for _, m := range metrics {
			if m.Key == "" || m.Quantity == QuantityUnknown || m.Definition == "" {
				t.Errorf("%v: %+v", tool, m)
			}
		}
	}
}
