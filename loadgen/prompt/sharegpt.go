package prompt

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// ReadShareGPT reads the first questions of a JSON array of ShareGPT conversations, each with its system message and
// with the recorded answer's length, estimated, as its MaxTokens. Conversations are objects with "id" and
// "conversations" (or "conversation"), a list of "from" (or "role") and "value" (or "content"). What comes before the
// first human message is left out; consecutive messages of one side are joined; a conversation without an answer is
// skipped. Any other shape is an error that wraps ErrInput and names each bad conversation (the first 20); then there
// are no prompts.
func ReadShareGPT(r io.Reader) (prompts []loadgen.Prompt, err error) {
	dec := json.NewDecoder(r)
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("%w: not a JSON array of conversations (JSON Lines are read by Read)", loadgen.ErrInput)
	}
	var l problem.List
	for i := 0; dec.More() && l.Len() <= problem.Enough; i++ {
		path := fmt.Sprintf("[%d]", i)
		var raw shareGPT
		if err := dec.Decode(&raw); err != nil {
			l.Addf(path, "give it \"id\" and \"conversations\"", "not a ShareGPT conversation: %v", err)
			break // the decoder cannot go on
		}
		if p := raw.question(&l, path); p != nil {
			prompts = append(prompts, *p)
		}
	}
	if l.Len() == 0 {
		if _, err := dec.Token(); err != nil {
			l.Addf("", "check that the file is whole", "the array does not end: %v", err)
		} else if _, err := dec.Token(); err != io.EOF {
			l.Addf("", "keep one array", "something follows the array")
		}
	}
	if err := l.Under(loadgen.ErrInput); err != nil {
		return nil, err
	}
	return prompts, nil
}

type shareGPT struct {
	ID            json.RawMessage `json:"id"`
	Conversations []shareGPTTurn  `json:"conversations"`
	Conversation  []shareGPTTurn  `json:"conversation"`
}

type shareGPTTurn struct {
	From    string `json:"from"`
	Role    string `json:"role"`
	Value   string `json:"value"`
	Content string `json:"content"`
}

// question returns the first question, nil without one that was answered.
func (s *shareGPT) question(l *problem.List, path string) *loadgen.Prompt {
	p := &loadgen.Prompt{}
	// The id is a text in most files, a number in some.
	if json.Unmarshal(s.ID, &p.Session) != nil {
		p.Session = string(s.ID)
	}
	turns := s.Conversations
	if turns == nil {
		turns = s.Conversation
	}
	l.If(turns == nil, path, "give it \"conversations\"", "has no conversations")
	var system, question, answer string
	asked, over := false, false
	for i, t := range turns {
		text := t.Value + t.Content
		switch who := t.From + t.Role; who {
		case "system":
			system += text
		case "human", "user":
			if over = over || answer != ""; !over {
				question, asked = joined(question, text, asked), true
			}
		case "gpt", "chatgpt", "bing", "bard", "assistant":
			if asked && !over {
				answer = joined(answer, text, answer != "")
			}
		default:
			l.Addf(fmt.Sprintf("%s.conversations[%d].from", path, i), "use human, gpt or system", "unknown speaker %q",
				problem.Clip(who))
		}
	}
	if answer == "" {
		return nil
	}
	if system != "" {
		p.Messages = append(p.Messages, loadgen.Message{Role: "system", Content: system})
	}
	p.Messages = append(p.Messages, loadgen.Message{Role: "user", Content: question})
	// For want of a tokenizer one token for each four bytes, which is off by a factor of two for code and for
	// languages other than English.
	p.MaxTokens = (len(answer) + 3) / 4
	return p
}

// joined returns a message, after the one before if there was any.
func joined(before, text string, any bool) string {
	if any {
		return before + "\n\n" + text
	}
	return text
}
