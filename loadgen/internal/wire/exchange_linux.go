// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Host sends requests to one address over polled connections, and keeps these for
// further requests. It is safe for concurrent use.
type Host struct {
	pollers *pollers
	dial    func(context.Context) (net.Conn, error)
	seen    *KeepAlive
	// before and after surround the body's length in a request's head.
	before, after []byte
	off           atomic.Bool
	heads         headMemo

	mu   sync.Mutex
	idle []*pollConn // the one used last is the last
}

// maxIdle bounds the time that an unused connection is kept.
const maxIdle = 5 * time.Minute

// Host returns a Host for requests with this head and bodies of their own. It is nil
// where there is no poller, or where head needs a feature that only net/http has.
func (cs *Conns) Host(head *http.Request, dial func(context.Context) (net.Conn, error), seen *KeepAlive) *Host {
	before, after, ok := headAround(head)
	if !ok {
		return nil
	}
	return &Host{pollers: &cs.pollers, dial: dial, seen: seen, before: before, after: after}
}

// Exchange sends a request and has r hand the answer to call. It returns the answer itself, with a body to be read and
// closed, where that is not for the tap: resp is nil when it was. ErrNotPolled means that nothing was or will be done.
func (h *Host) Exchange(ctx context.Context, r *Reader, body []byte, call Call) (resp *http.Response, err error) {
	if h == nil || h.off.Load() {
		return nil, ErrNotPolled
	}
	for err = errEarly; err == errEarly; { // each turn uses up a reused connection
		resp, err = h.exchange(ctx, r, body, call)
	}
	return resp, err
}

// exchange is Exchange over one connection. errEarly means that its answer was to no request, or to an earlier one.
func (h *Host) exchange(ctx context.Context, r *Reader, body []byte, call Call) (resp *http.Response, err error) {
	t := &r.tap
	t.reset(&r.stamps, call, &h.heads)
	c, idle, err := h.take(ctx, call.Fresh())
	if err != nil {
		return nil, err
	}
	reused := idle >= 0
	t.reused = reused
	call.Connected(idle)
	r.stamps.stamper = c
	before := c.sent
	c.listen(t)
	out := append(r.out[:0], h.before...)
	out = strconv.AppendInt(out, int64(len(body)), 10)
	out = append(out, h.after...)
	if len(body) <= maxCopied {
		out = append(out, body...)
		body = nil
	}
	r.out = out
	sent := c.sendAll(ctx, t, out, body)
	if sent == nil {
		call.Written()
	}
	switch err = c.await(ctx); err {
	case errNotTapped:
		return h.answer(ctx, c, t, sent == nil)
	case errEarly:
		c.Close()
		return nil, err
	}
	r.polled = !t.inHead
	if err != nil && reused && !r.Begun() {
		r.unseen = !errors.Is(err, syscall.ECONNRESET) && !errors.Is(sent, syscall.ECONNRESET) && c.unseen(before)
	}
	if err == nil && sent == nil && !t.close && len(t.rest) == 0 {
		h.put(c)
	} else {
		c.Close()
	}
	if t.done {
		return nil, nil // a fault after the terminator costs only the connection
	}
	if err != nil && sent != nil && sent != errAnswered && !r.Begun() {
		err = sent
	}
	return nil, err
}

// sendAll writes a request, and notes in t when its last part is about to be written.
func (c *pollConn) sendAll(ctx context.Context, t *tap, out, body []byte) error {
	last := out
	if len(body) > 0 {
		end := len(body) - 1<<10 // so that the last part goes out in one piece
		for _, part := range [][]byte{out, body[:end]} {
			if err := c.send(ctx, part); err != nil {
				return err
			}
		}
		last = body[end:]
	}
	t.asked.Store(time.Now().UnixNano())
	return c.send(ctx, last)
}

// maxCopied bounds the bytes that are copied to send a request in one call.
const maxCopied = 32 << 10

// take returns a connection and how long it was idle, negative for a new one.
func (h *Host) take(ctx context.Context, fresh bool) (c *pollConn, idle time.Duration, err error) {
	for c := h.pop(); c != nil; c = h.pop() {
		if idle := time.Since(c.since); !fresh && idle <= maxIdle && c.usable() {
			return c, idle, nil
		}
		if end := c.hangup.Load(); end != 0 {
			h.seen.learn(time.Duration(end - int64(c.since.Sub(connEpoch))))
		}
		c.Close()
	}
	raw, err := h.dial(ctx)
	if err != nil {
		return nil, 0, err
	}
	if c, err = h.pollers.adopt(raw); err != nil {
		h.off.Store(true)
		return nil, 0, err
	}
	return c, -1, nil
}

func (h *Host) pop() *pollConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := len(h.idle) - 1
	if last < 0 {
		return nil
	}
	c := h.idle[last]
	h.idle = slices.Delete(h.idle, last, last+1)
	return c
}

func (h *Host) put(c *pollConn) {
	c.since = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = append(h.idle, c)
}

// answer reads the head once more and leaves the body to the caller.
func (h *Host) answer(ctx context.Context, c *pollConn, t *tap, sent bool) (*http.Response, error) {
	c.held = t.head
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, postRequest)
	if err != nil {
		c.Close()
		return nil, err
	}
	resp.Body = &body{
		ReadCloser: resp.Body, host: h, conn: c, in: in, keep: sent && !resp.Close,
		stop: context.AfterFunc(ctx, func() { c.Close() }),
	}
	return resp, nil
}

// body is an answer's body that the caller reads.
type body struct {
	io.ReadCloser
	host  *Host
	conn  *pollConn
	in    *bufio.Reader
	keep  bool
	ended bool
	stop  func() bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (b *body) Close() error {
	if b.stop() && b.ended && b.keep && b.in.Buffered() == 0 && len(b.conn.held) == 0 {
		b.host.put(b.conn)
		return nil
	}
	return b.conn.Close()
}

// headAround writes a request's head in two parts, around the length of the body.
func headAround(req *http.Request) (before, after []byte, ok bool) {
	for name, values := range req.Header {
		switch http.CanonicalHeaderKey(name) {
		case "Connection", "Transfer-Encoding", "Expect", "Trailer", "Upgrade", "Content-Length", "Te":
			return nil, nil, false
		}
		for _, text := range append(values, name) {
			for i := range len(text) {
				if text[i] < ' ' || text[i] > '~' {
					return nil, nil, false
				}
			}
		}
	}
	r := *req
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte("x"))), 1
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return nil, nil, false
	}
	const mark = "\r\nContent-Length: "
	before, after, ok = bytes.Cut(bytes.TrimSuffix(b.Bytes(), []byte("x")), []byte(mark+"1\r\n"))
	return append(bytes.Clone(before), mark...), append([]byte("\r\n"), after...), ok
}
