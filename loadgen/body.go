package loadgen

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// ErrPrompt says that a prompt cannot be sent as it is.
var ErrPrompt = errors.New("loadgen: unusable prompt")

// requestBody is the JSON object that asks for p.
func requestBody(t *Tenant, p *Prompt) ([]byte, error) {
	if (p.Text == "") == (len(p.Messages) == 0) {
		return nil, fmt.Errorf("%w: exactly one of text and messages must be set", ErrPrompt)
	}
	fields := map[string]any{}
	if model := cmp.Or(p.Model, t.Model); model != "" {
		fields["model"] = model
	}
	bound := "max_tokens"
	switch {
	case t.API == APIResponses:
		fields["input"], bound = p.Text, "max_output_tokens"
		if p.Messages != nil {
			fields["input"] = p.Messages
		}
	case t.API == APIChat && p.Messages != nil:
		fields["messages"] = p.Messages
	case t.API == APIChat:
		fields["messages"] = []Message{{Role: "user", Content: p.Text}}
	case p.Messages != nil:
		return nil, fmt.Errorf("%w: messages under the completions API; give its text", ErrPrompt)
	default:
		fields["prompt"] = p.Text
	}
	if n := p.outputBound(t); n > 0 {
		fields[bound] = n
	}
	if !t.NonStreaming {
		fields["stream"] = true
		if t.API != APIResponses && t.Usage != UsageNone {
			options := map[string]bool{"include_usage": true}
			if t.Usage == UsageContinuous {
				options["continuous_usage_stats"] = true
			}
			fields["stream_options"] = options
		}
	}
	maps.Copy(fields, t.Body)
	maps.Copy(fields, p.Body)
	b, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPrompt, err)
	}
	return b, nil
}

// outputBound is the bound of the output, 0 without one.
func (p *Prompt) outputBound(t *Tenant) int { return cmp.Or(p.MaxTokens, t.MaxTokens) }

// tokensAsked is the bound of a request's output with its own fields regarded, over all
// of its choices; 0 without one.
func (p *Prompt) tokensAsked(t *Tenant, choices int) int {
	n := 0
	for _, name := range []string{"max_output_tokens", "max_completion_tokens", "max_tokens"} {
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
