// SPDX-License-Identifier: Apache-2.0

package loadgentest

import (
	"encoding/json"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// Reply scripts one answer. The zero value is an immediate answer of one token.
type Reply struct {
	// TTFT is the time from the complete request to the first content event, and Interval that between content events.
	TTFT, Interval time.Duration
	// Tokens is the length of the answer; 0 means the request's max_tokens, or 1.
	Tokens int
	// PerEvent is the number of tokens in an event; 0 means 1.
	PerEvent int
	// Reasoning is the number of leading events that carry reasoning_content.
	Reasoning int
	// ToolCall sends the events as tool-call deltas.
	ToolCall bool
	// Role sends a role-only event RoleAt after the request.
	Role   bool
	RoleAt time.Duration
	// Usage selects the token counts that an answer reports: "never", "final", or "continuous" with each event; "" follows
	// the request.
	Usage string
	// CachedTokens is the reported number of prompt tokens from a prefix cache; if missing, none is reported.
	CachedTokens loadgen.Optional[int]
	// SeparateFinish sends the finish reason in a separate event, FinishAfter the last token.
	SeparateFinish bool
	FinishAfter    time.Duration

	// EventsPerWrite is the number of events that are written together, when the last of them is due; 0 means 1.
	EventsPerWrite int
	// SplitWrites sends each event in two pieces, SplitDelay apart; its content counts as sent with the second.
	SplitWrites bool
	SplitDelay  time.Duration

	// Status other than 0 and 200 refuses the request with an error object, and
	// RetryAfter goes into the header when not empty.
	Status     int
	RetryAfter string
	// Fault makes the answer fail, inside a stream after FaultAfter events; "" means no fault. A name that is not in this
	// list gives status 500.
	//
	//	cut           the connection is closed in the middle
	//	truncate      the answer ends properly, without finish reason and [DONE]
	//	error-object  an event with an "error" object, then the end
	//	error-event   an event named "error", then the end
	//	bad-json      an event that is not JSON, then the rest of the stream
	//	stall         nothing more comes until the client goes away
	//	huge-event    an event of 64 MiB without an end of line
	//	endless       events without end
	//	html          status 200 and a page instead of a stream
	//	no-answer     the request is read and never answered
	//	refuse        the connection is closed before the answer
	Fault      string
	FaultAfter int
	// NoSlot answers without waiting for one of Options.Slots.
	NoSlot bool
	// Word is the text of a token; "" means "tok ".
	Word string
}

// Request describes one request to the server.
type Request struct {
	N            int // number of the request since the server's start, from 0
	Path         string
	Model        string
	Prompt       string // the prompt, or the messages' contents joined by newlines
	PromptTokens int    // words of the prompt
	MaxTokens    int
	Stream       bool
	Header       map[string]string
	// IncludeUsage and ContinuousUsage are the stream options.
	IncludeUsage, ContinuousUsage bool
	Body                          json.RawMessage
}

// Script chooses the answer to a request. It must be safe for concurrent use.
type Script func(Request) Reply

// Always answers every request alike.
func Always(r Reply) Script { return func(Request) Reply { return r } }

// Every answers each n-th request (N = n-1, 2n-1, ...) with special and the others with usual: Every(11, ...) makes 9
// of 100 special.
func Every(n int, special, usual Reply) Script {
	return func(r Request) Reply {
		if r.N%n == n-1 {
			return special
		}
		return usual
	}
}
