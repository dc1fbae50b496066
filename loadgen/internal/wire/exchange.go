// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Call receives the events of an exchange other than its body.
type Call interface {
	Sink
	// Fresh reports whether a connection must be a new one.
	Fresh() bool
	// Connected is called once there is a connection, with its idle time, negative for a
	// new one. The request is sent now.
	Connected(idle time.Duration)
	// Written is called when the request was handed to the kernel as a whole.
	Written()
	// Head takes the head of a chunked answer, and says whether the Sink takes its body.
	// It may be called on another goroutine than the others, as the Sink is.
	Head(resp *http.Response, at int64) bool
}

// ErrNotPolled is returned for an exchange that net/http must make.
var ErrNotPolled = errors.New("loadgen: no poller")

// errNotTapped is returned for an answer to be read in the usual way.
var errNotTapped = errors.New("loadgen: not a stream")

// errHead is returned for an answer's head that cannot be used. Its text is net/http's.
var errHead = errors.New("net/http: HTTP/1.x transport connection broken")

// maxHead bounds an answer's head, together with the heads before it.
const maxHead = 1 << 20

// errEarly reports that an answer on a reused connection began before the last part of the request was written: it is
// then unsolicited, or to an earlier request.
var errEarly = errors.New("loadgen: an answer before its request")

// takeHead takes a piece of an answer's head, and returns the bytes after it.
func (t *tap) takeHead(b []byte, stamp int64) (rest []byte, err error) {
	asked := t.asked.Load()
	if t.reused && len(t.head) == 0 && t.early == 0 && (asked == 0 || stamp != 0 && stamp < asked) {
		return nil, errEarly
	}
	for {
		before := len(t.head)
		t.head = append(t.head, b...)
		end := headEnd(t.head, max(before-2, 0))
		if end < 0 {
			if t.early+len(t.head) > maxHead {
				return nil, fmt.Errorf("net/http: server response headers exceeded %d bytes; aborted", maxHead)
			}
			return nil, t.firstLine()
		}
		t.head, b = t.head[:end], b[end-before:]
		resp := t.memo.of(t.head)
		if resp == nil {
			if resp, err = t.response(t.head); err != nil {
				return nil, fmt.Errorf("%w: %w", errHead, err)
			}
			t.memo.keep(t.head, resp)
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			t.early += len(t.head)
			t.head, t.begun = t.head[:0], false
			continue
		}
		at, _ := t.stamps.of(stamp)
		chunked := resp.ProtoMajor == 1 && len(resp.TransferEncoding) == 1 && resp.TransferEncoding[0] == "chunked"
		if !chunked || !t.call.Head(resp, at) {
			t.head = append(t.head, b...)
			return nil, errNotTapped
		}
		t.inHead, t.close = false, resp.Close
		return b, nil
	}
}

func (m *headMemo) of(head []byte) *http.Response {
	if k := m.last.Load(); k != nil && bytes.Equal(k.head, head) {
		return k.resp
	}
	return nil
}

func (m *headMemo) keep(head []byte, resp *http.Response) {
	if len(head) <= 4<<10 {
		m.last.Store(&knownHead{bytes.Clone(head), resp})
	}
}

func (t *tap) response(head []byte) (*http.Response, error) {
	t.text.Reset(head)
	if t.lines == nil {
		t.lines = bufio.NewReader(&t.text)
	}
	t.lines.Reset(&t.text)
	return http.ReadResponse(t.lines, postRequest)
}

// firstLine checks the first line as soon as it is there: another protocol may never come to the end of a head.
func (t *tap) firstLine() error {
	if t.begun {
		return nil
	}
	end := bytes.IndexByte(t.head, '\n')
	switch {
	case bytes.HasPrefix(t.head, tlsAlert): // the end of the connection may come before that of a line
		return fmt.Errorf("%w: malformed HTTP response %q", errHead, t.head)
	case end < 0:
		return nil
	}
	t.begun = true
	if _, err := t.response(append(bytes.Clone(t.head[:end+1]), '\n')); err != nil {
		return fmt.Errorf("%w: %w", errHead, err)
	}
	return nil
}

// tlsAlert begins a record with which a server refuses data that is not TLS (RFC 8446, 5.1).
var tlsAlert = []byte{21, 3}

var postRequest = &http.Request{Method: http.MethodPost}

// headEnd returns where an answer's head ends: after its first empty line, if the line before ends after from; -1
// where that has not come yet.
func headEnd(text []byte, from int) int {
	for {
		n := bytes.IndexByte(text[from:], '\n')
		if n < 0 {
			return -1
		}
		from += n + 1
		if rest := bytes.TrimPrefix(text[from:], []byte("\r")); len(rest) > 0 && rest[0] == '\n' {
			return len(text) - len(rest) + 1
		}
	}
}

// tap takes an answer as it comes from the socket: its head, and the chunked body of one event stream.
type tap struct {
	stamps  *stamps
	call    Call
	memo    *headMemo
	reused  bool         // the connection had a request before
	asked   atomic.Int64 // when the last part of the request was about to be written, Unix nanoseconds; 0 before
	inHead  bool
	head    []byte // and, of an answer that is not tapped, the bytes after it
	begun   bool   // the first line is dealt with
	text    bytes.Reader
	lines   *bufio.Reader
	early   int  // bytes of informational responses
	close   bool // the connection ends with the answer
	chunks  chunkedDecoder
	done    bool   // the sink wants no more
	drained int    // bytes since
	rest    []byte // bytes after the body's end; only their number matters
}

func (t *tap) reset(s *stamps, call Call, memo *headMemo) {
	t.chunks.reset()
	*t = tap{stamps: s, call: call, memo: memo, inHead: true, head: t.head[:0], lines: t.lines, chunks: t.chunks}
}

// cut is the error of an answer that ends too early; net/http says the same.
func (t *tap) cut() error {
	switch {
	case t.inHead && len(t.head) == 0 && t.early == 0:
		return io.EOF
	case t.inHead:
		if _, err := t.response(t.head); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %w", errHead, err)
		}
	}
	return io.ErrUnexpectedEOF
}

// take takes a piece, which the kernel had received at stamp, 0 when not known; it may change the bytes. It
// returns how many events the piece brought, and whether it was the last one.
func (t *tap) take(b []byte, stamp int64) (events int, ended bool, err error) {
	if t.inHead {
		rest, err := t.takeHead(b, stamp)
		if err != nil || t.inHead {
			return 0, err != nil, err
		}
		b = rest
	}
	data, rest, ended, err := t.chunks.decode(b)
	switch {
	case len(data) == 0:
	case t.done:
		if t.drained += len(data); t.drained > maxDrain {
			return 0, true, errUndrained
		}
	default:
		at, lag := t.stamps.of(stamp)
		var sinkErr error
		if events, t.done, sinkErr = t.call.Take(data, at, lag); sinkErr != nil {
			return events, true, sinkErr
		}
	}
	if ended {
		if t.rest = rest; !t.done {
			t.call.End(t.stamps.clock.Now())
		}
	}
	return events, ended || err != nil, err
}

// headMemo is the head that was read last: a server's heads differ from second to second, not from answer to answer.
type headMemo struct{ last atomic.Pointer[knownHead] }

type knownHead struct {
	head []byte
	resp *http.Response // nobody reads its body or changes it
}

// Sink takes the body of one event stream. It is called from one goroutine at a
// time, which need not be the one that reads.
type Sink interface {
	// Take takes the next bytes of the body, valid during the call and the Sink's to change. at is when they came, on the
	// Reader's clock; lag is how long they had waited in the kernel, -1 when not known. It returns how many events they
	// completed, and done when nothing further is wanted: later bytes are read and dropped. An error ends the reading.
	Take(b []byte, at, lag int64) (events int, done bool, err error)
	// End takes the time at which the body ended without having been done.
	End(at int64)
}

// maxDrain bounds the bytes read after a stream's terminator, so that the connection can be used again.
const maxDrain = 64 << 10

// errUndrained is returned when too much data followed the terminator.
var errUndrained = errors.New("loadgen: too much data after the terminator")
