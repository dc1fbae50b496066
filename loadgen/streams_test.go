// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/loadgen"
)

// TestStreams compares the streams of servers with the expected counts. Each stream in testdata/streams is made after
// its server's documented events. Tokens exclude hidden ones, as latencies do.
func TestStreams(t *testing.T) {
	type counted struct {
		Class                                           loadgen.Class
		Finish                                          string
		Events, Tokens, Reasoning, Hidden, Prompt, TPOT int // TPOT in ms
		Refused                                         bool
	}
	for name, want := range map[string]counted{
		"openai-chat":                   {loadgen.ClassOK, "stop", 7, 7, 0, 0, 9, 10, false},
		"openai-chat-refusal":           {loadgen.ClassOK, "stop", 7, 7, 0, 0, 12, 10, true},
		"openai-chat-audio":             {loadgen.ClassOK, "stop", 4, 20, 0, 0, 14, 1, false}, // 30 ms / 19
		"openai-chat-tool":              {loadgen.ClassOK, "tool_calls", 6, 6, 0, 0, 40, 10, false},
		"openai-completions":            {loadgen.ClassOK, "length", 7, 7, 0, 0, 5, 10, false},
		"vllm-chat":                     {loadgen.ClassOK, "length", 10, 10, 0, 0, 11, 10, false},
		"vllm-chat-continuous":          {loadgen.ClassOK, "stop", 10, 11, 0, 0, 11, 9, false}, // the eleventh ends the text
		"vllm-chat-speculative":         {loadgen.ClassOK, "stop", 2, 8, 0, 0, 11, 1, false},
		"vllm-chat-error":               {"error_event", "", 1, 1, 0, 0, 0, 0, false},
		"vllm-completions":              {loadgen.ClassOK, "length", 7, 7, 0, 0, 5, 10, false},
		"sglang-chat":                   {loadgen.ClassOK, "stop", 9, 10, 0, 0, 10, 8, false},
		"sglang-chat-abort":             {"error_event", "abort", 2, 2, 0, 0, 0, 10, false},
		"sglang-completions":            {loadgen.ClassOK, "length", 7, 7, 0, 0, 5, 10, false},
		"llamacpp-chat":                 {loadgen.ClassOK, "stop", 9, 9, 0, 0, 12, 10, false},
		"llamacpp-chat-usage-in-finish": {loadgen.ClassOK, "stop", 9, 9, 0, 0, 12, 10, false},
		"llamacpp-chat-error":           {"error_event", "", 3, 3, 0, 0, 0, 10, false},
		"llamacpp-completions":          {loadgen.ClassOK, "stop", 7, 7, 0, 0, 5, 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile("testdata/streams/" + name + ".sse")
			if err != nil {
				t.Fatal(err)
			}
			res := replayed(t, strings.SplitAfter(strings.TrimSuffix(string(file), "\n\n"), "\n\n"), func(tenant *loadgen.Tenant) {
				tenant.MaxTokens = 0
				if strings.Contains(name, "completions") {
					tenant.API = "completions"
				}
			})
			r := res.Records[0]
			tpot, _ := r.TPOT()
			got := counted{r.Class, r.FinishReason, r.Events, r.OutputTokens, r.ReasoningTokens, r.HiddenTokens, r.PromptTokens, int(tpot / ms), r.Refused}
			if diff := cmp.Diff(want, got); diff != "" || r.Implausible {
				t.Errorf("-want +got:\n%s%s, implausible %v", diff, r.Error, r.Implausible)
			}
			s := res.Summary
			if n := map[bool]int64{true: 4}[want.Refused]; s.Refusals != n {
				t.Errorf("%d refusals", s.Refusals)
			}
		})
	}
}

// TestWholeAnswers is the matrix of answers in one piece, after the APIs' documentation.
func TestWholeAnswers(t *testing.T) {
	type counted struct {
		Class                               loadgen.Class
		Finish                              string
		Tokens, Reasoning, Prompt, Refusals int
		Cached                              int // -1: not reported
	}
	for name, c := range map[string]struct {
		api    string
		answer string
		want   counted
	}{
		"chat": {"chat", `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",
			"content":"Hello there."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}`,
			counted{loadgen.ClassOK, "stop", 7, 0, 9, 0, -1}},
		"chat, refused": {"chat", `{"choices":[{"index":0,"message":{"role":"assistant","content":null,
			"refusal":"I can't help with that."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":7}}`,
			counted{loadgen.ClassOK, "stop", 7, 0, 9, 1, -1}},
		"chat, hidden reasoning": {"chat", `{"choices":[{"index":0,"message":{"content":"Four."},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":9,"completion_tokens":71,"prompt_tokens_details":{"cached_tokens":4},
			"completion_tokens_details":{"reasoning_tokens":64}}}`,
			counted{loadgen.ClassOK, "stop", 7, 64, 9, 0, 4}},
		"chat, aborted": {"chat", `{"choices":[{"index":0,"message":{"content":"He"},"finish_reason":"abort"}],
			"usage":{"prompt_tokens":9,"completion_tokens":1}}`,
			counted{"error_event", "abort", 0, 0, 9, 0, -1}},
		"completions": {"completions", `{"object":"text_completion","choices":[{"index":0,"text":" there.","finish_reason":"length"}],
			"usage":{"prompt_tokens":5,"completion_tokens":7}}`,
			counted{loadgen.ClassOK, "length", 7, 0, 5, 0, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			res := replayed(t, []string{c.answer}, func(tenant *loadgen.Tenant) {
				tenant.MaxTokens, tenant.API, tenant.NonStreaming = 0, c.api, true
			})
			r := res.Records[0]
			got := counted{r.Class, r.FinishReason, r.OutputTokens, r.ReasoningTokens, r.PromptTokens, int(res.Summary.Refusals) / 4, -1}
			if n, ok := r.CachedTokens.Get(); ok {
				got.Cached = n
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s%s", diff, r.Error)
			}
			if _, ok := r.TPOT(); ok {
				t.Error("an answer in one piece has no time per token")
			}
		})
	}
}
