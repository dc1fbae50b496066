// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"net"
	"net/http"
)

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
