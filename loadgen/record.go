// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"time"

	"github.com/cotenant/cotenant/internal/optional"
)

// The origins of a count of output tokens, from none to best.
const (
	tokensUnknown = "unknown"
	tokensEvents  = "events"       // one token an event, for want of anything better
	tokensUsage   = "server_usage" // the server's usage report
)

// Record is one request: a line of requests.jsonl. Times are Unix nanoseconds on the run's clock; 0 means that it
// did not happen, and the field is then absent from the line.
type Record struct {
	Tenant   string `json:"tenant"`
	ID       int64  `json:"id"` // the request's number in its tenant, from 0
	Session  string `json:"session,omitempty"`
	Adapter  string `json:"adapter,omitempty"`  // the requested model, if it is not the tenant's
	Endpoint string `json:"endpoint,omitempty"` // URL, credentials redacted
	Class    Class  `json:"class"`
	Status   int    `json:"http_status,omitempty"` // of the last attempt
	Error    string `json:"error,omitempty"`
	Retries  int    `json:"retries,omitempty"`
	// Stale is true if the server had closed a kept-alive connection: the request was sent again on a new one, regardless
	// of Tenant.Retries.
	Stale  bool `json:"stale_connection,omitempty"`
	Reused bool `json:"reused_connection,omitempty"` // of the last attempt

	IntendedNS     int64 `json:"intended_ns"`                // scheduled start; in a closed loop the actual one
	SentNS         int64 `json:"sent_ns,omitempty"`          // the first attempt's actual start
	ConnectedNS    int64 `json:"connected_ns,omitempty"`     // connection ready, of the last attempt, as the rest
	WrittenNS      int64 `json:"written_ns,omitempty"`       // request written
	FirstByteNS    int64 `json:"first_byte_ns,omitempty"`    // answer's headers arrived
	FirstTokenNS   int64 `json:"first_token_ns,omitempty"`   // first content event
	FirstVisibleNS int64 `json:"first_visible_ns,omitempty"` // first content event that is not reasoning
	LastTokenNS    int64 `json:"last_token_ns,omitempty"`    // last content event
	EndNS          int64 `json:"end_ns,omitempty"`           // [DONE], end of the answer, or the failure

	PromptTokens int `json:"prompt_tokens,omitempty"` // by the server, else by the prompt's source
	// CachedTokens of the prompt came from a prefix cache; missing if the server does not report it.
	CachedTokens Optional[int] `json:"cached_tokens,omitzero"`
	OutputTokens int           `json:"output_tokens"` // delivered, by TokenSource
	// ReasoningTokens counts the answer's reasoning tokens, by the server's usage; HiddenTokens counts those that were not
	// sent and are not in OutputTokens.
	ReasoningTokens int  `json:"reasoning_tokens,omitempty"`
	HiddenTokens    int  `json:"hidden_tokens,omitempty"`
	Refused         bool `json:"refused,omitempty"` // the model declined to answer
	// AskedTokens is the request's bound of the output, for all its choices together; 0 means none. IgnoreEOS is true if
	// it requested exactly that length.
	AskedTokens int  `json:"asked_tokens,omitempty"`
	IgnoreEOS   bool `json:"ignore_eos,omitempty"`
	// Implausible is true if the count of tokens contradicts the stream.
	Implausible bool `json:"implausible_count,omitempty"`
	// tokens of the first event, 1 unless the server reports otherwise
	FirstTokens int `json:"first_tokens,omitempty"`
	Events      int `json:"events"` // content events
	// TokenSource is "server_usage" for a count by the server, "events" for one token an event, or "unknown".
	TokenSource  string `json:"token_source"`
	MaxGapNS     int64  `json:"max_gap_ns,omitempty"` // longest chunk gap
	FinishReason string `json:"finish_reason,omitempty"`
	// Streamed is set for an answer sent as events; otherwise it came in one piece, without first token and gaps.
	Streamed bool `json:"streamed,omitempty"`
	// StampSource is the clock of the event times: "kernel" or "user".
	StampSource string `json:"stamp_source,omitempty"`
}

// between is to-from when both are there.
func between(from, to int64) (time.Duration, bool) {
	if from == 0 || to == 0 {
		return 0, false
	}
	return time.Duration(to - from), true
}

// TTFT is the time from the intended start to the first content event.
func (r *Record) TTFT() (time.Duration, bool) { return between(r.IntendedNS, r.FirstTokenNS) }

// E2E is the time from the intended start to the last content event.
func (r *Record) E2E() (time.Duration, bool) { return between(r.IntendedNS, r.LastTokenNS) }

// TPOT is the mean time per output token after the first event. It is undefined, and ok is false, when no token came
// after the first event; events with the same time count as one.
func (r *Record) TPOT() (time.Duration, bool) {
	if r.FirstTokenNS == 0 || r.LastTokenNS == r.FirstTokenNS || r.OutputTokens <= r.FirstTokens {
		return 0, false
	}
	return time.Duration((r.LastTokenNS - r.FirstTokenNS) / int64(r.OutputTokens-r.FirstTokens)), true
}

// short reports whether an answer is known to have fewer tokens than requested.
func (r *Record) short() bool {
	return r.OutputTokens+r.HiddenTokens < r.AskedTokens && r.TokenSource != tokensEvents && r.TokenSource != tokensUnknown
}

// meets reports whether the request ended ok within every bound of the SLO. It is missing when no bound is known to
// be broken and one is on a figure that the request doesn't have: an answer in one piece has no first token and no
// gaps. A streamed answer of one event meets the bounds on later events.
func (r *Record) meets(slo RequestSLO) Optional[bool] {
	if r.Class != ClassOK {
		return optional.Of(false)
	}
	known := true
	for _, b := range []struct {
		limit    time.Duration
		value    func() (time.Duration, bool)
		ofStream bool // vacuously kept where a stream has no such time
	}{
		{slo.TTFT, r.TTFT, false}, {slo.TPOT, r.TPOT, true}, {slo.E2E, r.E2E, false},
		{slo.Stall, func() (time.Duration, bool) { return time.Duration(r.MaxGapNS), r.Streamed }, true},
	} {
		if b.limit == 0 {
			continue
		}
		switch v, ok := b.value(); {
		case ok && v > b.limit:
			return optional.Of(false)
		case !ok && !(b.ofStream && r.Streamed):
			known = false
		}
	}
	if !known {
		return Optional[bool]{}
	}
	return optional.Of(true)
}
