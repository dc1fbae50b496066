// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// errMalformed reports an answer that violates the API.
var errMalformed = errors.New("loadgen: malformed answer")

// delta holds the content of one event or of a whole answer. It is comparable.
type delta struct {
	text      string // visible content, a refusal's too
	reasoning string
	other     bool // a tool-call delta, speech or its transcript
	refusal   bool // the text is a refusal
	finish    string
	hasUsage  bool
	usage     usage
	failure   string // the server's error message
	// seen and finished are sets of choices, by their index: those that the event speaks of, and those that it ends.
	seen, finished choiceSet
}

// content reports whether the event counts as a content event.
func (d *delta) content() bool { return d.visible() || d.reasoning != "" }

// visible reports whether the event carries content other than reasoning.
func (d *delta) visible() bool { return d.text != "" || d.other }

// decodeDelta reads an event's data, or the body of an answer in one piece. Text and
// reasoning of several choices are joined.
func decodeDelta(data []byte) (delta, error) {
	var w wireChunk
	if err := json.Unmarshal(data, &w); err != nil {
		return delta{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	var d delta
	if present(w.Error) || w.Object == "error" || string(w.Type) == `"error"` {
		msg := data
		if present(w.Error) {
			msg = w.Error
		}
		d.failure = serverText(msg)
		return d, nil
	}
	for i := range w.Choices {
		c := &w.Choices[i]
		d.seen.add(int(c.Index))
		d.text += c.Text
		for _, m := range []*wireMessage{&c.Delta, &c.Message} {
			d.text += m.Content.text + m.Refusal.text
			d.refusal = d.refusal || m.Refusal.text != ""
			switch {
			case m.Content.reasoning != "":
				d.reasoning += m.Content.reasoning
			case m.ReasoningContent.text != "":
				d.reasoning += m.ReasoningContent.text
			case m.Reasoning.text != "":
				d.reasoning += m.Reasoning.text
			default:
				for _, part := range m.ReasoningDetails {
					d.reasoning += part.Text
				}
			}
			d.other = d.other || len(m.ToolCalls) > 0 || present(m.FunctionCall) ||
				m.Audio.Data+m.Audio.Transcript != ""
		}
		if c.FinishReason != "" {
			d.finish = worseFinish(d.finish, c.FinishReason)
			d.finished.add(int(c.Index))
		}
	}
	if w.Usage != nil {
		d.hasUsage, d.usage = true, *w.Usage
		if d.usage.Prompt < 0 || d.usage.Completion < 0 {
			return delta{}, fmt.Errorf("%w: negative token count in usage", errMalformed)
		}
	}
	return d, nil
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// maxServerText bounds the bytes of a server's text that an error message is made of.
const maxServerText = 8 << 10

// serverText returns the beginning of a server's text. Credentials must be removed
// from it before it is shortened and written to an artifact.
func serverText(b []byte) string { return string(b[:min(len(b), maxServerText)]) }

// clip makes text fit for an error message.
func clip(text string) string {
	text = plaintext.Show(strings.Join(strings.Fields(strings.ToValidUTF8(text, "�")), " "))
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}

const maxErrorText = 400

// template recognises the events that differ from an earlier, fully decoded one in one string only: most of a
// stream. Whatever it does not recognise is for decodeDelta, so it is a matter of speed alone.
type template struct {
	prefix, suffix []byte
	reasoning      bool // the string is reasoning, not visible content
	ready          bool
	misses         int
}

// After so many misses no further template is learned: the events differ in more
// than their text (continuous usage, log probabilities).
const maxTemplateMisses = 8

// match returns the still-escaped text of an event that fits.
func (t *template) match(data []byte) (raw []byte, ok bool) {
	n := len(t.prefix) + len(t.suffix)
	if !t.ready || len(data) <= n || !bytes.HasSuffix(data, t.suffix) || !bytes.HasPrefix(data, t.prefix) {
		return nil, false
	}
	raw = data[len(t.prefix) : len(data)-len(t.suffix)]
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"' || c < 0x20:
			return nil, false
		case c == '\\':
			// The two-character escapes; \u is left to encoding/json.
			if i++; i == len(raw) || strings.IndexByte(`"\/bfnrt`, raw[i]) < 0 {
				return nil, false
			}
		}
	}
	return raw, true
}

// learn makes a template of an event and its decoded form, if the event carries one text and nothing else: of the
// string that changes the text, and nothing else, when something is added to it.
func (t *template) learn(data []byte, d *delta) {
	if t.misses++; t.misses > maxTemplateMisses {
		t.ready = false
		return
	}
	text := d.text + d.reasoning
	if (d.text == "") == (d.reasoning == "") || d.other || d.finish != "" || d.hasUsage {
		return
	}
	want := *d
	if d.text != "" {
		want.text += "."
	} else {
		want.reasoning += "."
	}
	for start := 0; ; {
		quote := bytes.IndexByte(data[start:], '"')
		if quote < 0 {
			return
		}
		start += quote + 1
		end := start
		for data[end] != '"' { // the event has been decoded, so every string ends
			if data[end] == '\\' {
				end++
			}
			end++
		}
		if unescape(data[start:end]) == text {
			if got, err := decodeDelta(slices.Concat(data[:end], []byte{'.'}, data[end:])); err == nil && got == want {
				t.prefix, t.suffix = append(t.prefix[:0], data[:start]...), append(t.suffix[:0], data[end:]...)
				t.reasoning, t.ready = d.reasoning != "", true
				return
			}
		}
		start = end + 1
	}
}

// unescape turns the raw text of a match into the text. The match has shown it to be valid.
func unescape(raw []byte) string {
	var s string
	quoted := append(append([]byte{'"'}, raw...), '"')
	if err := json.Unmarshal(quoted, &s); err != nil {
		return string(raw)
	}
	return s
}
