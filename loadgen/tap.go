package loadgen

import (
	"errors"
	"net/http"
)

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
	stream  *stream
	watch   *watchdog
	rec     *Record
	chunks  chunkedDecoder
	drained int    // bytes after the terminator
	rest    []byte // what followed the body's end; valid within tappable.tap
}

// maxDrain bounds what is read after a stream's terminator.
const maxDrain = 64 << 10

// errUndrained says that too much followed the terminator.
var errUndrained = errors.New("loadgen: too much data after the terminator")

// take takes a piece, which the kernel had received at stamp, 0 when not known,
// and whose bytes it may change. It says whether that was the last one.
func (t *tap) take(b []byte, stamp int64) (ended bool, err error) {
	data, rest, ended, err := t.chunks.decode(b)
	if len(data) > 0 {
		if t.stream.done {
			if t.drained += len(data); t.drained > maxDrain {
				return true, errUndrained
			}
		} else {
			at, lag := t.stream.stamps.of(stamp)
			if err := t.stream.take(data, at, lag, t.watch, t.rec); err != nil {
				return true, err
			}
		}
	}
	if ended {
		t.rest = rest
		if !t.stream.done {
			t.rec.EndNS = t.stream.stamps.clock.now()
		}
	}
	return ended || err != nil, err
}

// readTapped reads the body through its connection if both allow for it.
func (a *attempt) readTapped(conn tappable, resp *http.Response) (ok bool, err error) {
	s := a.stream
	s.tap.chunks.reset()
	s.tap = tap{chunks: s.tap.chunks}
	if conn == nil || resp.ProtoMajor != 1 || len(resp.TransferEncoding) != 1 || resp.TransferEncoding[0] != "chunked" {
		return false, nil
	}
	s.tap.stream, s.tap.watch, s.tap.rec = s, a.watch, a.rec
	if ok, err = conn.tap(&s.tap); !ok {
		s.tap.stream = nil
		return false, nil
	}
	if err == nil {
		s.drain(resp.Body, nil) // net/http learns of the end, and keeps the connection
	}
	if s.done {
		err = nil // what goes wrong after the terminator costs the connection alone
	}
	return true, err
}
