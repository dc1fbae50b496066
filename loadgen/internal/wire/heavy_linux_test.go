package wire

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// funcSink is a Sink of its Take.
type funcSink func(b []byte) (events int, done bool)

func (f funcSink) Take(b []byte, _, _ int64) (int, bool, error) {
	events, done := f(b)
	return events, done, nil
}

func (funcSink) End(int64) {}

// TestHeavyEventDelaysNoOther: a sink that works long on a large event holds up its
// own stream alone, gets all of it, and leaves the connection usable.
func TestHeavyEventDelaysNoOther(t *testing.T) {
	const size = 2 << 20
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
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
					if req.URL.Path == "/heavy" {
						fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("x", size))
						continue
					}
					for range 20 {
						time.Sleep(5 * time.Millisecond)
						fmt.Fprint(c, "1\r\n.\r\n")
					}
					fmt.Fprint(c, "0\r\n\r\n")
				}
			}()
		}
	}()
	var conns Conns
	defer conns.Close()
	var adopted []net.Conn
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c, err = conns.Adopt(c, ModePolled)
		adopted = append(adopted, c)
		return c, err
	}}
	defer tr.CloseIdleConnections()
	get := func(path string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, "http://"+ln.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	heavy, light := get("/heavy"), get("/light")
	release, working := make(chan struct{}), make(chan struct{})
	got := 0
	ended := make(chan error, 1)
	go func() {
		var r Reader
		r.Begin(NewClock(), adopted[0], 0)
		err := r.Stream(heavy, funcSink(func(b []byte) (int, bool) {
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
	var r Reader
	r.Begin(NewClock(), adopted[1], 0)
	events := 0
	done := make(chan error, 1)
	go func() {
		done <- r.Stream(light, funcSink(func(b []byte) (int, bool) { events += len(b); return len(b), false }))
	}()
	select {
	case err := <-done:
		if err != nil || events != 20 {
			t.Errorf("%d events, %v", events, err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the other stream waits for the large event")
	}
	close(release)
	if err := <-ended; err != nil || got != size {
		t.Errorf("%d bytes of the large event, %v", got, err)
	}
	for _, resp := range []*http.Response{heavy, light} {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	again := get("/light")
	if b, err := io.ReadAll(again.Body); err != nil || len(b) != 20 || len(adopted) != 2 {
		t.Errorf("%q, %v, %d connections", b, err, len(adopted))
	}
}
