// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// errServer wraps an error that the server reported inside its answer.
var errServer = errors.New("the server reported")

type event struct {
	at     int64
	tokens int32 // the server's running count, 0 unknown
}

// stream holds the reading of one answer. It is reused from request to request; events and lags are valid until then.
type stream struct {
	in       wire.Reader
	parser   wire.Parser
	template template
	watch    *watchdog // of the attempt, as is rec
	rec      *Record
	events   []event
	lags     []int64 // of reads that brought events, where known
	reads    int     // reads that brought events
	merged   int     // of these, with more than one
	done     bool    // [DONE] was seen
	asked    int     // choices of the request, set by the caller
	seen     choiceSet
	finished choiceSet
	head     []byte // the beginning of a body in which no event has come yet
	usage    usage  // the last report
	hasUsage bool
	reasoned bool // reasoning was streamed
	bytes    int  // of content; at least as many as its text has
	anyEvent bool
}

var _ wire.Sink = (*stream)(nil)

// maxEventBytes bounds an event, and an answer that is not streamed.
const maxEventBytes = 8 << 20

// begin prepares for an answer over conn; no event of it is earlier than sent.
func (s *stream) begin(a *attempt, conn net.Conn, sent int64) {
	s.in.Begin(a.client.clock, conn, sent)
	s.parser.Reset(maxEventBytes)
	s.template = template{prefix: s.template.prefix[:0], suffix: s.template.suffix[:0]}
	s.watch, s.rec = a.watch, a.rec
	s.events, s.lags = s.events[:0], s.lags[:0]
	s.reads, s.merged, s.done = 0, 0, false
	s.usage, s.hasUsage, s.reasoned, s.bytes = usage{}, false, false, 0
	s.seen, s.finished, s.head, s.anyEvent = 0, 0, s.head[:0], false
}

// Take takes a piece of the event stream, up to the terminator.
func (s *stream) Take(b []byte, at, lag int64) (events int, done bool, err error) {
	before := len(s.events)
	if !s.anyEvent && len(s.head) < maxServerText {
		s.head = append(s.head, b[:min(len(b), maxServerText-len(s.head))]...)
	}
	s.parser.Feed(b)
	for !s.done {
		name, data, ok := s.parser.Next()
		if !ok {
			break
		}
		s.anyEvent = true
		s.watch.lastEvent.Store(at)
		if err := s.event(name, data, at); err != nil {
			return len(s.events) - before, false, err
		}
	}
	if events = len(s.events) - before; events > 0 {
		s.reads++
		if events > 1 {
			s.merged++
		}
		if lag >= 0 {
			s.lags = append(s.lags, lag)
		}
	}
	if s.done {
		s.rec.EndNS = at
		s.watch.terminate(at)
	}
	return events, s.done, s.parser.Err()
}

// End takes the end of an answer that had no terminator.
func (s *stream) End(at int64) { s.rec.EndNS = at }

func (s *stream) event(name, data []byte, at int64) error {
	if len(name) == 0 {
		if raw, ok := s.template.match(data); ok {
			s.bytes += len(raw)
			s.content(at, 0, !s.template.reasoning)
			return nil
		}
	}
	if string(name) == "error" {
		return fmt.Errorf("%w: %s", errServer, serverText(data))
	}
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		s.done = true
		return nil
	}
	if len(data) == 0 {
		return nil // some servers keep the connection alive with empty events
	}
	d, err := decodeDelta(data)
	if err != nil {
		return fmt.Errorf("%w: %s", err, serverText(data))
	}
	if d.failure != "" {
		return fmt.Errorf("%w: %s", errServer, d.failure)
	}
	running := 0
	if d.hasUsage {
		s.usage, s.hasUsage = d.usage, true
		running = int(d.usage.Completion)
	}
	if d.content() {
		s.content(at, running, d.visible())
		s.kind(&d)
		s.bytes += len(data)
		s.template.learn(data, &d)
	}
	s.seen |= d.seen
	s.finished |= d.finished
	if d.finish != "" {
		s.rec.FinishReason = worseFinish(s.rec.FinishReason, d.finish)
	}
	return nil
}

// ended reports whether the answer's own end was seen: [DONE], or a finish reason of every
// choice that was requested or begun.
func (s *stream) ended() bool {
	return s.done || s.finished != 0 && s.seen&^s.finished == 0 && s.finished.len() >= s.asked
}

// notAStream looks into a body that ended without an event: an error in JSON, or whatever else a server sends in
// the place of a stream. It is nil for a body without anything.
func (s *stream) notAStream() error {
	body := bytes.TrimSpace(s.head)
	if s.anyEvent || len(body) == 0 {
		return nil
	}
	for _, field := range []string{":", "data", "event", "id", "retry", "\ufeff"} {
		if bytes.HasPrefix(body, []byte(field)) {
			return nil // a stream, of which no event came whole
		}
	}
	d, err := decodeDelta(body)
	switch {
	case err == nil && d.failure != "":
		return fmt.Errorf("%w: %s", errServer, d.failure)
	case err == nil && d.content():
		return fmt.Errorf("%w: one piece where a stream was requested", errMalformed)
	}
	return fmt.Errorf("%w: no event in it: %s", errMalformed, serverText(body))
}

// kind records contents of an event other than text.
func (s *stream) kind(d *delta) {
	s.reasoned = s.reasoned || d.reasoning != ""
	s.rec.Refused = s.rec.Refused || d.refusal
}

// content counts a content event.
func (s *stream) content(at int64, running int, visible bool) {
	if len(s.events) == 0 {
		s.rec.FirstTokenNS = at
		s.watch.firstToken.Store(at)
	}
	if visible && s.rec.FirstVisibleNS == 0 {
		s.rec.FirstVisibleNS = at
	}
	s.reasoned = s.reasoned || !visible
	s.rec.LastTokenNS = at
	s.rec.Events++
	s.events = append(s.events, event{at: at, tokens: int32(min(running, 1<<31-1))})
}

// wholeAnswer takes an answer that came in one piece.
func (s *stream) wholeAnswer(d *delta, rec *Record, end, lag int64) {
	rec.Events = 1
	rec.LastTokenNS = end
	rec.FinishReason = d.finish
	s.usage, s.hasUsage = d.usage, d.hasUsage
	s.kind(d)
	s.reads = 1
	if lag >= 0 {
		s.lags = append(s.lags, lag)
	}
}

// continuous reports whether every content event carried the server's running count, which never fell.
func (s *stream) continuous() bool {
	return len(s.events) > 0 && s.events[0].tokens > 0 &&
		slices.IsSortedFunc(s.events, func(a, b event) int { return cmp.Compare(a.tokens, b.tokens) })
}

// conclude fills in the fields of the record that need the whole answer.
func (s *stream) conclude(rec *Record, t *Tenant) {
	n := s.readCounts()
	rec.StampSource = n.stamps()
	if s.hasUsage && s.usage.Prompt > 0 {
		rec.PromptTokens = int(s.usage.Prompt)
	}
	if cached, ok := s.usage.Cached.Get(); ok && s.hasUsage {
		rec.CachedTokens = optional.Of(min(cached, rec.PromptTokens))
	}
	for i := 1; i < len(s.events); i++ {
		rec.MaxGapNS = max(rec.MaxGapNS, s.events[i].at-s.events[i-1].at)
	}
	if rec.Events == 0 {
		return
	}
	hidden := s.hiddenTokens(rec)
	if rec.Streamed {
		rec.FirstTokens = 1
		rec.OutputTokens, rec.TokenSource = rec.Events, tokensEvents
	}
	continuous := s.continuous()
	switch {
	case continuous:
		rec.FirstTokens = int(s.events[0].tokens)
		rec.OutputTokens, rec.TokenSource = int(s.events[len(s.events)-1].tokens), tokensUsage
		if rec.Class == ClassOK {
			rec.OutputTokens = max(rec.OutputTokens, int(s.usage.Completion)-hidden)
		}
	case rec.Class != ClassOK:
		// The usage report of a failed request, if there is one at all, is not of the tokens delivered.
	case s.hasUsage && s.usage.Completion > 0:
		rec.OutputTokens, rec.TokenSource = int(s.usage.Completion)-hidden, tokensUsage
	}
	rec.Implausible = rec.Class == ClassOK && s.implausible(rec)
}

// hiddenTokens counts the reasoning that the server reports and did not send, into the
// record too, and takes it out of the events' running counts.
func (s *stream) hiddenTokens(rec *Record) int {
	if !s.hasUsage || rec.Class != ClassOK {
		return 0
	}
	rec.ReasoningTokens = int(s.usage.Reasoning)
	if s.reasoned || rec.ReasoningTokens >= int(s.usage.Completion) {
		return 0
	}
	rec.HiddenTokens = rec.ReasoningTokens
	if hidden := int32(min(rec.HiddenTokens, 1<<31-1)); len(s.events) > 0 && s.events[0].tokens > hidden {
		for i := range s.events {
			s.events[i].tokens -= hidden
		}
	}
	return rec.HiddenTokens
}

// implausible reports whether the tokens of an ok answer contradict its content by more than a tenth: an event has
// a token at least, and a token a byte. Where only events are known, they may not be more than the requested
// tokens. The slack is for tokens without text.
func (s *stream) implausible(rec *Record) bool {
	const slack = 2
	n := rec.OutputTokens
	switch {
	case !rec.Streamed:
		return false
	case rec.TokenSource == tokensEvents:
		return rec.AskedTokens > 0 && 10*(n-slack) > 11*rec.AskedTokens
	}
	return 10*(n+slack) < 9*rec.Events || 10*(n-slack) > 11*s.bytes
}

func (s *stream) readCounts() ReadCounts {
	n := s.in.Counts()
	return ReadCounts{KernelReads: int64(n.Kernel), UserReads: int64(n.User), Reads: int64(s.reads),
		MergedReads: int64(s.merged), ClampedStamps: int64(n.Clamped)}
}
