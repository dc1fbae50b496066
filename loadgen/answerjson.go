// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"encoding/json"
	"errors"
	"math"
	"math/bits"
	"strconv"

	"github.com/cotenant/cotenant/internal/optional"
)

// wireChunk is an event's data, or an answer in one piece.
type wireChunk struct {
	Object  string          `json:"object"`
	Type    json.RawMessage `json:"type"`
	Choices []struct {
		Index        wireCount   `json:"index"`
		Delta        wireMessage `json:"delta"`
		Message      wireMessage `json:"message"` // not streaming
		Text         string      `json:"text"`    // completions API
		FinishReason string      `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type wireMessage struct {
	Content          wireText                          `json:"content"`
	Refusal          wireText                          `json:"refusal"`
	Audio            struct{ Data, Transcript string } // neither where only its expiry is sent
	ReasoningContent wireText                          `json:"reasoning_content"`
	Reasoning        wireText                          `json:"reasoning"`
	ToolCalls        []json.RawMessage                 `json:"tool_calls"`
	FunctionCall     json.RawMessage                   `json:"function_call"`
	// ReasoningDetails is OpenRouter's form of reasoning, with or without Reasoning.
	ReasoningDetails []struct {
		Text string `json:"text"`
	} `json:"reasoning_details"`
}

// usage is the server's token count. Completion is cumulative in a stream.
type usage struct {
	Prompt     wireCount `json:"prompt_tokens"`
	Completion wireCount `json:"completion_tokens"`
	// Cached is OpenAI's part of the prompt that came from a prefix cache. vLLM says it
	// with --enable-prompt-tokens-details, SGLang with --enable-cache-report.
	Cached    cachedTokens    `json:"prompt_tokens_details"`
	Reasoning reasoningTokens `json:"completion_tokens_details"`
}

// reasoningTokens is the part of usage.Completion that is reasoning, streamed or hidden; 0 where the server does not
// report it. Other contents fail no request.
type reasoningTokens int

func (n *reasoningTokens) UnmarshalJSON(b []byte) error {
	var details struct {
		Reasoning wireCount `json:"reasoning_tokens"`
	}
	if json.Unmarshal(b, &details) == nil {
		*n = reasoningTokens(max(details.Reasoning, 0))
	}
	return nil
}

// failedFinish reports whether a finish reason says that the server gave the request up,
// as vLLM ("abort") and SGLang ("abort", "error") do.
func failedFinish(reason string) bool {
	return reason == "abort" || reason == "error"
}

// worseFinish returns the finish reason of an answer of several choices: that of one that failed, else the last.
func worseFinish(have, last string) string {
	if failedFinish(have) {
		return have
	}
	return last
}

// cachedTokens is the cached_tokens of prompt_tokens_details, missing where the server
// does not report it. Other contents fail no request.
type cachedTokens struct{ Optional[int] }

func (c *cachedTokens) UnmarshalJSON(b []byte) error {
	var details struct {
		Cached *wireCount `json:"cached_tokens"`
	}
	if json.Unmarshal(b, &details) == nil && details.Cached != nil && *details.Cached >= 0 {
		c.Optional = optional.Of(int(*details.Cached))
	}
	return nil
}

// wireCount is a whole number, which some servers write as 7.0.
type wireCount int

func (c *wireCount) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if n, err := strconv.Atoi(string(b)); err == nil {
		*c = wireCount(n)
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<40 {
		return errors.New("not a whole number")
	}
	*c = wireCount(v)
	return nil
}

// wireText is a text, or a list of parts of which some are texts and some are
// reasoning ("thinking", in Mistral's answers).
type wireText struct{ text, reasoning string }

func (t *wireText) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case 'n':
		return nil
	case '[':
		var parts []wireText
		err := json.Unmarshal(b, &parts)
		for _, p := range parts {
			t.text += p.text
			t.reasoning += p.reasoning
		}
		return err
	case '{':
		var part struct {
			Text     *wireText `json:"text"`
			Thinking *wireText `json:"thinking"`
		}
		err := json.Unmarshal(b, &part)
		if part.Text != nil {
			t.text += part.Text.text
		}
		if part.Thinking != nil {
			t.reasoning += part.Thinking.text + part.Thinking.reasoning
		}
		return err
	}
	return json.Unmarshal(b, &t.text)
}

// choiceSet is a set of choices by their index; those from 63 on count as one.
type choiceSet uint64

func (s *choiceSet) add(index int) { *s |= 1 << min(max(index, 0), 63) }

func (s choiceSet) len() int { return bits.OnesCount64(uint64(s)) }

// bodyCount is the whole number that the first of the requests' fields with that name holds, 0 without one.
func bodyCount(name string, fields ...map[string]any) (n int) {
	for _, f := range fields {
		if v, ok := f[name]; ok {
			var count wireCount
			if b, err := json.Marshal(v); err == nil && json.Unmarshal(b, &count) == nil {
				n = int(count)
			}
			break
		}
	}
	return n
}

// choicesAsked is the number of choices that a request's fields ask for.
func choicesAsked(fields ...map[string]any) int { return min(max(bodyCount("n", fields...), 1), 64) }
