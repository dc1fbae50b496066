package loadgen

import (
	"encoding/json"
	"fmt"
	"strings"
)

// wireEvent is an event of the Responses API's stream.
type wireEvent struct {
	Type     string       `json:"type"`
	Delta    wireText     `json:"delta"`
	Response wireResponse `json:"response"` // of the first events and the last
}

// wireResponse is an answer of the Responses API.
type wireResponse struct {
	Status string `json:"status"`
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Type    string   `json:"type"`
			Text    wireText `json:"text"`
			Refusal string   `json:"refusal"`
		} `json:"content"`
	} `json:"output"`
	Usage *struct {
		Input   wireCount     `json:"input_tokens"`
		Output  wireCount     `json:"output_tokens"`
		Cached  cachedTokens  `json:"input_tokens_details"`
		Details outputDetails `json:"output_tokens_details"`
	} `json:"usage"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error json.RawMessage `json:"error"`
}

// decodeEvent reads an event of the Responses API. Only deltas carry content: other
// events repeat it. Summaries of reasoning are none: their tokens are in no count.
func decodeEvent(data []byte) (d delta, err error) {
	var e wireEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return d, fmt.Errorf("%w: %w", errMalformed, err)
	}
	kind := strings.TrimPrefix(e.Type, "response.")
	switch kind {
	case "completed", "incomplete", "failed", "cancelled":
		if err = d.end(&e.Response); err != nil {
			return delta{}, err
		}
		if d.finish == "" && d.failure == "" {
			d.finish = kind
		}
		return d, nil
	}
	from, isDelta := strings.CutSuffix(kind, ".delta")
	if !isDelta || e.Delta.text == "" {
		return d, nil
	}
	switch {
	case from == "output_text":
		d.text = e.Delta.text
	case from == "refusal":
		d.text, d.refusal = e.Delta.text, true
	case strings.HasPrefix(from, "reasoning_summary"):
		return d, nil
	case strings.HasPrefix(from, "reasoning"):
		d.reasoning = e.Delta.text
	case strings.Contains(from, "audio"):
		d.audio = true
	default: // arguments, code and input of tool calls
		d.tool = true
	}
	d.seen.add(0)
	return d, nil
}

// decodeResponse reads an answer of the Responses API in one piece.
func decodeResponse(data []byte) (d delta, err error) {
	var r wireResponse
	if err := json.Unmarshal(data, &r); err != nil {
		return d, fmt.Errorf("%w: %w", errMalformed, err)
	}
	for _, item := range r.Output {
		d.tool = d.tool || strings.HasSuffix(item.Type, "_call")
		for _, part := range item.Content {
			if item.Type == "reasoning" {
				d.reasoning += part.Text.text
			} else {
				d.text += part.Text.text + part.Refusal
			}
			d.refusal = d.refusal || part.Refusal != ""
			d.audio = d.audio || part.Type == "output_audio"
		}
	}
	if err := d.end(&r); err != nil {
		return delta{}, err
	}
	return d, nil
}

// end takes what an answer of the Responses API says at its end.
func (d *delta) end(r *wireResponse) error {
	if present(r.Error) {
		d.failure = serverText(r.Error)
		return nil
	}
	if u := r.Usage; u != nil {
		d.hasUsage, d.usage = true, usage{Prompt: u.Input, Completion: u.Output, Cached: u.Cached, Output: u.Details}
		if u.Input < 0 || u.Output < 0 {
			return errNegativeUsage
		}
	}
	if d.finish = r.Status; r.Incomplete.Reason != "" {
		d.finish = r.Incomplete.Reason
	}
	d.seen.add(0)
	d.finished.add(0)
	return nil
}
