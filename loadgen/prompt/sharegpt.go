package prompt

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

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

// ConversationOptions tune NewConversations. The zero value is the documented default.
type ConversationOptions struct {
	// MaxTurns bounds the questions taken from each conversation; 0 means 1, as the
	// common tools do; a negative value means all.
	MaxTurns int
	// Tokens counts the tokens of a recorded answer, which bounds the answer asked for; nil means estimateTokens.
	Tokens func(text string) int
	// Think is the pause between an answer and the next question.
	Think time.Duration
	// Recorded makes the history hold the recorded answers instead of those that the server gave.
	Recorded bool
}

// Conversations is a PromptSource over recorded conversations, in order, over and over. Each is a session: its next
// question is asked when the one before was answered. It is safe for concurrent use.
type Conversations struct {
	opts ConversationOptions

	mu   sync.Mutex
	all  []Conversation
	next int
}

// NewConversations returns a source over conversations, which it keeps. One without turns is left out.
func NewConversations(conversations []Conversation, opts ConversationOptions) *Conversations {
	if opts.MaxTurns == 0 {
		opts.MaxTurns = 1
	}
	if opts.Tokens == nil {
		opts.Tokens = estimateTokens
	}
	s := &Conversations{opts: opts}
	for _, c := range conversations {
		if len(c.Turns) > 0 {
			s.all = append(s.all, c)
		}
	}
	return s
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
	var history []loadgen.Message
	if c.System != "" {
		history = append(history, message("system", c.System))
	}
	session := c.ID
	if round > 0 {
		session = fmt.Sprintf("%s#%d", c.ID, round)
	}
	return s.ask(c, session, history, 0), nil
}

func (s *Conversations) ask(c *Conversation, session string, history []loadgen.Message, turn int) loadgen.Prompt {
	t := c.Turns[turn]
	messages := append(history[:len(history):len(history)], message("user", t.User))
	p := loadgen.Prompt{Messages: messages, MaxTokens: max(s.opts.Tokens(t.Reply), 1), Session: session}
	if turn+1 == len(c.Turns) || s.opts.MaxTurns > 0 && turn+1 >= s.opts.MaxTurns {
		return p
	}
	p.Next = func(reply loadgen.Reply) (loadgen.Prompt, time.Duration, bool) {
		answer := reply.Text
		if s.opts.Recorded {
			answer = t.Reply
		}
		return s.ask(c, session, append(messages[:len(messages):len(messages)], message("assistant", answer)), turn+1),
			s.opts.Think, true
	}
	return p
}

func message(role, content string) loadgen.Message {
	return loadgen.Message{Role: role, Content: content}
}
