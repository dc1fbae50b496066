package loadgen

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/go-faster/jx"
)

// scanDelta reads an event of the usual shape at a fifth of what decodeJSON costs, and says where its texts are.
// What it is not sure to read as encoding/json does it leaves alone: ok is then false.
func scanDelta(data []byte) (d delta, at textPlace, ok bool) {
	in := jx.GetDecoder()
	defer jx.PutDecoder(in)
	in.ResetBytes(data)
	s := scanner{d: &d}
	if err := fields(in, chunkFields, s.chunk); err != nil || in.Skip() != io.EOF {
		return delta{}, textPlace{}, false
	}
	if at.count = s.texts; s.texts == 1 {
		if at.count = bytes.Count(data, s.text); at.count == 1 {
			at.start = bytes.Index(data, s.text) + 1
			at.end = at.start + len(s.text) - 2
		}
	}
	return d, at, true
}

// textPlace locates an event's only non-empty text, between its quotes. count is 1 where there is one, and nothing
// else is written as it is.
type textPlace struct{ start, end, count int }

// errUnusual leaves an event to encoding/json.
var errUnusual = errors.New("not of the usual shape")

// The fields that a wireChunk and its parts have.
var (
	chunkFields   = []string{"object", "type", "choices", "usage", "error"}
	choiceFields  = []string{"index", "delta", "text", "finish_reason", "message"}
	messageFields = []string{"content", "reasoning_content", "reasoning", "tool_calls", "function_call",
		"reasoning_details", "refusal", "audio"}
	usageFields = []string{"prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"}
)

// fields reads an object: do reads the value of each field that names has, and the others are skipped.
func fields(in *jx.Decoder, names []string, do func(in *jx.Decoder, name string) error) error {
	seen := 0
	return in.ObjBytes(func(in *jx.Decoder, key []byte) error {
		known := slices.IndexFunc(names, func(name string) bool { return name == string(key) })
		switch {
		case known < 0 && slices.ContainsFunc(names, func(name string) bool { return bytes.EqualFold(key, []byte(name)) }):
			return errUnusual // encoding/json takes it for the same
		case known < 0:
			return in.Skip()
		case seen&(1<<known) != 0:
			return errUnusual
		}
		seen |= 1 << known
		return do(in, names[known])
	})
}

// scanner gathers an event.
type scanner struct {
	d     *delta
	text  []byte // the last non-empty text that the event shows, with its quotes
	texts int
}

func (s *scanner) chunk(in *jx.Decoder, name string) error {
	switch name {
	case "object":
		_, text, err := optionalText(in)
		if text == "error" || text == "response" {
			return errUnusual
		}
		return err
	case "choices":
		if in.Next() != jx.Array {
			return errUnusual
		}
		return in.Arr(s.choice)
	case "usage":
		if in.Next() == jx.Null {
			return in.Null()
		}
		s.d.hasUsage = true
		return fields(in, usageFields, func(in *jx.Decoder, name string) (err error) {
			switch name {
			case "prompt_tokens":
				s.d.usage.Prompt, err = count(in)
			case "completion_tokens":
				s.d.usage.Completion, err = count(in)
			default:
				err = in.Null()
			}
			return err
		})
	}
	return in.Null() // an error, an event of the Responses API
}

func (s *scanner) choice(in *jx.Decoder) error {
	index := wireCount(0)
	own, finish, content, reasoning, other := "", "", "", "", ""
	message := func(in *jx.Decoder, name string) (err error) {
		switch name {
		case "content":
			content, err = s.shown(in)
		case "reasoning_content":
			reasoning, err = s.shown(in)
		case "reasoning":
			other, err = s.shown(in)
		case "tool_calls", "reasoning_details":
			var raw jx.Raw
			if raw, err = in.Raw(); string(raw) != "null" && string(raw) != "[]" {
				return errUnusual
			}
		default: // refusals, speech
			err = in.Null()
		}
		return err
	}
	err := fields(in, choiceFields, func(in *jx.Decoder, name string) (err error) {
		switch name {
		case "index":
			index, err = count(in)
		case "delta":
			if in.Next() == jx.Null {
				return in.Null()
			}
			return fields(in, messageFields, message)
		case "text":
			own, err = s.shown(in)
		case "finish_reason":
			_, finish, err = optionalText(in)
		default: // a message
			err = in.Null()
		}
		return err
	})
	if reasoning == "" {
		reasoning = other
	}
	s.d.reasoning += reasoning
	s.d.seen.add(int(index))
	s.d.text += own + content
	if finish != "" {
		s.d.finish = worseFinish(s.d.finish, finish)
		s.d.finished.add(int(index))
	}
	return err
}

// optionalText reads a string, or null.
func optionalText(in *jx.Decoder) (raw jx.Raw, text string, err error) {
	switch in.Next() {
	case jx.Null:
		return nil, "", in.Null()
	case jx.String:
		if raw, err = in.Raw(); err == nil {
			text = unescape(raw[1 : len(raw)-1])
		}
		return raw, text, err
	}
	return nil, "", errUnusual
}

// shown is optionalText for what an event shows.
func (s *scanner) shown(in *jx.Decoder) (string, error) {
	raw, text, err := optionalText(in)
	if text != "" {
		s.text, s.texts = raw, s.texts+1
	}
	return text, err
}

// count reads a whole number of at most nine digits.
func count(in *jx.Decoder) (wireCount, error) {
	if in.Next() != jx.Number {
		return 0, errUnusual
	}
	raw, err := in.Raw()
	if err != nil || len(raw) > 9 || raw[0] == '-' {
		return 0, errUnusual
	}
	n, err := strconv.Atoi(string(raw))
	return wireCount(n), err
}
