// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/telemetry/serving"
)

// one reads a page that has one reading.
func one(t *testing.T, page string) serving.Reading {
	t.Helper()
	rs, err := serving.Parse(strings.NewReader(page))
	if err != nil || len(rs) != 1 {
		t.Fatalf("%d readings, %v\n%s", len(rs), err, page)
	}
	return rs[0]
}

// TestTotalsAndParts: a total is not added to its own parts, and parts without a total are.
func TestTotalsAndParts(t *testing.T) {
	const gauge = "# TYPE sglang:num_running_reqs gauge\n"
	series := func(labels string, v float64) string {
		return fmt.Sprintf("sglang:num_running_reqs{model_name=\"m\"%s} %v\n", labels, v)
	}
	total, low, high := series(`,tp_rank="0",priority=""`, 10), series(`,tp_rank="0",priority="0"`, 7), series(`,tp_rank="0",priority="5"`, 3)
	for name, c := range map[string]struct {
		page string
		want float64
	}{
		"a total and its parts":             {gauge + total + low + high, 10},
		"the total last":                    {gauge + low + high + total, 10},
		"only a total":                      {gauge + total, 10},
		"only parts":                        {gauge + low + high, 10},
		"without the label":                 {gauge + series("", 10), 10},
		"a total that runs ahead":           {gauge + series(`,priority=""`, 11) + series(`,priority="0"`, 7), 11},
		"a gauge of its own for parts":      {gauge + series("", 10) + "# TYPE sglang:num_running_reqs_by_priority gauge\nsglang:num_running_reqs_by_priority{model_name=\"m\",priority=\"0\"} 10\n", 10},
		"of two tensor-parallel ranks one":  {gauge + total + low + high + strings.ReplaceAll(total+low+high, `tp_rank="0"`, `tp_rank="1"`), 10},
		"streamed and whole answers":        {"# TYPE sglang:num_requests_total counter\nsglang:num_requests_total{is_streaming=\"true\"} 4\nsglang:num_requests_total{is_streaming=\"false\"} 6\n", 10},
		"a prefix cache's parts":            {"# TYPE sglang:cached_tokens_total counter\nsglang:cached_tokens_total{cache_source=\"device\"} 8\nsglang:cached_tokens_total{cache_source=\"host\"} 2\n", 10},
		"and their total next to them":      {"# TYPE sglang:cached_tokens_total counter\nsglang:cached_tokens_total{cache_source=\"device\"} 8\nsglang:cached_tokens_total{cache_source=\"host\"} 2\nsglang:cached_tokens_total{cache_source=\"total\"} 10\n", 10},
		"requests that say no part besides": {"# TYPE sglang:cached_tokens_total counter\nsglang:cached_tokens_total{cache_source=\"device\"} 6\nsglang:cached_tokens_total{cache_source=\"total\"} 4\n", 10},
	} {
		r := one(t, c.page)
		if got := r.Running.Or(0) + r.Requests.Or(0) + r.PrefixHits.Or(0); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestFormerNames: the names of vLLM's prefix cache before 0.10 and in between, and its unit.
func TestFormerNames(t *testing.T) {
	counters := func(prefix string, queries, hits float64, of string) string {
		return fmt.Sprintf("# HELP vllm:%[1]squeries_total Prefix cache queries, in terms of number of queried %[4]s.\n# TYPE vllm:%[1]squeries_total counter\nvllm:%[1]squeries_total %[2]v\n# HELP vllm:%[1]shits_total Hits, in terms of number of cached %[4]s.\n# TYPE vllm:%[1]shits_total counter\nvllm:%[1]shits_total %[3]v\n", prefix, queries, hits, of)
	}
	const prompts = "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 100000\n"
	for name, c := range map[string]struct {
		page          string
		queries, hits float64
	}{
		"0.9":                            {prompts + counters("gpu_prefix_cache_", 100000, 80000, "tokens"), 100000, 80000},
		"0.10, both with the same":       {prompts + counters("gpu_prefix_cache_", 100000, 80000, "tokens") + counters("prefix_cache_", 100000, 80000, "tokens"), 100000, 80000},
		"0.11":                           {prompts + counters("prefix_cache_", 100000, 80000, "tokens"), 100000, 80000},
		"early 0.8, which counts blocks": {prompts + counters("gpu_prefix_cache_", 6250, 5000, "blocks"), 100000, 80000},
		"the same before any request":    {prompts + counters("gpu_prefix_cache_", 0, 0, "blocks"), -1, -1},
		"the same without prompts":       {counters("gpu_prefix_cache_", 6250, 5000, "blocks"), -1, -1},
	} {
		r := one(t, c.page+"# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc 0.25\n")
		if r.PrefixQueries.Or(-1) != c.queries || r.PrefixHits.Or(-1) != c.hits || r.KVUsage.Or(0) != 0.25 {
			t.Errorf("%s: %v of %v, KV %v", name, r.PrefixHits, r.PrefixQueries, r.KVUsage)
		}
	}
}

// TestPrefixes: prefixes that wrappers put before the engine's name, and pages without a known metric.
func TestPrefixes(t *testing.T) {
	for _, name := range []string{"ray_vllm:num_requests_running", "ray_vllm_num_requests_running", "vllm_num_requests_running",
		"my_team_vllm:num_requests_running", "ray_sglang_num_running_reqs", "ns:sglang:num_running_reqs", "llamacpp_requests_processing"} {
		if r := one(t, fmt.Sprintf("# TYPE %[1]s gauge\n%[1]s 3\n", name)); r.Running.Or(0) != 3 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Ray's counters may lack their end, and its replicas are distinguished by a label.
	rs, err := serving.Parse(strings.NewReader("# TYPE ray_vllm_prompt_tokens counter\nray_vllm_prompt_tokens{ReplicaId=\"a\"} 5\nray_vllm_prompt_tokens{ReplicaId=\"b\"} 7\n"))
	if err != nil || len(rs) != 2 || rs[0].PromptTokens.Or(0) != 5 || rs[1].Replica != "b" {
		t.Errorf("%+v, %v", rs, err)
	}
	_, err = serving.Parse(strings.NewReader("# TYPE tgi_request_count counter\ntgi_request_count 3\n"))
	if !errors.Is(err, serving.ErrNone) || !strings.Contains(err.Error(), "looked for vllm:num_requests_running") || !strings.Contains(err.Error(), "tgi_request_count") {
		t.Error(err)
	}
	// A family of a known engine under a name that no version is known to have.
	_, err = serving.Parse(strings.NewReader("# TYPE vllm:runs gauge\nvllm:runs 3\n"))
	if !errors.Is(err, serving.ErrNone) || !strings.Contains(err.Error(), "vllm:runs") {
		t.Error(err)
	}
}

// TestTimesOfZero: a histogram of first tokens whose sum is 0 over requests was not filled; a queue may be empty.
func TestTimesOfZero(t *testing.T) {
	page := hist("vllm:time_to_first_token_seconds", "", 0, 0.001, 40, inf, 40) + hist("vllm:inter_token_latency_seconds", "", 0, 0.001, 400, inf, 400) +
		hist("vllm:e2e_request_latency_seconds", "", 80, 5, 40, inf, 40) + hist("vllm:request_queue_time_seconds", "", 0, 0.3, 40, inf, 40)
	if r := one(t, page); r.TTFT != nil || r.ITL != nil || r.E2E == nil || r.Queue == nil {
		t.Errorf("%+v", r)
	}
	if r := one(t, hist("vllm:time_to_first_token_seconds", "", 0, 0.001, 0, inf, 0)); r.TTFT == nil {
		t.Error("a server without requests has an empty histogram")
	}
}
