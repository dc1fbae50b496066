// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// rawServer answers each request by answer, which reports whether the connection is kept.
func rawServer(t *testing.T, answer func(c *net.TCPConn, n int) bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil || !answer(c.(*net.TCPConn), n) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return "http://" + ln.Addr().String()
}

func deltaEvent(text string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
}

const streamEnd = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

const chunkedHead = streamHead + "Transfer-Encoding: chunked\r\n\r\n"

// testClient is a client of one endpoint.
func testClient(t *testing.T, url string, receive wire.Mode, timeouts Timeouts) *client {
	t.Helper()
	c, err := newClient(context.Background(), &Tenant{Name: "t", Endpoints: []Endpoint{{URL: url}}, Timeouts: timeouts}, wire.NewClock(), receive, newScrubber(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// TestReceive: the poller and the transport by itself give the same records.
func TestReceive(t *testing.T) {
	t.Parallel()
	full := chunkedHead + chunk(deltaEvent("a")) + chunk(deltaEvent("b")) + chunk(streamEnd) + "0\r\n\r\n"
	write := func(pieces ...string) func(c *net.TCPConn, n int) bool {
		return func(c *net.TCPConn, _ int) bool {
			for i, p := range pieces {
				if i > 0 {
					time.Sleep(5 * time.Millisecond)
				}
				if _, err := io.WriteString(c, p); err != nil {
					return false
				}
			}
			return true
		}
	}
	// then closes the connection after the pieces, and so on the same edge.
	then := func(f func(c *net.TCPConn) error, pieces ...string) func(c *net.TCPConn, n int) bool {
		return func(c *net.TCPConn, n int) bool {
			write(pieces...)(c, n)
			if err := f(c); err != nil {
				return false
			}
			_, err := c.Read(make([]byte, 1)) // until the client closes too
			return err == nil
		}
	}
	reset := func(c *net.TCPConn) error { c.SetLinger(0); return c.Close() }
	one := chunkedHead + chunk(deltaEvent("a"))
	// The kernel may take a moment to begin with its times, so not every answer has them.
	var kernel [3]atomic.Int64
	t.Cleanup(func() {
		for _, receive := range []wire.Mode{wire.ModePolled, wire.ModeStamped, wire.ModePlain} {
			if n := kernel[receive].Load(); (n > 0) != (receive != wire.ModePlain) {
				t.Errorf("%v: %d answers have the kernel's times", receive, n)
			}
		}
	})
	for _, c := range []struct {
		name    string
		answer  func(c *net.TCPConn, n int) bool
		class   Class
		events  int
		reused  bool // by the second request
		through bool // the poller has tapped it
	}{
		{"in one piece", write(full), ClassOK, 2, true, true},
		{"head apart", write(chunkedHead, full[len(chunkedHead):]), ClassOK, 2, true, true},
		{"head in pieces", write(full[:20], full[20:60], full[60:100], full[100:]), ClassOK, 2, true, true},
		{"chunk end apart", write(full[:len(full)-7], full[len(full)-7:len(full)-3], full[len(full)-3:]), ClassOK, 2, true, true},
		{"extensions and trailers", write(chunkedHead, strings.Replace(chunk(deltaEvent("a")), "\r\n", ";x=y\r\n", 1), chunk(streamEnd)+"0;z\r\nT: 1\r\n", "U: 2\r\n\r\n"), ClassOK, 1, true, true},
		{"bare LF in the head", write(strings.ReplaceAll(chunkedHead, "\r\n", "\n"), full[len(chunkedHead):]), ClassOK, 2, true, true},
		{"103 before it", write("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", full), ClassOK, 2, true, true},
		{"103 with it", write("HTTP/1.1 103 Early Hints\r\n\r\n" + full), ClassOK, 2, true, true},
		{"many 1xx before it", write(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 20), full), ClassOK, 2, true, true},
		{"content length", write(streamHead+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(deltaEvent("a")+streamEnd)), deltaEvent("a"), streamEnd), ClassOK, 1, true, false},
		{"until the close", then((*net.TCPConn).Close, streamHead+"\r\n", deltaEvent("a"), streamEnd), ClassOK, 1, false, false},
		{"connection: close", then((*net.TCPConn).Close, streamHead+"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(deltaEvent("a")+streamEnd)+"0\r\n\r\n"), ClassOK, 1, false, true},
		{"proper end without terminator", write(one, "0\r\n\r\n"), ClassTruncated, 1, true, true},
		{"FIN with data", then((*net.TCPConn).Close, one, chunk(deltaEvent("b"))), ClassTruncated, 2, false, true},
		{"only FIN", then((*net.TCPConn).CloseWrite, one, ""), ClassTruncated, 1, false, true},
		{"FIN with everything", then((*net.TCPConn).Close, one), ClassTruncated, 1, false, true},
		{"FIN in a chunk", then((*net.TCPConn).CloseWrite, one, "40\r\ndata: "), ClassTruncated, 1, false, true},
		{"RST with data", then(reset, one, chunk(deltaEvent("b"))), ClassTruncated, -1, false, true},
		{"only RST", then(func(c *net.TCPConn) error { time.Sleep(200 * time.Millisecond); return reset(c) }, one), ClassTruncated, 1, false, true},
		{"done and no end", then((*net.TCPConn).Close, one+chunk(streamEnd)), ClassOK, 1, false, true},
		{"done without a token, and no end", write(chunkedHead, chunk("data: [DONE]\n\n")), classMalformed, 0, false, true},
		{"malformed chunk", write(one, "xyz\r\n"), classMalformed, 1, false, true},
		{"no CRLF after the chunk", write(one + "1\r\n\nZZ"), classMalformed, 1, false, true},
		{"error event", write(one, chunk(`data: {"error":{"message":"no"}}`+"\n\n")), classErrorEvent, 1, false, true},
		{"malformed event", write(one, chunk("data: {\n\n")), classMalformed, 1, false, true},
		{"stall", write(one), classTimeoutIdle, 1, false, true},
		{"stall before the head", write(""), classTimeoutTTFT, 0, false, false},
		{"stall after the head", write(chunkedHead), classTimeoutTTFT, 0, false, true},
		{"never-ending", func(c *net.TCPConn, _ int) bool {
			_, err := io.WriteString(c, one)
			for err == nil {
				_, err = io.WriteString(c, chunk(": x\n\n"))
				time.Sleep(5 * time.Millisecond)
			}
			return false
		}, classTimeoutIdle, 1, false, true},
		{"much after the terminator", func(c *net.TCPConn, _ int) bool {
			_, err := io.WriteString(c, one+chunk(streamEnd))
			for err == nil {
				_, err = io.WriteString(c, chunk(strings.Repeat("x", 1<<10)))
			}
			return false
		}, ClassOK, 1, false, true},
		{"a long event", write(chunkedHead, chunk(deltaEvent(strings.Repeat("x", 1<<20))), chunk(deltaEvent("b")+streamEnd)+"0\r\n\r\n"), ClassOK, 2, true, true},
		{"500", write("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("sorry") + "0\r\n\r\n"), classHTTP5xx, 0, true, false},
		{"JSON", write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{}") + "0\r\n\r\n"), classMalformed, 0, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, receive := range []wire.Mode{wire.ModePolled, wire.ModeStamped, wire.ModePlain} {
				url := rawServer(t, c.answer)
				limits := Timeouts{FirstToken: time.Minute, Idle: time.Minute} // a busy machine takes its time
				switch c.class {
				case classTimeoutTTFT:
					limits.FirstToken = 400 * time.Millisecond
					if c.through {
						limits.FirstToken = 2 * time.Second // the head must have come by then
					}
				case classTimeoutIdle:
					limits.Idle = 300 * time.Millisecond
				}
				client := testClient(t, url, receive, limits)
				s := newTestStream()
				for i := range 2 {
					var rec Record
					client.do(context.Background(), &Prompt{}, []byte(chatBody), &rec, s)
					through := s.in.Polled()
					if rec.Class != c.class || rec.Events != c.events && c.events >= 0 || through != (c.through && receive == wire.ModePolled) {
						t.Errorf("%v: %v, %d events, polled %v: %s", receive, rec.Class, rec.Events, through, rec.Error)
					}
					if rec.StampSource == "kernel" {
						kernel[receive].Add(1)
					}
					if i == 1 && rec.Reused != c.reused && !strings.HasPrefix(c.name, "5") && c.name != "JSON" {
						t.Errorf("%v: connection reused: %v", receive, rec.Reused)
					}
				}
			}
		})
	}
}

// TestSplitAnywhere sends an answer in two pieces, cut at each byte in turn.
func TestSplitAnywhere(t *testing.T) {
	full := chunkedHead + chunk(deltaEvent("a")) + chunk(deltaEvent("b")) + chunk(streamEnd) + "0\r\n\r\n"
	url := rawServer(t, func(c *net.TCPConn, n int) bool {
		cut := n % len(full)
		if _, err := io.WriteString(c, full[:cut]); err != nil {
			return false
		}
		time.Sleep(200 * time.Microsecond)
		_, err := io.WriteString(c, full[cut:])
		return err == nil
	})
	client := testClient(t, url, wire.ModePolled, Timeouts{Total: time.Minute})
	s := newTestStream()
	for cut := range full {
		var rec Record
		client.do(context.Background(), &Prompt{}, []byte(chatBody), &rec, s)
		if rec.Class != ClassOK || rec.Events != 2 || rec.Reused != (cut > 0) || !s.in.Polled() {
			t.Fatalf("cut at %d: %v, %d events, reused %v: %s", cut, rec.Class, rec.Events, rec.Reused, rec.Error)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(dir)
}

// TestManyPolledStreams: 500 streams at once, a third of them cancelled on the
// way, leave neither goroutines nor descriptors.
func TestManyPolledStreams(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	t.Run("run", func(t *testing.T) {
		const streams, tokens = 500, 20
		url := rawServer(t, func(c *net.TCPConn, _ int) bool {
			_, err := io.WriteString(c, chunkedHead)
			for range tokens {
				if err == nil {
					time.Sleep(5 * time.Millisecond)
					_, err = io.WriteString(c, chunk(deltaEvent("x")))
				}
			}
			if err == nil {
				_, err = io.WriteString(c, chunk(streamEnd)+"0\r\n\r\n")
			}
			return err == nil
		})
		client := testClient(t, url, wire.ModePolled, Timeouts{Total: 2 * time.Minute})
		errStop := errors.New("stopped")
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() {
				s := newTestStream()
				for range 2 {
					ctx, cancel := context.WithCancelCause(context.Background())
					want := ClassOK
					if i%3 == 0 {
						want = classCancelled
						time.AfterFunc(time.Duration(i/10)*time.Millisecond, func() { cancel(errStop) })
					}
					var rec Record
					client.do(ctx, &Prompt{}, []byte(chatBody), &rec, s)
					if ctx.Err() == nil { // the machine came to the end before the timer
						want = ClassOK
					}
					cancel(nil)
					if rec.Class != want || want == ClassOK && rec.Events != tokens {
						t.Errorf("stream %d: %v, %d events: %s", i, rec.Class, rec.Events, rec.Error)
					}
				}
			})
		}
		wg.Wait()
		client.close()
		client.close()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		g, f := runtime.NumGoroutine(), openFiles(t)
		if g <= goroutines && f <= files {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before; %d files, %d before", g, goroutines, f, files)
		}
	}
}

// TestStuckWrite: a server that does not read stalls the request, until the
// time-out closes the connection under the write.
func TestStuckWrite(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, receive := range []wire.Mode{wire.ModePolled, wire.ModeStamped, wire.ModePlain} {
		client := testClient(t, "http://"+ln.Addr().String(), receive, Timeouts{FirstToken: 200 * time.Millisecond})
		var rec Record
		client.do(context.Background(), &Prompt{}, make([]byte, 16<<20), &rec, newTestStream())
		if rec.Class != classTimeoutTTFT {
			t.Errorf("%v: %v: %s", receive, rec.Class, rec.Error)
		}
	}
}

func newTestStream() *stream { return &stream{} }

// TestEncodedHost: the name of a host that is not ASCII is looked up encoded, which net/http does.
func TestEncodedHost(t *testing.T) {
	var conns wire.Conns
	defer conns.Close()
	for url, polled := range map[string]bool{"http://example.com:8000": true, "http://bücher.example:8000": false} {
		e, err := newEndpoint(t.Context(), &Endpoint{URL: url}, apiChat, true, wire.ModePolled, &conns, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.host != nil; got != polled {
			t.Errorf("%s: polled %t", url, got)
		}
	}
}
