// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serveOnce accepts connections, and has answer answer each request until it says no.
func serveOnce(t *testing.T, answer func(c *net.TCPConn, req *http.Request, n int) bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil || !answer(c.(*net.TCPConn), req, n) {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

const okAnswer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n.\r\n0\r\n\r\n"

// takeAll is a call that takes every event.
var takeAll = funcCall(func(b []byte) (int, bool) { return len(b), false })

func exchange(ctx context.Context, h *Host, body string) (*Reader, *http.Response, error) {
	var r Reader
	r.Begin(NewClock(), nil, 0)
	resp, err := h.Exchange(ctx, &r, []byte(body), takeAll)
	return &r, resp, err
}

// lateCall is connected long before it goes on.
type lateCall struct{ Call }

func (lateCall) Connected(time.Duration) { time.Sleep(20 * time.Millisecond) }

// connectedCall runs a function when it is connected.
type connectedCall struct {
	Call
	then func()
}

func (c connectedCall) Connected(time.Duration) { c.then() }

// TestUnseen: a request that met the end of its connection was not seen; one that the
// server took, and left without an answer, was.
func TestUnseen(t *testing.T) {
	for name, takes := range map[string]bool{"closed before": false, "closed after it was read": true} {
		t.Run(name, func(t *testing.T) {
			reused := make(chan struct{})
			addr := serveOnce(t, func(c *net.TCPConn, _ *http.Request, n int) bool {
				if n == 0 {
					io.WriteString(c, okAnswer)
					if !takes {
						<-reused
					}
				}
				return n == 0 && takes
			})
			h, _ := newHost(t, addr, "/")
			if _, _, err := exchange(t.Context(), h, "{}"); err != nil {
				t.Fatal(err)
			}
			c := h.idle[0]
			var r Reader
			r.Begin(NewClock(), nil, 0)
			_, err := h.Exchange(t.Context(), &r, []byte("{}"), connectedCall{takeAll, func() {
				close(reused)
				for !takes && c.hangup.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
			}})
			if err == nil || r.Unseen() == takes {
				t.Errorf("%v, unseen %v", err, r.Unseen())
			}
		})
	}
}

// TestClosedWhileIdle: an idle connection that the server has closed is not used.
func TestClosedWhileIdle(t *testing.T) {
	addr := serveOnce(t, func(c *net.TCPConn, _ *http.Request, _ int) bool { io.WriteString(c, okAnswer); return false })
	h, dials := newHost(t, addr, "/")
	for range 5 {
		if _, _, err := exchange(t.Context(), h, "{}"); err != nil {
			t.Fatal(err)
		}
		for h.idle[0].hangup.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if dials.Load() != 5 {
		t.Errorf("%d connections", dials.Load())
	}
}

// TestAnsweredEarly: an answer ends the sending of a body that nobody reads.
func TestAnsweredEarly(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			fmt.Fprint(c, okAnswer)
		}
	}()
	h, _ := newHost(t, ln.Addr().String(), "/")
	if _, _, err := exchange(t.Context(), h, strings.Repeat("x", 32<<20)); err != nil {
		t.Error(err)
	}
	if len(h.idle) != 0 {
		t.Error("the connection is kept, with half of a request in it")
	}
	var r Reader // the answer is there before anything is sent, and before anybody listens
	r.Begin(NewClock(), nil, 0)
	if _, err := h.Exchange(t.Context(), &r, []byte(strings.Repeat("x", 32<<20)), lateCall{takeAll}); err != nil {
		t.Error(err)
	}
}

// TestExchangeCancelled: the context ends the wait for an answer, and a write.
func TestExchangeCancelled(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // its connections are never accepted
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, size := range []int{1, 64 << 20} {
		h, _ := newHost(t, ln.Addr().String(), "/")
		body, cause := strings.Repeat("x", size), errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		dial := h.dial
		h.dial = func(ctx context.Context) (net.Conn, error) { // a busy machine takes its time until then
			defer time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
			return dial(ctx)
		}
		if _, _, err := exchange(ctx, h, body); !errors.Is(err, cause) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestBodyLeftToTheCaller: an answer that is not chunked is read by the caller, and its
// connection used again when it was read to its end.
func TestBodyLeftToTheCaller(t *testing.T) {
	addr := serveOnce(t, func(c *net.TCPConn, _ *http.Request, _ int) bool {
		_, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		return err == nil
	})
	h, dials := newHost(t, addr, "/")
	for i, whole := range []bool{true, true, false, true} {
		r, resp, err := exchange(t.Context(), h, "{}")
		if err != nil || resp == nil || r.Polled() {
			t.Fatalf("%v, %v", resp, err)
		}
		var b []byte
		if whole {
			b, err = io.ReadAll(resp.Body)
		}
		if err != nil || whole && string(b) != "hello" {
			t.Errorf("%d: %q, %v", i, b, err)
		}
		resp.Body.Close()
	}
	if dials.Load() != 2 {
		t.Errorf("%d connections", dials.Load())
	}
}

// TestHeadIsNetHTTPs: the bytes that are sent are those of net/http.
func TestHeadIsNetHTTPs(t *testing.T) {
	req, err := http.NewRequest(http.MethodPost, "http://u:p@host:81/v1/x?key=a%20b", strings.NewReader("12345"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer k"}, "User-Agent": {"a"}, "X-Many": {"1", "2"}, "Accept": {"text/event-stream"}}
	before, after, ok := headAround(req)
	var want strings.Builder
	if err := req.Write(&want); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got := string(before) + "5" + string(after) + "12345"; got != want.String() {
		t.Errorf("%q, want %q", got, want.String())
	}
	for _, header := range []http.Header{{"Connection": {"close"}}, {"X": {"a\r\nb"}}, {"X": {"é"}}, {"Expect": {"100-continue"}}} {
		req.Header = header
		if _, _, ok := headAround(req); ok {
			t.Errorf("%v is not for net/http", header)
		}
	}
}

// funcCall is a Call of its Take.
type funcCall func(b []byte) (events int, done bool)

func (f funcCall) Take(b []byte, _, _ int64) (int, bool, error) {
	events, done := f(b)
	return events, done, nil
}

func (funcCall) End(int64)                       {}
func (funcCall) Fresh() bool                     { return false }
func (funcCall) Connected(time.Duration)         {}
func (funcCall) Written()                        {}
func (funcCall) Head(*http.Response, int64) bool { return true }

// newHost returns a Host for an address and the number of its dials.
func newHost(t *testing.T, addr, path string) (*Host, *atomic.Int64) {
	t.Helper()
	var conns Conns
	t.Cleanup(conns.Close)
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	dials := new(atomic.Int64)
	h := conns.Host(req, func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}, &KeepAlive{})
	if h == nil {
		t.Fatal("no host")
	}
	return h, dials
}
