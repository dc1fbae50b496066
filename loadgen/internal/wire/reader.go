package wire

import (
	"errors"
	"io"
	"net"
	"net/http"
)

// Sink takes the body of one event stream. It is called from one goroutine at a
// time, which need not be the one that reads.
type Sink interface {
	// Take takes the next bytes of the body, valid during the call and the Sink's to
	// change. at is when they came, on the Reader's clock; lag is how long they had
	// waited in the kernel, -1 when not known. It returns how many events they
	// completed, and done when nothing further is wanted: what follows is read and
	// thrown away. An error ends the reading.
	Take(b []byte, at, lag int64) (events int, done bool, err error)
	// End takes the time at which the body ended without having been done.
	End(at int64)
}

// Reader reads answers, one after another, and gives their bytes times. It must
// not be copied once in use, nor used by several goroutines at once.
type Reader struct {
	stamps stamps
	conn   tappable // nil when the connection has no poller
	buf    []byte
	tap    tap
	polled bool
}

// maxDrain bounds what is read after a stream's terminator, so that the connection
// can be used again.
const maxDrain = 64 << 10

// Begin prepares for the answer that comes over conn, which may be nil while none
// is known. Nothing of it is earlier than earliest.
func (r *Reader) Begin(clock *Clock, conn net.Conn, earliest int64) {
	r.stamps = stamps{clock: clock, stamper: stamperOf(conn), prev: earliest}
	r.conn, _ = conn.(tappable)
	r.polled = false
}

// Stamp returns the time of the read that just returned, for bytes that did not
// come by Stream: an answer's head, or a body in one piece.
func (r *Reader) Stamp() (at, lag int64) { return r.stamps.read() }

// Counts are those of the reads since Begin.
func (r *Reader) Counts() Counts { return r.stamps.counts }

// Polled says whether the last Stream came through the poller.
func (r *Reader) Polled() bool { return r.polled }

// Stream reads an answer's body to its end, or until sink is done with it and the
// rest is read away. It returns sink's error, or what cut the body off.
func (r *Reader) Stream(resp *http.Response, sink Sink) error {
	if r.conn != nil && resp.ProtoMajor == 1 && len(resp.TransferEncoding) == 1 && resp.TransferEncoding[0] == "chunked" {
		r.tap.reset(&r.stamps, sink)
		ok, err := r.conn.tap(&r.tap)
		if r.tap.sink = nil; ok {
			r.polled = true
			if err == nil {
				r.drain(resp.Body, nil) // net/http learns of the end, and keeps the connection
			}
			if r.tap.done {
				return nil // what goes wrong after the terminator costs the connection alone
			}
			return err
		}
	}
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

// drain reads what follows the terminator. What it brings has no part in the
// request.
func (r *Reader) drain(body io.Reader, err error) {
	if r.buf == nil {
		r.buf = make([]byte, 8<<10)
	}
	for total := 0; err == nil && total < maxDrain; {
		var n int
		n, err = body.Read(r.buf)
		total += n
	}
}

// tappable is a connection that can hand an answer's body to a tap as it comes,
// without a goroutine that waits for each piece.
type tappable interface {
	// tap feeds t with the body of the answer whose head was read last, until t or
	// the connection ends, and reports how. With ok false nothing was done, and the
	// body has to be read from the answer. One call at a time.
	tap(t *tap) (ok bool, err error)
}

// tap takes the chunked body of one event stream as it comes from the socket.
type tap struct {
	stamps  *stamps
	sink    Sink
	chunks  chunkedDecoder
	done    bool   // the sink wants no more
	drained int    // bytes since
	quiet   int    // bytes since an event was completed
	rest    []byte // what followed the body's end; valid within tappable.tap
}

func (t *tap) reset(s *stamps, sink Sink) {
	t.chunks.reset()
	*t = tap{stamps: s, sink: sink, chunks: t.chunks}
}

// heavyEvent is the size from which on an event is too much work for the poller,
// whose other streams would wait for it.
const heavyEvent = 256 << 10

// heavy says that the event under way has become that large.
func (t *tap) heavy() bool { return t.quiet >= heavyEvent }

// errUndrained says that too much followed the terminator.
var errUndrained = errors.New("loadgen: too much data after the terminator")

// take takes a piece, which the kernel had received at stamp, 0 when not known,
// and whose bytes it may change. It returns how many events it brought, and
// whether it was the last piece.
func (t *tap) take(b []byte, stamp int64) (events int, ended bool, err error) {
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
		if events, t.done, sinkErr = t.sink.Take(data, at, lag); sinkErr != nil {
			return events, true, sinkErr
		}
		if t.quiet += len(data); events > 0 {
			t.quiet = 0
		}
	}
	if ended {
		if t.rest = rest; !t.done {
			t.sink.End(t.stamps.clock.Now())
		}
	}
	return events, ended || err != nil, err
}
