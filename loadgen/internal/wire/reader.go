// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

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

// Reader reads answers, one after another, and gives their bytes times. It must
// not be copied once in use, nor used by several goroutines at once.
type Reader struct {
	stamps stamps
	buf    []byte
	out    []byte // the request
	tap    tap
	polled bool
	unseen bool
}

// maxDrain bounds the bytes read after a stream's terminator, so that the connection can be used again.
const maxDrain = 64 << 10

// Begin prepares for the answer that comes over conn, which may be nil while none
// is known. Nothing of it is earlier than earliest.
func (r *Reader) Begin(clock *Clock, conn net.Conn, earliest int64) {
	r.stamps = stamps{clock: clock, stamper: stamperOf(conn), prev: earliest}
	r.polled, r.unseen = false, false
	r.tap.head, r.tap.early = r.tap.head[:0], 0
}

// Stamp returns the time of the read that just returned, for bytes that did not
// come by Stream: an answer's head, or a body in one piece.
func (r *Reader) Stamp() (at, lag int64) { return r.stamps.read() }

// Counts are those of the reads since Begin.
func (r *Reader) Counts() Counts { return r.stamps.counts }

// Begun reports whether the last exchange brought any byte of an answer.
func (r *Reader) Begun() bool { return len(r.tap.head) > 0 || r.tap.early > 0 }

// Unseen reports whether the last exchange's request reached nobody: the other side had ended
// the connection, which was a reused one, before it came.
func (r *Reader) Unseen() bool { return r.unseen }

// Polled reports whether the last answer came through the poller.
func (r *Reader) Polled() bool { return r.polled }

// Stream reads an answer's body to its end, or until sink is done with it and the
// rest is drained. It returns sink's error, or the error that cut the body off.
func (r *Reader) Stream(resp *http.Response, sink Sink) error {
	if r.buf == nil {
		r.buf = make([]byte, 8<<10)
	}
	for {
		n, err := resp.Body.Read(r.buf)
		if n > 0 {
			at, lag := r.stamps.read()
			if _, done, err2 := sink.Take(r.buf[:n], at, lag); err2 != nil {
				return err2
			} else if done {
				r.drain(resp.Body, err)
				return nil
			}
		}
		if err == io.EOF {
			sink.End(r.stamps.clock.Now())
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// drain reads the bytes after the terminator. They are no part of the answer.
func (r *Reader) drain(body io.Reader, err error) {
	for total := 0; err == nil && total < maxDrain; {
		var n int
		n, err = body.Read(r.buf)
		total += n
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

// errUndrained is returned when too much data followed the terminator.
var errUndrained = errors.New("loadgen: too much data after the terminator")

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
