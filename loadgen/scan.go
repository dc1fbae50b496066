package loadgen

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanDelta reads an event of the usual shape at a fifth of what decodeJSON costs, and says where its texts are.
// What it is not sure to read as encoding/json does it leaves alone: ok is then false.
func scanDelta(data []byte) (d delta, at textPlace, ok bool) {
	s := scanner{b: data, ok: true}
	s.space()
	s.object(chunkFields, func(name string) {
		switch name {
		case "object":
			if text := s.optionalText(); text == "error" || text == "response" {
				s.ok = false
			}
		case "choices":
			s.array(func() { s.choice(&d) })
		case "usage":
			if s.null() {
				return
			}
			d.hasUsage = true
			s.object(usageFields, func(name string) {
				switch name {
				case "prompt_tokens":
					d.usage.Prompt = s.count()
				case "completion_tokens":
					d.usage.Completion = s.count()
				default:
					s.ok = s.ok && s.null()
				}
			})
		default: // an error, an event of the Responses API
			s.ok = s.ok && s.null()
		}
	})
	s.space()
	return d, s.texts, s.ok && s.at == len(data)
}

// The fields that a wireChunk and its parts have.
var (
	chunkFields   = []string{"object", "type", "choices", "usage", "error"}
	choiceFields  = []string{"index", "delta", "text", "finish_reason", "message"}
	messageFields = []string{"content", "reasoning_content", "reasoning", "tool_calls", "function_call",
		"reasoning_details", "refusal", "audio"}
	usageFields = []string{"prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"}
)

func (s *scanner) choice(d *delta) {
	index := wireCount(0)
	own, text, finish := "", "", ""
	s.object(choiceFields, func(name string) {
		switch name {
		case "index":
			index = s.count()
		case "delta":
			if s.null() {
				return
			}
			reasoning, other := "", ""
			s.object(messageFields, func(name string) {
				switch name {
				case "content":
					text = s.text()
				case "reasoning_content":
					reasoning = s.text()
				case "reasoning":
					other = s.text()
				case "tool_calls", "reasoning_details":
					s.ok = s.ok && (s.null() || s.word("[]"))
				default: // refusals, speech
					s.ok = s.ok && s.null()
				}
			})
			if reasoning == "" {
				reasoning = other
			}
			d.reasoning += reasoning
		case "text":
			own = s.text()
		case "finish_reason":
			finish = s.optionalText()
		default: // a message
			s.ok = s.ok && s.null()
		}
	})
	d.seen.add(int(index))
	d.text += own + text
	if finish != "" {
		d.finish = worseFinish(d.finish, finish)
		d.finished.add(int(index))
	}
}

// scanner reads JSON text from the left. ok falls when it meets what it does not read; it then goes no further.
type scanner struct {
	b     []byte
	at    int
	depth int
	ok    bool
	texts textPlace
}

// textPlace locates the last of an event's count non-empty texts, between its quotes.
type textPlace struct{ start, end, count int }

const maxScanDepth = 20

func (s *scanner) space() {
	for s.at < len(s.b) && (s.b[s.at] == ' ' || s.b[s.at] == '\n' || s.b[s.at] == '\t' || s.b[s.at] == '\r') {
		s.at++
	}
}

// take says whether c comes next, and moves past it.
func (s *scanner) take(c byte) bool {
	if !s.ok || s.at >= len(s.b) || s.b[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) need(c byte) { s.ok = s.take(c) && s.ok }

func (s *scanner) word(w string) bool {
	if !s.ok || !bytes.HasPrefix(s.b[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

func (s *scanner) null() bool { return s.word("null") }

// object reads an object: do reads the value of each field that names has, and the others are skipped.
func (s *scanner) object(names []string, do func(name string)) {
	if s.need('{'); !s.ok {
		return
	}
	seen := 0
	for first := true; s.ok; first = false {
		s.space()
		if first && s.take('}') {
			return
		}
		raw := s.raw()
		s.space()
		s.need(':')
		s.space()
		if !s.ok {
			return
		}
		known := -1
		for i, name := range names {
			if string(raw) == name {
				known = i
			} else if len(raw) == len(name) && strings.EqualFold(string(raw), name) {
				s.ok = false // encoding/json takes it for the same
			}
		}
		switch {
		case known < 0:
			s.skip()
		case seen&(1<<known) != 0:
			s.ok = false
		default:
			seen |= 1 << known
			do(names[known])
		}
		s.space()
		if s.take(',') {
			continue
		}
		s.need('}')
		return
	}
}

func (s *scanner) array(do func()) {
	if s.need('['); !s.ok {
		return
	}
	for first := true; s.ok; first = false {
		s.space()
		if first && s.take(']') {
			return
		}
		do()
		s.space()
		if s.take(',') {
			continue
		}
		s.need(']')
		return
	}
}

// raw reads a string without escapes that are more than two characters, in ASCII or
// valid UTF-8, and returns what stands between its quotes. An escaped one is not ok.
func (s *scanner) raw() []byte {
	raw := s.quoted()
	if s.ok && bytes.IndexByte(raw, '\\') >= 0 {
		s.ok = false
	}
	for _, c := range raw {
		if c >= utf8.RuneSelf {
			s.ok = false
		}
	}
	return raw
}

// quoted reads any string of valid UTF-8, but for \u escapes.
func (s *scanner) quoted() []byte {
	if s.need('"'); !s.ok {
		return nil
	}
	start, ascii := s.at, true
	for ; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; {
		case c == '"':
			raw := s.b[start:s.at]
			s.at++
			s.ok = ascii || utf8.Valid(raw)
			return raw
		case c < 0x20:
			s.ok = false
			return nil
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '\\':
			if s.at++; s.at == len(s.b) || strings.IndexByte(`"\/bfnrt`, s.b[s.at]) < 0 {
				s.ok = false
				return nil
			}
		}
	}
	s.ok = false
	return nil
}

// optionalText reads a string, or null.
func (s *scanner) optionalText() string {
	if s.null() {
		return ""
	}
	raw := s.quoted()
	if !s.ok {
		return ""
	}
	return unescape(raw)
}

// text is optionalText for what an event shows.
func (s *scanner) text() string {
	start := s.at + 1
	text := s.optionalText()
	if text != "" {
		s.texts = textPlace{start, s.at - 1, s.texts.count + 1}
	}
	return text
}

// count reads a whole number of at most nine digits.
func (s *scanner) count() wireCount {
	start := s.at
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' {
		s.at++
	}
	digits := s.b[start:s.at]
	if len(digits) == 0 || len(digits) > 9 || len(digits) > 1 && digits[0] == '0' || s.at < len(s.b) &&
		strings.IndexByte(".eE", s.b[s.at]) >= 0 {
		s.ok = false
		return 0
	}
	n, err := strconv.Atoi(string(digits))
	s.ok = s.ok && err == nil
	return wireCount(n)
}

// skip reads any value.
func (s *scanner) skip() {
	if s.depth++; !s.ok || s.at >= len(s.b) || s.depth > maxScanDepth {
		s.ok = false
		return
	}
	defer func() { s.depth-- }()
	switch c := s.b[s.at]; {
	case c == '"':
		s.quoted()
	case c == '{':
		s.object(nil, nil)
	case c == '[':
		s.array(s.skip)
	case c == 'n' || c == 't' || c == 'f':
		s.ok = s.word("null") || s.word("true") || s.word("false")
	default:
		start := s.at
		for s.at < len(s.b) && strings.IndexByte("+-0123456789.eE", s.b[s.at]) >= 0 {
			s.at++
		}
		number := s.b[start:s.at]
		for _, d := range number {
			if d < '0' || d > '9' { // signs and fractions have a grammar
				s.ok = json.Valid(number)
				return
			}
		}
		s.ok = len(number) == 1 || len(number) > 1 && number[0] != '0'
	}
}
