package report

import (
	"fmt"
	"strings"
	"testing"
)

const guideLLMYAML = `
metadata:
  version: 2
args:
  model: made-up-model
benchmarks:
- config:
    strategy: {type_: concurrent, streams: 8}
  scheduler_metrics:
    requests_made: {successful: 97, errored: 1, incomplete: 2, total: 100}
  metrics:
    request_latency:
      successful: {mean: 2.033, median: 2.032, max: 2.06, count: 97, std_dev: .nan, percentiles: {p90: 2.04, p95: 2.05, p99: 2.058}}
    time_to_first_token_ms:
      successful: {mean: 52.0, median: 51.5, count: 97, percentiles: {p99: 70.0}}
    output_tokens_per_second:
      successful: {mean: 781.5, median: 800.0, count: 97}
`

const guideLLMCSV2 = `Run Info,Run Info,Benchmark,Request Counts,Request Counts,Time to First Token,Time to First Token,Time to First Token,Token Throughput,Request Latency
Run ID,Backend,Strategy,Successful,Errored,Successful ms,Successful ms,Successful ms,Successful Output Tokens/Sec,Successful Sec
,,,,,Mean,Median,Percentiles,Mean,Median
r,"{""model"": ""made-up-model""}",concurrent,97,1,52.0,51.5,"[40, 41, 42, 43, 44, 50, 53, 55, 58, 70.0, 80]",781.5,2.032
r,{},throughput,0,100,0,0,"[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]",0,0
`

const aiPerfCSV = `Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std
Inter Token Latency (ms),20.00,19.00,21.00,,19.10,19.20,19.30,19.90,20.00,20.10,20.20,20.30,20.40,0.30
Request Latency (ms),2031.50,1990.00,2049.60,,1991.00,1995.00,2000.00,2030.00,2031.75,2033.00,2038.50,2040.00,2049.50,9.00
Time to First Token (ms),52.00,40.00,80.00,,41.00,43.00,44.00,50.00,51.50,53.00,55.00,58.00,70.00,5.00

Metric,Value
Benchmark Duration (sec),12.60
Error Request Count,1
Output Token Throughput (tokens/sec),785.00
Request Count,99
Request Throughput (requests/sec),7.90


Endpoint,GPU_Index,GPU_Name,GPU_UUID,Metric,avg,min,max,sum
http://h:9400/metrics,0,H100,GPU-1,GPU Power Usage (W),400.00,100.00,700.00,
`

const inferencePerfJSON = `{"benchmark_time_seconds": 12.6, "load_summary": {"count": 100, "requested_rate": 8.0, "achieved_rate": 7.9, "send_duration": 12.5, "schedule_delay": {"mean": 0.001}},
 "successes": {"count": 99, "latency": {"request_latency": {"mean": 2.033, "min": 1.99, "median": 2.032, "p90": 2.04, "p99": 2.058, "max": 2.06},
  "time_to_first_token": {"mean": 0.052, "p50": 0.0515, "p99": 0.07}, "time_per_output_token": {"mean": 0.02}, "inter_token_latency": {"mean": 0.02, "p99": 0.0204}, "normalized_time_per_output_token": null},
  "throughput": {"input_tokens_per_sec": 1000, "output_tokens_per_sec": 785.0, "requests_per_sec": 7.9}},
 "failures": {"count": 1, "request_latency": {"mean": 0.1}}}`

const vllmSweep = `[{"run_number": 0, "date": "20260102-150405", "model_id": "made-up-model", "max_concurrency": 8, "request_rate": "inf", "completed": 99, "failed": 1, "request_throughput": 7.9, "output_throughput": 785.0, "mean_ttft_ms": 52.0, "median_ttft_ms": 51.5, "p99_ttft_ms": 70.0},
 {"run_number": 1, "model_id": "made-up-model", "max_concurrency": 8, "request_rate": "inf", "completed": 0, "failed": 100, "request_throughput": 0.0, "output_throughput": 0.0, "mean_ttft_ms": 0.0, "median_ttft_ms": 0.0, "p99_ttft_ms": 0.0}]`

const aiPerfConfig = `"input_config": {"endpoint": {"model_names": ["made-up-model"], "url": "h"}, "loadgen": {"concurrency": 8, "request_rate": null}}, "was_cancelled": false`

// TestFormats: each format that a tool has written, of several versions, gives the
// same few figures, the model and the load.
func TestFormats(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		tool       Tool
		model      string
		load       string
		figures    string // quantity statistic=value unit
	}{
		{"guidellm YAML", guideLLMYAML, ToolGuideLLM, "made-up-model", "concurrent, streams 8", "completed=97,failed=1,first token p50=51.5ms,first token p99=70ms,output tokens/s=781.5,end to end p50=2.032s"},
		{"guidellm CSV, three header rows", guideLLMCSV2, ToolGuideLLM, "made-up-model", "concurrent", "completed=97,failed=1,first token p50=51.5ms,first token p99=70ms,first token max=80ms,output tokens/s=781.5,end to end p50=2.032s"},
		{"aiperf CSV", aiPerfCSV, ToolAIPerf, "", "", "completed=99,failed=1,first token p50=51.5ms,first token p99=70ms,output tokens/s=785,requests/s=7.9,end to end max=2049.6ms,duration=12.6s"},
		{"aiperf JSON", `{"request_latency": {"unit": "ms", "p50": 2031.75}, "request_throughput": {"avg": 7.9}, "request_count": {"avg": 99}, ` + aiPerfConfig + `}`, ToolAIPerf, "made-up-model", "concurrency 8", "completed=99,end to end p50=2031.75ms"},
		{"inference-perf", inferencePerfJSON, ToolInferencePerf, "", "requested_rate 8.0, achieved_rate 7.9, send_duration 12.5", "completed=99,failed=1,first token p50=0.0515s,first token p99=0.07s,output tokens/s=785,per output token mean=0.02s,end to end p50=2.032s"},
		{"vLLM sweep", vllmSweep, ToolVLLM, "made-up-model", "max_concurrency 8, request_rate inf", "completed=99,failed=1,first token p50=51.5ms,first token p99=70ms,output tokens/s=785"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			results, err := ReadResults("x", strings.NewReader(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Tool != tc.tool || r.Model != tc.model || r.Load != tc.load {
				t.Errorf("%v, model %q, load %q", r.Tool, r.Model, r.Load)
			}
			have := map[string]bool{}
			for _, f := range r.Figures {
				have[strings.TrimSuffix(f.Quantity.String()+" "+f.Statistic, " ")+fmt.Sprintf("=%v", f.Value)+strings.TrimPrefix(f.Unit, "1/s")] = true
				if f.Definition == "" || f.Name == "" {
					t.Errorf("%+v", f)
				}
			}
			for want := range strings.SplitSeq(tc.figures, ",") {
				if !have[want] {
					t.Errorf("no %q among %v", want, have)
				}
			}
		})
	}
}

// TestNothingCompleted: what a tool writes for latencies that it has not seen is not
// shown as 0, and its file is read all the same.
func TestNothingCompleted(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		at   int
	}{
		"vllm":           {vllmSweep, 1},
		"guidellm":       {guideLLMCSV2, 1},
		"sglang":         {`{"completed": 0, "request_throughput": 0.0, "mean_e2e_latency_ms": 0.0, "median_e2e_latency_ms": 0.0, "p99_ttft_ms": 0.0}`, 0},
		"aiperf":         {`{"error_request_count": {"unit": "requests", "avg": 100.0}, "error_summary": [{"count": 100}], ` + aiPerfConfig + `}`, 0},
		"inference-perf": {`{"load_summary": {"count": 5}, "successes": {"count": 0, "latency": null}, "failures": {"count": 5}}`, 0},
	} {
		results, err := ReadResults("x", strings.NewReader(tc.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := results[tc.at]
		if len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "no request completed") {
			t.Errorf("%s: %q", name, r.Notes)
		}
		for _, f := range r.Figures {
			if f.Statistic != "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}
