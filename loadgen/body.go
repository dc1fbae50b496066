package loadgen

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// ErrPrompt says that a prompt cannot be sent as it is.
var ErrPrompt = errors.New("loadgen: unusable prompt")

// requestBody is the JSON object that asks for p.
func requestBody(t *Tenant, p *Prompt) ([]byte, error) {
	if (p.Text == "") == (len(p.Messages) == 0) {
		return nil, fmt.Errorf("%w: exactly one of text and messages must be set", ErrPrompt)
	}
	var fields map[string]any
	if n := len(t.Body) + len(p.Body); n > 0 {
		fields = make(map[string]any, n)
		maps.Copy(fields, t.Body)
		maps.Copy(fields, p.Body)
	}
	b := make([]byte, 0, 256+len(p.Text)+len(p.Text)/8)
	var err error
	add := func(name string, v any) {
		if _, overridden := fields[name]; overridden || err != nil {
			return
		}
		b, err = appendField(b, name, v)
	}
	addRaw := func(name, value string) {
		if _, overridden := fields[name]; !overridden && err == nil {
			b = append(appendKey(b, name), value...)
		}
	}
	b = append(b, '{')
	if model := cmp.Or(p.Model, t.Model); model != "" {
		add("model", model)
	}
	switch {
	case t.API == APIResponses && p.Messages != nil:
		add("input", p.Messages)
	case t.API == APIResponses:
		add("input", p.Text)
	case t.API == APIChat && p.Messages != nil:
		add("messages", p.Messages)
	case t.API == APIChat:
		addRaw("messages", string(append(appendString([]byte(`[{"role":"user","content":`), p.Text), "}]"...)))
	case p.Messages != nil:
		return nil, fmt.Errorf("%w: messages under the completions API; give its text", ErrPrompt)
	default:
		add("prompt", p.Text)
	}
	bound := "max_tokens"
	if t.API == APIResponses {
		bound = "max_output_tokens"
	}
	if n := p.outputBound(t); n > 0 {
		addRaw(bound, strconv.Itoa(n))
	}
	if !t.NonStreaming {
		addRaw("stream", "true")
		switch {
		case t.API == APIResponses || t.Usage == UsageNone:
		case t.Usage == UsageContinuous:
			addRaw("stream_options", `{"include_usage":true,"continuous_usage_stats":true}`)
		default:
			addRaw("stream_options", `{"include_usage":true}`)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err == nil {
			b, err = appendField(b, name, fields[name])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPrompt, err)
	}
	return append(b, '}'), nil
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

func appendField(b []byte, name string, v any) ([]byte, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return b, fmt.Errorf("field %q: %w", name, err)
	}
	return append(appendKey(b, name), value...), nil
}

func appendKey(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendString(b, name), ':')
}
