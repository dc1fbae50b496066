// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// hist writes a histogram's lines: upper bounds and cumulative counts.
func hist(name, labels string, sum float64, pairs ...float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# HELP %s Histogram.\n# TYPE %s histogram\n", name, name)
	comma := ","
	if labels == "" {
		comma = ""
	}
	for i := 0; i < len(pairs); i += 2 {
		le := fmt.Sprint(pairs[i])
		if math.IsInf(pairs[i], 1) {
			le = "+Inf"
		}
		fmt.Fprintf(&b, "%s_bucket{%s%sle=\"%s\"} %v\n", name, labels, comma, le, pairs[i+1])
	}
	fmt.Fprintf(&b, "%s_sum{%s} %v\n%s_count{%s} %v\n", name, labels, sum, name, labels, pairs[len(pairs)-1])
	return b.String()
}

var inf = math.Inf(1)

// The names that each version exports; their sources are given at names.
func vllmV1(ttft ...float64) string {
	l := `engine="0",model_name="meta-llama/Llama-3.1-8B"`
	return `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{` + l + `} 7.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{` + l + `} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{` + l + `} 0.625
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{` + l + `} 123456.0
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{` + l + `} 1.7e+09
# TYPE vllm:request_success_total counter
vllm:request_success_total{` + l + `,finished_reason="stop"} 90.0
vllm:request_success_total{` + l + `,finished_reason="length"} 10.0
` + hist("vllm:time_to_first_token_seconds", l, 12.5, ttft...) +
		hist("vllm:inter_token_latency_seconds", l, 8, 0.01, 900, 0.025, 1000, inf, 1000) +
		hist("vllm:request_time_per_output_token_seconds", l, 1.2, 0.01, 60, inf, 100)
}

const vllmV0 = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 3
# TYPE vllm:num_requests_swapped gauge
vllm:num_requests_swapped{model_name="m"} 0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
# TYPE vllm:time_per_output_token_seconds histogram
vllm:time_per_output_token_seconds_bucket{le="0.01",model_name="m"} 5
vllm:time_per_output_token_seconds_bucket{le="+Inf",model_name="m"} 8
vllm:time_per_output_token_seconds_count{model_name="m"} 8
vllm:time_per_output_token_seconds_sum{model_name="m"} 0.08
`

const sglang = `# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="q",pp_rank="0",tp_rank="0"} 162.0
sglang:num_running_reqs{engine_type="unified",model_name="q",pp_rank="0",tp_rank="1"} 162.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="q",pp_rank="0",tp_rank="0"} 2826.0
# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="q",pp_rank="0",tp_rank="0"} 0.28
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="q",is_streaming="true"} 8.0e+06
sglang:prompt_tokens_total{model_name="q",is_streaming="false"} 1000
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{model_name="q"} 14007
`

func TestParse(t *testing.T) {
	some := optional.Of[float64]
	ttft := &serving.Histogram{Buckets: []serving.Bucket{{0.05, 20}, {0.1, 80}, {inf, 100}}, Count: 100, Sum: 12.5}
	for name, c := range map[string]struct {
		text string
		want []serving.Reading
	}{
		"vLLM V1": {vllmV1(0.05, 20, 0.1, 80, inf, 100), []serving.Reading{{Engine: serving.EngineVLLM, Model: "meta-llama/Llama-3.1-8B", Replica: "0",
			Running: some(7), Waiting: some(2), KVUsage: some(0.625), PromptTokens: some(123456), Requests: some(100), TTFT: ttft,
			ITL:  &serving.Histogram{Buckets: []serving.Bucket{{0.01, 900}, {0.025, 1000}, {inf, 1000}}, Count: 1000, Sum: 8},
			TPOT: &serving.Histogram{Buckets: []serving.Bucket{{0.01, 60}, {inf, 100}}, Count: 100, Sum: 1.2}}}},
		"vLLM V0": {vllmV0, []serving.Reading{{Engine: serving.EngineVLLM, Model: "m", Running: some(3), KVUsage: some(0.5),
			ITL: &serving.Histogram{Buckets: []serving.Bucket{{0.01, 5}, {inf, 8}}, Count: 8, Sum: 0.08}}}},
		"SGLang": {sglang, []serving.Reading{{Engine: "sglang", Model: "q", Running: some(162), Waiting: some(2826), KVUsage: some(0.28),
			PromptTokens: some(8001000), Requests: some(14007)}}},
		"underscores": {strings.ReplaceAll(vllmV0, "vllm:", "vllm_"), []serving.Reading{{Engine: serving.EngineVLLM, Model: "m", Running: some(3), KVUsage: some(0.5),
			ITL: &serving.Histogram{Buckets: []serving.Bucket{{0.01, 5}, {inf, 8}}, Count: 8, Sum: 0.08}}}},
		"two replicas": {"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"1\"} 4\nvllm:num_requests_running{engine=\"0\"} 5\n",
			[]serving.Reading{{Engine: serving.EngineVLLM, Replica: "0", Running: some(5)}, {Engine: serving.EngineVLLM, Replica: "1", Running: some(4)}}},
		"two pages": {"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 4\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 5\n",
			[]serving.Reading{{Engine: serving.EngineVLLM, Running: some(4)}, {Engine: serving.EngineVLLM, Running: some(5)}}},
	} {
		got, err := serving.Parse(strings.NewReader(c.text))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// What cannot be is named and left out; the rest is read.
func TestParseProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":      {"", serving.ErrNone.Error()},
		"another":    {"# TYPE up gauge\nup 1\n", serving.ErrNone.Error()},
		"html":       {"<html>not found</html>\n", "line 1"},
		"negative":   {vllmV0 + "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} -1\n", "vllm:num_requests_waiting[0]: -1 is no figure"},
		"share":      {strings.Replace(vllmV0, "} 0.5", "} 50", 1), "vllm:gpu_cache_usage_perc[0]: 50 is no share"},
		"buckets":    {strings.Replace(vllmV0, "} 5\n", "} 50\n", 1), "its buckets do not grow"},
		"too much":   {vllmV0 + hist("vllm:inter_token_latency_seconds", `model_name="m"`, 30, 0.01, 900, 0.025, 1000, inf, 1000), "vllm:inter_token_latency_seconds[0]: its sum of 30 is not that of its buckets, 1 to 11.5"},
		"too little": {vllmV0 + hist("vllm:inter_token_latency_seconds", `model_name="m"`, 0.8, 0.01, 900, inf, 1000), "vllm:inter_token_latency_seconds[0]: its sum of 0.8 is not that of its buckets, 1 to +Inf"},
		"endless":    {vllmV0 + hist("vllm:inter_token_latency_seconds", `model_name="m"`, inf, 0.01, 900, inf, 1000), "its sum of +Inf is not"},
		"seconds":    {vllmV0 + "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} 1 1795523996\n", "vllm:num_requests_waiting[0]: its time, 1795523996, is of the year 1970: pages have milliseconds since 1970"},
		"no number":  {strings.Replace(vllmV0, "} 0.5", "} half", 1), "line 6"},
	} {
		got, err := serving.Parse(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if errors.Is(err, serving.ErrNone) != (len(got) == 0) {
			t.Errorf("%s: %d readings with %v", name, len(got), err)
		}
		if len(got) > 0 && got[0].Running.Or(0) != 3 {
			t.Errorf("%s: the rest is lost: %+v", name, got[0])
		}
	}
}

func TestQuantile(t *testing.T) {
	h := &serving.Histogram{Buckets: []serving.Bucket{{0.05, 20}, {0.1, 80}, {inf, 100}}, Count: 100}
	for q, want := range map[float64]serving.Interval{0: {0, 0.05}, 0.2: {0, 0.05}, 0.21: {0.05, 0.1}, 0.8: {0.05, 0.1}, 0.81: {0.1, inf}, 1: {0.1, inf}} {
		if got, ok := h.Quantile(q); !ok || got != want {
			t.Errorf("the %v quantile lies in %v, want %v", q, got, want)
		}
	}
	var none *serving.Histogram
	for _, h := range []*serving.Histogram{none, {}} {
		if _, ok := h.Quantile(0.5); ok {
			t.Error("a quantile of nothing")
		}
		if _, ok := h.Mean(); ok {
			t.Error("a mean of nothing")
		}
	}
	if _, ok := h.Quantile(math.NaN()); ok {
		t.Error("the NaN quantile")
	}
}

func TestSince(t *testing.T) {
	parse := func(text string) serving.Reading {
		r, err := serving.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return r[0]
	}
	before := parse(vllmV1(0.05, 20, 0.1, 80, inf, 100))
	later := strings.NewReplacer("123456.0", "123556.0", "} 12.5\n", "} 14.5\n")
	after := parse(later.Replace(vllmV1(0.05, 21, 0.1, 90, inf, 120)))
	d, err := after.Since(before)
	if err != nil {
		t.Fatal(err)
	}
	want := &serving.Histogram{Buckets: []serving.Bucket{{0.05, 1}, {0.1, 10}, {inf, 20}}, Count: 20, Sum: 2}
	if diff := cmp.Diff(want, d.TTFT); diff != "" || d.PromptTokens.Or(0) != 100 || d.Running.Or(0) != 7 || !d.GenerationTokens.IsZero() || d.Queue != nil {
		t.Errorf("%+v %s", d, diff)
	}
	if before.TTFT.Count != 100 || after.TTFT.Count != 120 {
		t.Error("the readings were changed")
	}
	if _, err := before.Since(after); !errors.Is(err, serving.ErrReset) {
		t.Errorf("a counter that went back: %v", err)
	}
	for _, sum := range []string{"12.5", "12.6"} { // while 10 requests waited for more than 0.1 s
		slow := parse(strings.ReplaceAll(vllmV1(0.05, 21, 0.1, 90, inf, 120), "} 12.5\n", "} "+sum+"\n"))
		if d, err := slow.Since(before); !errors.Is(err, serving.ErrReset) {
			t.Errorf("a sum that grew to %s: %+v, %v", sum, d.TTFT, err)
		}
	}
	other := before
	other.Replica = "1"
	if _, err := after.Since(other); err == nil {
		t.Error("two replicas were compared")
	}
}

// TestAnyModelOfARange: a name may hold characters that Go would escape and a metrics page does not.
func TestAnyModelOfARange(t *testing.T) {
	const model = "my\u00a0model\t\\ \"x\"\n\u200b"
	answer := fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":%q,"model_name":%q},"values":[[1,"2"]]}]}}`,
		"vllm:num_requests_running", model)
	got, err := serving.ParseRange(strings.NewReader(answer))
	if err != nil || len(got) != 1 || got[0].Model != model || got[0].Running.Or(0) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(vllmV1(0.05, 20, inf, 100))
	f.Add(vllmV0 + sglang)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := serving.Parse(strings.NewReader(s))
		if err == nil && len(got) == 0 {
			t.Error("no reading and no error")
		}
		for _, r := range got {
			if r.Engine == "" || r.KVUsage.Or(0) < 0 || r.KVUsage.Or(0) > 1 || r.Running.Or(0) < 0 {
				t.Errorf("%+v", r)
			}
			for _, h := range []*serving.Histogram{r.TTFT, r.ITL, r.TPOT, r.E2E, r.Queue, r.PromptLength, r.OutputLength} {
				for _, q := range []float64{0, 0.5, 0.99, 1} {
					if in, ok := h.Quantile(q); ok && !(in.Low <= in.High) {
						t.Errorf("%v of %+v lies in %v", q, h, in)
					}
				}
			}
			if d, err := r.Since(r); err != nil || d.TTFT != nil && d.TTFT.Count != 0 {
				t.Errorf("since itself: %+v, %v", d, err)
			}
		}
	})
}

// The mean request of servers that speak no tokens, from two pages of each.
func TestService(t *testing.T) {
	tei := func(requests int, of float64) string {
		return fmt.Sprintf("# TYPE te_request_success counter\nte_request_success{method=\"single\"} %d\n", requests) +
			hist("te_request_duration", `method="single"`, 0.05*of, 0.1, of, inf, of) + hist("te_request_inference_duration", "", 0.03*of, 0.1, of, inf, of) +
			hist("te_request_queue_duration", "", 0.01*of, 0.1, of, inf, of) + hist("te_batch_next_size", "", of, 8, of/4, inf, of/4)
	}
	triton := func(n float64) string {
		text := ""
		for name, v := range map[string]float64{"request_success": n, "exec_count": n / 2, "request_duration_us": 9000 * n,
			"queue_duration_us": 2000 * n, "compute_infer_duration_us": 4000 * n} {
			text += fmt.Sprintf("# TYPE nv_inference_%s counter\nnv_inference_%[1]s{model=\"yolo\",version=\"1\"} %v\n", name, v)
		}
		return text
	}
	fastapi := func(n float64) string {
		return hist("http_request_duration_seconds", `handler="/v1/audio/transcriptions",method="POST"`, 0.4*n, 0.5, n, inf, n) +
			hist("http_request_duration_seconds", `handler="/metrics",method="GET"`, 0.001*n, 0.5, n, inf, n)
	}
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		before, after string
		want          serving.Service
	}{
		"TEI":     {tei(100, 100), tei(500, 500), serving.Service{Requests: 400, GPUTime: 7500 * time.Microsecond, HostTime: 10 * ms, Latency: 50 * ms, Batch: 4}},
		"Triton":  {triton(100), triton(300), serving.Service{Requests: 200, GPUTime: 2 * ms, HostTime: 3 * ms, Latency: 9 * ms, Batch: 2}},
		"FastAPI": {fastapi(10), fastapi(30), serving.Service{Requests: 20, Latency: 400 * ms}},
	} {
		var readings []serving.Reading
		for _, text := range []string{c.before, c.after} {
			r, err := serving.Parse(strings.NewReader(text))
			if err != nil || len(r) != 1 {
				t.Fatal(name, r, err)
			}
			readings = append(readings, r[0])
		}
		d, err := readings[1].Since(readings[0])
		got, ok := d.Service()
		near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Microsecond })
		if diff := cmp.Diff(c.want, got, near); err != nil || !ok || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	if r, err := serving.Parse(strings.NewReader(vllmV0 + fastapi(10))); err != nil || len(r) != 1 || r[0].Engine != serving.EngineVLLM {
		t.Errorf("of vLLM's page with its HTTP latencies: %v %v", r, err)
	}
	if _, err := serving.Parse(strings.NewReader(hist("http_request_duration_seconds", `handler="/metrics"`, 1, 0.5, 9, inf, 9))); !errors.Is(err, serving.ErrNone) {
		t.Errorf("a page without work: %v", err)
	}
}
