// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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

// headMemo is the head that was read last: a server's heads differ from second to second, not from answer to answer.
type headMemo struct{ last atomic.Pointer[knownHead] }

type knownHead struct {
	head []byte
	resp *http.Response // nobody reads its body or changes it
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
