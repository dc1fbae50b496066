package loadgen_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/loadgen"
)

// TestStreams is the matrix of what servers stream and what is counted of it. Each
// stream in testdata/streams is made after its server's documented events. Tokens are
// those that the times are over: without hidden ones.
func TestStreams(t *testing.T) {
	type counted struct {
		Class                                                  loadgen.Class
		Finish                                                 string
		Events, Tokens, Reasoning, Hidden, Prompt, Audio, TPOT int // TPOT in ms
		Refused                                                bool
	}
	for name, want := range map[string]counted{
		"openai-chat":                   {loadgen.ClassOK, "stop", 7, 7, 0, 0, 9, 0, 10, false},
		"openai-chat-refusal":           {loadgen.ClassOK, "stop", 7, 7, 0, 0, 12, 0, 10, true},
		"openai-chat-audio":             {loadgen.ClassOK, "stop", 4, 20, 0, 0, 14, 4, 1, false}, // 30 ms / 19
		"openai-chat-tool":              {loadgen.ClassOK, "tool_calls", 6, 6, 0, 0, 40, 0, 10, false},
		"openai-completions":            {loadgen.ClassOK, "length", 7, 7, 0, 0, 5, 0, 10, false},
		"openai-responses":              {loadgen.ClassOK, "completed", 7, 7, 0, 0, 9, 0, 10, false},
		"openai-responses-reasoning":    {loadgen.ClassOK, "completed", 7, 7, 64, 64, 9, 0, 10, false},
		"openai-responses-refusal":      {loadgen.ClassOK, "completed", 4, 4, 0, 0, 11, 0, 10, true},
		"openai-responses-incomplete":   {loadgen.ClassOK, "max_output_tokens", 7, 7, 0, 0, 9, 0, 10, false},
		"openai-responses-failed":       {loadgen.ClassErrorEvent, "", 2, 2, 0, 0, 0, 0, 10, false},
		"openai-responses-error":        {loadgen.ClassErrorEvent, "", 0, 0, 0, 0, 0, 0, 0, false},
		"openai-responses-tool":         {loadgen.ClassOK, "completed", 5, 17, 0, 0, 40, 0, 2, false},
		"vllm-chat":                     {loadgen.ClassOK, "length", 10, 10, 0, 0, 11, 0, 10, false},
		"vllm-chat-continuous":          {loadgen.ClassOK, "stop", 10, 11, 0, 0, 11, 0, 9, false}, // the eleventh ends the text
		"vllm-chat-speculative":         {loadgen.ClassOK, "stop", 2, 8, 0, 0, 11, 0, 1, false},
		"vllm-chat-error":               {loadgen.ClassErrorEvent, "", 1, 1, 0, 0, 0, 0, 0, false},
		"vllm-completions":              {loadgen.ClassOK, "length", 7, 7, 0, 0, 5, 0, 10, false},
		"vllm-responses":                {loadgen.ClassOK, "completed", 10, 12, 3, 0, 11, 0, 10, false},
		"sglang-chat":                   {loadgen.ClassOK, "stop", 9, 10, 0, 0, 10, 0, 8, false},
		"sglang-chat-abort":             {loadgen.ClassErrorEvent, "abort", 2, 2, 0, 0, 0, 0, 10, false},
		"sglang-completions":            {loadgen.ClassOK, "length", 7, 7, 0, 0, 5, 0, 10, false},
		"sglang-responses":              {loadgen.ClassOK, "completed", 7, 8, 0, 0, 10, 0, 8, false},
		"llamacpp-chat":                 {loadgen.ClassOK, "stop", 9, 9, 0, 0, 12, 0, 10, false},
		"llamacpp-chat-usage-in-finish": {loadgen.ClassOK, "stop", 9, 9, 0, 0, 12, 0, 10, false},
		"llamacpp-chat-error":           {loadgen.ClassErrorEvent, "", 3, 3, 0, 0, 0, 0, 10, false},
		"llamacpp-completions":          {loadgen.ClassOK, "stop", 7, 7, 0, 0, 5, 0, 10, false},
		"llamacpp-responses":            {loadgen.ClassOK, "completed", 9, 9, 0, 0, 12, 0, 12, false},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile("testdata/streams/" + name + ".sse")
			if err != nil {
				t.Fatal(err)
			}
			res := replayed(t, strings.SplitAfter(strings.TrimSuffix(string(file), "\n\n"), "\n\n"), func(tenant *loadgen.Tenant) {
				tenant.MaxTokens = 0
				switch {
				case strings.Contains(name, "responses"):
					tenant.API = loadgen.APIResponses
				case strings.Contains(name, "completions"):
					tenant.API = loadgen.APICompletions
				}
			})
			r := res.Records[0]
			tpot, _ := r.TPOT()
			got := counted{r.Class, r.FinishReason, r.Events, r.OutputTokens, r.ReasoningTokens, r.HiddenTokens, r.PromptTokens, r.AudioEvents, int(tpot / ms), r.Refused}
			if diff := cmp.Diff(want, got); diff != "" || r.Implausible {
				t.Errorf("-want +got:\n%s%s, implausible %v", diff, r.Error, r.Implausible)
			}
			s := res.Summary
			if n := map[bool]int64{true: 4}[want.Refused]; s.Refusals != n || s.AudioEvents != int64(4*want.Audio) {
				t.Errorf("%d refusals, %d events of speech", s.Refusals, s.AudioEvents)
			}
		})
	}
}
