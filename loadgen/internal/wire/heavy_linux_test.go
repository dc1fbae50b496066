// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

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

// TestHeavyEventDelaysNoOther: a sink that works long on a large event holds up its
// own stream alone, gets all of it, and leaves the connection usable.
func TestHeavyEventDelaysNoOther(t *testing.T) {
	const size = 2 << 20
	addr := serveOnce(t, func(c *net.TCPConn, req *http.Request, _ int) bool {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		if req.URL.Path == "/heavy" {
			fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("x", size))
			return true
		}
		for range 20 {
			time.Sleep(5 * time.Millisecond)
			fmt.Fprint(c, "1\r\n.\r\n")
		}
		fmt.Fprint(c, "0\r\n\r\n")
		return true
	})
	heavy, heavyDials := newHost(t, addr, "/heavy")
	light, lightDials := newHost(t, addr, "/light")
	heavy.pollers = light.pollers
	release, working := make(chan struct{}), make(chan struct{})
	got := 0
	ended := make(chan error, 1)
	go func() {
		var r Reader
		r.Begin(NewClock(), nil, 0)
		_, err := heavy.Exchange(t.Context(), &r, []byte("{}"), funcCall(func(b []byte) (int, bool) {
			if got += bytes.Count(b, []byte("x")); got >= size {
				select {
				case <-working:
				default:
					close(working)
					<-release // the decoding of the event
				}
				return 1, false
			}
			return 0, false
		}))
		if err == nil && !r.Polled() {
			err = fmt.Errorf("not polled")
		}
		ended <- err
	}()
	<-working
	read := func() (events int, err error) {
		var r Reader
		r.Begin(NewClock(), nil, 0)
		_, err = light.Exchange(t.Context(), &r, []byte("{}"), funcCall(func(b []byte) (int, bool) { events += len(b); return len(b), false }))
		return events, err
	}
	events := 0
	done := make(chan error, 1)
	go func() {
		var err error
		events, err = read()
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil || events != 20 {
			t.Errorf("%d events, %v", events, err)
		}
	case <-time.After(time.Minute):
		t.Error("the other stream waits for the large event")
	}
	close(release)
	if err := <-ended; err != nil || got != size {
		t.Errorf("%d bytes of the large event, %v", got, err)
	}
	again, err := read()
	if err != nil || again != 20 || heavyDials.Load() != 1 || lightDials.Load() != 1 || len(heavy.idle) != 1 {
		t.Errorf("%d events, %v, %d and %d connections", again, err, heavyDials.Load(), lightDials.Load())
	}
}
