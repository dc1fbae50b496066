package prompt

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// Turn is one question of a conversation and the answer that was recorded.
type Turn struct {
	User, Reply string
}

// Conversation is a recorded dialogue.
type Conversation struct {
	ID     string
	System string // the system message, "" without one
	Turns  []Turn
}

// ReadShareGPT reads a JSON array of ShareGPT conversations: objects with "id" and "conversations" (or
// "conversation"), a list of "from" (or "role") and "value" (or "content"). What comes before the first human
// message and a question without an answer are left out; a conversation in which nothing remains is skipped and
// counted. Consecutive messages of one side are joined. Any other shape is an error that wraps ErrInput and names
// each bad conversation (the first 20); then there are none.
func ReadShareGPT(r io.Reader) (conversations []Conversation, skipped int, err error) {
	dec := json.NewDecoder(r)
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, 0, fmt.Errorf("%w: not a JSON array of conversations (JSON Lines are read by Read)", loadgen.ErrInput)
	}
	var l problem.List
	for i := 0; dec.More() && l.Len() <= problem.Enough; i++ {
		path := fmt.Sprintf("[%d]", i)
		var raw shareGPT
		if err := dec.Decode(&raw); err != nil {
			l.Addf(path, "give it \"id\" and \"conversations\"", "not a ShareGPT conversation: %v", err)
			break // the decoder cannot go on
		}
		c, ok := raw.conversation(&l, path)
		switch {
		case !ok:
		case len(c.Turns) == 0:
			skipped++
		default:
			conversations = append(conversations, c)
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
		return nil, 0, err
	}
	return conversations, skipped, nil
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

func (s *shareGPT) conversation(l *problem.List, path string) (c Conversation, ok bool) {
	// The id is a text in most files, a number in some.
	if json.Unmarshal(s.ID, &c.ID) != nil {
		c.ID = string(s.ID)
	}
	turns := s.Conversations
	if turns == nil {
		turns = s.Conversation
	}
	if turns == nil {
		l.Addf(path, "give it \"conversations\"", "has no conversations")
		return c, false
	}
	ok = true
	for i, t := range turns {
		who, text := t.From+t.Role, t.Value+t.Content
		n := len(c.Turns)
		switch who {
		case "system":
			c.System += text
		case "human", "user":
			if n > 0 && c.Turns[n-1].Reply == "" {
				c.Turns[n-1].User += "\n\n" + text
			} else {
				c.Turns = append(c.Turns, Turn{User: text})
			}
		case "gpt", "chatgpt", "bing", "bard", "assistant":
			if n > 0 && c.Turns[n-1].Reply == "" {
				c.Turns[n-1].Reply = text
			} else if n > 0 {
				c.Turns[n-1].Reply += "\n\n" + text
			}
		default:
			l.Addf(fmt.Sprintf("%s.conversations[%d].from", path, i), "use human, gpt or system", "unknown speaker %q",
				problem.Clip(who))
			ok = false
		}
	}
	if n := len(c.Turns); n > 0 && c.Turns[n-1].Reply == "" {
		c.Turns = c.Turns[:n-1]
	}
	return c, ok
}

// estimateTokens is a token count for want of a tokenizer: one token for each four bytes of text, rounded up. It is
// an estimate, off by a factor of two for code and for languages other than English.
func estimateTokens(text string) int { return (len(text) + 3) / 4 }

// Conversations is a PromptSource over the first questions of recorded conversations, in order, over and over, with
// answers as long as the recorded ones. Each is a session. It is safe for concurrent use.
type Conversations struct {
	mu   sync.Mutex
	all  []Conversation
	next int
}

// NewConversations returns a source over conversations, which it keeps. One without turns is left out.
func NewConversations(conversations []Conversation) *Conversations {
	return &Conversations{all: slices.DeleteFunc(slices.Clone(conversations),
		func(c Conversation) bool { return len(c.Turns) == 0 })}
}

// Next returns the first question of the next conversation.
func (s *Conversations) Next() (loadgen.Prompt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return loadgen.Prompt{}, io.EOF
	}
	c, round := &s.all[s.next%len(s.all)], s.next/len(s.all)
	s.next++
	session := c.ID
	if round > 0 {
		session = fmt.Sprintf("%s#%d", c.ID, round)
	}
	p := loadgen.Prompt{MaxTokens: max(estimateTokens(c.Turns[0].Reply), 1), Session: session}
	if c.System != "" {
		p.Messages = append(p.Messages, message("system", c.System))
	}
	p.Messages = append(p.Messages, message("user", c.Turns[0].User))
	return p, nil
}

func message(role, content string) loadgen.Message {
	return loadgen.Message{Role: role, Content: content}
}
