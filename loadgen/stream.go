package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errServer wraps an error that the server reported inside its answer.
var errServer = errors.New("the server reported")

// event is a content event.
type event struct {
	at     int64
	tokens int32 // the server's running count, 0 unknown
}

// stream holds the reading of one answer. It is reused from request to request;
// events and lags are valid until then.
type stream struct {
	buf      []byte
	parser   sseParser
	tap      tap // of a connection that reads ahead of the transport
	template template
	stamps   stampReader
	events   []event
	lags     []int64 // of reads that brought events, where known
	reads    int     // reads that brought events
	merged   int     // of these, with more than one
	done     bool    // [DONE] was seen
	usage    usage   // the last report
	hasUsage bool
	wantText bool // set by the caller: collect text
	text     strings.Builder
	visible  strings.Builder
}

// begin prepares for an answer; no event of it is earlier than sent.
func (s *stream) begin(clk *clock, st stamper, sent int64) {
	s.parser.reset(maxEventBytes)
	s.template.reset()
	s.stamps = stampReader{clock: clk, stamper: st, prev: sent}
	s.events, s.lags = s.events[:0], s.lags[:0]
	s.reads, s.merged, s.done = 0, 0, false
	s.usage, s.hasUsage = usage{}, false
	s.text.Reset()
	s.visible.Reset()
}

// readEvents reads an event stream to [DONE] and on to the end of the answer. It
// returns nil at a proper end of the answer, whether or not a terminator came.
func (s *stream) readEvents(body io.Reader, w *watchdog, rec *Record) error {
	for {
		n, err := body.Read(s.buf)
		if n > 0 {
			at, lag := s.stamps.read()
			if err := s.take(s.buf[:n], at, lag, w, rec); err != nil {
				return err
			}
			if s.done {
				s.drain(body, err)
				return nil
			}
		}
		if err == io.EOF {
			rec.EndNS = s.stamps.clock.now()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take takes a piece of the event stream, up to the terminator.
func (s *stream) take(b []byte, at, lag int64, w *watchdog, rec *Record) error {
	before := len(s.events)
	s.parser.feed(b)
	for !s.done {
		name, data, ok := s.parser.next()
		if !ok {
			break
		}
		w.lastEvent.Store(at)
		if err := s.event(name, data, at, w, rec); err != nil {
			return err
		}
	}
	if got := len(s.events) - before; got > 0 {
		s.reads++
		if got > 1 {
			s.merged++
		}
		if lag >= 0 {
			s.lags = append(s.lags, lag)
		}
	}
	if s.done {
		rec.EndNS = at
		w.terminate(at)
	}
	return s.parser.err
}

// drain reads what follows the terminator, so that the connection can be used
// again. What it brings has no part in the request.
func (s *stream) drain(body io.Reader, err error) {
	for total := 0; err == nil && total < maxDrain; {
		var n int
		n, err = body.Read(s.buf)
		total += n
	}
}

// event takes one event of the stream.
func (s *stream) event(name, data []byte, at int64, w *watchdog, rec *Record) error {
	if len(name) == 0 {
		if raw, ok := s.template.match(data); ok {
			if s.wantText {
				s.collect(unescape(raw), s.template.reasoning)
			}
			s.content(at, 0, !s.template.reasoning, w, rec)
			return nil
		}
	}
	if string(name) == "error" {
		return fmt.Errorf("%w: %s", errServer, clip(data))
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
		return fmt.Errorf("%w: %s", err, clip(data))
	}
	if d.failure != "" {
		return fmt.Errorf("%w: %s", errServer, d.failure)
	}
	running := 0
	if d.hasUsage {
		s.usage, s.hasUsage = d.usage, true
		running = d.usage.Completion
	}
	if d.content() {
		if s.wantText {
			s.collect(d.text, false)
			s.collect(d.reasoning, true)
		}
		s.content(at, running, d.visible(), w, rec)
		s.template.learn(data, &d)
	}
	if d.finish != "" {
		rec.FinishReason = d.finish
	}
	return nil
}

func (s *stream) collect(text string, reasoning bool) {
	s.text.WriteString(text)
	if !reasoning {
		s.visible.WriteString(text)
	}
}

// content counts a content event.
func (s *stream) content(at int64, running int, visible bool, w *watchdog, rec *Record) {
	if len(s.events) == 0 {
		rec.FirstTokenNS = at
		w.firstToken.Store(at)
	}
	if visible && rec.FirstVisibleNS == 0 {
		rec.FirstVisibleNS = at
	}
	rec.LastTokenNS = at
	rec.Events++
	s.events = append(s.events, event{at: at, tokens: int32(min(running, 1<<31-1))})
}

// wholeAnswer takes an answer that came in one piece.
func (s *stream) wholeAnswer(d *delta, rec *Record, end, lag int64) {
	rec.Events = 1
	rec.LastTokenNS = end
	rec.FinishReason = d.finish
	s.usage, s.hasUsage = d.usage, d.hasUsage
	s.reads = 1
	if lag >= 0 {
		s.lags = append(s.lags, lag)
	}
	if s.wantText {
		s.collect(d.text, false)
		s.collect(d.reasoning, true)
	}
}

// continuous says that every content event carried the server's running count,
// and that it never fell.
func (s *stream) continuous() bool {
	prev := int32(0)
	for i := range s.events {
		if s.events[i].tokens <= 0 || s.events[i].tokens < prev {
			return false
		}
		prev = s.events[i].tokens
	}
	return len(s.events) > 0
}

// conclude fills in what the record knows only once the answer is over.
func (s *stream) conclude(rec *Record, t *Tenant) {
	rec.StampSource = stampSource(int64(s.stamps.readsKernel), int64(s.stamps.readsUser))
	if s.hasUsage && s.usage.Prompt > 0 {
		rec.PromptTokens = s.usage.Prompt
	}
	for i := 1; i < len(s.events); i++ {
		rec.MaxGapNS = max(rec.MaxGapNS, s.events[i].at-s.events[i-1].at)
	}
	if rec.Events == 0 {
		return
	}
	if rec.Streamed {
		rec.FirstTokens = 1
		rec.OutputTokens, rec.TokenSource = rec.Events, TokensEvents
	}
	continuous := s.continuous()
	switch {
	case continuous:
		rec.FirstTokens = int(s.events[0].tokens)
		rec.OutputTokens, rec.TokenSource = int(s.events[len(s.events)-1].tokens), TokensUsage
		if rec.Class == OK && s.usage.Completion > rec.OutputTokens {
			rec.OutputTokens = s.usage.Completion
		}
	case rec.Class != OK:
		// The usage report of a failed request, if there is one at all, is not of
		// what was delivered.
	case s.hasUsage && s.usage.Completion > 0:
		rec.OutputTokens, rec.TokenSource = s.usage.Completion, TokensUsage
	case t.Tokenizer != nil:
		if n := t.Tokenizer(s.text.String()); n > 0 {
			rec.OutputTokens, rec.TokenSource = n, TokensTokenizer
		}
	}
}
