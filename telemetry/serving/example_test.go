// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/telemetry/serving"
)

// The page of a vLLM server, as http.Get returns it.
const metricsPage = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="llama",engine="0"} 12
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="llama",engine="0"} 0.81
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="llama",engine="0"} 50000
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="llama",engine="0",le="0.1"} 90
vllm:time_to_first_token_seconds_bucket{model_name="llama",engine="0",le="0.25"} 99
vllm:time_to_first_token_seconds_bucket{model_name="llama",engine="0",le="+Inf"} 100
vllm:time_to_first_token_seconds_sum{model_name="llama",engine="0"} 9
vllm:time_to_first_token_seconds_count{model_name="llama",engine="0"} 100
`

// Read a page. A figure that the server does not export is missing.
func ExampleParse() {
	readings, err := serving.Parse(strings.NewReader(metricsPage))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := readings[0]
	fmt.Println(r.Engine, r.Model, "running:", r.Running, "waiting:", r.Waiting, "KV cache:", r.KVUsage)
	// Output: vllm llama running: 12 waiting: - KV cache: 0.81
}

// A histogram knows a percentile only to its bucket.
func ExampleHistogram_Quantile() {
	readings, _ := serving.Parse(strings.NewReader(metricsPage))
	p95, _ := readings[0].TTFT.Quantile(0.95)
	mean, _ := readings[0].TTFT.Mean()
	fmt.Printf("P95 of the time to the first token: %v to %v s; mean %v s\n", p95.Low, p95.High, mean)
	// Output: P95 of the time to the first token: 0.1 to 0.25 s; mean 0.09 s
}

// What happened between two pages: 10,000 tokens, 20 requests.
func ExampleReading_Since() {
	later := strings.NewReplacer("} 50000", "} 60000", "} 90\n", "} 95\n", "} 99\n", "} 119\n", "} 100\n", "} 120\n", "} 9\n", "} 12\n").Replace(metricsPage)
	before, _ := serving.Parse(strings.NewReader(metricsPage))
	after, _ := serving.Parse(strings.NewReader(later))
	d, err := after[0].Since(before[0])
	p50, _ := d.TTFT.Quantile(0.5)
	fmt.Println(d.GenerationTokens, "tokens,", d.TTFT.Count, "requests, P50", p50, err)
	_, err = before[0].Since(after[0])
	fmt.Println(errors.Is(err, serving.ErrReset))
	// Output:
	// 10000 tokens, 20 requests, P50 {0.1 0.25} <nil>
	// true
}

// How many requests kept an objective is exact at a bucket's bound only.
func ExampleHistogram_AtMost() {
	readings, _ := serving.Parse(strings.NewReader(metricsPage))
	fmt.Println(readings[0].TTFT.AtMost(0.25))
	fmt.Println(readings[0].TTFT.AtMost(0.2))
	fmt.Println(readings[0].TTFT.AtMost(3))
	// Output:
	// 99 99
	// 90 99
	// 99 100
}
