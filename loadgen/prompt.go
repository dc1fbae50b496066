// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync/atomic"
)

// Message is one message of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Prompt is the input of one request. Exactly one of Text and Messages is set: under the chat API a Text becomes
// one user message, under the completions API Messages are an error.
type Prompt struct {
	Text     string
	Messages []Message
	// MaxTokens bounds the output; 0 means the tenant's MaxTokens.
	MaxTokens int
	// PromptTokens is the prompt's length according to its source, 0 if unknown. It is used only if the server reports no
	// usage.
	PromptTokens int
	// Session groups requests for analysis.
	Session string
	// Model is the requested model or adapter; "" means the tenant's Model.
	Model string
	// Body holds further fields of the request's JSON object ("tools", "temperature"); they override the tenant's.
	Body map[string]any
}

// PromptSource yields a tenant's prompts in order.
type PromptSource interface {
	// Next returns the next prompt, or io.EOF after the last: the tenant then starts no more requests. Any other
	// error ends the run. The runner calls Next from one goroutine at a time.
	Next() (Prompt, error)
}

// promptCycle is the source of NewPromptCycle.
type promptCycle struct {
	prompts []Prompt
	n       atomic.Uint64
}

// NewPromptCycle returns a source that yields the prompts in order, over and over; without any it yields io.EOF at
// once. It retains the slice. It is safe for concurrent use.
func NewPromptCycle(prompts ...Prompt) PromptSource { return &promptCycle{prompts: prompts} }

// Texts returns a cycle of one prompt a text; see NewPromptCycle.
func Texts(texts ...string) PromptSource {
	prompts := make([]Prompt, len(texts))
	for i, t := range texts {
		prompts[i].Text = t
	}
	return NewPromptCycle(prompts...)
}

// Next returns the next prompt.
func (c *promptCycle) Next() (Prompt, error) {
	if len(c.prompts) == 0 {
		return Prompt{}, io.EOF
	}
	return c.prompts[(c.n.Add(1)-1)%uint64(len(c.prompts))], nil
}

// errPrompt is returned for a prompt that cannot be sent.
var errPrompt = errors.New("loadgen: unusable prompt")

func requestBody(t *Tenant, p *Prompt) ([]byte, error) {
	if (p.Text == "") == (len(p.Messages) == 0) {
		return nil, fmt.Errorf("%w: exactly one of text and messages must be set", errPrompt)
	}
	fields := map[string]any{}
	if model := cmp.Or(p.Model, t.Model); model != "" {
		fields["model"] = model
	}
	switch {
	case t.API != apiCompletions && p.Messages != nil:
		fields["messages"] = p.Messages
	case t.API != apiCompletions:
		fields["messages"] = []Message{{Role: "user", Content: p.Text}}
	case p.Messages != nil:
		return nil, fmt.Errorf("%w: messages under the completions API; give its text", errPrompt)
	default:
		fields["prompt"] = p.Text
	}
	if n := p.outputBound(t); n > 0 {
		fields["max_tokens"] = n
	}
	if !t.NonStreaming {
		fields["stream"] = true
		if t.Usage != "none" {
			options := map[string]bool{"include_usage": true}
			if t.Usage == "continuous" {
				options["continuous_usage_stats"] = true
			}
			fields["stream_options"] = options
		}
	}
	maps.Copy(fields, t.Body)
	maps.Copy(fields, p.Body)
	b, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPrompt, err)
	}
	return b, nil
}

// outputBound is the bound of the output, 0 without one.
func (p *Prompt) outputBound(t *Tenant) int { return cmp.Or(p.MaxTokens, t.MaxTokens) }

// tokensAsked is the bound of a request's output with its own fields regarded, over all of its choices; 0 without one.
func (p *Prompt) tokensAsked(t *Tenant, choices int) int {
	n := 0
	for _, name := range []string{"max_completion_tokens", "max_tokens"} {
		n = cmp.Or(n, bodyCount(name, p.Body, t.Body))
	}
	return cmp.Or(n, p.outputBound(t)) * choices
}

// ignoresEOS reports whether a request asks for answers as long as their bound.
func (p *Prompt) ignoresEOS(t *Tenant) bool {
	v, ok := p.Body["ignore_eos"]
	if !ok {
		v = t.Body["ignore_eos"]
	}
	return v == true
}
