// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

const maxLineBytes = 16 << 20 // of a line of JSONL or CSV

// promptFields are the keys of a line of prompts.
var promptFields = []string{"prompt", "messages", "max_tokens", "output_tokens", "prompt_tokens", "session",
	"model", "body", "tools"}

// Read reads JSON Lines, one prompt an object. Each has either "prompt" (a text) or "messages" (OpenAI's list of role
// and content) and, optionally, "max_tokens" (or "output_tokens", as vLLM's files call it), "prompt_tokens", "session",
// "model" (an adapter's name), "tools" and "body", an object of further request fields. Empty lines are skipped. Other
// keys are errors. The error wraps loadgen.ErrInput, names every bad line (the first 20) with its remedy, and comes
// without prompts.
func Read(r io.Reader) ([]loadgen.Prompt, error) {
	var prompts []loadgen.Prompt
	err := readLines(r, func(l line) {
		if p := readPrompt(l); l.good() {
			prompts = append(prompts, p)
		}
	})
	if err != nil {
		return nil, err
	}
	if len(prompts) == 0 {
		return nil, fmt.Errorf("%w: no prompts (write one JSON object a line, e.g. {\"prompt\": \"Hello\"})",
			loadgen.ErrInput)
	}
	return prompts, nil
}

func readPrompt(l line) (p loadgen.Prompt) {
	f, ok := parseObject(l)
	if !ok {
		return p
	}
	f.refuseUnknown(promptFields)
	_, hasText := f.values["prompt"]
	_, hasMessages := f.values["messages"]
	switch {
	case hasText == hasMessages:
		f.bad("", "give exactly one of \"prompt\" and \"messages\"", "%s",
			map[bool]string{true: "both prompt and messages", false: "neither prompt nor messages"}[hasText])
	case hasText:
		if f.decode("prompt", &p.Text, "a text"); p.Text == "" {
			f.bad("prompt", "write the prompt's text", "empty")
		}
	default:
		p.Messages = f.messages()
	}
	p.MaxTokens = f.count("max_tokens")
	if _, both := f.values["output_tokens"]; both {
		if p.MaxTokens != 0 {
			f.bad("output_tokens", "keep max_tokens", "is given together with max_tokens")
		}
		p.MaxTokens = f.count("output_tokens")
	}
	p.PromptTokens = f.count("prompt_tokens")
	f.decode("session", &p.Session, "a text")
	f.decode("model", &p.Model, "a text")
	f.decode("body", &p.Body, "an object")
	var tools []any
	if f.decode("tools", &tools, "a list") {
		if p.Body == nil {
			p.Body = map[string]any{}
		}
		p.Body["tools"] = tools
	}
	return p
}

type line struct {
	text   []byte
	n      int // from 1
	list   *problem.List
	before int // problems
}

// bad adds a fault of the line, or of a field of it.
func (l *line) bad(field, remedy, format string, args ...any) {
	l.list.Add(&problem.Problem{Path: problem.Join(fmt.Sprintf("line %d", l.n), field), Line: l.n,
		Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (l *line) good() bool { return l.list.Len() == l.before }

// object is a JSON object on a line of an input, its fields not decoded yet.
type object struct {
	line
	values map[string]json.RawMessage
}

func parseObject(l line) (*object, bool) {
	o := &object{line: l}
	if !utf8.Valid(l.text) {
		o.bad("", "save the file as UTF-8", "invalid UTF-8")
		return o, false
	}
	if err := json.Unmarshal(l.text, &o.values); err != nil || o.values == nil {
		msg, remedy := "not an object", "write one JSON object a line"
		if err != nil {
			msg = strings.TrimPrefix(err.Error(), "json: ")
		}
		if bytes.HasPrefix(bytes.TrimSpace(l.text), []byte("[")) {
			msg, remedy = "a list", "write one JSON object a line: jq -c '.[]' FILE"
		}
		o.bad("", remedy, "not a JSON object: %s", msg)
		return o, false
	}
	return o, true
}

func (o *object) refuseUnknown(known []string) {
	for _, name := range slices.Sorted(maps.Keys(o.values)) {
		if !slices.Contains(known, name) {
			remedy := problem.Meant(name, known, "put further request fields into \"body\"")
			o.bad(problem.Clip(name), remedy, "unknown field")
		}
	}
}

func (o *object) decode(name string, into any, what string) bool {
	raw, has := o.values[name]
	if !has {
		return false
	}
	if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
		o.bad(name, "write "+what, "is %s", problem.Clip(string(raw)))
		return false
	}
	return true
}

// count reads an optional number of tokens above 0.
func (o *object) count(name string) int {
	var n int
	if o.decode(name, &n, "a whole number") && (n <= 0 || n > maxTraceTokens) {
		o.bad(name, fmt.Sprintf("use a whole number from 1 to %d, or leave it out", maxTraceTokens), "is %d", n)
		return 0
	}
	return n
}

func (o *object) messages() []loadgen.Message {
	var raw []map[string]json.RawMessage
	if !o.decode("messages", &raw, "a list of objects with role and content") {
		return nil
	}
	if len(raw) == 0 {
		o.bad("messages", "add a message", "empty")
	}
	messages := make([]loadgen.Message, len(raw))
	for i, fields := range raw {
		for name := range fields {
			if name != "role" && name != "content" {
				o.bad(fmt.Sprintf("messages[%d].%s", i, problem.Clip(name)), "give the whole list as \"body\": {\"messages\": ...}",
					"only role and content are known here")
			}
		}
		for _, f := range []struct {
			name string
			into *string
		}{{"role", &messages[i].Role}, {"content", &messages[i].Content}} {
			path := fmt.Sprintf("messages[%d].%s", i, f.name)
			switch value, has := fields[f.name]; {
			case !has:
				o.bad(path, "add it", "missing")
			case string(value) == "null" || json.Unmarshal(value, f.into) != nil:
				o.bad(path, "write a text; for parts such as images give the whole list as \"body\": {\"messages\": ...}",
					"is not a text")
			case f.name == "role" && *f.into == "":
				o.bad(path, "use system, user or assistant", "empty")
			}
		}
	}
	return messages
}

// readLines calls each with every line that is not blank, without its end. It
// stops when too much is wrong, and returns everything that is.
func readLines(r io.Reader, each func(line)) error {
	var l problem.List
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	n := 1
	for ; scan.Scan(); n++ {
		if l.Len() > problem.Enough {
			l.Add(&problem.Problem{Line: n - 1, Message: fmt.Sprintf("gave up after line %d", n-1),
				Remedy: "check that the file is of the right kind"})
			break
		}
		text := scan.Bytes()
		if n == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if len(bytes.TrimSpace(text)) > 0 {
			each(line{text, n, &l, l.Len()})
		}
	}
	err := scan.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("the line is longer than %d MiB", maxLineBytes>>20)
	}
	if err != nil {
		(&line{n: n, list: &l}).bad("", "", "%v", err)
	}
	return l.Under(loadgen.ErrInput)
}

// maxTraceTokens bounds a length in tokens: no model's context comes near.
const maxTraceTokens = 100_000_000
