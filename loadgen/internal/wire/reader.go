// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"net"
	"net/http"
)

// Sink takes the body of one event stream.
type Sink interface {
	// Take takes the next bytes of the body, valid during the call and the Sink's to change. at is when they came, on the
	// Reader's clock; lag is how long they had waited in the kernel, -1 when not known. It returns done when nothing
	// further is wanted: later bytes are read and dropped. An error ends the reading.
	Take(b []byte, at, lag int64) (done bool, err error)
	// End takes the time at which the body ended without having been done.
	End(at int64)
}

// Reader reads answers, one after another, and gives their bytes times. It must
// not be used by several goroutines at once.
type Reader struct {
	stamps stamps
	buf    []byte
}

// maxDrain bounds the bytes read after a stream's terminator, so that the connection can be used again.
const maxDrain = 64 << 10

// Begin prepares for the answer that comes over conn, which may be nil while none
// is known. Nothing of it is earlier than earliest.
func (r *Reader) Begin(clock *Clock, conn net.Conn, earliest int64) {
	r.stamps = stamps{clock: clock, stamper: stamperOf(conn), prev: earliest}
}

// Stamp returns the time of the read that just returned, for bytes that did not
// come by Stream: an answer's head, or a body in one piece.
func (r *Reader) Stamp() (at, lag int64) { return r.stamps.read() }

// Counts are those of the reads since Begin.
func (r *Reader) Counts() Counts { return r.stamps.counts }

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
			if done, err2 := sink.Take(r.buf[:n], at, lag); err2 != nil {
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
